//! Where a metered limit counts a request: in the node's own table alone, or against credit leased from the fleet.
//!
//! The decision treats both alike: it looks, takes, takes back. This only sends each call to where the limit counts.

use lease::terms::Terms;

use crate::bucket::BucketId;
use crate::compile::CompiledLimit;
use crate::fleet::{Dry, Lineage};
use crate::meter::Meter;
use crate::table::{Cause, Level, Table};
use crate::time::Now;

/// A bucket and how its limit counts.
#[derive(Clone, Copy)]
pub(crate) struct Account<'a> {
    pub(crate) bucket: BucketId,
    pub(crate) group: u64,
    pub(crate) meter: &'a Meter,
    /// If it is shared.
    pub(crate) terms: Option<&'a Terms>,
}

impl<'a> Account<'a> {
    /// The account of a limit of the policy.
    #[inline]
    pub(crate) const fn new(bucket: BucketId, limit: &'a CompiledLimit, meter: &'a Meter) -> Self {
        Self {
            bucket,
            group: limit.identity.group(),
            meter,
            terms: limit.terms.as_ref(),
        }
    }

    /// Whether `cost` would be admitted; charges nothing.
    #[inline]
    pub(crate) fn look(&self, table: &Table, cost: u64, now: Now) -> Level {
        match self.terms {
            None => table.look(self.bucket, self.group, self.meter, cost, now),
            Some(_) => table.look_leased(self.bucket, self.meter, cost, now),
        }
    }

    /// Charges `cost` if there is room.
    #[inline(always)]
    pub(crate) fn take(&self, table: &Table, cost: u64, now: Now) -> Level {
        match self.terms {
            None => table.take(self.bucket, self.group, self.meter, cost, now),
            Some(_) => table.spend(self.bucket, self.meter, cost, now),
        }
    }

    /// Takes back a charge just made, of which `level` is the answer.
    pub(crate) fn undo(&self, table: &Table, cost: u64, level: &Level, now: Now) {
        match self.terms {
            None => table.undo(self.bucket, self.group, self.meter, cost, level, now),
            Some(_) => {
                // If its window is over, so is what it was for.
                table.unspend(self.bucket, self.meter, cost, level, now);
            }
        }
    }

    /// Gives units back some time after they were charged. Nothing says of which window they were, and in another they
    /// would be credit that nobody issued: so a shared limit keeps them.
    pub(crate) fn give_back(&self, table: &Table, units: u64, now: Now) {
        if self.terms.is_none() {
            table.give_back(self.bucket, self.meter, units, now);
        }
    }

    /// Counts as demand what a look refused.
    pub(crate) fn count_unmet(&self, table: &Table, cost: u64, now: Now) {
        if self.terms.is_some() {
            table.count_unmet(self.bucket, self.meter, cost, now);
        }
    }

    /// The credit that it lacked when it stood so; `None` if it lacked none, or if credit would not help.
    pub(crate) fn dry(&self, level: &Level, cost: u64, lineage: Option<Lineage>) -> Option<Dry> {
        match (self.terms, level.cause) {
            (Some(terms), Cause::Used) => {
                let dry = Dry::new(self.bucket, terms, self.meter, level, cost, lineage);
                Some(dry)
            }
            (Some(_), Cause::Room | Cause::TooCostly | Cause::TableFull) | (None, _) => None,
        }
    }
}
