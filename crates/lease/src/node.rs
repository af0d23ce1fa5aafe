//! The protocol's one entrance: inputs, outputs, and the node that turns one into the other.

use crate::bucket::Bucket;
use crate::id::NodeId;
use crate::message::Envelope;
use crate::terms::Terms;
use crate::time::Wall;

/// What a node is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// The time has come that [`Output`]s were promised for; harmless at any other.
    Timeout,
    /// Another node said this. `from` is who the transport proved it to be.
    Message {
        /// The proven sender.
        from: NodeId,
        /// What it said.
        envelope: Box<Envelope>,
    },
    /// A request found too little credit and waits: the fast path.
    Need {
        /// Where.
        bucket: Bucket,
        /// Under which terms.
        terms: Terms,
        /// How many units it wants.
        cost: u64,
    },
    /// The clock floor is on disk.
    FloorSaved(Wall),
}

/// What a node wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this.
    Send(Box<Envelope>),
    /// Wake the requests that wait for a bucket.
    Wake {
        /// Which.
        bucket: Bucket,
        /// What became of it.
        outcome: FastPath,
    },
    /// Write this clock floor to disk, then say so.
    SaveFloor(Wall),
}

/// How a fast-path question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPath {
    /// Credit was installed: try again.
    Credit,
    /// The owner has nothing left in this window.
    Exhausted,
    /// No answer within the deadline, or nobody to ask.
    Missed,
}
