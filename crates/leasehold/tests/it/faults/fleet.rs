//! A fleet of real nodes whose wires can be cut.

use std::path::PathBuf;

use http::StatusCode;
use tempfile::TempDir;

use super::relay::{Open, Relay};
use crate::harness::client::Client;
use crate::harness::leasehold::Leasehold;
use crate::harness::{eventually, free_port};

/// What carries what nodes say to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Mesh,
}

/// Nodes named `n0`, `n1` and so on.
pub struct Fleet {
    pub nodes: Vec<Leasehold>,
    wires: Vec<Wire>,
    _files: TempDir,
}

/// What one node's own connections to another go through.
struct Wire {
    from: usize,
    to: usize,
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
        let ports: Vec<u16> = (0..count).map(|_| free_port()).collect();
        let mut wires = Vec::new();
        let mut nodes = Vec::new();
        for from in 0..count {
            let mut members = Vec::new();
            for (to, port) in ports.iter().enumerate() {
                let mut port = *port;
                if from != to {
                    let relay = Relay::to(port).await;
                    port = relay.port;
                    wires.push(Wire { from, to, relay });
                }
                members.push(format!(
                    "{{ name = \"n{to}\", address = \"127.0.0.1:{port}\" }}"
                ));
            }
            let peers = match transport {
                Transport::Mesh => format!(
                    "[peers]\nlisten = \"127.0.0.1:{}\"\ninsecure = true\n",
                    ports[from]
                ),
            };
            let settings = format!(
                "secret = \"file:{}\"\n\
                 drain.grace_ms = 0\n\
                 log.access = \"off\"\n\
                 answer.dialect = \"github\"\n\
                 [fleet]\ncluster = \"test\"\nnode = \"n{from}\"\nmembers = [{}]\n\
                 data_dir = \"{}/n{from}\"\nfirst_start = true\n{peers}",
                secret.display(),
                members.join(", "),
                files.path().display(),
            );
            nodes.push(Leasehold::prepare(policy, &settings));
        }
        let mut fleet = Self {
            nodes,
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
            let (out, into) = (wire.from == node, wire.to == node);
            let cut = match cut {
                Cut::Off => out || into,
                Cut::Mute => out,
                Cut::Deaf => into,
            };
            if cut {
                wire.relay.set(Open::NEITHER);
            }
        }
    }

    /// Mends all wires.
    pub fn mend(&self) {
        for wire in &self.wires {
            wire.relay.set(Open::BOTH);
        }
    }
}
