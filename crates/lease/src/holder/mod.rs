//! The holder: what this node may spend, bucket by bucket, and what it says of it to the owners.
//!
//! It must never spend what nobody issued (S1), never say of a bucket what has not been read from the table just before,
//! and never forget a share that it gave itself before the owner knows of it (S9).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::audit;
use crate::bucket::{Bucket, Subject};
use crate::config::LEAD;
use crate::credit::Credit;
use crate::id::{Epoch, Generation, LedgerId, NodeId, Seq};
use crate::mutant::Mutant;
use crate::node::{Event, FastPath};
use crate::stream::{Incoming, Outgoing};
use crate::terms::{Mode, Shape, Terms};
use crate::time::{Instant, Wall};
use crate::turn::Turn;

pub(crate) mod demand;
pub(crate) mod entry;
pub(crate) mod fast_path;
mod grant;
pub(crate) mod report;
mod self_grant;

use demand::Demand;
use entry::Entry;

/// The slowest that a quiet bucket is looked at, in rounds.
const SLOWEST_LOOK: u64 = 8;

/// How many records are tried before a new bucket is refused for want of room.
const MOST_TRIED: usize = 64;

/// How many self-grants of ended buckets are kept for one owner that does not acknowledge them.
const MOST_KEPT: usize = 1024;

/// What this node knows of an owner.
#[derive(Debug)]
pub(crate) struct Owner {
    pub out: Outgoing,
    pub into: Incoming,
    pub epoch: Option<Epoch>,
    pub authority_from: Wall,
    pub ledger: Option<LedgerId>,
    /// The largest `until` ever sent to any incarnation of it (S9).
    pub pledged_until: Wall,
    /// A self-grant that starts here has been forgotten: pledges begin above, and nothing up to it is self-granted.
    pub self_floor: Option<Wall>,
    /// The latest start of a self-grant that the present incarnation has acknowledged and that was forgotten then. The
    /// next incarnation does not know of it, and by its clock the bucket may be yet to come.
    pub forgotten: Option<Wall>,
    /// Since when there is no contact.
    pub lost_since: Option<Instant>,
    pub degraded: bool,
    /// Self-granted buckets that have ended and are not acknowledged, by start.
    kept: BTreeSet<(Wall, Bucket)>,
}

impl Owner {
    fn new(now: Instant) -> Self {
        Self {
            out: Outgoing::default(),
            into: Incoming::default(),
            epoch: None,
            authority_from: Wall(0),
            ledger: None,
            pledged_until: Wall(0),
            self_floor: None,
            forgotten: None,
            lost_since: Some(now),
            degraded: false,
            kept: BTreeSet::new(),
        }
    }

    /// Whether it has acknowledged a report that was sent lately: in the last three rounds if something was waiting to
    /// be acknowledged all the while, else in the last three paces.
    pub fn in_contact(&self, turn: &Turn<'_>) -> bool {
        let Some(heard) = self.out.heard else {
            return false;
        };
        let now = turn.time.instant;
        let age = now.since(heard);
        let rounds = turn.config.round * 3;
        let waiting = self
            .out
            .waiting_since
            .is_some_and(|since| now.since(since) > rounds);
        age <= rounds * turn.config.idle_pace && !(waiting && age > rounds)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Holder {
    entries: BTreeMap<Bucket, Entry>,
    owners: BTreeMap<NodeId, Owner>,
    looks: BTreeMap<u64, Vec<Bucket>>,
    ends: BTreeSet<(Wall, Bucket)>,
    /// When to look at questions and at who waits for them, by time.
    timers: BTreeSet<(Instant, Bucket)>,
    /// What must be told at once, by owner.
    urgent: BTreeMap<NodeId, Vec<Bucket>>,
    generations: u64,
    round: u64,
    full_told: u64,
    /// Per sliding key, the slot in which a share was last taken alone: once in a span (section 7a).
    alone: BTreeMap<Subject, Wall>,
    /// The process will stop: nothing more is asked for.
    pub(super) leaving: bool,
    /// Where the last search for a record to forget ended.
    cursor: Option<Bucket>,
    /// A fixed share that starts here has been forgotten early: none up to it is taken again.
    fixed_floor: Option<Wall>,
}

impl Holder {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn owner(&mut self, node: NodeId, now: Instant) -> &mut Owner {
        self.owners.entry(node).or_insert_with(|| Owner::new(now))
    }

    /// The owner is another incarnation than was known: it has nothing of what the one before was told.
    pub fn new_owner_incarnation(&mut self, node: NodeId, epoch: Epoch, now: Instant) {
        let owner = self.owners.entry(node).or_insert_with(|| Owner::new(now));
        owner.epoch = Some(epoch);
        owner.self_floor = owner.self_floor.max(owner.forgotten);
        owner.authority_from = Wall(0);
        owner.ledger = None;
        owner.into = Incoming::default();
        owner.out.restart();
        owner.lost_since.get_or_insert(now);
        for (bucket, entry) in &mut self.entries {
            if entry.owner == node && entry.terms.mode == Mode::Lease {
                // Its messages are numbered anew, and what the one before had left is no hint.
                entry.hinted = Seq(0);
                entry.exhausted = false;
                owner.out.touch(*bucket);
            }
        }
    }

    /// Finds or begins the record of a bucket. `None` if there is no place, or no view under which it may be acted on.
    fn open(
        &mut self,
        bucket: Bucket,
        terms: Terms,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) -> Option<&mut Entry> {
        if !self.entries.contains_key(&bucket) {
            let start = bucket.start(terms.slot_ns());
            // A durable bucket follows the present owner, fenced by the store.
            let when = if terms.durable { turn.time.held } else { start };
            let owner = turn.views.governing(when)?.issuer(bucket, &terms);
            if self.entries.len() >= turn.config.most_held && !self.make_room(turn) {
                turn.stats.held_refused += 1;
                if self.full_told != self.round {
                    self.full_told = self.round;
                    turn.event(Event::HolderFull);
                }
                return None;
            }
            if !turn.config.broken(Mutant::NoGenerations) {
                self.generations += 1;
            }
            let entry = Entry::new(
                bucket,
                terms,
                Generation(self.generations),
                owner,
                self.round,
            );
            // What a forgotten record may have left in the table was issued, but is not accounted for here.
            credit.take_back(bucket, &terms, 0);
            self.ends.insert((entry.end, bucket));
            self.entries.insert(bucket, entry);
            self.look_in(bucket, 1);
            self.owner(owner, turn.time.instant);
        }
        self.entries.get_mut(&bucket)
    }

    /// Forgets one record that nothing depends on: all handed back and acknowledged, and no share taken.
    fn make_room(&mut self, turn: &Turn<'_>) -> bool {
        let quiet = u64::from(turn.config.idle_rounds);
        let from = self.cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let mut looked = self
            .entries
            .range((from, Bound::Unbounded))
            .take(MOST_TRIED);
        self.cursor = looked.clone().last().map(|(bucket, _)| *bucket);
        let found = looked.find(|(bucket, entry)| {
            entry.available == 0
                && entry.self_granted == 0
                && entry.opened == 0
                && entry.flight.is_none()
                && entry.terms.mode == Mode::Lease
                && self.round.saturating_sub(entry.demanded) > quiet
                && self
                    .owners
                    .get(&entry.owner)
                    .is_some_and(|owner| owner.out.is_told(**bucket))
        });
        let Some(bucket) = found.map(|(bucket, _)| *bucket) else {
            return false;
        };
        self.drop_entry(bucket);
        true
    }

    fn drop_entry(&mut self, bucket: Bucket) {
        if let Some(entry) = self.entries.remove(&bucket) {
            self.ends.remove(&(entry.end, bucket));
            if let Some(at) = entry.timer {
                self.timers.remove(&(at, bucket));
            }
            if let Some(owner) = self.owners.get_mut(&entry.owner) {
                owner.out.forget(bucket);
            }
        }
    }

    /// Takes over newer terms of a key, if it holds any bucket of it.
    pub fn retune(
        &mut self,
        subject: Subject,
        terms: Terms,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) {
        let buckets: Vec<Bucket> = self
            .entries
            .range(subject.buckets())
            .map(|(bucket, _)| *bucket)
            .collect();
        for bucket in buckets {
            self.adopt(bucket, terms, turn, credit);
        }
    }

    fn look_in(&mut self, bucket: Bucket, rounds: u64) {
        let round = self.round + rounds.max(1);
        if let Some(entry) = self.entries.get_mut(&bucket) {
            entry.next_look = round;
            self.looks.entry(round).or_default().push(bucket);
        }
    }

    /// Says at once how a bucket stands.
    fn hurry(&mut self, bucket: Bucket) {
        if let Some(entry) = self.entries.get(&bucket)
            && let Some(owner) = self.owners.get_mut(&entry.owner)
        {
            owner.out.touch(bucket);
            let urgent = self.urgent.entry(entry.owner).or_default();
            if !urgent.contains(&bucket) {
                urgent.push(bucket);
            }
        }
    }

    pub fn take_urgent(&mut self) -> BTreeMap<NodeId, Vec<Bucket>> {
        std::mem::take(&mut self.urgent)
    }

    /// Hands back all that is unspent, at once.
    pub fn leave(&mut self, turn: &mut Turn<'_>, credit: &mut impl Credit) {
        self.leaving = true;
        let mut back = Vec::new();
        for (bucket, entry) in &mut self.entries {
            if let Some(owner) = self.owners.get(&entry.owner)
                && entry.terms.mode == Mode::Lease
                && turn.time.held < entry.end
                && owner.in_contact(turn)
                && let Some(ledger) = owner.ledger
                && entry.hand_back(*bucket, 0, ledger, credit, turn.stats) > 0
            {
                entry.demand.stop();
                back.push(*bucket);
            }
        }
        for bucket in back {
            self.hurry(bucket);
        }
    }

    /// One round: looks at the buckets that are due, hands idle credit back, announces the next windows, forgets what
    /// has ended, and sees which owners are gone.
    pub fn round(&mut self, turn: &mut Turn<'_>, credit: &mut impl Credit) {
        self.round += 1;
        while let Some(due) = self.looks.first_entry()
            && *due.key() <= self.round
        {
            let round = *due.key();
            for bucket in due.remove() {
                self.look(bucket, round, turn, credit);
            }
        }
        self.end(turn);
        self.watch(turn);
    }

    fn look(&mut self, bucket: Bucket, round: u64, turn: &mut Turn<'_>, credit: &mut impl Credit) {
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return;
        };
        if entry.next_look != round || turn.time.held >= entry.end {
            return;
        }
        let round_ns = turn.round_ns();
        let asked = entry.look(bucket, credit, turn.stats);
        let degraded = self
            .owners
            .get(&entry.owner)
            .is_some_and(|owner| owner.degraded);
        if entry.open && !degraded {
            // Back in touch: what the backstop let in and nobody has spent goes.
            entry.open = false;
            let most = entry.opened.min(entry.available);
            entry.take(bucket, entry.available - most, most, credit, turn.stats);
        }
        let begun = turn.time.held >= entry.start;
        if begun {
            let since = self.round.saturating_sub(entry.looked);
            entry.demand.learn(asked, since);
            entry.looked = self.round;
            entry.asked = entry.asked.saturating_add(asked);
            if asked > 0 {
                entry.demanded = self.round;
            }
        }
        entry.pace = if asked > 0 || !begun {
            1
        } else {
            (entry.pace * 2).min(SLOWEST_LOOK)
        };
        let mut wait = entry.pace;
        if entry.terms.durable
            && let Some(view) = turn.views.governing(turn.time.held)
        {
            let issuer = view.issuer(bucket, &entry.terms);
            if entry.owner != issuer {
                entry.owner = issuer;
                (entry.hinted, entry.exhausted) = (Seq(0), false);
                for owner in self.owners.values_mut() {
                    owner.out.forget(bucket);
                }
                if let Some(owner) = self.owners.get_mut(&issuer) {
                    owner.out.touch(bucket);
                }
            }
        }
        if entry.terms.mode == Mode::Lease {
            let idle = u64::from(turn.config.idle_rounds).max(entry.demand.pause(3));
            let quiet = self.round - entry.demanded;
            if begun && quiet >= idle {
                self.hand_back_idle(bucket, turn, credit);
            } else if begun && entry.available > 0 {
                wait = wait.min(idle - quiet);
            }
            self.hand_back_slot(bucket, turn, credit);
            self.announce(bucket, turn, credit);
            self.tell(bucket, round_ns, turn);
        }
        self.look_in(bucket, wait);
    }

    /// A bucket without requests for so long goes back, while somebody is there to take it.
    fn hand_back_idle(&mut self, bucket: Bucket, turn: &mut Turn<'_>, credit: &mut impl Credit) {
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return;
        };
        let Some(owner) = self.owners.get_mut(&entry.owner) else {
            return;
        };
        entry.demand.stop();
        if entry.available == 0 || !owner.in_contact(turn) {
            return;
        }
        if let Some(ledger) = owner.ledger
            && entry.hand_back(bucket, 0, ledger, credit, turn.stats) > 0
        {
            owner.out.touch(bucket);
        }
    }

    /// In the last round of a slot, what it will not need goes back while it still can: credit dies with its slot.
    fn hand_back_slot(&mut self, bucket: Bucket, turn: &mut Turn<'_>, credit: &mut impl Credit) {
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return;
        };
        let last_round = turn.time.held.plus(turn.config.round) >= entry.end;
        if entry.terms.shape == Shape::FixedWindow || !last_round || entry.available == 0 {
            return;
        }
        let keep = entry.demand.expected(1);
        if let Some(owner) = self.owners.get(&entry.owner)
            && owner.in_contact(turn)
            && let Some(ledger) = owner.ledger
            && entry.hand_back(bucket, keep, ledger, credit, turn.stats) > 0
        {
            self.hurry(bucket);
        }
    }

    /// Shortly before a window ends, the next one's owner hears what to expect, so that it can issue ahead.
    fn announce(&mut self, bucket: Bucket, turn: &mut Turn<'_>, credit: &mut impl Credit) {
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return;
        };
        let ahead = LEAD + turn.config.round * 2;
        if self.leaving || entry.prepared || turn.time.held.plus(ahead) < entry.end {
            return;
        }
        entry.prepared = true;
        if entry.asked == 0 {
            return;
        }
        let rounds = rounds_until(Wall(0), Wall(entry.terms.slot_ns()), turn.round_ns());
        let demand = Demand::next_window(entry.asked, rounds);
        let (quantum, terms) = (entry.quantum, entry.terms);
        let next = bucket.next();
        if let Some(entry) = self.open(next, terms, turn, credit) {
            entry.demand = demand;
            entry.quantum = quantum;
            let owner = entry.owner;
            self.owner(owner, turn.time.instant).out.touch(next);
        }
    }

    /// Drops what has ended two rounds ago, but keeps a share taken alone until the owner knows of it. What ended by a
    /// clock that may yet step back leaves a floor behind, or it could be taken twice.
    fn end(&mut self, turn: &mut Turn<'_>) {
        let grace = turn.config.round * 2;
        while let Some((end, bucket)) = self.ends.first().copied()
            && end.plus(grace) <= turn.time.held
        {
            self.ends.pop_first();
            self.ask_no_more(bucket, FastPath::Missed, turn);
            let Some(entry) = self.entries.get_mut(&bucket) else {
                continue;
            };
            entry.available = 0;
            let taken = entry.self_granted > 0;
            let early = turn.time.sure < entry.end;
            match (entry.terms.mode, self.owners.get_mut(&entry.owner)) {
                (Mode::Lease, Some(owner)) if taken => {
                    owner.kept.insert((entry.start, bucket));
                    if early {
                        owner.self_floor = owner.self_floor.max(Some(entry.start));
                    }
                }
                (Mode::Fixed, _) if taken && early => {
                    self.fixed_floor = self.fixed_floor.max(Some(entry.start));
                    self.drop_entry(bucket);
                }
                (Mode::Lease | Mode::Fixed, _) => self.drop_entry(bucket),
            }
        }
        let mut gone = Vec::new();
        for owner in self.owners.values_mut() {
            owner.kept.retain(|(start, bucket)| {
                let told = owner.out.is_told(*bucket);
                if told {
                    owner.forgotten = owner.forgotten.max(Some(*start));
                    gone.push(*bucket);
                }
                !told
            });
            while owner.kept.len() > MOST_KEPT
                && let Some((start, bucket)) = owner.kept.pop_first()
            {
                owner.self_floor = owner.self_floor.max(Some(start));
                gone.push(bucket);
            }
        }
        for bucket in gone {
            self.drop_entry(bucket);
        }
    }

    /// Notes which owners are in contact, and which have been gone for so long that `on_degraded` applies.
    fn watch(&mut self, turn: &mut Turn<'_>) {
        let mut degraded = 0;
        for (node, owner) in &mut self.owners {
            if owner.in_contact(turn) {
                owner.lost_since = None;
                if std::mem::take(&mut owner.degraded) {
                    turn.event(Event::Recovered(*node));
                }
                continue;
            }
            let since = *owner.lost_since.get_or_insert(turn.time.instant);
            if !owner.degraded && turn.time.instant.since(since) >= turn.config.degraded_after {
                owner.degraded = true;
                turn.event(Event::Degraded(*node));
            }
            degraded += u64::from(owner.degraded);
        }
        turn.stats.degraded_owners = degraded;
    }

    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(deadline, _)| *deadline)
    }

    pub fn audit(&self) -> impl Iterator<Item = audit::Held> + '_ {
        self.entries.iter().map(|(bucket, entry)| audit::Held {
            bucket: *bucket,
            terms: entry.terms,
            owner: entry.owner,
            granted: entry::total(&entry.granted),
            self_granted: entry.self_granted,
            returned: entry::total(&entry.returned),
            given: entry.given_total(),
            spent: entry.spent(),
            available: entry.available,
            exhausted: entry.exhausted,
        })
    }

    pub fn contacts(&self, now: Instant) -> impl Iterator<Item = audit::Contact> + '_ {
        self.owners.iter().map(move |(node, owner)| audit::Contact {
            node: *node,
            epoch: owner.epoch,
            in_contact: owner.lost_since.is_none(),
            age: owner.out.heard.map(|at| now.since(at)),
            degraded: owner.degraded,
        })
    }
}

/// Rounds from `from` to `to`, a begun one counted whole.
fn rounds_until(from: Wall, to: Wall, round_ns: u64) -> u64 {
    to.0.saturating_sub(from.0).div_ceil(round_ns)
}
