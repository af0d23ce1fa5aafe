//! Frames by way of a NATS server: a subject for each pair of sender and receiver.
//!
//! A receiver of NATS cannot see who published. So the sender's name is part of the subject,
//! `leasehold.CLUSTER.from.SENDER.to.RECEIVER`, and the server's permissions let each node publish under its own name
//! only: see `docs/nats.md`. A frame must never count as from anybody but the node whose name its subject has.
//!
//! Names are written as [`token`]s, so that a dot in a name does not divide the subject.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::{Message, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt as _;
use lease::id::NodeId;
use store::nats::{LinkState, NatsLink, token};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::{
    Bounds, ClusterName, Deliver, Link, MOST_FRAME_BYTES, Member, NodeName, PeerStatus, Queue,
    SendError, Traffic, Transport,
};

/// How often a refused subscription is tried again: the server does not say when its permissions have changed.
const AGAIN: Duration = Duration::from_secs(2);

/// Who this node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsPeersSettings {
    /// The fleet.
    pub cluster: ClusterName,
    /// This node.
    pub name: NodeName,
    /// The bounds of what waits to be sent, for each member.
    pub bounds: Bounds,
}

/// The other members, by way of NATS.
#[derive(Debug)]
pub struct NatsPeers {
    shared: Arc<Shared>,
    runtime: Handle,
}

#[derive(Debug)]
struct Shared {
    settings: NatsPeersSettings,
    link: NatsLink,
    deliver: Deliver,
    /// Frames of senders that are no members, or with a subject that is none of ours.
    strangers: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    peers: BTreeMap<NodeId, Peer>,
    /// From the sender's token to its id.
    tokens: BTreeMap<String, NodeId>,
    receiving: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Peer {
    name: NodeName,
    queue: Arc<Queue>,
    traffic: Arc<Traffic>,
    sending: JoinHandle<()>,
}

impl Peer {
    /// Drops what is queued, and sends no more.
    fn end(&self) {
        self.queue.close();
        self.sending.abort();
    }
}

impl NatsPeers {
    /// Begins to receive; members are to be set. The server may be away, now or later: see [`Self::link`].
    ///
    /// To be called on a Tokio runtime.
    #[must_use]
    pub fn start(settings: NatsPeersSettings, link: NatsLink, deliver: Deliver) -> Self {
        let shared = Arc::new(Shared {
            settings,
            link,
            deliver,
            strangers: AtomicU64::new(0),
            state: Mutex::default(),
        });
        let receiving = tokio::spawn(receive(Arc::clone(&shared)));
        shared.state().receiving = Some(receiving);
        Self {
            shared,
            runtime: Handle::current(),
        }
    }

    /// How the connection to the server stands.
    #[must_use]
    pub fn link(&self) -> LinkState {
        self.shared.link.state()
    }

    /// Frames that were refused because their sender is no member.
    #[must_use]
    pub fn refused_strangers(&self) -> u64 {
        self.shared.strangers.load(Relaxed)
    }
}

/// The subject of frames from one node to another.
#[must_use]
pub fn subject(cluster: &ClusterName, from: &NodeName, to: &NodeName) -> String {
    format!(
        "leasehold.{}.from.{}.to.{}",
        token(cluster.as_str()),
        token(from.as_str()),
        token(to.as_str())
    )
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this node listens to: frames for it, from whomever.
    fn incoming(&self) -> String {
        format!(
            "leasehold.{}.from.*.to.{}",
            token(self.settings.cluster.as_str()),
            token(self.settings.name.as_str())
        )
    }

    fn take(&self, message: Message) {
        let mut tokens = message.subject.split('.');
        // The server has matched the rest of the subject with our subscription.
        let sender = tokens.nth(3);
        let known = {
            let state = self.state();
            sender
                .and_then(|token| state.tokens.get(token))
                .and_then(|id| {
                    state
                        .peers
                        .get(id)
                        .map(|peer| (*id, Arc::clone(&peer.traffic)))
                })
        };
        match known {
            None => {
                self.strangers.fetch_add(1, Relaxed);
            }
            Some((_, traffic)) if message.payload.len() > MOST_FRAME_BYTES => traffic.refused(),
            Some((id, traffic)) => {
                let bytes = message.payload.len();
                let dropped = self.deliver.deliver(id, message.payload);
                traffic.received(bytes, dropped);
            }
        }
    }
}

/// Takes what comes, until the transport is closed.
async fn receive(shared: Arc<Shared>) {
    let subject = shared.incoming();
    let client = shared.link.client();
    let mut seen_errors = shared.link.state().errors;
    let mut subscription: Option<Subscriber> = None;
    let mut ticks = tokio::time::interval(AGAIN);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let Some(open) = &mut subscription else {
            // Waits for room in the client's queue; the client subscribes again by itself whenever it reconnects.
            subscription = client.subscribe(subject.clone()).await.ok();
            if subscription.is_none() {
                ticks.tick().await;
            }
            continue;
        };
        tokio::select! {
            message = open.next() => match message {
                Some(message) => shared.take(message),
                None => subscription = None,
            },
            _ = ticks.tick() => {
                let LinkState { errors, last_error, .. } = shared.link.state();
                let refused = last_error
                    .is_some_and(|error| error.to_lowercase().contains("permissions violation for subscription"));
                if refused && errors != seen_errors {
                    subscription = None;
                }
                seen_errors = errors;
            }
        }
    }
}

/// Sends what is queued for one member, until it is aborted.
async fn send(shared: Arc<Shared>, subject: String, queue: Arc<Queue>, traffic: Arc<Traffic>) {
    let mut connects = 0;
    loop {
        // While there is no connection frames stay in the queue, where newer ones push out older ones.
        shared.link.until_connected().await;
        let now = shared.link.state().connects;
        if connects != now {
            connects = now;
            traffic.connected();
        }
        let Some(frame) = queue.pop().await else {
            return;
        };
        let bytes = frame.len();
        match shared.link.client().publish(subject.clone(), frame).await {
            Ok(()) => traffic.sent(bytes),
            Err(_) => {
                traffic.failed();
                traffic.dropped_out(1);
            }
        }
    }
}

impl Transport for NatsPeers {
    fn send(&self, to: NodeId, frame: Bytes) -> Result<(), SendError> {
        if frame.len() > MOST_FRAME_BYTES {
            return Err(SendError::TooLarge { bytes: frame.len() });
        }
        let state = self.shared.state();
        if state.closed {
            return Err(SendError::Closed);
        }
        let peer = state.peers.get(&to).ok_or(SendError::NotAMember(to))?;
        let dropped = peer.queue.push(frame);
        if dropped > 0 {
            peer.traffic.dropped_out(dropped);
        }
        Ok(())
    }

    fn set_members(&self, members: &[Member]) {
        let Shared { settings, .. } = &*self.shared;
        let mut state = self.shared.state();
        if state.closed {
            return;
        }
        let wanted: BTreeMap<NodeId, &NodeName> = members
            .iter()
            .map(|member| (member.name.id(), &member.name))
            .filter(|(id, _)| *id != settings.name.id())
            .collect();
        let State { peers, tokens, .. } = &mut *state;
        peers.retain(|id, peer| {
            let stays = wanted.get(id) == Some(&&peer.name);
            if !stays {
                peer.end();
                self.shared.deliver.forget(*id);
            }
            stays
        });
        tokens.clear();
        for (id, name) in wanted {
            tokens.insert(token(name.as_str()), id);
            peers.entry(id).or_insert_with(|| {
                let queue = Arc::new(Queue::new(settings.bounds));
                let traffic = Arc::new(Traffic::default());
                let sending = self.runtime.spawn(send(
                    Arc::clone(&self.shared),
                    subject(&settings.cluster, &settings.name, name),
                    Arc::clone(&queue),
                    Arc::clone(&traffic),
                ));
                Peer {
                    name: name.clone(),
                    queue,
                    traffic,
                    sending,
                }
            });
        }
    }

    fn peers(&self) -> Vec<PeerStatus> {
        let LinkState {
            connected,
            connects,
            ..
        } = self.shared.link.state();
        let link = match (connected, connects) {
            (true, _) => Link::Up,
            (false, 0) => Link::Connecting,
            (false, _) => Link::Down,
        };
        let mut statuses: Vec<PeerStatus> = self
            .shared
            .state()
            .peers
            .values()
            .map(|peer| PeerStatus {
                name: peer.name.clone(),
                link,
                traffic: peer.traffic.counts(),
            })
            .collect();
        statuses.sort_by(|one, other| one.name.cmp(&other.name));
        statuses
    }

    fn close(&self) {
        let mut state = self.shared.state();
        state.closed = true;
        for peer in state.peers.values() {
            peer.end();
        }
        state.peers.clear();
        state.tokens.clear();
        if let Some(receiving) = state.receiving.take() {
            receiving.abort();
        }
        self.shared.deliver.close();
    }
}

impl Drop for NatsPeers {
    fn drop(&mut self) {
        self.close();
    }
}
