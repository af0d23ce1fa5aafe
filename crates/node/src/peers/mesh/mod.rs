//! The mesh: each node connects to each other one, over TLS, and sends its frames on the connection that it made.
//!
//! So each pair has two connections, one for each direction: nobody has to agree on who connects, either direction can
//! fail alone without confusing the other, and no two senders share the one lock that an HTTP/2 connection has. Who a
//! peer is, is what its certificate says, never what it says itself.

mod accept;
mod backoff;
mod dial;
mod member;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use lease::id::NodeId;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::AbortHandle;

use self::member::Peer;
use super::credentials::{Credentials, CredentialsError};
use super::identity::Identity;
use super::inbox::Deliver;
use super::name::Member;
use super::queue::Bounds;
use super::traffic::{Traffic, TrafficCounts};
use super::{MOST_FRAME_BYTES, PeerStatus, SendError, Transport};

/// Random bits, for the jitter of reconnections.
pub type Chance = Arc<dyn Fn() -> u64 + Send + Sync>;

/// How the mesh waits and what it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeshSettings {
    /// How long a connection may take to be made, at either end, with its handshake.
    pub connect_timeout: Duration,
    /// After how long a silent connection is asked whether it lives.
    pub keepalive_interval: Duration,
    /// How long that may go unanswered.
    pub keepalive_timeout: Duration,
    /// The wait after the first failure to connect; it doubles with each.
    pub backoff_least: Duration,
    /// The longest wait.
    pub backoff_most: Duration,
    /// What may wait to be sent to one member.
    pub queue: Bounds,
}

impl Default for MeshSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(2),
            keepalive_interval: Duration::from_secs(1),
            keepalive_timeout: Duration::from_secs(2),
            backoff_least: Duration::from_millis(50),
            backoff_most: Duration::from_secs(2),
            queue: Bounds::default(),
        }
    }
}

/// How peers prove who they are.
#[derive(Clone, Debug)]
pub enum Security {
    /// By certificates, at both ends.
    Tls(Arc<Credentials>),
    /// Not at all: they are believed. On loopback addresses only, for trying things out.
    Plaintext(Identity),
}

impl Security {
    fn identity(&self) -> &Identity {
        match self {
            Self::Tls(credentials) => credentials.identity(),
            Self::Plaintext(identity) => identity,
        }
    }
}

/// Why a mesh did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeshError {
    /// The address cannot be listened on.
    #[error("`peers.listen`: {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// Without proof of who a peer is, the mesh keeps to the machine.
    #[error("`peers.listen`: {address} is no loopback address, which `peers.insecure` demands")]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// The certificate, its key or the authorities are not usable.
    #[error("`peers.tls`: {0}")]
    Credentials(#[from] CredentialsError),
}

/// A mesh that runs. Dropping it ends it.
pub struct Mesh {
    shared: Arc<Shared>,
    address: SocketAddr,
    /// Tasks that end with the mesh.
    tasks: Vec<AbortHandle>,
}

/// What all tasks of a mesh work with.
struct Shared {
    settings: MeshSettings,
    security: Security,
    chance: Chance,
    deliver: Deliver,
    peers: ArcSwap<BTreeMap<NodeId, Arc<Peer>>>,
    /// Held while the list of members changes. True once the mesh is closed.
    closed: Mutex<bool>,
    /// What those did who are no members, or did not prove to be one.
    strangers: Traffic,
}

impl fmt::Debug for Mesh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mesh")
            .field("me", self.shared.me())
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn me(&self) -> &Identity {
        self.security.identity()
    }

    fn member(&self, id: NodeId) -> Option<Arc<Peer>> {
        self.peers.load().get(&id).cloned()
    }
}

impl Mesh {
    /// Listens, and connects to the members once there are some. What comes in goes to `deliver`. Needs a Tokio
    /// runtime.
    ///
    /// # Errors
    /// [`MeshError`].
    pub fn start(
        listen: SocketAddr,
        security: Security,
        settings: MeshSettings,
        deliver: Deliver,
        chance: Chance,
    ) -> Result<Self, MeshError> {
        if let Security::Plaintext(_) = security {
            if !listen.ip().is_loopback() {
                return Err(MeshError::NotLoopback { address: listen });
            }
            tracing::warn!(
                event = "peers_insecure",
                "`peers.insecure` is set: any process of this machine can forge credit"
            );
        }
        let (socket, address) = bind(listen).map_err(|source| MeshError::Bind {
            address: listen,
            source,
        })?;
        let shared = Arc::new(Shared {
            settings,
            security,
            chance,
            deliver,
            peers: ArcSwap::default(),
            closed: Mutex::new(false),
            strangers: Traffic::default(),
        });
        let accepting = tokio::spawn(accept::run(socket, Arc::clone(&shared))).abort_handle();
        tracing::info!(event = "listening", surface = "peers", %address);
        Ok(Self {
            shared,
            address,
            tasks: vec![accepting],
        })
    }

    /// Where it really listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has a task end with the mesh.
    pub(super) fn ends_with_it(&mut self, task: AbortHandle) {
        self.tasks.push(task);
    }

    /// What came from those who are no members, or did not prove to be one.
    #[must_use]
    pub fn strangers(&self) -> TrafficCounts {
        self.shared.strangers.counts()
    }
}

fn bind(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // So that a node that starts again need not wait for the connections of the one before to be forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    let socket = socket.listen(1024)?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

impl Transport for Mesh {
    fn send(&self, to: NodeId, frame: Bytes) -> Result<(), SendError> {
        if frame.len() > MOST_FRAME_BYTES {
            let bytes = frame.len();
            return Err(SendError::TooLarge { bytes });
        }
        let peers = self.shared.peers.load();
        let Some(peer) = peers.get(&to) else {
            let closed = *self
                .shared
                .closed
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            return Err(if closed {
                SendError::Closed
            } else {
                SendError::NotAMember(to)
            });
        };
        let dropped = peer.queue.push(frame);
        peer.traffic.dropped_out(dropped);
        Ok(())
    }

    fn set_members(&self, members: &[Member]) {
        let shared = &self.shared;
        let closed = shared.closed.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return;
        }
        let before = shared.peers.load_full();
        let mut peers = BTreeMap::new();
        let others = members
            .iter()
            .filter(|member| member.name != shared.me().node);
        for member in others {
            let id = member.name.id();
            let kept = before.get(&id).filter(|peer| peer.is(member)).cloned();
            let peer = kept.unwrap_or_else(|| {
                let peer = Arc::new(Peer::new(member, shared.settings.queue));
                let connecting = dial::keep_connected(Arc::clone(shared), Arc::clone(&peer));
                peer.connect_by(tokio::spawn(connecting).abort_handle());
                peer
            });
            peers.insert(id, peer);
        }
        for (id, peer) in before.iter() {
            if peers.get(id).is_none_or(|now| !Arc::ptr_eq(now, peer)) {
                peer.end();
            }
            if !peers.contains_key(id) {
                shared.deliver.forget(*id);
            }
        }
        shared.peers.store(Arc::new(peers));
    }

    fn peers(&self) -> Vec<PeerStatus> {
        let mut all: Vec<PeerStatus> = self
            .shared
            .peers
            .load()
            .values()
            .map(|peer| peer.status())
            .collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn close(&self) {
        let mut closed = self
            .shared
            .closed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *closed = true;
        self.tasks.iter().for_each(AbortHandle::abort);
        for peer in self.shared.peers.swap(Arc::default()).values() {
            peer.end();
        }
        self.shared.deliver.close();
    }
}

impl Drop for Mesh {
    fn drop(&mut self) {
        self.close();
    }
}
