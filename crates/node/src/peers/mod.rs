//! How nodes of a fleet reach each other: one trait for all transports, and what they share.
//!
//! A transport carries frames and says who sent them. It may lose, delay, double and reorder frames, since the lease
//! protocol is made for that; it must never make one up, never say that it came from anybody but who proved to have
//! sent it, and never make a sender wait.

mod credentials;
mod identity;
mod inbox;
mod mesh;
mod name;
pub mod nats;
mod open;
mod queue;
mod start;
mod traffic;

use std::fmt;

use bytes::Bytes;
use lease::id::NodeId;

pub use self::credentials::{Credentials, CredentialsError, TlsFiles};
pub use self::identity::{Identity, IdentityError};
pub use self::inbox::{Deliver, Frame, Inbox, inbox};
pub use self::mesh::{Chance, Mesh, MeshError, MeshSettings, Security};
pub use self::name::{ClusterName, Member, NameError, NodeName};
pub use self::open::{OpenError, open};
pub use self::queue::{Bounds, Queue};
pub use self::start::{NatsStartError, connect_nats, start_mesh, start_nats, system_chance};
pub use self::traffic::{Traffic, TrafficCounts};

/// The largest frame that is sent or taken, in bytes.
pub const MOST_FRAME_BYTES: usize = wire::peer::MOST_BYTES;

/// Carries frames to the other members. What it receives comes out of the [`Inbox`] that it was made with.
///
/// One task owns the lease protocol's node; it sends through this and receives from the inbox. All methods return at
/// once.
pub trait Transport: fmt::Debug + Send + Sync {
    /// Queues a frame for a member. The queue is bounded: when it is full the oldest frame goes, and is counted.
    ///
    /// # Errors
    /// [`SendError`]; the frame is not queued. That a member cannot be reached is no error: see [`PeerStatus::link`].
    fn send(&self, to: NodeId, frame: Bytes) -> Result<(), SendError>;

    /// Takes up the members of a new list, and drops those that are not in it. This node itself may be in it, and is
    /// passed over. Frames of nodes that are not members are refused.
    fn set_members(&self, members: &[Member]);

    /// How things stand with each member, in the order of their names.
    fn peers(&self) -> Vec<PeerStatus>;

    /// Ends all connections and refuses new ones. What is queued is dropped; the inbox is closed.
    fn close(&self);
}

/// Why a frame was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// Nobody of that id is a member.
    #[error("node {:016x} is not a member", .0.0)]
    NotAMember(NodeId),
    /// The frame is too large.
    #[error("a frame of {bytes} bytes is too large, at most {MOST_FRAME_BYTES}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The transport was closed.
    #[error("the transport is closed")]
    Closed,
}

/// Whether a member can be reached, as far as this node's own side of the way knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Not connected; another attempt follows.
    Down,
    /// An attempt is under way.
    Connecting,
    /// Connected: what is sent now leaves at once.
    Up,
}

impl Link {
    /// The word for metrics and status pages.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Connecting => "connecting",
            Self::Up => "up",
        }
    }
}

/// How things stand with one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// Its name.
    pub name: NodeName,
    /// Whether it can be reached.
    pub link: Link,
    /// What was sent and received since this node knew it.
    pub traffic: TrafficCounts,
}
