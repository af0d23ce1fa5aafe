//! A fleet of real nodes whose wires can be cut.

use std::path::PathBuf;

use http::StatusCode;
use tempfile::TempDir;

use super::bus::Bus;
use super::relay::{Open, Relay};
use crate::harness::client::Client;
use crate::harness::leasehold::Leasehold;
use crate::harness::{eventually, free_port};

/// What carries what nodes say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Mesh,
    Nats,
}

/// Nodes named `n0`, `n1` and so on.
pub struct Fleet {
    pub nodes: Vec<Leasehold>,
    bus: Option<Bus>,
    wires: Vec<Wire>,
    _files: TempDir,
}

/// What a node's own connections to another go through, or those to the bus.
struct Wire {
    from: usize,
    to: Option<usize>,
    relay: Relay,
}

/// Which ways a node is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// It neither hears nor is heard.
    Off,
    /// It hears the others, and is not heard.
    Mute,
    /// It is heard, and hears nobody.
    Deaf,
}

impl Fleet {
    /// Starts so many nodes under one policy, and waits until all are in contact.
    pub async fn start(count: usize, transport: Transport, policy: &str) -> Self {
        let files = TempDir::new().unwrap();
        let secret: PathBuf = files.path().join("secret");
        std::fs::write(&secret, "7".repeat(64)).unwrap();
        let mut wires = Vec::new();
        let mut bus = None;
        let peers = match transport {
            Transport::Mesh => mesh(count, &mut wires).await,
            Transport::Nats => {
                let bus = bus.insert(Bus::prepare());
                bus.up().await;
                over_bus(count, bus.port, &mut wires).await
            }
        };
        let nodes = peers.iter().enumerate().map(|(index, peers)| {
            let settings = format!(
                "secret = \"file:{}\"\n\
                 drain.grace_ms = 0\n\
                 log.access = \"off\"\n\
                 answer.dialect = \"github\"\n\
                 [fleet]\ncluster = \"test\"\nnode = \"n{index}\"\n\
                 data_dir = \"{}/n{index}\"\nfirst_start = true\n{peers}",
                secret.display(),
                files.path().display(),
            );
            Leasehold::prepare(policy, &settings)
        });
        let mut fleet = Self {
            nodes: nodes.collect(),
            bus,
            wires,
            _files: files,
        };
        for node in &mut fleet.nodes {
            node.spawn();
        }
        for node in &mut fleet.nodes {
            node.ready().await;
        }
        for index in 0..count {
            fleet.in_contact(index).await;
        }
        fleet
    }

    /// Where the operators' surfaces are.
    pub fn urls(&self) -> Vec<String> {
        let url = |node: &Leasehold| format!("http://127.0.0.1:{}", node.admin);
        self.nodes.iter().map(url).collect()
    }

    /// What a node says of its fleet.
    pub async fn status(&self, index: usize) -> serde_json::Value {
        let reply = Client::at_proxy()
            .get(self.nodes[index].admin, "/fleet")
            .await;
        assert_eq!(reply.status, StatusCode::OK);
        reply.json()
    }

    /// How many members a node is in contact with, as holder, itself left out.
    pub async fn contacts(&self, index: usize) -> usize {
        let status = self.status(index).await;
        let contacts = status["contacts"].as_array().unwrap();
        let others = contacts.iter().filter(|it| it["node"] != status["node"]);
        others.filter(|it| it["in_contact"] == true).count()
    }

    /// Waits until a node is in contact with all others.
    pub async fn in_contact(&self, index: usize) {
        let others = self.nodes.len() - 1;
        eventually("a node to be in contact with all others", async || {
            (self.contacts(index).await == others).then_some(())
        })
        .await;
    }

    /// Cuts a node's wires.
    pub fn cut(&self, node: usize, cut: Cut) {
        for wire in &self.wires {
            let own = wire.from == node;
            let open = match (cut, wire.to) {
                (Cut::Off, to) => (own || to == Some(node)).then_some(Open::NEITHER),
                // Frames go one way only through each node's own connections.
                (Cut::Mute, Some(_)) => own.then_some(Open::NEITHER),
                (Cut::Deaf, Some(to)) => (to == node).then_some(Open::NEITHER),
                (Cut::Mute, None) => own.then_some(Open::BACKWARD),
                (Cut::Deaf, None) => own.then_some(Open::FORWARD),
            };
            if let Some(open) = open {
                wire.relay.set(open);
            }
        }
    }

    /// Mends all wires.
    pub fn mend(&self) {
        for wire in &self.wires {
            wire.relay.set(Open::BOTH);
        }
    }

    /// The bus, if there is one.
    pub fn bus(&mut self) -> &mut Bus {
        self.bus.as_mut().expect("the test has a fleet on a bus")
    }
}

/// Wires from each node to each other. The settings of each node.
async fn mesh(count: usize, wires: &mut Vec<Wire>) -> Vec<String> {
    let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
    let mut peers = Vec::new();
    for from in 0..count {
        let mut members = Vec::new();
        for (to, port) in ports.iter().enumerate() {
            let mut port = *port;
            if from != to {
                let relay = Relay::to(port).await;
                port = relay.port;
                let to = Some(to);
                wires.push(Wire { from, to, relay });
            }
            members.push(format!(
                "{{ name = \"n{to}\", address = \"127.0.0.1:{port}\" }}"
            ));
        }
        peers.push(format!(
            "members = [{}]\n[peers]\nlisten = \"127.0.0.1:{}\"\ninsecure = true\n",
            members.join(", "),
            ports[from]
        ));
    }
    peers
}

/// Wires from each node to the bus. The settings of each node.
async fn over_bus(count: usize, bus: u16, wires: &mut Vec<Wire>) -> Vec<String> {
    let members: Vec<String> = (0..count)
        .map(|index| format!("{{ name = \"n{index}\" }}"))
        .collect();
    let mut peers = Vec::new();
    for from in 0..count {
        let relay = Relay::to(bus).await;
        peers.push(format!(
            "members = [{}]\n[nats]\nservers = [\"nats://127.0.0.1:{}\"]\nplaintext = true\n",
            members.join(", "),
            relay.port
        ));
        let to = None;
        wires.push(Wire { from, to, relay });
    }
    peers
}
