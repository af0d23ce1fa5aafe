//! The fast path (L): a request that finds too little credit asks the owner directly and waits, for a hard deadline.
//!
//! One question a bucket is under way at a time. Who comes meanwhile waits in line; the owner is told when the line has
//! doubled, and all of it are counted in the next question, which follows at once as long as answers bring credit. Nobody
//! waits past a deadline of its own.

use crate::bucket::Bucket;
use crate::config::LEAD;
use crate::credit::Credit;
use crate::node::FastPath;
use crate::terms::{Mode, Terms};
use crate::turn::Turn;

use super::Holder;
use super::entry::Waiting;

/// What one request lacks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Need {
    pub cost: u64,
    pub waits: bool,
}

impl Holder {
    /// A request wants units of a bucket and found too few.
    pub fn need(
        &mut self,
        bucket: Bucket,
        terms: Terms,
        need: Need,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) {
        turn.stats.needs += 1;
        let outcome = self.answer(bucket, terms, need, turn, credit);
        match outcome {
            Some(FastPath::Credit) | None => {}
            Some(FastPath::Exhausted | FastPath::Missed) => turn.stats.fast_path_refused += 1,
        }
        if let Some(outcome) = outcome {
            turn.wake(bucket, usize::from(need.waits), outcome);
        }
    }

    /// What can be said at once. `None` if a question is under way: the request is in its line then.
    fn answer(
        &mut self,
        bucket: Bucket,
        terms: Terms,
        need: Need,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) -> Option<FastPath> {
        let asking = self
            .entries
            .get(&bucket)
            .is_some_and(|entry| entry.flight.is_some());
        let held = turn.time.held;
        let over = held >= bucket.end(terms.slot_ns());
        let refused = self.leaving
            || over
            || terms.window_ns < Terms::LEAST_WINDOW_NS
            || held.plus(LEAD) < bucket.start(terms.slot_ns());
        if refused && !asking {
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
        entry.quantum = need.cost.max(1);
        if entry.next_look > round + 1 {
            entry.pace = 1;
            self.look_in(bucket, 1);
        }
        let entry = self.entries.get_mut(&bucket)?;
        let deadline = now + turn.config.fast_path_deadline;
        let waiting = Waiting {
            deadline,
            cost: need.cost,
        };
        if entry.flight.is_some() {
            entry.pending = entry.pending.saturating_add(need.cost);
            entry.waiting.extend(need.waits.then_some(waiting));
            if entry.pending / 2 >= entry.told_pending {
                self.ask_more(bucket, turn);
            }
            return None;
        }
        if entry.available >= need.cost.max(1) {
            return Some(FastPath::Credit);
        }
        if entry.terms.mode == Mode::Fixed {
            return Some(self.take_fixed_share(bucket, turn, credit));
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
        entry.pending = need.cost;
        entry.spare = entry.available;
        entry.waiting.extend(need.waits.then_some(waiting));
        self.ask(bucket, turn);
        None
    }

    /// Puts the question, for all that is pending.
    fn ask(&mut self, bucket: Bucket, turn: &mut Turn<'_>) {
        if let Some(entry) = self.entries.get_mut(&bucket) {
            entry.flight = Some(turn.time.instant + turn.config.fast_path_deadline);
            self.set_timer(bucket);
            self.ask_more(bucket, turn);
        }
    }

    /// Says that the question under way is about all that is pending now. A line that has doubled would wait too long
    /// for an answer to its first.
    fn ask_more(&mut self, bucket: Bucket, turn: &mut Turn<'_>) {
        if let Some(entry) = self.entries.get_mut(&bucket) {
            entry.told_pending = entry.pending;
            turn.stats.fast_path_asked += 1;
            self.hurry(bucket);
        }
    }

    /// The next time at which the question, or the first in line, has waited for long enough.
    fn set_timer(&mut self, bucket: Bucket) {
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return;
        };
        let first = entry.waiting.front().map(|waiting| waiting.deadline);
        let timer = entry
            .flight
            .map(|flight| first.map_or(flight, |first| first.min(flight)));
        if timer != entry.timer {
            if let Some(before) = entry.timer {
                self.timers.remove(&(before, bucket));
            }
            self.timers.extend(timer.map(|at| (at, bucket)));
            entry.timer = timer;
        }
    }

    /// The question has been answered, by `units` of credit or without any.
    pub(super) fn land(
        &mut self,
        bucket: Bucket,
        outcome: FastPath,
        units: u64,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) {
        let Some(entry) = self
            .entries
            .get(&bucket)
            .filter(|entry| entry.flight.is_some())
        else {
            return;
        };
        let before = entry.available;
        let (outcome, units) = match outcome {
            FastPath::Exhausted if self.self_grant(bucket, turn, credit) => {
                let now = self.entries.get(&bucket).map_or(0, |it| it.available);
                (FastPath::Credit, now.saturating_sub(before))
            }
            FastPath::Credit | FastPath::Exhausted | FastPath::Missed => (outcome, units),
        };
        match outcome {
            FastPath::Credit => {
                turn.stats.fast_path_credit += 1;
                self.serve(bucket, units, turn);
            }
            FastPath::Exhausted => {
                turn.stats.fast_path_exhausted += 1;
                self.ask_no_more(bucket, outcome, turn);
            }
            FastPath::Missed => {
                turn.stats.fast_path_missed += 1;
                self.ask_no_more(bucket, outcome, turn);
            }
        }
    }

    /// Wakes those at the front of the line that the credit is enough for. The others wait on, and are asked for if
    /// the owner does not know of them yet.
    fn serve(&mut self, bucket: Bucket, units: u64, turn: &mut Turn<'_>) {
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return;
        };
        let mut left = entry.spare.saturating_add(units).min(entry.available);
        let mut count = 0;
        while let Some(first) = entry.waiting.front()
            && first.cost <= left
        {
            left -= first.cost;
            count += 1;
            entry.waiting.pop_front();
        }
        let lacking = entry
            .waiting
            .iter()
            .fold(0_u64, |sum, waiting| sum.saturating_add(waiting.cost))
            .saturating_sub(left);
        (entry.spare, entry.pending) = (left, lacking);
        entry.told_pending = entry.told_pending.saturating_sub(units);
        let told = entry.told_pending >= lacking;
        turn.wake(bucket, count, FastPath::Credit);
        let contact = self
            .owners
            .get(&entry.owner)
            .is_some_and(|owner| owner.in_contact(turn));
        if entry.exhausted {
            self.ask_no_more(bucket, FastPath::Exhausted, turn);
        } else if lacking == 0 || !contact || turn.time.held >= entry.end {
            self.ask_no_more(bucket, FastPath::Missed, turn);
        } else if told {
            // The owner has no more yet, and is fetching it.
            entry.flight = Some(turn.time.instant + turn.config.fast_path_deadline);
            self.set_timer(bucket);
        } else {
            self.ask(bucket, turn);
        }
    }

    /// No question is under way any more: whoever still waits hears how it ended.
    pub(super) fn ask_no_more(&mut self, bucket: Bucket, outcome: FastPath, turn: &mut Turn<'_>) {
        if let Some(entry) = self.entries.get_mut(&bucket) {
            entry.flight = None;
            (entry.pending, entry.spare) = (0, 0);
            let count = entry.waiting.len();
            entry.waiting.clear();
            turn.wake(bucket, count, outcome);
            self.set_timer(bucket);
        }
    }

    /// Gives up on questions that have had no answer in time, and on requests that have waited for as long as they may.
    pub fn deadlines(&mut self, turn: &mut Turn<'_>, credit: &mut impl Credit) {
        let now = turn.time.instant;
        while let Some((at, bucket)) = self.timers.first().copied()
            && at <= now
        {
            let Some(entry) = self.entries.get_mut(&bucket) else {
                self.timers.pop_first();
                continue;
            };
            if entry.flight.is_some_and(|flight| flight <= now) {
                entry.backoff_until = Some(now + turn.config.fast_path_backoff);
                self.land(bucket, FastPath::Missed, 0, turn, credit);
                continue;
            }
            let mut count = 0;
            while let Some(first) = entry.waiting.front()
                && first.deadline <= now
            {
                entry.pending = entry.pending.saturating_sub(first.cost);
                count += 1;
                entry.waiting.pop_front();
            }
            turn.wake(bucket, count, FastPath::Missed);
            self.set_timer(bucket);
        }
    }
}
