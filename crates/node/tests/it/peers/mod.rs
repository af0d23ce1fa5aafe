//! Transports between nodes: what all of them must do (`conformance`), run over each, and what is each one's own.

mod certificates;
mod conformance;
mod mesh;
mod nats;

use std::time::Duration;

use bytes::Bytes;
use lease::id::{Epoch, NodeId, ViewId};
use lease::message::{Envelope, SCHEMA};
use lease::time::Wall;
use leasehold_node::peers::{Inbox, Link, NodeName, PeerStatus, Transport};

/// A node's end of a transport, as the protocol's task has it.
pub struct Station {
    pub name: NodeName,
    pub transport: Box<dyn Transport>,
    pub inbox: Inbox,
}

impl Station {
    pub fn id(&self) -> NodeId {
        self.name.id()
    }

    pub fn peer(&self, name: &str) -> PeerStatus {
        let peers = self.transport.peers();
        let found = peers.into_iter().find(|peer| peer.name.as_str() == name);
        found.unwrap_or_else(|| panic!("{name} is a member"))
    }

    pub fn send(&self, to: &str, bytes: impl Into<Bytes>) {
        self.transport.send(id(to), bytes.into()).unwrap();
    }

    /// Sends until the other end has something.
    pub async fn reach(&self, other: &mut Self, bytes: &'static [u8]) {
        let reached = async {
            loop {
                self.send(other.name.as_str(), bytes);
                let short = Duration::from_millis(20);
                if let Ok(frame) = tokio::time::timeout(short, other.inbox.receive()).await {
                    let frame = frame.unwrap();
                    if frame.from == self.id() && frame.bytes == bytes {
                        break;
                    }
                }
            }
        };
        let within = tokio::time::timeout(PATIENCE, reached).await;
        within.unwrap_or_else(|_| panic!("{} does not reach {}", self.name, other.name));
    }

    pub async fn up(&self, name: &str) {
        until(|| self.peer(name).link == Link::Up, "the link is up").await;
    }
}

pub const PATIENCE: Duration = Duration::from_secs(20);

/// Polls a condition.
pub async fn until(mut holds: impl FnMut() -> bool, what: &str) {
    let polled = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let within = tokio::time::timeout(PATIENCE, polled).await;
    within.unwrap_or_else(|_| panic!("not in time: {what}"));
}

pub fn id(name: &str) -> NodeId {
    NodeName::new(name).unwrap().id()
}

/// An envelope that says nothing but from and to whom it is.
pub fn envelope(from: &str, to: &str) -> Bytes {
    let envelope = Envelope {
        schema: SCHEMA,
        view: ViewId(1),
        from: id(from),
        epoch: Epoch { count: 1, nonce: 2 },
        to: id(to),
        sent_at: Wall(3),
        report: None,
        grant: None,
    };
    wire::peer::encode(&envelope).unwrap()
}
