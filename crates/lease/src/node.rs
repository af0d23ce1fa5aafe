//! The protocol's one entrance: inputs, outputs, and the node that turns one into the other.
//!
//! Call [`Node::handle`] with what happened, then take every output, in order, and ask [`Node::poll_timeout`] when to
//! come back. A `handle` too many is harmless.

use std::collections::VecDeque;

use thiserror::Error;

use crate::audit::{Contact, Fold, Held, Owned};
use crate::bucket::{Bucket, Subject};
use crate::clock::{Clock, Time};
use crate::config::{Config, ConfigError};
use crate::credit::Credit;
use crate::durable::{Change, StoreAnswer};
use crate::exchange::Step;
use crate::holder::Holder;
use crate::holder::fast_path::Need;
use crate::id::{Epoch, LedgerId, NodeId, ViewId};
use crate::message::Envelope;
use crate::mutant::Mutant;
use crate::owner::Owner;
use crate::peers::Peers;
use crate::stats::Stats;
use crate::terms::Terms;
use crate::time::{Instant, Now, Wall};
use crate::turn::Turn;
use crate::view::{View, ViewError, Views};

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
    /// A request found too little credit: the fast path.
    Need {
        /// Where.
        bucket: Bucket,
        /// Under which terms.
        terms: Terms,
        /// How many units it wants.
        cost: u64,
        /// Whether it waits for the answer, as the last of those that wait for this bucket: an [`Output::Wake`] is for
        /// it then.
        waits: bool,
    },
    /// A new policy has other terms for a key that is in use.
    Terms {
        /// The key and limit.
        subject: Subject,
        /// What holds now.
        terms: Terms,
    },
    /// The members have changed from some time on, or this node's lease of a list was renewed (S11).
    View(View),
    /// The process will stop shortly: what it holds unspent goes back while somebody is there to take it, and nothing
    /// more is asked for. It goes on as owner until it stops.
    Leave,
    /// An operator gives a bucket back what was spent of it. Only the owner does it, once for each `request`; others
    /// ignore it: see [`Node::owner_of`].
    Reset {
        /// Which.
        bucket: Bucket,
        /// The request's own number, so that it can be said twice.
        request: u128,
    },
    /// The store has answered an [`Output::Load`] or [`Output::Authorize`].
    Store {
        /// Which bucket was asked about.
        bucket: Bucket,
        /// What it says.
        answer: StoreAnswer,
    },
    /// The clock floor is on disk.
    FloorSaved(Wall),
}

/// What a node wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this.
    Send(Box<Envelope>),
    /// Wake the requests that have waited longest for a bucket. Every request that waits is woken once, at the latest
    /// when its own deadline has passed.
    Wake {
        /// Which.
        bucket: Bucket,
        /// How many of them, from the one that has waited longest.
        count: usize,
        /// What became of it.
        outcome: FastPath,
    },
    /// Ask the store of durable limits what lies there for a bucket.
    Load(Bucket),
    /// Ask it to change that.
    Authorize(Change),
    /// Write this clock floor to disk, then say so.
    SaveFloor(Wall),
    /// Something that an operator should hear of.
    Event(Event),
}

/// How a fast-path question ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastPath {
    /// Credit for it was installed: try again, once.
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
    /// A list of members that does not follow those known was not taken.
    ViewRefused(ViewId),
    /// Two processes run under one name and one start number: neither is heard.
    TwoIncarnations(NodeId),
    /// The ledger holds as many buckets as it may, and refuses new ones.
    LedgerFull,
    /// This node holds credit for as many buckets as it may, and refuses new ones.
    HolderFull,
    /// The store lets this incarnation issue no more of this durable bucket.
    StoreRefused(Bucket),
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
    views: Views,
    clock: Clock,
    first: bool,
    holder: Holder,
    owner: Owner,
    peers: Peers,
    round: u64,
    next_round: Instant,
    /// What this node says to itself, as holder to owner and back.
    loopback: VecDeque<Envelope>,
    outputs: VecDeque<Output>,
    stats: Stats,
}

impl Node {
    /// Starts one. `seed` is for spreading rounds only: no safety rests on it.
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
        let clock = Clock::start(boot, now.wall, !config.broken(Mutant::NoFloor));
        let views = Views::new(view, config.broken(Mutant::NewestView));
        let past = if boot.first { Wall(0) } else { clock.boot };
        let owner = Owner::new(LedgerId::new(me), past, &config);
        let mut node = Self {
            holder: Holder::default(),
            owner,
            peers: Peers::default(),
            round: seed % 1024,
            next_round: now.instant,
            loopback: VecDeque::new(),
            outputs: VecDeque::new(),
            stats: Stats::default(),
            first: boot.first,
            config,
            me,
            views,
            clock,
        };
        for member in node.views.members() {
            node.holder.owner(member, now.instant);
            node.owner.holder(member);
        }
        node.holder
            .new_owner_incarnation(me.node, me.epoch, now.instant);
        node.owner.new_holder_incarnation(me.node, me.epoch);
        if now.wall < node.clock.boot {
            let (read, floor) = (now.wall, node.clock.boot);
            node.outputs
                .push_back(Output::Event(Event::BehindFloor { read, floor }));
        }
        node.save_floor(now);
        // Rounds of different nodes are spread over the round's length.
        let round_ns = node.config.round.as_nanos() as u64;
        node.next_round = Instant(now.instant.0.saturating_add(seed % round_ns));
        Ok(node)
    }

    /// Takes one input. Never fails: what cannot be used is counted and ignored.
    pub fn handle(&mut self, now: Now, input: Input, credit: &mut impl Credit) {
        let (time, changed) = self.clock.read(now);
        if changed {
            let event = if time.behind {
                let (read, floor) = (now.wall, time.sure);
                Event::BehindFloor { read, floor }
            } else {
                Event::PastFloor
            };
            self.outputs.push_back(Output::Event(event));
        }
        self.save_floor(now);
        let mut step = self.step(time);
        step.holder.deadlines(&mut step.turn, credit);
        if time.instant >= self.next_round {
            self.begin_round(time, credit);
        }
        match input {
            Input::Timeout => {}
            Input::Message { from, envelope } => self.receive(from, *envelope, now, time, credit),
            Input::Need {
                bucket,
                terms,
                cost,
                waits,
            } => {
                let mut step = self.step(time);
                let need = Need { cost, waits };
                step.holder
                    .need(bucket, terms, need, &mut step.turn, credit);
            }
            Input::Terms { subject, terms } => {
                let mut step = self.step(time);
                step.holder.retune(subject, terms, &mut step.turn, credit);
                step.owner.retune(subject, terms, &mut step.turn);
            }
            Input::View(view) => self.take_view(view, time),
            Input::Leave => {
                let mut step = self.step(time);
                step.holder.leave(&mut step.turn, credit);
            }
            Input::Reset { bucket, request } => {
                let mut step = self.step(time);
                step.owner.reset(bucket, request, &mut step.turn);
            }
            Input::Store { bucket, answer } => {
                let mut step = self.step(time);
                step.owner.stored(bucket, answer, &mut step.turn);
            }
            Input::FloorSaved(floor) => self.clock.saved(floor),
        }
        self.settle(time, credit);
    }

    /// The next thing to do, in order; `None` until something more has happened.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When to say [`Input::Timeout`] at the latest.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let deadline = self.holder.next_deadline();
        Some(deadline.map_or(self.next_round, |at| at.min(self.next_round)))
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

    /// The clock floor that is known to be on disk.
    #[must_use]
    pub const fn floor(&self) -> Wall {
        self.clock.floor()
    }

    /// The latest time that this node has acted on. A process that has stopped in order may save this as its floor, in
    /// place of the later one that is there: the next start is not behind it then.
    #[must_use]
    pub const fn used(&self) -> Wall {
        self.clock.used()
    }

    /// Every bucket in its ledger as owner, in order.
    pub fn owned(&self) -> impl Iterator<Item = Owned> + '_ {
        self.owner.audit()
    }

    /// Every bucket that it has a record of as holder, in order.
    pub fn held(&self) -> impl Iterator<Item = Held> + '_ {
        self.holder.audit()
    }

    /// Who issues credit for a bucket that starts at `start`; `None` if no view of this node governs it.
    #[must_use]
    pub fn owner_of(&self, bucket: Bucket, terms: &Terms) -> Option<NodeId> {
        let start = bucket.start(terms.slot_ns());
        Some(self.views.governing(start)?.issuer(bucket, terms))
    }

    /// As owner: how old its knowledge of each holder is.
    pub fn folds(&self, now: Instant) -> impl Iterator<Item = Fold> + '_ {
        self.owner.folds(now)
    }

    /// As holder: how it stands with each owner.
    pub fn contacts(&self, now: Instant) -> impl Iterator<Item = Contact> + '_ {
        self.holder.contacts(now)
    }

    /// As owner: the buckets with the most demand at `now`, and that demand in units a second, busiest first.
    #[must_use]
    pub fn busiest(&self, now: Wall) -> Vec<(Bucket, u64)> {
        self.owner.busiest(self.config.busiest, now)
    }

    fn step(&mut self, time: Time) -> Step<'_> {
        Step {
            holder: &mut self.holder,
            owner: &mut self.owner,
            peers: &mut self.peers,
            loopback: &mut self.loopback,
            turn: Turn {
                config: &self.config,
                me: self.me,
                views: &self.views,
                time,
                boot: if self.first { Wall(0) } else { self.clock.boot },
                stats: &mut self.stats,
                outputs: &mut self.outputs,
            },
        }
    }

    fn save_floor(&mut self, now: Now) {
        if let Some(floor) = self.clock.floor_to_save(now) {
            self.outputs.push_back(Output::SaveFloor(floor));
        }
    }

    fn take_view(&mut self, view: View, time: Time) {
        let id = view.id;
        if !self.views.install(view) {
            self.outputs
                .push_back(Output::Event(Event::ViewRefused(id)));
            return;
        }
        for member in self.views.members() {
            self.holder.owner(member, time.instant);
            self.owner.holder(member);
        }
    }

    /// One round: look, hand out, then one envelope for each that has something to hear.
    fn begin_round(&mut self, time: Time, credit: &mut impl Credit) {
        self.round += 1;
        self.stats.rounds += 1;
        self.next_round = self.next_round + self.config.round;
        if self.next_round <= time.instant {
            self.next_round = time.instant + self.config.round;
        }
        let round = self.round;
        let mut step = self.step(time);
        step.holder.round(&mut step.turn, credit);
        step.owner.round(&mut step.turn);
        step.say_all(round, credit);
        (self.stats.held, self.stats.owned) = (self.holder.len() as u64, self.owner.len() as u64);
    }

    /// Takes an envelope, or rejects it whole (S3).
    fn receive(
        &mut self,
        from: NodeId,
        envelope: Envelope,
        now: Now,
        time: Time,
        credit: &mut impl Credit,
    ) {
        let mut step = self.step(time);
        if step.accepts(from, &envelope) {
            let skew = envelope.sent_at.0.abs_diff(now.wall.0);
            step.turn.stats.largest_skew_ns = step.turn.stats.largest_skew_ns.max(skew);
            step.take(envelope, credit);
        } else {
            step.turn.stats.envelopes_rejected += 1;
        }
    }

    /// Says what must be said at once, and hears what it says to itself, until nothing is left.
    fn settle(&mut self, time: Time, credit: &mut impl Credit) {
        let mut step = self.step(time);
        loop {
            step.say_urgent(credit);
            let Some(envelope) = step.loopback.pop_front() else {
                return;
            };
            step.take(envelope, credit);
        }
    }
}
