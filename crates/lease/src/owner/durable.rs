//! Durable limits at the owner (section 7): issuing only up to what the store has authorized, raised in tranches.
//!
//! Nothing may be issued against a raise before it is kept, and a lowering counts from when it is asked for. While it is
//! not known what the store has, the smaller of the two totals holds.

use std::time::Duration;

use crate::bucket::Bucket;
use crate::durable::{Authorized, Change, StoreAnswer};
use crate::mutant::Mutant;
use crate::node::{Event, Output};
use crate::time::Instant;
use crate::turn::Turn;

use super::Owner;
use super::issue::percent;

/// After no answer the store is asked again in so long.
const RETRY: Duration = Duration::from_millis(500);

/// A raise is worth so many units at least.
const LEAST_TRANCHE: u64 = 10;

/// A record outlives its bucket by so much, in case some clock is behind.
const KEEP_LONGER: Duration = Duration::from_secs(3600);

/// One bucket's standing with the store.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Durable {
    /// What lies there, once it is known: `Some(None)` for nothing.
    known: Option<Option<Authorized>>,
    /// Units that this owner and those before may have issued at most.
    pub usable: u64,
    /// Units that those before may have issued.
    pub base: u64,
    /// A question is under way.
    pub asking: bool,
    refused: bool,
    /// The version that a lowering expected, and the least total asked for of it. While the store shows that version, the
    /// lowering may still be made, though its answer was lost.
    pending_low: Option<(u64, u64)>,
    retry_at: Option<Instant>,
}

impl Durable {
    /// Whether an answer of the store may bring more.
    pub const fn is_waiting(&self) -> bool {
        !self.refused && (self.asking || self.known.is_none())
    }

    /// What this owner may have charged in all.
    pub const fn allowance(&self, units: u64) -> u64 {
        let usable = if self.usable < units {
            self.usable
        } else {
            units
        };
        usable.saturating_sub(self.base)
    }
}

impl Owner {
    /// Asks the store for what will be needed, or gives back what will not.
    pub(super) fn provision(&mut self, bucket: Bucket, turn: &mut Turn<'_>) {
        let tranche_percent = turn.config.tranche_percent;
        let now = turn.time.instant;
        let Some(entry) = self.ledger.get_mut(&bucket) else {
            return;
        };
        let charged = entry.charged();
        let units = entry.terms.units.saturating_add(entry.added);
        let pending: u64 = entry
            .accounts
            .iter()
            .fold(0, |sum, account| account.pending.saturating_add(sum));
        let keep_until = entry.end.plus(KEEP_LONGER);
        let Some(durable) = &mut entry.durable else {
            return;
        };
        if durable.asking || durable.refused || durable.retry_at.is_some_and(|at| now < at) {
            return;
        }
        let Some(expected) = durable.known else {
            durable.asking = true;
            turn.outputs.push_back(Output::Load(bucket));
            return;
        };
        let tranche = percent(units, tranche_percent)
            .max(LEAST_TRANCHE)
            .max(pending);
        let used = durable.base.saturating_add(charged);
        let to = used.saturating_add(tranche).min(units.max(used));
        let low = durable.usable.saturating_sub(used) < tranche.div_ceil(2);
        let high = durable.usable > used.saturating_add(tranche.saturating_mul(2));
        if (low && to > durable.usable) || high {
            durable.usable = durable.usable.min(to);
            let version = expected.map_or(0, |it| it.version);
            let low = durable
                .pending_low
                .filter(|(v, _)| *v == version)
                .map_or(to, |(_, low)| low.min(to));
            durable.pending_low = Some((version, low));
            durable.asking = true;
            turn.outputs.push_back(Output::Authorize(Change {
                bucket,
                expected,
                to,
                keep_until,
            }));
        }
    }

    /// The store has answered.
    pub fn stored(&mut self, bucket: Bucket, answer: StoreAnswer, turn: &mut Turn<'_>) {
        let me = turn.me;
        let no_base = turn.config.broken(Mutant::NoBase);
        let now = turn.time.instant;
        let Some(entry) = self.ledger.get_mut(&bucket) else {
            return;
        };
        let Some(durable) = &mut entry.durable else {
            return;
        };
        durable.asking = false;
        match answer {
            StoreAnswer::Is(found) => {
                durable.known = Some(found);
                let (usable, base) = match found {
                    None => (0, 0),
                    Some(it) if it.fence == me => (it.total, it.base),
                    Some(it) => (it.total, it.total),
                };
                let version = found.map_or(0, |it| it.version);
                let usable = match durable.pending_low {
                    Some((v, low)) if v == version => usable.min(low),
                    _ => usable,
                };
                (durable.usable, durable.base) = (usable, if no_base { 0 } else { base });
            }
            StoreAnswer::Kept(kept) => {
                durable.known = Some(Some(kept));
                durable.usable = kept.total;
                durable.base = if no_base { 0 } else { kept.base };
            }
            StoreAnswer::Unknown => {
                durable.known = None;
                durable.retry_at = Some(now + RETRY);
            }
            StoreAnswer::Refused => {
                durable.refused = true;
                durable.usable = 0;
                turn.event(Event::StoreRefused(bucket));
            }
        }
        self.answer(bucket, turn);
        self.stirred.insert(bucket);
    }
}
