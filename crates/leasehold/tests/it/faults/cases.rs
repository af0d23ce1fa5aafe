//! Cases from real life, on real fleets: too few units for the nodes, windows of another owner, a node that was away.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::StatusCode;

use super::fleet::{Cut, Fleet, Transport};
use super::load::{Answer, Asker};
use super::probe::until_well;
use crate::harness::client::Client;
use crate::harness::{eventually, now};

fn policy(rate: &str) -> String {
    format!(
        "version: 1
rules:
  - name: shared
    when: {{path: /shared}}
    by: [{{header: x-key}}]
    limits: [{{rate: {rate}, disclose: true}}]
"
    )
}

/// Asks the nodes one after another, until so many are admitted, and so many times more. How many were admitted.
async fn admitted_in_turn(fleet: &Fleet, units: usize, more: usize) -> usize {
    let mut askers: Vec<Asker> = fleet.nodes.iter().map(|it| Asker::at(it.http)).collect();
    let mut admitted = 0;
    let mut next = (0..askers.len()).cycle();
    let mut ask = async || {
        let asker = &mut askers[next.next().unwrap()];
        usize::from(asker.ask("/shared", 0).await.unwrap().admitted)
    };
    eventually("the units to be admitted", async || {
        admitted += ask().await;
        (admitted >= units).then_some(())
    })
    .await;
    for _ in 0..more {
        admitted += ask().await;
    }
    admitted
}

/// A15: not 0, because a share is less than one; not 10, because each gives one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_nodes_admit_five_of_five() {
    let fleet = Fleet::start(10, Transport::Mesh, &policy("5 per 50m")).await;
    assert_eq!(admitted_in_turn(&fleet, 5, 50).await, 5);
}

/// C9.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_admit_one_of_one() {
    let fleet = Fleet::start(2, Transport::Mesh, &policy("1 per 50m")).await;
    assert_eq!(admitted_in_turn(&fleet, 1, 30).await, 1);
}

/// Admissions and answers by the window's end.
type Windows = BTreeMap<u64, (u64, u64)>;

fn count(windows: &mut Windows, answer: Answer) {
    let (admitted, answers) = windows.entry(answer.end).or_default();
    *admitted += u64::from(answer.admitted);
    *answers += 1;
}

/// C10: whoever owns a window, its whole quota is there for who asks at one node.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_window_is_whole_at_a_node_that_does_not_own_it() {
    const UNITS: u64 = 20;
    let fleet = Fleet::start(2, Transport::Mesh, &policy("20 per 1s")).await;
    let mut asker = Asker::at(fleet.nodes[0].http);
    // Each window of each key has another owner: of 4 keys, not all have three windows in a row at this node.
    let mut keys = vec![Windows::new(); 4];
    eventually("three windows in a row to be whole", async || {
        for (windows, key) in keys.iter_mut().zip(0..) {
            count(windows, asker.ask("/shared", key).await.unwrap());
        }
        let three_whole = |windows: &Windows| {
            let whole = |end: u64| windows.get(&end).is_some_and(|it| it.0 >= UNITS);
            windows
                .keys()
                .any(|end| (0..3).all(|next| whole(end + next)))
        };
        keys.iter().all(three_whole).then_some(())
    })
    .await;
    for (end, (admitted, _)) in keys.into_iter().flatten() {
        assert!(
            admitted <= UNITS,
            "{admitted} of {UNITS} in the window to {end}"
        );
    }
}

/// C11: credit that is renewed while twice as much is asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_is_offered_is_never_admitted() {
    const UNITS: u64 = 500;
    let fleet = Fleet::start(2, Transport::Mesh, &policy("500 per 1s")).await;
    let windows = Arc::new(Mutex::new(Windows::new()));
    let mut clients = tokio::task::JoinSet::new();
    for node in &fleet.nodes {
        for _ in 0..4 {
            let (windows, port) = (Arc::clone(&windows), node.http);
            clients.spawn(async move {
                let (mut asker, mut pace) = (
                    Asker::at(port),
                    tokio::time::interval(Duration::from_millis(10)),
                );
                loop {
                    pace.tick().await;
                    let answer = asker.ask("/shared", 0).await.unwrap();
                    count(&mut windows.lock().unwrap(), answer);
                }
            });
        }
    }
    eventually("windows to be used well", async || {
        let windows = windows.lock().unwrap();
        // Neither the first, which had begun, nor the last, which goes on.
        let over = windows.values().skip(1).rev().skip(1);
        let used = over.filter(|(admitted, answers)| admitted * 10 >= UNITS.min(*answers) * 9);
        (used.count() >= 3).then_some(())
    })
    .await;
    drop(clients);
    for (end, (admitted, _)) in &*windows.lock().unwrap() {
        assert!(
            *admitted <= UNITS,
            "{admitted} of {UNITS} in the window to {end}"
        );
    }
}

const BOTH: &str = "version: 1
rules:
  - name: goes
    when: {path: /goes}
    by: everyone
    limits: [{rate: 3 per 50m}]
  - name: stays
    when: {path: /stays}
    by: everyone
    limits: [{rate: 3 per 50m}]
";

async fn check(fleet: &Fleet, node: usize, path: &str) -> StatusCode {
    let headers: [(&str, &[u8]); 2] = [
        ("x-forwarded-method", b"GET"),
        ("x-forwarded-uri", path.as_bytes()),
    ];
    let port = fleet.nodes[node].http;
    let reply = Client::at_proxy()
        .get_with(port, "/v1/check", &headers)
        .await;
    reply.status
}

/// Asks one node until it refuses.
async fn use_up(fleet: &Fleet, node: usize, path: &str) -> usize {
    let mut admitted = 0;
    while check(fleet, node, path).await == StatusCode::OK {
        admitted += 1;
        assert!(admitted <= 3, "{path} at n{node}");
    }
    admitted
}

/// X9: a rule is deleted while a node is cut off for 5 s; back again, it learns, and what it had used stays used.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_cut_off_learns_what_was_deleted() {
    let fleet = Fleet::start(3, Transport::Mesh, BOTH).await;
    for path in ["/goes", "/stays"] {
        let mut admitted = 0;
        eventually("all units to be used", async || {
            for node in 0..3 {
                admitted += use_up(&fleet, node, path).await;
            }
            assert!(admitted <= 3, "{admitted} of 3 on {path}");
            (admitted == 3).then_some(())
        })
        .await;
    }
    let (head, stays) = BOTH.split_once("  - name: goes").unwrap();
    let stays = &stays[stays.find("  - name: stays").unwrap()..];
    let after = format!("{head}{stays}");

    let start = now();
    fleet.cut(2, Cut::Off);
    for node in 0..2 {
        fleet.nodes[node].write_policy(&after);
        eventually("the others to have dropped the rule", async || {
            (check(&fleet, node, "/goes").await == StatusCode::OK).then_some(())
        })
        .await;
    }
    eventually("the node to have been off for 5 s", async || {
        // It must not make up anything meanwhile: its window had begun before.
        assert_eq!(
            check(&fleet, 2, "/goes").await,
            StatusCode::TOO_MANY_REQUESTS
        );
        assert_eq!(
            check(&fleet, 2, "/stays").await,
            StatusCode::TOO_MANY_REQUESTS
        );
        (start.elapsed() >= Duration::from_secs(5)).then_some(())
    })
    .await;
    assert_eq!(fleet.contacts(2).await, 0);
    fleet.mend();
    until_well(&fleet).await;
    // It answers by its own file until that is exchanged too.
    assert_eq!(
        check(&fleet, 2, "/goes").await,
        StatusCode::TOO_MANY_REQUESTS
    );
    fleet.nodes[2].write_policy(&after);
    eventually("the node to learn", async || {
        (check(&fleet, 2, "/goes").await == StatusCode::OK).then_some(())
    })
    .await;
    for node in 0..3 {
        assert_eq!(
            check(&fleet, node, "/stays").await,
            StatusCode::TOO_MANY_REQUESTS
        );
    }
}
