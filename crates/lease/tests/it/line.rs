//! Requests that wait in line for one bucket: all of them are asked for, in order, and none waits past its deadline.

use std::time::Duration;

use leasehold_lease::bucket::Subject;
use leasehold_lease::config::Config;

use super::fleet::{Fleet, MS, steady, terms};

const KEY: Subject = Subject(5);

/// A bucket of 120 units that three nodes have long been asking for.
fn busy(config: Config) -> Fleet {
    let mut fleet = Fleet::new(3, config, steady(MS / 5));
    fleet.limits.insert(KEY, terms(120, 1_000));
    fleet.start_all();
    fleet.run(Duration::from_millis(1_300));
    for _ in 0..10 {
        for index in 0..3 {
            fleet.request(index, KEY, 1);
        }
        fleet.run(Duration::from_millis(10));
    }
    fleet
}

/// A node that has to ask another one for the present bucket.
fn not_the_owner(fleet: &Fleet) -> usize {
    let (bucket, terms) = (fleet.bucket(0, KEY), fleet.limits[&KEY]);
    let other = |index: &usize| {
        let node = fleet.members[*index].node.as_ref().unwrap();
        node.owner_of(bucket, &terms) != Some(node.identity().node)
    };
    (0..3).find(other).unwrap()
}

#[test]
fn all_that_wait_are_asked_for_at_once() {
    let mut fleet = busy(Config::default());
    fleet.run(Duration::from_millis(1_100));
    // Nobody has said yet that it wants anything of this window.
    let index = not_the_owner(&fleet);
    let (admitted, denied) = (fleet.admitted, fleet.denied);
    for _ in 0..100 {
        fleet.request(index, KEY, 1);
    }
    fleet.run(Duration::from_millis(2));
    assert_eq!((fleet.admitted - admitted, fleet.denied - denied), (100, 0));
}

#[test]
fn who_comes_while_a_question_is_under_way_is_counted_in_the_next() {
    let slow = Config {
        lone_issue_percent: 1,
        issue_percent: 1,
        ..Config::default()
    };
    let mut fleet = busy(slow);
    fleet.run(Duration::from_millis(1_100));
    let (index, before) = (not_the_owner(&fleet), fleet.asked());
    let (admitted, denied) = (fleet.admitted, fleet.denied);
    for _ in 0..60 {
        fleet.request(index, KEY, 2);
    }
    fleet.run(Duration::from_millis(2));
    assert_eq!((fleet.admitted - admitted, fleet.denied - denied), (120, 0));
    let questions = fleet.asked() - before;
    // One whenever the line has doubled, and one for the rest.
    assert!(questions <= 8, "{questions} questions for one line");
}
