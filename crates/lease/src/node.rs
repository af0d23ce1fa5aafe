//! The protocol's one entrance: inputs, outputs, and the node that turns one into the other.
//!
//! Call [`Node::handle`] with what happened, then take every output, in order, and ask [`Node::poll_timeout`] when to
//! come back. A `handle` too many is harmless.

use std::collections::VecDeque;

use thiserror::Error;

use crate::audit::{Contact, Fold, Held, Owned};
use crate::bucket::{Bucket, Subject};
use crate::config::{Config, ConfigError};
use crate::credit::Credit;
use crate::id::{Epoch, NodeId, ViewId};
use crate::message::Envelope;
use crate::stats::Stats;
use crate::terms::Terms;
use crate::time::{Instant, Now, Wall};
use crate::view::{View, ViewError};

/// What a node is told.
#[derive(Clone, Debug)]
pub enum Input {
    /// The time has come that [`Node::poll_timeout`] named; harmless at any other.
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
    /// A new policy has other terms for a key that is in use.
    Terms {
        /// The key and limit.
        subject: Subject,
        /// What holds now.
        terms: Terms,
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
    /// Something that an operator should hear of.
    Event(Event),
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

/// What an operator should hear of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The clock is behind the floor: the node only holds credit that others issue, until the clock has passed it.
    BehindFloor {
        /// What the clock read.
        read: Wall,
        /// The floor.
        floor: Wall,
    },
    /// It has passed.
    PastFloor,
    /// An owner has been out of contact for the degraded time.
    Degraded(NodeId),
    /// It is back.
    Recovered(NodeId),
    /// A member acts under another list: neither takes the other's word.
    OtherView {
        /// The member.
        from: NodeId,
        /// Its view.
        view: ViewId,
    },
    /// Two processes run under one name and one start number: neither is heard.
    TwoIncarnations(NodeId),
    /// The ledger holds as many buckets as it may, and refuses new ones.
    LedgerFull,
    /// This node holds credit for as many buckets as it may, and refuses new ones.
    HolderFull,
    /// A ledger did not add up: nothing more is issued for this bucket.
    InvariantBroken(Bucket),
}

/// Which process this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The node's stable name.
    pub node: NodeId,
    /// This incarnation.
    pub epoch: Epoch,
}

/// What a process finds when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// The clock floor on disk; time 0 if there is none.
    pub floor: Wall,
    /// Whether no incarnation of this node, under any view, has ever run: then nothing of the past can be at stake, and
    /// windows that have begun may be served. If in doubt, `false`.
    pub first: bool,
}

/// Why a node does not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StartError {
    /// A setting.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The list of members.
    #[error(transparent)]
    View(#[from] ViewError),
}

/// One node of the fleet: holder of what it may spend, owner of what it may issue.
#[derive(Debug)]
pub struct Node {
    config: Config,
    me: Identity,
    view: View,
    boot: Boot,
    next_round: Instant,
    outputs: VecDeque<Output>,
    stats: Stats,
}

impl Node {
    /// Starts one. `seed` is for spreading rounds and retries only: no safety rests on it.
    ///
    /// # Errors
    /// If a setting is out of its range, or the view is no list of members.
    pub fn start(
        config: Config,
        me: Identity,
        view: View,
        boot: Boot,
        seed: u64,
        now: Now,
    ) -> Result<Self, StartError> {
        config.check()?;
        view.check()?;
        let round_ns = config.round.as_nanos() as u64;
        Ok(Self {
            next_round: Instant(now.instant.0.saturating_add(seed % round_ns)),
            config,
            me,
            view,
            boot,
            outputs: VecDeque::new(),
            stats: Stats::default(),
        })
    }

    /// Takes one input. Never fails: what cannot be used is counted and ignored.
    pub fn handle(&mut self, now: Now, input: Input, credit: &mut impl Credit) {
        let _ = (&now, &input, credit, &self.me, &self.view, &self.boot);
        if now.instant >= self.next_round {
            self.next_round = now.instant + self.config.round;
            self.stats.rounds += 1;
        }
    }

    /// The next thing to do, in order; `None` until something more has happened.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to say [`Input::Timeout`] at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        Some(self.next_round)
    }

    /// What it has done.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Which process this is.
    #[must_use]
    pub const fn identity(&self) -> Identity {
        self.me
    }

    /// Every bucket in its ledger as owner, in order.
    pub fn owned(&self) -> impl Iterator<Item = Owned> + '_ {
        std::iter::empty()
    }

    /// Every bucket that it has a record of as holder, in order.
    pub fn held(&self) -> impl Iterator<Item = Held> + '_ {
        std::iter::empty()
    }

    /// As owner: how old its knowledge of each holder is.
    pub fn folds(&self, _now: Instant) -> impl Iterator<Item = Fold> + '_ {
        std::iter::empty()
    }

    /// As holder: how it stands with each owner.
    pub fn contacts(&self, _now: Instant) -> impl Iterator<Item = Contact> + '_ {
        std::iter::empty()
    }

    /// As owner: the buckets with the most demand of late and that demand in units a second, busiest first.
    #[must_use]
    pub fn busiest(&self) -> Vec<(Bucket, u64)> {
        Vec::new()
    }
}
