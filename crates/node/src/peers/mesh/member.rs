//! One member as the mesh knows it: its queue, its counters, and the tasks that speak with it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::task::AbortHandle;

use super::super::name::{Member, NodeName};
use super::super::queue::{Bounds, Queue};
use super::super::traffic::Traffic;
use super::super::{Link, PeerStatus};

/// The most connections that one member may have made to this node. One is in use; another may be half dead, or a
/// process that runs under the same name by mistake, which the protocol can only tell us of if it is heard.
const MOST_CONNECTIONS: usize = 4;

const LINKS: [Link; 3] = [Link::Down, Link::Connecting, Link::Up];

#[derive(Debug)]
pub(super) struct Peer {
    pub name: NodeName,
    pub address: String,
    pub queue: Queue,
    pub traffic: Traffic,
    /// A place in [`LINKS`]. Relaxed: it is shown, and orders nothing.
    link: AtomicU8,
    /// No member any more. Relaxed: whoever reads it late refuses one frame later.
    gone: AtomicBool,
    connecting: Mutex<Option<AbortHandle>>,
    /// The connections that it made, the oldest first.
    accepted: Mutex<VecDeque<AbortHandle>>,
}

impl Peer {
    pub fn new(member: &Member, queue: Bounds) -> Self {
        Self {
            name: member.name.clone(),
            address: member.address.clone(),
            queue: Queue::new(queue),
            traffic: Traffic::default(),
            link: AtomicU8::new(0),
            gone: AtomicBool::new(false),
            connecting: Mutex::default(),
            accepted: Mutex::default(),
        }
    }

    /// Whether this is that member, at that address.
    pub fn is(&self, member: &Member) -> bool {
        self.name == member.name && self.address == member.address
    }

    pub fn set_link(&self, link: Link) {
        let place = match link {
            Link::Down => 0,
            Link::Connecting => 1,
            Link::Up => 2,
        };
        self.link.store(place, Ordering::Relaxed);
    }

    pub fn status(&self) -> PeerStatus {
        PeerStatus {
            name: self.name.clone(),
            link: LINKS[usize::from(self.link.load(Ordering::Relaxed))],
            traffic: self.traffic.counts(),
        }
    }

    /// The task that connects to it.
    pub fn connect_by(&self, task: AbortHandle) {
        *self
            .connecting
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// A connection that it made; the oldest of too many is ended.
    pub fn accept(&self, connection: AbortHandle) {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.retain(|connection| !connection.is_finished());
        accepted.push_back(connection);
        if accepted.len() > MOST_CONNECTIONS
            && let Some(oldest) = accepted.pop_front()
        {
            oldest.abort();
        }
        if self.is_gone() {
            accepted.drain(..).for_each(|connection| connection.abort());
        }
    }

    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// It is no member any more.
    pub fn end(&self) {
        self.gone.store(true, Ordering::Relaxed);
        let connecting = self
            .connecting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(connecting) = connecting {
            connecting.abort();
        }
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.drain(..).for_each(|connection| connection.abort());
        self.queue.close();
        self.set_link(Link::Down);
    }
}
