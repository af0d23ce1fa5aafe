//! Policies that change while credit is out at three nodes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use lease::config::Config;
use tokio::task::JoinHandle;

use super::{Node, UNITS, decide_and_tell, in_contact, start, start_under, stop, take_everywhere};
use crate::fixture;

fn policy(units: u64) -> policy::model::Policy {
    let text = format!(
        "version: 1
rules:
  - name: everyone
    by: everyone
    limits: [{{rate: {units} per 50m}}]
"
    );
    policy::file::read(text.as_bytes()).unwrap()
}

/// Puts a policy in force at every node, as its reload does.
fn install(nodes: &[Node], units: u64) {
    for node in nodes {
        let revision = node.gate.snapshot().revision() + 2;
        let policy = policy(units);
        node.gate.install_revision(&policy, revision).unwrap();
        node.fleet.policy_changed();
    }
}

/// A client of one node that goes on asking.
struct Client {
    admitted: Arc<AtomicU64>,
    refused_in_a_row: Arc<AtomicU64>,
    most_remaining: Arc<AtomicU64>,
    ends: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Client {
    fn start(node: &Node) -> Self {
        let (gate, clock, fleet) = (
            Arc::clone(&node.gate),
            node.clock.clone(),
            node.fleet.clone(),
        );
        let [admitted, refused_in_a_row, most_remaining]: [Arc<AtomicU64>; 3] =
            [(); 3].map(|()| Arc::default());
        let ends: Arc<AtomicBool> = Arc::default();
        // Relaxed, here and below: each is only counted and looked at.
        let task = tokio::spawn({
            let (admitted, refused) = (Arc::clone(&admitted), Arc::clone(&refused_in_a_row));
            let (most, ends) = (Arc::clone(&most_remaining), Arc::clone(&ends));
            async move {
                while !ends.load(Relaxed) {
                    let (decided, remaining) = decide_and_tell(&gate, clock.now());
                    most.fetch_max(remaining, Relaxed);
                    match decided {
                        Ok(()) => {
                            admitted.fetch_add(1, Relaxed);
                            refused.store(0, Relaxed);
                        }
                        Err(dry) => {
                            refused.fetch_add(1, Relaxed);
                            let _ = fleet.ask(dry).await;
                        }
                    }
                    // So slow that it lives on what the node holds for far longer than the test lasts.
                    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
                }
            }
        });
        Self {
            admitted,
            refused_in_a_row,
            most_remaining,
            ends,
            task,
        }
    }
}

async fn all(what: &str, clients: &[Client], holds: impl Fn(&Client) -> bool) {
    fixture::until(what, || {
        let all = clients.iter().all(&holds);
        async move { all }
    })
    .await;
}

/// F3, F6: what is held of the old allowance is called back at once, not when it is spent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lowered_limit_reaches_credit_that_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let million = "version: 1
rules:
  - name: everyone
    by: everyone
    limits: [{rate: 1_000_000 per 50m}]
";
    let nodes = start_under(folder.path(), million, Config::default());
    in_contact(&nodes).await;
    let clients: Vec<Client> = nodes.iter().map(Client::start).collect();
    all("all nodes admit", &clients, |client| {
        client.admitted.load(Relaxed) > 20
    })
    .await;
    install(&nodes, 10);
    for client in &clients {
        client.refused_in_a_row.store(0, Relaxed);
    }
    all("no node admits any more", &clients, |client| {
        client.refused_in_a_row.load(Relaxed) > 100
    })
    .await;
    let admitted: Vec<u64> = clients
        .iter()
        .map(|client| client.admitted.load(Relaxed))
        .collect();
    for client in &clients {
        client.most_remaining.store(0, Relaxed);
        client.refused_in_a_row.store(0, Relaxed);
    }
    all("100 more requests", &clients, |client| {
        client.refused_in_a_row.load(Relaxed) > 100
    })
    .await;
    for (client, before) in clients.iter().zip(admitted) {
        assert_eq!(client.admitted.load(Relaxed), before);
        let most = client.most_remaining.load(Relaxed);
        assert!(most <= 10, "remaining {most} of 10");
    }

    // F4: raised while it is used up, it admits what it says, less what was spent.
    install(&nodes, 2_000_000);
    all("all nodes admit again", &clients, |client| {
        client.refused_in_a_row.load(Relaxed) == 0
    })
    .await;
    for client in clients {
        client.ends.store(true, Relaxed);
        fixture::soon("a client", client.task).await.unwrap();
    }
    stop(nodes);
}

/// F2: a policy that says the same is no new quota.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_policy_ten_times_changes_no_count() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = start(folder.path());
    in_contact(&nodes).await;
    let mut sum = 0;
    for _ in 0..10 {
        sum += take_everywhere(&nodes, UNITS / 40)
            .await
            .iter()
            .sum::<u64>();
        install(&nodes, UNITS);
    }
    sum += take_everywhere(&nodes, UNITS).await.iter().sum::<u64>();
    assert!(sum > UNITS / 2 && sum <= UNITS, "{sum} of {UNITS}");
    for node in &nodes {
        let status = super::status(&node.fleet).await;
        assert_eq!(status.unreconciled, []);
    }
    stop(nodes);
}
