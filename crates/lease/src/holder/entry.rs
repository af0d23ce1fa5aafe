//! One bucket at a holder: what it was given, what it gave back, and what lies in the table.
//!
//! S1: spent and returned and given never exceed granted and self-granted. What was spent is not counted but follows
//! from what was put into the table, taken out of it, and is left: requests spend there without asking.

use std::collections::VecDeque;

use crate::bucket::Bucket;
use crate::credit::Credit;
use crate::id::{Generation, LedgerId, NodeId, Seq};
use crate::message::{Given, ReportRecord};
use crate::stats::Stats;
use crate::terms::Terms;
use crate::time::{Instant, Wall};

use super::demand::Demand;

/// What the owner was last told of (L).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub demand: u64,
    pub available: u64,
    pub spent: u64,
    pub round: u64,
}

/// A request that waits for the fast path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub deadline: Instant,
    pub cost: u64,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub terms: Terms,
    pub generation: Generation,
    pub owner: NodeId,
    pub start: Wall,
    pub end: Wall,
    /// The largest total that each ledger granted.
    pub granted: Vec<(LedgerId, u64)>,
    pub returned: Vec<(LedgerId, u64)>,
    pub self_granted: u64,
    /// Units that `fail_open` put in while degraded: outside S1 and S6.
    pub opened: u64,
    /// Whether they still lie there.
    pub open: bool,
    pub given: Vec<Given>,
    /// Units put into the table, and taken out of it again.
    pub installed: u64,
    pub taken: u64,
    /// As of the last look.
    pub available: u64,
    /// The table's count of demand at the last look.
    pub counted: u64,
    pub demand: Demand,
    /// Units asked for since the window began.
    pub asked: u64,
    /// Units that the question under way is about, or will be when it is asked again.
    pub pending: u64,
    /// Of them, units that the owner knows of and has not answered.
    pub told_pending: u64,
    /// Requests that wait, the one that came first in front.
    pub waiting: VecDeque<Waiting>,
    /// Units that have come for the first of them, and are too few for it.
    pub spare: u64,
    pub quantum: u64,
    pub exhausted: bool,
    pub fleet_remaining: u64,
    /// The largest grant that hints were taken from.
    pub hinted: Seq,
    pub told: Told,
    pub looked: u64,
    pub demanded: u64,
    pub pace: u64,
    pub next_look: u64,
    /// Whether the next window's bucket has been announced.
    pub prepared: bool,
    /// The deadline of the question that is under way.
    pub flight: Option<Instant>,
    /// When the fast path must look at this bucket next.
    pub timer: Option<Instant>,
    pub backoff_until: Option<Instant>,
}

pub(crate) fn total(by_ledger: &[(LedgerId, u64)]) -> u64 {
    by_ledger.iter().map(|(_, units)| units).sum()
}

pub(crate) fn of(by_ledger: &[(LedgerId, u64)], ledger: LedgerId) -> u64 {
    by_ledger
        .iter()
        .find(|(id, _)| *id == ledger)
        .map_or(0, |(_, units)| *units)
}

pub(crate) fn of_mut(by_ledger: &mut Vec<(LedgerId, u64)>, ledger: LedgerId) -> &mut u64 {
    let place = match by_ledger.iter().position(|(id, _)| *id == ledger) {
        Some(place) => place,
        None => {
            by_ledger.push((ledger, 0));
            by_ledger.len() - 1
        }
    };
    &mut by_ledger[place].1
}

impl Entry {
    pub fn new(
        bucket: Bucket,
        terms: Terms,
        generation: Generation,
        owner: NodeId,
        round: u64,
    ) -> Self {
        Self {
            terms,
            generation,
            owner,
            start: bucket.start(terms.slot_ns()),
            end: bucket.end(terms.slot_ns()),
            granted: Vec::new(),
            returned: Vec::new(),
            self_granted: 0,
            opened: 0,
            open: false,
            given: Vec::new(),
            installed: 0,
            taken: 0,
            available: 0,
            counted: 0,
            demand: Demand::default(),
            asked: 0,
            pending: 0,
            told_pending: 0,
            waiting: VecDeque::new(),
            spare: 0,
            quantum: 1,
            exhausted: false,
            fleet_remaining: 0,
            hinted: Seq(0),
            told: Told::default(),
            looked: round,
            demanded: round,
            pace: 1,
            next_look: round,
            prepared: false,
            flight: None,
            timer: None,
            backoff_until: None,
        }
    }

    pub const fn spent(&self) -> u64 {
        self.installed
            .saturating_sub(self.taken)
            .saturating_sub(self.available)
    }

    pub fn given_total(&self) -> u64 {
        self.given.iter().map(|given| given.units).sum()
    }

    /// S1.
    pub fn adds_up(&self) -> bool {
        let out = u128::from(self.spent())
            + u128::from(self.available)
            + u128::from(total(&self.returned))
            + u128::from(self.given_total());
        let into = u128::from(total(&self.granted))
            + u128::from(self.self_granted)
            + u128::from(self.opened);
        out <= into
    }

    /// Reads the table. Says how many units were asked for since the last look.
    pub fn look(&mut self, bucket: Bucket, credit: &mut impl Credit, stats: &mut Stats) -> u64 {
        let Some(level) = credit.read(bucket, &self.terms) else {
            // Never put in, over, or evicted: what may have been spent counts as spent.
            self.available = 0;
            self.counted = 0;
            return 0;
        };
        let most = self.installed.saturating_sub(self.taken);
        self.available = level.available;
        if level.available > most {
            // More than was ever put in must not be spent.
            stats.table_mismatch += 1;
            credit.take_back(bucket, &self.terms, most);
            self.available = most;
        }
        let asked = level.demand.saturating_sub(self.counted);
        self.counted = level.demand;
        asked
    }

    /// Puts units into the table. Says whether they lie there.
    pub fn install(&mut self, bucket: Bucket, units: u64, credit: &mut impl Credit) -> bool {
        if units == 0 {
            return true;
        }
        let there = credit.install(bucket, &self.terms, units);
        if there {
            self.installed = self.installed.saturating_add(units);
            self.available = self.available.saturating_add(units);
        }
        there
    }

    /// Takes back what exceeds `keep`, but no more than `most`. Says how much that was.
    pub fn take(
        &mut self,
        bucket: Bucket,
        keep: u64,
        most: u64,
        credit: &mut impl Credit,
        stats: &mut Stats,
    ) -> u64 {
        self.look(bucket, credit, stats);
        let keep = keep.max(self.available.saturating_sub(most));
        if keep >= self.available {
            return 0;
        }
        let mut taken = credit.take_back(bucket, &self.terms, keep);
        if taken > most {
            // A reservation was refunded between the look and the taking.
            let back = taken - most;
            if credit.install(bucket, &self.terms, back) {
                taken = most;
            }
        }
        self.taken = self.taken.saturating_add(taken);
        self.available = self.available.saturating_sub(taken);
        taken.min(most)
    }

    /// Hands back to a ledger what exceeds `keep`: at most what that ledger has out here. Says how much that was.
    pub fn hand_back(
        &mut self,
        bucket: Bucket,
        keep: u64,
        ledger: LedgerId,
        credit: &mut impl Credit,
        stats: &mut Stats,
    ) -> u64 {
        let most = of(&self.granted, ledger).saturating_sub(of(&self.returned, ledger));
        let units = self.take(bucket, keep, most, credit, stats);
        if units > 0 {
            *of_mut(&mut self.returned, ledger) += units;
            self.exhausted = false;
        }
        units
    }

    pub fn record(&self, bucket: Bucket) -> ReportRecord {
        ReportRecord {
            bucket,
            terms: self.terms,
            generation: self.generation,
            spent: self.spent(),
            returned: self.returned.clone(),
            self_granted: self.self_granted,
            given: self.given.clone(),
            demand: self.told.demand,
            available: self.available,
            pending: self.pending,
            quantum: self.quantum,
        }
    }
}
