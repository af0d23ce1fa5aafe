//! Three real nodes on one machine, one limit between them, over each transport. What is admitted is counted at the
//! clients.

mod degraded;
mod metrics;
mod reload;
mod view;

use std::path::PathBuf;

use http::StatusCode;
use tempfile::TempDir;

use crate::faults::bus::Bus;
use crate::harness::client::Client;
use crate::harness::leasehold::Leasehold;
use crate::harness::{eventually, free_port};

const NAMES: [&str; 3] = ["a", "b", "c"];
const UNITS: usize = 300;

/// Windows so long that none ends during a test.
const POLICY: &str = "version: 1
rules:
  - name: shared
    when: {path: /shared}
    by: everyone
    limits: [{rate: 300 per 50m}]
  - name: durable
    when: {path: /durable}
    by: everyone
    limits: [{rate: 300 per 30d}]
";

/// What carries what nodes say to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Mesh,
    Nats,
}

struct Three {
    // Dropped in this order: the nodes before what they need.
    nodes: Vec<Leasehold>,
    _bus: Option<Bus>,
    _secret: TempDir,
}

impl Three {
    async fn start(over: Over) -> Self {
        Self::start_with(over, POLICY, "").await
    }

    /// The same under another policy, with more settings of the section `fleet`.
    async fn start_with(over: Over, policy: &str, fleet: &str) -> Self {
        let mut bus = None;
        if over == Over::Nats {
            bus.insert(Bus::prepare()).up().await;
        }
        let secret = TempDir::new().unwrap();
        let file: PathBuf = secret.path().join("secret");
        std::fs::write(&file, "7".repeat(64)).unwrap();
        let ports = NAMES.map(|_| free_port());
        let members: Vec<String> = NAMES
            .iter()
            .zip(ports)
            .map(|(name, port)| match over {
                Over::Mesh => format!("{{ name = \"{name}\", address = \"127.0.0.1:{port}\" }}"),
                Over::Nats => format!("{{ name = \"{name}\" }}"),
            })
            .collect();
        let data = secret.path().display();
        let mut nodes: Vec<Leasehold> = NAMES
            .iter()
            .zip(ports)
            .map(|(name, port)| {
                let transport = match &bus {
                    None => format!("[peers]\nlisten = \"127.0.0.1:{port}\"\ninsecure = true\n"),
                    Some(bus) => {
                        let server = format!("nats://127.0.0.1:{}", bus.port);
                        format!("[nats]\nservers = [\"{server}\"]\nplaintext = true\n")
                    }
                };
                let settings = format!(
                    "secret = \"file:{}\"\n\
                     drain.grace_ms = 0\n\
                     [fleet]\ncluster = \"test\"\nnode = \"{name}\"\nmembers = [{}]\n\
                     data_dir = \"{data}/{name}\"\nfirst_start = true\n\
                     {fleet}\n{transport}",
                    file.display(),
                    members.join(", ")
                );
                Leasehold::prepare(policy, &settings)
            })
            .collect();
        for node in &mut nodes {
            node.up().await;
        }
        let three = Self {
            nodes,
            _bus: bus,
            _secret: secret,
        };
        for node in &three.nodes {
            three.in_contact(node).await;
        }
        three
    }

    /// Waits until a node has heard the others, as owner and as holder.
    async fn in_contact(&self, node: &Leasehold) {
        eventually("every node to hear every other", async || {
            let reply = Client::at_proxy().get(node.admin, "/fleet").await;
            assert_eq!(reply.status, StatusCode::OK);
            let status = reply.json();
            let count = |list: &str, holds: &dyn Fn(&serde_json::Value) -> bool| {
                let list = status[list].as_array().unwrap();
                list.iter().filter(|entry| holds(entry)).count()
            };
            let heard = count("contacts", &|contact| contact["in_contact"] == true);
            let folded = count("folds", &|fold| fold["age_ms"].is_u64());
            (heard >= NAMES.len() - 1 && folded >= NAMES.len() - 1).then_some(())
        })
        .await;
    }

    /// Sends so many requests to each of the nodes at once. How many were admitted in all.
    async fn admitted(&self, nodes: &[usize], each: usize, target: &'static str) -> usize {
        let mut tasks = tokio::task::JoinSet::new();
        for node in nodes {
            let port = self.nodes[*node].http;
            for _ in 0..4 {
                tasks.spawn(async move {
                    let mut admitted = 0;
                    for _ in 0..each / 4 {
                        let headers: [(&str, &[u8]); 2] = [
                            ("x-forwarded-method", b"GET"),
                            ("x-forwarded-uri", target.as_bytes()),
                        ];
                        let reply = Client::at_proxy()
                            .get_with(port, "/v1/check", &headers)
                            .await;
                        match reply.status {
                            StatusCode::OK => admitted += 1,
                            status => {
                                assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{reply:?}")
                            }
                        }
                    }
                    admitted
                });
            }
        }
        tasks.join_all().await.into_iter().sum()
    }
}

/// A15, C9, C11: a busy client gets what it paid for, wherever its requests come, and nothing more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_admit_the_limit_together() {
    admit_together(Over::Mesh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_admit_the_limit_together_over_nats() {
    admit_together(Over::Nats).await;
}

async fn admit_together(over: Over) {
    let three = Three::start(over).await;
    let mut admitted = 0;
    eventually("a busy client to get 97% of its limit", async || {
        admitted += three.admitted(&[0, 1, 2], 100, "/shared").await;
        (admitted >= UNITS * 97 / 100).then_some(())
    })
    .await;
    admitted += three.admitted(&[0, 1, 2], 100, "/shared").await;
    assert!(admitted <= UNITS, "{admitted} of {UNITS}");
    for node in &three.nodes {
        assert_eq!(
            node.metric("throttle_fleet_invariant_broken_total", &[])
                .await,
            0.0
        );
        assert_eq!(node.metric("enforcement_degraded", &[]).await, 0.0);
        assert_eq!(node.metric("throttle_fleet_members", &[]).await, 3.0);
    }
}

/// A node that crashes takes what it held with it; when it is back, it adds nothing to what there was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_and_a_restart_admit_nothing_twice() {
    crash_and_restart(Over::Mesh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_and_a_restart_admit_nothing_twice_over_nats() {
    crash_and_restart(Over::Nats).await;
}

async fn crash_and_restart(over: Over) {
    let mut three = Three::start(over).await;
    for target in ["/shared", "/durable"] {
        let mut admitted = three.admitted(&[0, 1, 2], 40, target).await;
        assert!(admitted > 0, "{target}");
        three.nodes[1].kill();
        admitted += three.admitted(&[0, 2], 40, target).await;
        three.nodes[1].up().await;
        let back = &three.nodes[1];
        three.in_contact(back).await;
        for _ in 0..4 {
            admitted += three.admitted(&[0, 1, 2], 200, target).await;
        }
        assert!(admitted <= UNITS, "{target}: {admitted} of {UNITS}");
    }
}

/// X6: spend some, replace all nodes one by one, and ask for far more than there is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_admits_nothing_twice() {
    roll(Over::Mesh).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_admits_nothing_twice_over_nats() {
    roll(Over::Nats).await;
}

async fn roll(over: Over) {
    let mut three = Three::start(over).await;
    let mut admitted = three.admitted(&[0, 1, 2], 40, "/durable").await;
    for index in 0..NAMES.len() {
        three.nodes[index].stop().await;
        three.nodes[index].up().await;
        let back = &three.nodes[index];
        three.in_contact(back).await;
        // It was started again within a second, and is not behind the clock that it had saved.
        let output = back.output();
        assert!(!output.contains("clock_behind_floor"), "{output}");
    }
    for _ in 0..3 {
        admitted += three.admitted(&[0, 1, 2], 200, "/durable").await;
    }
    assert!(admitted <= UNITS, "{admitted} of {UNITS}");
}
