//! Schedules meant to break S6 or another S rule, by somebody who did not write the protocol. Most of what broke it is mended;
//! `#[should_panic]` marks what still does: the panic is the checker's.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use leasehold_lease::bucket::{Bucket, Subject};
use leasehold_lease::config::Config;
use leasehold_lease::id::{Epoch, NodeId, Seq, ViewId};
use leasehold_lease::message::{Chunk, Envelope, Pledge, Report, SCHEMA};
use leasehold_lease::node::Input;
use leasehold_lease::terms::{Mode, Terms};
use leasehold_lease::time::Wall;
use leasehold_lease::view::View;

use super::fleet::{BASE, Fleet, HELD, MS, Network, terms};
use super::random::{Extra, run_shaped};

const KEY: Subject = Subject((7 << 100) | (9 << 40));

#[derive(Default)]
struct Links {
    cut: Vec<(u64, u64)>,
    held: Vec<(u64, u64)>,
}

type Shared = Rc<RefCell<Links>>;

fn network() -> (Shared, Network) {
    let links = Shared::default();
    let shared = links.clone();
    let network: Network = Box::new(move |from, to, now| {
        let links = shared.borrow();
        if links.cut.contains(&(from.0, to.0)) {
            Vec::new()
        } else if links.held.contains(&(from.0, to.0)) {
            vec![HELD + now]
        } else {
            vec![now + 300_000]
        }
    });
    (links, network)
}

fn cut(links: &Shared, one: u64, other: u64) {
    links.borrow_mut().cut.extend([(one, other), (other, one)]);
}

fn ms(fleet: &mut Fleet, duration: u64) {
    fleet.run(Duration::from_millis(duration));
}

/// Runs to the start of the next window that this node owns, and `late` milliseconds longer.
fn align(fleet: &mut Fleet, subject: Subject, owner: u64, late: u64) -> Bucket {
    let terms = fleet.limits[&subject];
    let mut bucket = fleet.bucket(0, subject).next();
    while fleet.view.issuer(bucket, &terms) != NodeId(owner) {
        bucket = bucket.next();
    }
    fleet.run_until(bucket.start(terms.slot_ns()).0 - BASE + late * MS);
    bucket
}

/// So many requests, one after the other. Says how many were admitted.
fn requests(fleet: &mut Fleet, index: usize, subject: Subject, times: u64) -> u64 {
    let before = fleet.admitted;
    for _ in 0..times {
        fleet.request(index, subject, 1);
        ms(fleet, 2);
    }
    fleet.admitted - before
}

/// Tried: a report with more records than its pieces can carry (`most_records` = 1, 8,192 pieces).
/// Came of it: BROKEN. `in_pieces` cuts the rest off, the pledge counts all the same, and shares taken alone that were in
/// the rest are never told.
#[test]
fn a_report_too_long_for_its_pieces_pledges_all_the_same() {
    let config = Config {
        most_records: 1,
        ..Config::default()
    };
    let (links, network) = network();
    let mut fleet = Fleet::new(2, config, network);
    let limit = terms(10, 10_000);
    // All in one phase.
    let subjects: Vec<Subject> = (1..30_000_u128)
        .map(|high| Subject((high << 64) | 77))
        .collect();
    fleet.limits.insert(subjects[0], limit);
    fleet.start_all();
    ms(&mut fleet, 300);
    cut(&links, 1, 2);
    ms(&mut fleet, 400);
    let bucket = align(&mut fleet, subjects[0], 1, 5);
    let of_one: Vec<Subject> = subjects
        .into_iter()
        .filter(|subject| {
            let bucket = Bucket {
                subject: *subject,
                ..bucket
            };
            fleet.view.issuer(bucket, &limit) == NodeId(1)
        })
        .take(8_200)
        .collect();
    assert_eq!(of_one.len(), 8_200);
    for subject in &of_one {
        fleet.limits.insert(*subject, limit);
        for _ in 0..5 {
            fleet.request(1, *subject, 1);
        }
    }
    assert_eq!(fleet.admitted, 5 * 8_200);
    links.borrow_mut().cut.clear();
    let last = of_one[8_199];
    for turn in 0..60 {
        fleet.request(0, last, 1);
        ms(&mut fleet, 5);
        println!("{turn}: {} more", fleet.admitted - 5 * 8_200);
    }
}

/// A clock that jumps 3 s ahead and back, while saving a floor takes 100 ms.
fn jump(fleet: &mut Fleet, index: usize) {
    fleet.disk = 100 * MS;
    fleet.members[index].skew = 3_000 * MS as i64;
    ms(fleet, 60);
    fleet.members[index].skew = 0;
    ms(fleet, 1);
}

/// Tried: a node's clock jumps ahead and back within 60 ms, with a disk that takes 100 ms; mode `fixed`, one node.
/// Came of it: BROKEN. The record is dropped by `held`, which is ahead; `sure` stands at the saved floor, past the
/// window's end, so no floor is left behind; then `held` is back in the window, and the share is taken again.
#[test]
fn a_fixed_share_is_taken_twice_when_the_clock_jumps_ahead_and_back() {
    let (_, network) = network();
    let mut fleet = Fleet::new(1, Config::default(), network);
    fleet.limits.insert(
        KEY,
        Terms {
            mode: Mode::Fixed,
            ..terms(10, 1_000)
        },
    );
    fleet.start_all();
    align(&mut fleet, KEY, 1, 5);
    assert_eq!(requests(&mut fleet, 0, KEY, 12), 10);
    ms(&mut fleet, 770);
    jump(&mut fleet, 0);
    requests(&mut fleet, 0, KEY, 12);
}

/// Tried: the same with a share that was taken alone, which the owner's late acknowledgement has covered.
/// Came of it: BROKEN, as above.
#[test]
fn a_share_is_taken_twice_when_the_clock_jumps_ahead_and_back() {
    let (links, network) = network();
    let mut fleet = Fleet::new(2, Config::default(), network);
    fleet.limits.insert(KEY, terms(10, 1_000));
    fleet.start_all();
    ms(&mut fleet, 300);
    // Node 2 is heard and does not hear.
    align(&mut fleet, KEY, 1, 500);
    links.borrow_mut().cut.push((1, 2));
    align(&mut fleet, KEY, 1, 5);
    links.borrow_mut().cut.clear();
    links.borrow_mut().held.push((1, 2));
    assert_eq!(requests(&mut fleet, 0, KEY, 6), 5);
    assert_eq!(requests(&mut fleet, 1, KEY, 6), 5);
    ms(&mut fleet, 600);
    links.borrow_mut().cut.push((1, 2));
    ms(&mut fleet, 200);
    fleet.release(NodeId(1), NodeId(2));
    ms(&mut fleet, 10);
    let show = |fleet: &Fleet, when: &str| {
        let node = fleet.members[1].node.as_ref().unwrap();
        println!("{when} at {}: used {:?}", fleet.now / MS, node.used());
        for held in node.held() {
            println!("  {held:?}");
        }
        let contacts: Vec<_> = node.contacts(fleet.clock(1).instant).collect();
        println!("  {contacts:?}");
    };
    show(&fleet, "before");
    jump(&mut fleet, 1);
    show(&fleet, "after");
    requests(&mut fleet, 1, KEY, 6);
    show(&fleet, "end");
}

/// Tried: the answer to a durable limit's lowering is lost, and the change lands only after the owner has looked again
/// (`Unknown`: "perhaps it still will be"). Then the owner crashes.
/// Came of it: BROKEN, 1,001 of 1,000. After `Unknown` and `Is` of what was there before, `usable` is again what it was
/// before the lowering, which may still land: 71 are charged when the store says 50, and the next owner begins at 50.
#[test]
fn a_lowering_that_lands_late_takes_away_what_was_issued_meanwhile() {
    let (_, network) = network();
    let mut fleet = Fleet::new(2, Config::default(), network);
    fleet.limits.insert(
        KEY,
        Terms {
            durable: true,
            ..terms(1_000, 20_000)
        },
    );
    fleet.start_all();
    ms(&mut fleet, 300);
    let bucket = align(&mut fleet, KEY, 1, 5);
    // Much is asked for once, and goes back: the owner lowers what is authorized.
    for _ in 0..3 {
        let need = Input::Need {
            bucket,
            terms: fleet.limits[&KEY],
            cost: 500,
            waits: false,
        };
        fleet.input(1, need);
        ms(&mut fleet, 10);
    }
    let mut turns = 0;
    fleet.store_late = true;
    while fleet.late.is_empty() && turns < 400 {
        ms(&mut fleet, 10);
        turns += 1;
    }
    println!(
        "after {turns}: {:?} {:?}",
        fleet.late,
        fleet.store.get(&bucket)
    );
    assert!(!fleet.late.is_empty(), "nothing was lowered");
    let high = fleet.store[&bucket].total;
    let low = fleet.late[0].1.to;
    assert!(low < high, "{low} of {high}");
    // Looks again after half a second, and sees what was there before. It lowers again, to more, or not at all.
    for turn in 0..120 {
        for _ in 0..10 {
            fleet.request(1, KEY, 1);
            fleet.request(0, KEY, 1);
        }
        ms(&mut fleet, 10);
        let owner = fleet.members[0].node.as_ref().unwrap();
        let owned = owner.owned().find(|it| it.bucket == bucket).unwrap();
        if owned.charged > low {
            println!(
                "turn {turn}: charged {} of {low} in {:?}",
                owned.charged, fleet.late
            );
            break;
        }
    }
    let (me, change) = fleet.late.remove(0);
    fleet.late.clear();
    fleet.late.push((me, change));
    fleet.land();
    println!("store {:?}", fleet.store.get(&bucket));
    fleet.store_late = false;
    fleet.crash(0);
    fleet.start(0);
    ms(&mut fleet, 1_200);
    for _ in 0..150 {
        for _ in 0..10 {
            fleet.request(0, KEY, 1);
            fleet.request(1, KEY, 1);
        }
        ms(&mut fleet, 5);
    }
    println!("spent {:?}", fleet.spent.get(&bucket));
}

/// Tried: `docs/fleet.md`: "stop all nodes, change it everywhere, and start them", with clocks a second apart.
/// Came of it: BROKEN. Both lists hold from time 0, and a window's new owner counts "after my start" by its own clock.
#[test]
#[should_panic(expected = "S6")]
fn a_fixed_list_changed_as_the_docs_say_with_clocks_apart() {
    let (_, network) = network();
    let mut fleet = Fleet::new(3, Config::default(), network);
    let limit = terms(10, 1_000);
    fleet.limits.insert(KEY, limit);
    fleet.members[2].skew = 1_000 * MS as i64;
    fleet.start_all();
    ms(&mut fleet, 2_300);
    // A window of node 3 that node 2 owns in the list without it.
    let next = View::fixed(ViewId(78), vec![NodeId(1), NodeId(2)]);
    let mut bucket = fleet.bucket(2, KEY).next();
    while fleet.view.issuer(bucket, &limit) != NodeId(3) || next.issuer(bucket, &limit) != NodeId(2)
    {
        bucket = bucket.next();
    }
    fleet.run_until(bucket.start(limit.slot_ns()).0 - BASE - 1_000 * MS + 5 * MS);
    assert!(requests(&mut fleet, 2, KEY, 12) > 0);
    println!("spent {:?}", fleet.spent.get(&bucket));
    for index in 0..3 {
        // In order.
        fleet.members[index].floor = fleet.members[index].node.as_ref().unwrap().used();
        let floor = fleet.members[index].floor;
        fleet.crash(index);
        fleet.members[index].floor = floor;
    }
    fleet.view = next;
    ms(&mut fleet, 300);
    fleet.start(0);
    fleet.start(1);
    fleet.run_until(bucket.start(limit.slot_ns()).0 - BASE + 5 * MS);
    requests(&mut fleet, 1, KEY, 12);
    println!("spent {:?}", fleet.spent.get(&bucket));
}

/// Tried: a peer's pledge that ends before it begins.
/// Came of it: `Node::handle` "never fails", and panics (`BTreeSet::range`). The wire's decoder refuses such a pledge.
#[test]
fn a_pledge_that_ends_before_it_begins() {
    let (links, network) = network();
    let mut fleet = Fleet::new(2, Config::default(), network);
    fleet.limits.insert(KEY, terms(10, 1_000));
    fleet.start_all();
    cut(&links, 1, 2);
    align(&mut fleet, KEY, 1, 5);
    requests(&mut fleet, 0, KEY, 1);
    let me = fleet.members[0].node.as_ref().unwrap().identity();
    let report = Report {
        seq: Seq(1),
        chunk: Chunk { index: 0, count: 1 },
        since: Seq(0),
        owner_epoch: Some(me.epoch),
        pledge: Some(Pledge {
            from: Wall(5),
            until: Wall(4),
        }),
        acked_grant: Seq(0),
        urgent: false,
        records: Vec::new(),
    };
    let envelope = Box::new(Envelope {
        schema: SCHEMA,
        view: ViewId(77),
        from: NodeId(2),
        epoch: Epoch { count: 9, nonce: 9 },
        to: NodeId(1),
        sent_at: Wall(0),
        report: Some(report),
        grant: None,
    });
    fleet.input(
        0,
        Input::Message {
            from: NodeId(2),
            envelope,
        },
    );
}

/// Tried: two limits of `u64::MAX` units of which all is held back at once (also three of `i64::MAX`, which a policy may
/// have).
/// Came of it: the sum of levels in `Owner::open` overflows: a panic in a build with checks, a wrong gauge without.
#[test]
#[should_panic(expected = "overflow")]
fn what_is_held_back_of_the_largest_limits_overflows() {
    let (links, network) = network();
    let mut fleet = Fleet::new(2, Config::default(), network);
    cut(&links, 1, 2);
    let limit = terms(i64::MAX as u64, 20_000);
    for high in 1..20 {
        fleet.limits.insert(Subject((high << 64) | 77), limit);
    }
    fleet.start_all();
    ms(&mut fleet, 300);
    for high in 1..20 {
        fleet.request(0, Subject((high << 64) | 77), 1);
        ms(&mut fleet, 30);
    }
}

/// Tried: a policy that lowers a limit is in force at the owner, which has no bucket of it open; a holder with the old
/// policy asks in the next window.
/// Came of it: the owner counts by the holder's terms (it keeps none of its own): all of the old limit is admitted.
#[test]
fn an_owner_forgets_a_lowered_limit_between_windows() {
    let (_, network) = network();
    let mut fleet = Fleet::new(2, Config::default(), network);
    let old = terms(100, 1_000);
    fleet.limits.insert(KEY, old);
    fleet.start_all();
    ms(&mut fleet, 300);
    let new = Terms {
        units: 10,
        revision: 2,
        ..old
    };
    fleet.input(
        0,
        Input::Terms {
            subject: KEY,
            terms: new,
        },
    );
    align(&mut fleet, KEY, 1, 5);
    let admitted = requests(&mut fleet, 1, KEY, 110);
    assert_eq!(admitted, 100);
}

/// Tried: seventeen changes of the list within one window of a limit that is not durable (a rolling restart of nine nodes
/// whose list is kept by the fleet), while one node keeps spending of that window.
/// Came of it: BROKEN (liveness): from the 17th list on nobody is in contact with the long window's owner. Nodes keep 16 lists, and an owner that no longer knows the window's list stores no record
/// of it, so no report that has one counts: no pledge, no acknowledgement, no contact, for any key.
#[test]
fn many_lists_in_one_long_window() {
    let (_, network) = network();
    let mut fleet = Fleet::new(3, Config::default(), network);
    let long = Subject(9 << 64 | 77);
    fleet.limits.insert(KEY, terms(30, 1_000));
    fleet.limits.insert(long, terms(1_000_000, 600_000));
    fleet.view.lease_until = Wall(u64::MAX);
    fleet.start_all();
    ms(&mut fleet, 300);
    let mut lists = 1;
    let mut admitted = Vec::new();
    for turn in 0..22 {
        // Each window of the short key: how much node 3 gets of it.
        let before = fleet.admitted;
        align(&mut fleet, KEY, 1 + turn % 3, 0);
        for _ in 0..35 {
            fleet.request(2, KEY, 1);
            for index in 0..3 {
                let short = fleet.admitted;
                fleet.request(index, long, 1);
                fleet.admitted = short;
            }
            ms(&mut fleet, 5);
        }
        admitted.push(fleet.admitted - before);
        let mut members = fleet.view.members.clone();
        members.rotate_left(1);
        lists += 1;
        let at = Wall(BASE + fleet.now + 500 * MS);
        let old = View {
            lease_until: at,
            ..fleet.view.clone()
        };
        let view = View {
            id: ViewId(77 + lists),
            members,
            active_from: at,
            lease_until: Wall(u64::MAX),
        };
        for index in 0..3 {
            fleet.input(index, Input::View(old.clone()));
            fleet.input(index, Input::View(view.clone()));
        }
        fleet.view = view;
        ms(&mut fleet, 600);
    }
    for index in 0..3 {
        let node = fleet.members[index].node.as_ref().unwrap();
        let contacts: Vec<_> = node
            .contacts(fleet.clock(index).instant)
            .map(|it| (it.node.0, it.in_contact))
            .collect();
        println!("node {}: {contacts:?}", index + 1);
    }
    println!("{admitted:?}");
}

fn pinned_durable(nodes: u64) -> Fleet {
    let (_, network) = network();
    let mut fleet = Fleet::new(nodes, Config::default(), network);
    fleet.limits.insert(
        KEY,
        Terms {
            durable: true,
            ..terms(10_000, 3_600_000)
        },
    );
    fleet.start_all();
    ms(&mut fleet, 300);
    fleet
}

/// Tried: a durable limit of 10,000 an hour, asked for 20 times a second at one node for 10 s; then all nodes crash.
/// Came of it: BROKEN (no S rule): 199 are spent, all 10,000 are authorized and issued, and the 9,801 are lost. "At most a
/// tranche is lost" holds for an owner that crashes and had not issued what it had authorized.
#[test]
fn what_a_crash_loses_of_a_durable_limit() {
    for nodes in [1, 2] {
        let mut fleet = pinned_durable(nodes);
        for _ in 0..200 {
            fleet.request(0, KEY, 1);
            ms(&mut fleet, 50);
        }
        let bucket = fleet.bucket(0, KEY);
        let spent = fleet.admitted;
        println!(
            "{nodes} nodes: spent {spent}, store {:?}",
            fleet.store.get(&bucket)
        );
        for index in 0..nodes as usize {
            fleet.crash(index);
            fleet.start(index);
        }
        ms(&mut fleet, 2_000);
        for _ in 0..12_000 {
            fleet.request(0, KEY, 1);
            ms(&mut fleet, 1);
        }
        println!(
            "{nodes} nodes: spent {} more, store {:?}",
            fleet.admitted - spent,
            fleet.store.get(&bucket)
        );
    }
}

/// Tried: the list changes in a durable window, so that the bucket has another owner; the old one lives on.
/// Came of it: BROKEN (no S rule): the old owner goes on handing out to holders that no longer listen to it, and takes the
/// store back in turns with the new one; 6,700 of 10,000 units are gone within half a second.
#[test]
fn a_durable_bucket_moves_to_another_owner() {
    let mut fleet = pinned_durable(2);
    let bucket = fleet.bucket(0, KEY);
    let limit = fleet.limits[&KEY];
    for _ in 0..40 {
        fleet.request(0, KEY, 1);
        fleet.request(1, KEY, 1);
        ms(&mut fleet, 5);
    }
    println!(
        "before: spent {} {:?}",
        fleet.admitted,
        fleet.store.get(&bucket)
    );
    let at = Wall(BASE + fleet.now + 100 * MS);
    let old = View {
        lease_until: at,
        ..fleet.view.clone()
    };
    let view = View {
        id: ViewId(78),
        members: fleet.view.members.iter().rev().copied().collect(),
        active_from: at,
        lease_until: Wall(u64::MAX),
    };
    println!(
        "{:?} to {:?}",
        fleet.view.issuer(bucket, &limit),
        view.issuer(bucket, &limit)
    );
    for index in 0..2 {
        fleet.input(index, Input::View(old.clone()));
        fleet.input(index, Input::View(view.clone()));
    }
    for _ in 0..20 {
        for _ in 0..20 {
            fleet.request(0, KEY, 1);
            fleet.request(1, KEY, 1);
            ms(&mut fleet, 5);
        }
        let live: u64 = fleet
            .members
            .iter()
            .filter_map(|it| it.table.levels.get(&bucket))
            .map(|it| it.available)
            .sum();
        println!(
            "then: spent {} live {live} {:?}",
            fleet.admitted,
            fleet.store.get(&bucket)
        );
    }
}

/// Tried: sliding windows of 100 ms to a second and odd lengths, token buckets of the same, and messages up to half a second
/// late, doubled, lost and overtaken, in random fleets with crashes, cuts, clocks, lists and policies.
/// Came of it: held (1,560 runs: seeds 0 to 11 and 100 to 399).
#[test]
fn random_fleets_of_short_windows() {
    let first = std::env::var("LEASE_FIRST_SEED").map_or(0, |seed| seed.parse().unwrap());
    let seeds = std::env::var("LEASE_SEEDS").map_or(6, |seeds| seeds.parse().unwrap());
    for seed in first..first + seeds {
        for window in [100, 137, 300, 999, 5_000] {
            let extra = Extra {
                delay: [None, Some(150 * MS), Some(500 * MS)][seed as usize % 3],
                ..Extra::default()
            };
            println!("seed {seed} window {window}");
            run_shaped(seed + 7_000_000, Config::default(), window, window, extra);
        }
    }
}

fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("LEASE_FIRST_SEED").map_or(0, |seed| seed.parse().unwrap());
    let seeds = std::env::var("LEASE_SEEDS").map_or(6, |seeds| seeds.parse().unwrap());
    first..first + seeds
}

/// Tried: random fleets whose policies change for sliding windows and token buckets too (the sum is held against the
/// largest units that were in force).
/// Came of it: held (seeds 0 to 119, 1000 to 1899), once the checker allows for the odd unit of two rates in turn.
#[test]
fn random_policies_of_slotted_limits() {
    for seed in seeds() {
        println!("seed {seed}");
        let extra = Extra {
            retune_all: true,
            ..Extra::default()
        };
        run_shaped(seed + 8_000_000, Config::default(), 1_000, 1_000, extra);
    }
}

/// Tried: random fleets with a slow disk and clocks that jump ahead for a moment.
/// Came of it: held (seeds 0 to 119, 1000 to 1699): chance does not find what the two schedules of clocks above do.
#[test]
fn random_clocks_on_slow_disks() {
    for seed in seeds() {
        println!("seed {seed}");
        let extra = Extra {
            disk: Some(40 * MS + seed % 7 * 100 * MS),
            clocks: true,
            ..Extra::default()
        };
        run_shaped(seed + 9_000_000, Config::default(), 1_000, 1_000, extra);
    }
}

/// Tried: a hundred requests of cost 0, and some of 2^55 and more, while another node holds credit.
/// Came of it: held. Each of the hundred puts a question of its own (0 is always twice 0).
#[test]
fn costs_of_nothing_and_of_everything() {
    let (_, network) = network();
    let mut fleet = Fleet::new(2, Config::default(), network);
    fleet.limits.insert(KEY, terms(100, 3_000));
    fleet.start_all();
    ms(&mut fleet, 300);
    align(&mut fleet, KEY, 1, 5);
    let asked = fleet.asked();
    for _ in 0..100 {
        let need = Input::Need {
            bucket: fleet.bucket(1, KEY),
            terms: fleet.limits[&KEY],
            cost: 0,
            waits: false,
        };
        fleet.input(1, need);
    }
    ms(&mut fleet, 3);
    println!(
        "{} questions for 100 requests of cost 0",
        fleet.asked() - asked
    );
    requests(&mut fleet, 1, KEY, 5);
    let available = |fleet: &Fleet| {
        let bucket = fleet.bucket(1, KEY);
        fleet.members[1].table.levels[&bucket].available
    };
    let before = available(&fleet);
    for _ in 0..3 {
        fleet.request(0, KEY, u64::MAX >> 8);
        fleet.request(0, KEY, u64::MAX >> 9);
        ms(&mut fleet, 4);
    }
    println!("node 2 had {before}, has {}", available(&fleet));
}

/// Tried: a node of mode `fixed` that takes its share in the very nanosecond in which the window begins, stops in order (its
/// floor is what it used), and starts again before its clock has moved on.
/// Came of it: BROKEN: `start < boot` must be `<=`; there is no second belt here as there is in S9 and S10.
#[test]
fn a_fixed_share_in_the_first_nanosecond_of_a_window() {
    let (_, network) = network();
    let mut fleet = Fleet::new(1, Config::default(), network);
    fleet.limits.insert(
        KEY,
        Terms {
            mode: Mode::Fixed,
            ..terms(10, 1_000)
        },
    );
    fleet.start_all();
    align(&mut fleet, KEY, 1, 0);
    for _ in 0..10 {
        fleet.request(0, KEY, 1);
    }
    assert_eq!(fleet.admitted, 10);
    let used = fleet.members[0].node.as_ref().unwrap().used();
    fleet.crash(0);
    fleet.members[0].floor = used;
    fleet.start(0);
    ms(&mut fleet, 20);
    requests(&mut fleet, 0, KEY, 10);
}

/// Tried: windows of the largest length, with phases before and after the present, largest units, durable and not; cuts,
/// crashes of owner and holder.
/// Came of it: held. With units of `i64::MAX`, which a limit without a window may have, `Stats::issued_units` overflows (a
/// panic in a build with checks: `owner/issue.rs`), so the units here are fewer.
#[test]
fn windows_without_end() {
    for low in [1_u128, u128::from(u64::MAX) >> 1, u128::from(u64::MAX)] {
        for durable in [false, true] {
            for units in [10, i64::MAX as u64 >> 7] {
                let (links, network) = network();
                let mut fleet = Fleet::new(3, Config::default(), network);
                let key = Subject((7 << 80) | low);
                let limit = Terms {
                    window_ns: u64::MAX,
                    durable,
                    ..terms(units, 1)
                };
                fleet.limits.insert(key, limit);
                cut(&links, 1, 2);
                fleet.start_all();
                ms(&mut fleet, 300);
                for index in 0..3 {
                    requests(&mut fleet, index, key, 4);
                }
                links.borrow_mut().cut.clear();
                ms(&mut fleet, 300);
                for index in 0..3 {
                    requests(&mut fleet, index, key, 4);
                    fleet.crash(index);
                    ms(&mut fleet, 30);
                    fleet.start(index);
                    requests(&mut fleet, 2 - index, key, 4);
                    ms(&mut fleet, 400);
                    requests(&mut fleet, index, key, 4);
                }
                println!("{low} {durable} {units}: {:?}", fleet.spent);
            }
        }
    }
}

/// Tried: the owner lowers, raises and lowers again across a window's turn, each heard by one node only, with the returns of
/// one recall held back until after the next; the second node cut off in between, and taking its share by the largest.
/// Came of it: held (the bound is the largest units in force).
#[test]
fn lowered_raised_and_lowered_across_a_turn_with_late_returns() {
    let (links, network) = network();
    let mut fleet = Fleet::new(3, Config::default(), network);
    let first = terms(90, 1_000);
    fleet.limits.insert(KEY, first);
    fleet.most.insert(KEY, 90);
    fleet.start_all();
    ms(&mut fleet, 300);
    for turn in 0..40_u64 {
        align(&mut fleet, KEY, 1 + turn % 3, 900 + turn % 7 * 20);
        for (step, units) in [9, 60, 3, 90].into_iter().enumerate() {
            let known = fleet.limits[&KEY];
            let terms = Terms {
                units,
                revision: known.revision + 1,
                ..known
            };
            fleet.limits.insert(KEY, terms);
            let index = (turn as usize + step) % 3;
            fleet.input(
                index,
                Input::Terms {
                    subject: KEY,
                    terms,
                },
            );
            let (one, other) = (1 + turn % 3, 1 + (turn + 1) % 3);
            match step {
                0 => links.borrow_mut().held.push((other, one)),
                1 => cut(&links, 1 + (turn + 2) % 3, one),
                2 => {
                    links.borrow_mut().held.clear();
                    ms(&mut fleet, 12);
                    fleet.release(NodeId(other), NodeId(one));
                }
                _ => links.borrow_mut().cut.clear(),
            }
            for index in 0..3 {
                requests(&mut fleet, index, KEY, 9);
            }
        }
    }
    println!("{:?}", fleet.spent);
}

/// Tried: a holder's clock is a day ahead for a second, and it asks for as many keys as the owner has room for.
/// Came of it: BROKEN (liveness): the owner keeps an entry for each until that day has come, and is full for everybody.
#[test]
fn a_clock_a_day_ahead_fills_the_ledgers_of_others() {
    let (_, network) = network();
    let config = Config {
        most_owned: 40,
        ..Config::default()
    };
    let mut fleet = Fleet::new(2, config, network);
    for high in 1..=400 {
        fleet
            .limits
            .insert(Subject((high << 64) | 77), terms(10, 1_000));
    }
    fleet.start_all();
    ms(&mut fleet, 300);
    fleet.members[1].skew = 86_400_000 * MS as i64;
    for high in 1..=200 {
        fleet.request(1, Subject((high << 64) | 77), 1);
        ms(&mut fleet, 5);
    }
    fleet.members[1].skew = 0;
    ms(&mut fleet, 10_000);
    let owned: Vec<usize> = (0..2)
        .map(|index| fleet.members[index].node.as_ref().unwrap().owned().count())
        .collect();
    let mut admitted = 0;
    for high in 201..=400 {
        admitted += requests(&mut fleet, 0, Subject((high << 64) | 77), 1);
    }
    println!(
        "ledgers {owned:?}, {admitted} of 200 admitted at node 1, 10 s after the clock was put right"
    );
}
