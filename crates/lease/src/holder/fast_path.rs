//! The fast path (L): a request that finds too little credit asks the owner directly and waits, for a hard deadline.
//!
//! One question a bucket is under way at a time; who comes meanwhile waits for the same answer.

use crate::bucket::Bucket;
use crate::config::LEAD;
use crate::credit::Credit;
use crate::node::FastPath;
use crate::terms::{Mode, Terms};
use crate::turn::Turn;

use super::Holder;

impl Holder {
    /// A request wants `cost` units of a bucket and found too little.
    pub fn need(
        &mut self,
        bucket: Bucket,
        terms: Terms,
        cost: u64,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) {
        turn.stats.needs += 1;
        let outcome = self.answer(bucket, terms, cost, turn, credit);
        match outcome {
            Some(FastPath::Credit) | None => {}
            Some(FastPath::Exhausted | FastPath::Missed) => turn.stats.fast_path_refused += 1,
        }
        if let Some(outcome) = outcome {
            turn.wake(bucket, outcome);
        }
    }

    /// What can be said at once. `None` if a question is under way.
    fn answer(
        &mut self,
        bucket: Bucket,
        terms: Terms,
        cost: u64,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) -> Option<FastPath> {
        let held = turn.time.held;
        let over = held >= bucket.end(terms.slot_ns());
        if self.leaving
            || over
            || terms.window_ns < Terms::LEAST_WINDOW_NS
            || held.plus(LEAD) < bucket.start(terms.slot_ns())
        {
            return Some(FastPath::Missed);
        }
        let round = self.round;
        let now = turn.time.instant;
        if self.open(bucket, terms, turn, credit).is_none() {
            return Some(FastPath::Missed);
        }
        self.adopt(bucket, terms, turn, credit);
        let entry = self.entries.get_mut(&bucket)?;
        let asked = entry.look(bucket, credit, turn.stats);
        entry.counted = entry.counted.saturating_sub(asked);
        entry.demanded = round;
        entry.quantum = cost.max(1);
        if entry.next_look > round + 1 {
            entry.pace = 1;
            self.look_in(bucket, 1);
        }
        let entry = self.entries.get_mut(&bucket)?;
        if entry.available >= cost.max(1) {
            return Some(FastPath::Credit);
        }
        if entry.terms.mode == Mode::Fixed {
            return Some(self.take_fixed_share(bucket, turn, credit));
        }
        if entry.flight.is_some() {
            entry.pending = entry.pending.saturating_add(cost);
            return None;
        }
        if self.self_grant(bucket, turn, credit) {
            return Some(FastPath::Credit);
        }
        let entry = self.entries.get_mut(&bucket)?;
        if entry.exhausted {
            return Some(FastPath::Exhausted);
        }
        let waits = entry.backoff_until.is_some_and(|until| now < until);
        let owner = self.owners.get(&entry.owner)?;
        if waits || !owner.in_contact(turn) {
            return Some(FastPath::Missed);
        }
        let deadline = now + turn.config.fast_path_deadline;
        entry.pending = cost;
        entry.flight = Some(deadline);
        self.flights.insert((deadline, bucket));
        turn.stats.fast_path_asked += 1;
        self.hurry(bucket);
        None
    }

    /// An answer has come: whoever waits tries again, or gives up.
    pub(super) fn land(
        &mut self,
        bucket: Bucket,
        outcome: FastPath,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) {
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return;
        };
        let Some(deadline) = entry.flight.take() else {
            return;
        };
        entry.pending = 0;
        self.flights.remove(&(deadline, bucket));
        let outcome = match outcome {
            FastPath::Exhausted if self.self_grant(bucket, turn, credit) => FastPath::Credit,
            FastPath::Credit | FastPath::Exhausted | FastPath::Missed => outcome,
        };
        match outcome {
            FastPath::Credit => turn.stats.fast_path_credit += 1,
            FastPath::Exhausted => turn.stats.fast_path_exhausted += 1,
            FastPath::Missed => turn.stats.fast_path_missed += 1,
        }
        turn.wake(bucket, outcome);
    }

    /// Gives up on questions whose deadline has passed.
    pub fn deadlines(&mut self, turn: &mut Turn<'_>, credit: &mut impl Credit) {
        while let Some((deadline, bucket)) = self.flights.first().copied()
            && deadline <= turn.time.instant
        {
            if let Some(entry) = self.entries.get_mut(&bucket) {
                entry.backoff_until = Some(turn.time.instant + turn.config.fast_path_backoff);
            }
            self.land(bucket, FastPath::Missed, turn, credit);
            self.flights.remove(&(deadline, bucket));
        }
    }
}
