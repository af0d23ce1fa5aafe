//! Fleets that keep their list of members themselves, in JetStream: they grow and shrink under load.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::faults::bus::Bus;
use crate::harness::client::Client;
use crate::harness::leasehold::Leasehold;
use crate::harness::{eventually, now};

const UNITS: u64 = 40;
const WINDOW_MS: u128 = 2000;

const POLICY: &str = "version: 1
rules:
  - name: shared
    when: {path: /shared}
    by: everyone
    limits: [{rate: 40 per 2s, disclose: true}]
  - name: durable
    when: {path: /durable}
    by: everyone
    limits: [{rate: 300 per 30d}]
";

/// A node that is not started yet.
fn prepare(files: &Path, bus: &Bus, name: &str, settings: &str) -> Leasehold {
    let secret = files.join("secret");
    std::fs::write(&secret, "7".repeat(64)).unwrap();
    let settings = format!(
        "secret = \"file:{}\"\n\
         drain.grace_ms = 0\n\
         [fleet]\ncluster = \"test\"\nnode = \"{name}\"\nmembers = \"view\"\n\
         data_dir = \"{}/{name}\"\n{settings}\n\
         [nats]\nservers = [\"nats://127.0.0.1:{}\"]\nplaintext = true\n",
        secret.display(),
        files.display(),
        bus.port
    );
    Leasehold::prepare(POLICY, &settings)
}

async fn status(node: &Leasehold) -> serde_json::Value {
    let reply = Client::at_proxy().get(node.admin, "/fleet").await;
    assert_eq!(reply.status, StatusCode::OK);
    reply.json()
}

/// Whether a node acts under a list of so many, and is in contact with all of them.
async fn is_one_of(node: &Leasehold, count: usize) -> bool {
    let status = status(node).await;
    let members = status["members"].as_array().unwrap().len();
    let contacts = status["contacts"].as_array().unwrap();
    let others = contacts.iter().filter(|it| it["node"] != status["node"]);
    let in_contact = others.filter(|it| it["in_contact"] == true).count();
    status["standing"] == "member" && members == count && in_contact == count - 1
}

async fn until_of(nodes: &[&Leasehold], count: usize, patience: Duration) {
    let started = now();
    for node in nodes {
        while !is_one_of(node, count).await {
            let status = status(node).await;
            assert!(
                started.elapsed() < patience,
                "not {count} members: {status}"
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Admissions by the end of their window, over all clients.
#[derive(Clone, Default)]
struct Tally(Arc<Mutex<BTreeMap<u128, u64>>>);

impl Tally {
    /// One was admitted, in the window that ends so long after the start.
    fn add(&self, end_ms: u128) {
        let mut ends = self.0.lock().unwrap();
        // The answers of one window put its end at the same time, but for what they were under way.
        let near = ends
            .keys()
            .copied()
            .find(|known| known.abs_diff(end_ms) < WINDOW_MS / 2);
        *ends.entry(near.unwrap_or(end_ms)).or_default() += 1;
    }

    fn windows(&self) -> BTreeMap<u128, u64> {
        self.0.lock().unwrap().clone()
    }
}

/// Sends requests to a port until it is aborted, whether anybody is there or not.
fn load(port: u16, started: std::time::Instant, tally: Tally) -> JoinHandle<()> {
    tokio::spawn(async move {
        let body = Bytes::from_static(br#"{"method":"GET","path":"/shared"}"#);
        let headers: [(&str, &[u8]); 1] = [("content-type", b"application/json")];
        loop {
            let sent = Client::at_proxy()
                .send(port, Method::POST, "/v1/check", &headers, body.clone())
                .await;
            // An answer that did not come may have been an admission: it counts for nobody.
            if let Ok(reply) = sent
                && reply.status == StatusCode::OK
            {
                let reset_ms = reply.json()["limits"][0]["reset_after_ms"]
                    .as_u64()
                    .unwrap();
                tally.add(started.elapsed().as_millis() + u128::from(reset_ms));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
}

/// Waits for so many windows that begin from now on. How many units they had, and how many of them were used.
async fn whole_windows(tally: &Tally, started: std::time::Instant, count: u128) -> (u64, u64) {
    let to = started.elapsed().as_millis() + (count + 2) * WINDOW_MS;
    while started.elapsed().as_millis() < to {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let windows = tally.windows();
    let (last, _) = windows.last_key_value().expect("somebody was admitted");
    // The last may not be over. One in which nobody was admitted is in no tally, and counts all the same.
    let used = (1..=count).map(|back| {
        let end = last - back * WINDOW_MS;
        let near = windows
            .iter()
            .find(|(known, _)| known.abs_diff(end) < WINDOW_MS / 2);
        near.map_or(0, |(_, admitted)| *admitted)
    });
    let used = used.sum();
    (count as u64 * UNITS, used)
}

fn assert_bound(tally: &Tally) {
    let windows = tally.windows();
    assert!(
        windows.values().all(|admitted| *admitted <= UNITS),
        "more than {UNITS} in a window: {windows:?}"
    );
}

/// From two nodes to four, by one that leaves and one that is killed to two again, under load all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_grows_and_shrinks_under_load() {
    let files = TempDir::new().unwrap();
    let mut bus = Bus::prepare();
    bus.up().await;
    let names = ["n0", "n1", "n2", "n3"];
    let mut nodes: Vec<Leasehold> = names
        .iter()
        .map(|name| prepare(files.path(), &bus, name, "first_start = true"))
        .collect();
    for node in &mut nodes[..2] {
        node.up().await;
    }
    let soon = Duration::from_secs(60);
    until_of(&[&nodes[0], &nodes[1]], 2, soon).await;

    let (started, tally) = (now(), Tally::default());
    let clients: Vec<JoinHandle<()>> = nodes
        .iter()
        .map(|node| load(node.http, started, tally.clone()))
        .collect();
    let (units, used) = whole_windows(&tally, started, 4).await;
    assert!(used >= units * 97 / 100, "two nodes: {used} of {units}");

    for node in &mut nodes[2..] {
        node.up().await;
    }
    let all: Vec<&Leasehold> = nodes.iter().collect();
    until_of(&all, 4, soon).await;
    let (units, used) = whole_windows(&tally, started, 4).await;
    assert!(used >= units * 97 / 100, "four nodes: {used} of {units}");
    assert_bound(&tally);

    // One leaves in order: a list without it holds before it is gone.
    nodes[3].stop().await;
    until_of(&[&nodes[0], &nodes[1], &nodes[2]], 3, soon).await;
    // One dies: it stays in the list until its lease has ended, and 15 s more.
    nodes[2].kill();
    until_of(&[&nodes[0], &nodes[1]], 2, Duration::from_secs(200)).await;
    let (units, used) = whole_windows(&tally, started, 4).await;
    assert!(used >= units * 97 / 100, "two again: {used} of {units}");
    assert_bound(&tally);
    for node in &nodes[..2] {
        assert_eq!(node.metric("enforcement_degraded", &[]).await, 0.0);
        assert_eq!(node.metric("throttle_fleet_members", &[]).await, 2.0);
        let broken = node.metric("throttle_fleet_invariant_broken_total", &[]);
        assert_eq!(broken.await, 0.0);
    }
    for client in clients {
        client.abort();
    }
}

/// A restart on the same directory changes no list, and a durable limit goes on in the ledger that all share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_changes_no_list_and_no_quota() {
    let files = TempDir::new().unwrap();
    let mut bus = Bus::prepare();
    bus.up().await;
    let settings = "first_start = true\nleave_on_stop = false";
    let mut nodes: Vec<Leasehold> = ["n0", "n1"]
        .iter()
        .map(|name| prepare(files.path(), &bus, name, settings))
        .collect();
    for node in &mut nodes {
        node.up().await;
    }
    until_of(&[&nodes[0], &nodes[1]], 2, Duration::from_secs(60)).await;
    let view = status(&nodes[0]).await["view"].clone();
    let mut admitted = 0;
    let take = async |node: &Leasehold| {
        let mut admitted = 0;
        for _ in 0..200 {
            let headers: [(&str, &[u8]); 2] = [
                ("x-forwarded-method", b"GET"),
                ("x-forwarded-uri", b"/durable"),
            ];
            let reply = Client::at_proxy()
                .get_with(node.http, "/v1/check", &headers)
                .await;
            admitted += u64::from(reply.status == StatusCode::OK);
        }
        admitted
    };
    for index in 0..2 {
        eventually("some of the durable quota", async || {
            let some = take(&nodes[index]).await;
            admitted += some;
            (some > 0).then_some(())
        })
        .await;
        nodes[index].stop().await;
        nodes[index].up().await;
        until_of(&[&nodes[0], &nodes[1]], 2, Duration::from_secs(60)).await;
        assert_eq!(status(&nodes[0]).await["view"], view);
    }
    for node in &nodes {
        admitted += take(node).await;
    }
    assert!(admitted <= 300, "{admitted} of 300");
}
