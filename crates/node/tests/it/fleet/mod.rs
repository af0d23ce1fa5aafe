//! A fleet in one process: the lease protocol's threads, a mesh between them, and a real gate at each.
//!
//! What is admitted is counted here, apart from the protocol.

mod answers;
mod reload;

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gate::hash::HashSecret;
use gate::request::{Hits, Part, Request};
use gate::table::Table;
use gate::time::Now;
use gate::{Dry, Gate, Verdict};
use lease::config::Config;
use lease::id::ViewId;
use lease::node::FastPath;
use lease::view::View;
use leasehold_node::clock::Clock;
use leasehold_node::fleet::{DataDir, Fleet, Incarnation, Running, Start, Status};
use leasehold_node::peers::{
    Bounds, ClusterName, Identity, Member, Mesh, MeshSettings, NodeName, Security, Transport,
    inbox, system_chance,
};
use policy::model::Sharing;

use crate::fixture;
use crate::peers::{PATIENCE, until};

const NAMES: [&str; 3] = ["a", "b", "c"];
const UNITS: u64 = 1000;

/// Windows so long that none ends during a test, and short enough not to be durable.
const POLICY: &str = "version: 1
rules:
  - name: everyone
    by: everyone
    limits: [{rate: 1000 per 50m}]
";

/// One of them.
struct Node {
    gate: Arc<Gate>,
    clock: Clock,
    fleet: Fleet,
    running: Running,
    mesh: Arc<Mesh>,
}

fn identity(name: &str) -> Identity {
    Identity {
        cluster: ClusterName::new("test").unwrap(),
        node: NodeName::new(name).unwrap(),
    }
}

/// Starts a node for each name on meshes of this machine; each keeps its state below `folder`.
fn start(folder: &Path) -> Vec<Node> {
    start_under(folder, POLICY, Config::default())
}

/// The same under another policy, with other settings of the protocol.
fn start_under(folder: &Path, policy: &str, config: Config) -> Vec<Node> {
    let mut meshes = Vec::new();
    for name in NAMES {
        let (deliver, inbox) = inbox(Bounds::default());
        let mesh = Mesh::start(
            ([127, 0, 0, 1], 0).into(),
            Security::Plaintext(identity(name)),
            MeshSettings::default(),
            deliver,
            system_chance(),
        )
        .unwrap();
        meshes.push((name, Arc::new(mesh), inbox));
    }
    let members: Vec<Member> = meshes
        .iter()
        .map(|(name, mesh, _)| Member {
            name: NodeName::new(name).unwrap(),
            address: mesh.address().to_string(),
        })
        .collect();
    let ids = members.iter().map(|member| member.name.id()).collect();
    let view = View::fixed(ViewId(1), ids);
    meshes
        .into_iter()
        .map(|(name, mesh, inbox)| {
            mesh.set_members(&members);
            let policy = policy::file::read(policy.as_bytes()).unwrap();
            let table = Table::anonymous(NonZeroU64::new(1000).unwrap()).unwrap();
            let sharing = gate::Fleet {
                sharing: Sharing::Lease,
                revision: 1,
            };
            let secret = HashSecret::new(1, [7; 32]);
            let gate = Arc::new(Gate::in_fleet(table, &secret, &policy, sharing).unwrap());
            let clock = Clock::system(Now::default());
            let data = DataDir::open(&folder.join(name)).unwrap();
            let id = NodeName::new(name).unwrap().id();
            let start = Start {
                config: Config {
                    // The machine may be busy with other tests.
                    fast_path_deadline: Duration::from_millis(500),
                    ..config.clone()
                },
                incarnation: Incarnation::begin(&data, id, true).unwrap(),
                views: vec![view.clone()],
                members: None,
                leave_on_stop: true,
                data,
                gate: Arc::clone(&gate),
                clock: clock.clone(),
                transport: Arc::clone(&mesh) as Arc<dyn Transport>,
                inbox,
                ledger: None,
            };
            let (fleet, running) = start.run().unwrap();
            Node {
                gate,
                clock,
                fleet,
                running,
                mesh,
            }
        })
        .collect()
}

async fn status(fleet: &Fleet) -> Status {
    fleet.status(100).await.expect("the node runs")
}

fn stop(nodes: Vec<Node>) {
    for node in nodes {
        node.running.stop();
        node.mesh.close();
    }
}

/// Waits until every node has heard every other, as owner and as holder.
async fn in_contact(nodes: &[Node]) {
    let others = NAMES.len() - 1;
    for node in nodes {
        fixture::until("a node has heard the others", async || {
            let status = status(&node.fleet).await;
            let heard = status.contacts.iter().filter(|c| c.in_contact).count();
            let folded = status.folds.iter().filter(|f| f.age_ms.is_some()).count();
            heard >= others && folded >= others
        })
        .await;
    }
}

/// Decides one request; the buckets that lack credit if it was refused.
fn decide(gate: &Gate, now: Now) -> Result<(), Vec<Dry>> {
    decide_and_tell(gate, now).0
}

/// The same, and what remains.
fn decide_and_tell(gate: &Gate, now: Now) -> (Result<(), Vec<Dry>>, u64) {
    let part = Part {
        request: Request {
            method: Some("GET"),
            path: Some(b"/"),
            ..Request::default()
        },
        hits: Hits::Take(1),
    };
    let policy = gate.snapshot();
    let decision = gate.check(&policy, &[part], now);
    let remaining = decision.outcomes[0].remaining.unwrap();
    let decided = match decision.verdict {
        Verdict::Admitted => Ok(()),
        Verdict::Refused(_) => Err(decision.dry.clone()),
    };
    (decided, remaining)
}

/// Asks and asks, until the owner says that nothing is left. How many were admitted.
async fn take_all(gate: Arc<Gate>, clock: Clock, fleet: Fleet, most: u64) -> u64 {
    let mut admitted = 0;
    for _ in 0..most {
        if decide(&gate, clock.now()).is_ok() {
            admitted += 1;
            continue;
        }
        loop {
            let dry = match decide(&gate, clock.now()) {
                Ok(()) => {
                    admitted += 1;
                    break;
                }
                Err(dry) => dry,
            };
            match fleet.ask(dry).await {
                FastPath::Credit => {}
                FastPath::Exhausted => return admitted,
                FastPath::Missed => tokio::task::yield_now().await,
            }
        }
    }
    admitted
}

async fn take_everywhere(nodes: &[Node], most: u64) -> Vec<u64> {
    let mut tasks = Vec::new();
    for node in nodes {
        for _ in 0..4 {
            let (gate, clock) = (Arc::clone(&node.gate), node.clock.clone());
            let fleet = node.fleet.clone();
            tasks.push(tokio::spawn(take_all(gate, clock, fleet, most)));
        }
    }
    let mut admitted = Vec::new();
    for task in tasks {
        admitted.push(fixture::soon("a client", task).await.unwrap());
    }
    admitted
}

/// A15, C9, C11 with real threads and sockets: three nodes are asked for far more than the limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn together_three_nodes_admit_the_limit_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = start(folder.path());
    in_contact(&nodes).await;
    let mut sum = 0;
    let busy = async {
        // "Nothing left" is said of one moment: what one node gives back, another may have.
        while sum < UNITS * 97 / 100 {
            sum += take_everywhere(&nodes, UNITS).await.iter().sum::<u64>();
        }
    };
    let within = tokio::time::timeout(PATIENCE, busy).await;
    assert!(
        within.is_ok(),
        "clients that go on asking got {sum} of {UNITS}"
    );
    sum += take_everywhere(&nodes, UNITS).await.iter().sum::<u64>();
    assert!(sum <= UNITS, "{sum} of {UNITS}");
    for node in &nodes {
        let status = status(&node.fleet).await;
        assert_eq!(status.ledger.buckets, status.ledger.reconciled);
        assert_eq!(status.unreconciled, []);
    }
    for node in nodes {
        node.running.stop();
        node.mesh.close();
        assert!(node.fleet.status(1).await.is_none());
        assert_eq!(node.fleet.ask(Vec::new()).await, FastPath::Missed);
    }
}

/// A node that stops takes its credit with it, and its restart gives none of that back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_goes_and_comes_back_adds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let nodes = start(folder.path());
    in_contact(&nodes).await;
    let before: u64 = take_everywhere(&nodes, UNITS / 40).await.iter().sum();
    stop(nodes);
    // All of them, with tables that are empty and floors that are kept.
    let nodes = start(folder.path());
    in_contact(&nodes).await;
    for node in &nodes {
        assert_eq!(status(&node.fleet).await.starts, 2);
    }
    let mut after = 0;
    for node in &nodes {
        if decide(&node.gate, node.clock.now()).is_ok() {
            after += 1;
        }
    }
    assert!(before > 0);
    // Nobody has the authority to issue for a window that began before: the units that are left are lost, not doubled.
    assert_eq!(after, 0);
    until(
        || {
            nodes
                .iter()
                .all(|node| node.fleet.figures().stats.rounds > 0)
        },
        "figures are put up",
    )
    .await;
    stop(nodes);
}
