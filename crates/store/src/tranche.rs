//! One durable bucket at its owner: how much it may issue, and what it wants of the ledger next.
//!
//! An owner issues only up to what the ledger has confirmed, and asks for a tranche more ahead of need. It must never
//! count on a change whose answer it has not heard, and must keep to a lower total before it asks for one. No IO and no
//! clock: the node sends [`Tranche::wish`] to a [`crate::ledger::DurableLedger`] and tells what came back.

use lease::bucket::Bucket;
use lease::time::Wall;

use crate::ledger::LedgerError;
use crate::record::{Authorized, Change, Fence, Refusal};

/// A durable bucket, as its owner knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tranche {
    bucket: Bucket,
    fence: Fence,
    keep_until: Wall,
    known: Known,
    /// Asked for, and not answered yet: it may have been made or not, or be made later.
    asked: Option<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// Not loaded yet.
    Unknown,
    /// What the ledger had when it last spoke.
    Is(Option<Authorized>),
    /// Another incarnation of this node has taken over, or runs beside this one: nothing may be issued any more.
    Over,
}

/// What the owner wants of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To know what was authorized.
    Load,
    /// This change. The same one again after no answer came.
    Authorize(Change),
}

/// How the bucket stands, as the owner's own ledger has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Units that this incarnation has issued, less those that were returned to it.
    pub charged: u64,
    /// Units that the limit allows in all.
    pub allowance: u64,
    /// Units that are asked for at a time: what a crash may lose. At least 1.
    pub tranche: u64,
}

impl Tranche {
    /// A bucket that this incarnation has not touched. Its record may go at `keep_until`.
    #[must_use]
    pub const fn new(bucket: Bucket, fence: Fence, keep_until: Wall) -> Self {
        Self {
            bucket,
            fence,
            keep_until,
            known: Known::Unknown,
            asked: None,
        }
    }

    /// Units that this incarnation may have charged at once: it issues no more than keeps `charged` within it. A raise
    /// counts from its answer on, a lowering from its asking on.
    #[must_use]
    pub fn may_charge(&self) -> u64 {
        let Some(own) = self.own() else { return 0 };
        let total = match self.asked {
            Some(asked) => own.total.min(asked.to),
            None => own.total,
        };
        total.saturating_sub(own.base)
    }

    /// Units that were authorized for owners before this one, and count as issued. `None` until this one has claimed
    /// the bucket.
    #[must_use]
    pub fn base(&self) -> Option<u64> {
        self.own().map(|own| own.base)
    }

    fn own(&self) -> Option<Authorized> {
        match self.known {
            Known::Is(Some(known)) if known.fence == self.fence => Some(known),
            Known::Is(Some(_) | None) | Known::Unknown | Known::Over => None,
        }
    }

    /// What to ask of the ledger now; nothing if all is well, or if nothing is left to ask for.
    pub fn wish(&mut self, need: Need) -> Option<Wish> {
        if let Some(asked) = self.asked {
            return Some(Wish::Authorize(asked));
        }
        let found = match self.known {
            Known::Over => return None,
            Known::Unknown => return Some(Wish::Load),
            Known::Is(found) => found,
        };
        let to = match self.own() {
            None => first(found.map_or(0, |found| found.total), need)?,
            Some(own) => next(own, need)?,
        };
        let change = Change {
            bucket: self.bucket,
            expected: found,
            to,
            fence: self.fence,
            keep_until: self.keep_until,
        };
        self.asked = Some(change);
        Some(Wish::Authorize(change))
    }

    /// What a load told.
    pub const fn loaded(&mut self, found: Option<Authorized>) {
        // While a change is under way, its answer tells more.
        if self.asked.is_none() && !matches!(self.known, Known::Over) {
            self.known = Known::Is(found);
        }
    }

    /// What a change came to.
    pub fn answered(&mut self, answer: &Result<Authorized, LedgerError>) {
        match answer {
            Ok(authorized) => {
                self.known = Known::Is(Some(*authorized));
                self.asked = None;
            }
            Err(LedgerError::Refused(refusal)) => {
                self.asked = None;
                self.known = match refusal {
                    Refusal::Changed { found } => Known::Is(*found),
                    Refusal::Stale { .. } | Refusal::TwoOfOne(_) => Known::Over,
                    Refusal::BelowBase { .. } => Known::Unknown,
                };
            }
            // It was not made, for certain.
            Err(LedgerError::Full { .. }) => self.asked = None,
            // Perhaps it was: asked again, the ledger will tell.
            Err(LedgerError::Unavailable { .. } | LedgerError::Damaged { .. }) => {}
        }
    }
}

/// The total that a claim asks for; `None` if nothing is left.
fn first(issued: u64, need: Need) -> Option<u64> {
    let to = issued
        .saturating_add(need.tranche.max(1))
        .min(need.allowance);
    (to > issued).then_some(to)
}

/// The next total: a tranche ahead of what is charged, as soon as half of one is gone; lower, when more than two are
/// free, so that a crash does not lose them. `None` if it stays.
fn next(own: Authorized, need: Need) -> Option<u64> {
    let tranche = need.tranche.max(1);
    let charged = own.base.saturating_add(need.charged);
    let free = own.total.saturating_sub(charged);
    // What is charged stays authorized, whatever the allowance has become.
    let ahead = charged
        .saturating_add(tranche)
        .min(need.allowance.max(charged));
    let raise = ahead > own.total && free <= tranche / 2;
    let lower = ahead < own.total && free > tranche.saturating_mul(2);
    (raise || lower).then_some(ahead)
}

#[cfg(test)]
#[path = "tranche_tests.rs"]
mod tests;
