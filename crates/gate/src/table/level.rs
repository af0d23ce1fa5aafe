//! How a bucket stood at the instant of a decision, and the figures that follow from it.
//!
//! A level holds the raw words captured with the decision; what surfaces show is worked out from them when asked, and
//! from nothing else, so that all figures of one answer belong to one instant.

use crate::algorithm::{sliding, token_bucket};
use crate::meter::{Kind, Meter};

/// A time that never comes, in nanoseconds: what [`Level::reset_after_ns`] says of a quota that never renews.
pub const NEVER_NS: u64 = u64::MAX;

/// Why a level says what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// There was room.
    Room,
    /// There was not enough room left.
    Used,
    /// The cost is more than the limit can ever hold.
    TooCostly,
    /// The table was full of live buckets, and so were the cells that stand in for slots.
    TableFull,
}

/// Where a bucket was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a slot of its own.
    Own,
    /// In a cell shared with other keys of the limit, because the table was full of live buckets.
    Shared,
    /// Nowhere: it was only looked at and has no slot, or there was no room.
    Nowhere,
}

/// How a bucket stood when it was decided, after the charge if there was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Level {
    /// Whether the cost was (or, of a look, would have been) admitted.
    pub admitted: bool,
    /// Why.
    pub cause: Cause,
    /// Where it was counted.
    pub place: Place,
    /// The instant of the decision, on the table's clock.
    pub(crate) now: u64,
    /// Counting windows: when the window ends. Token bucket: when it is full, in ticks.
    pub(crate) end: u64,
    /// Units counted in the current window.
    pub(crate) current: u64,
    /// Units counted in the window before.
    pub(crate) previous: u64,
}

impl Level {
    /// Units left, at most what the limit can hold.
    #[inline]
    #[must_use]
    pub fn remaining(&self, meter: &Meter) -> u64 {
        match meter.kind {
            Kind::Fixed | Kind::Forever | Kind::Sliding | Kind::TwoWindow => {
                self.left(meter).unwrap_or(0)
            }
            Kind::TokenBucket => meter.full.saturating_sub(self.debt(meter)) / meter.interval,
        }
    }

    /// Nanoseconds until the limit is whole again: the counts forgotten, or the bucket full. 0 if it is whole,
    /// [`NEVER_NS`] for a quota that never renews.
    #[inline]
    #[must_use]
    pub fn reset_after_ns(&self, meter: &Meter) -> u64 {
        let rest = self.end.saturating_sub(self.now);
        match meter.kind {
            Kind::Forever if self.current > 0 => NEVER_NS,
            Kind::Fixed if self.current > 0 => {
                // In a shared cell two windows count.
                rest + if self.place == Place::Shared {
                    meter.window_ns
                } else {
                    0
                }
            }
            Kind::Sliding | Kind::TwoWindow if self.current > 0 => rest + meter.window_ns,
            Kind::Fixed | Kind::Sliding | Kind::TwoWindow if self.previous > 0 => rest,
            Kind::Fixed | Kind::Forever | Kind::Sliding | Kind::TwoWindow => 0,
            Kind::TokenBucket => token_bucket::nanos(meter, self.debt(meter)),
        }
    }

    /// Nanoseconds until `cost` units would be admitted if nothing more is taken: 0 if there is room now, `None` if
    /// there never will be.
    #[must_use]
    pub fn retry_after_ns(&self, meter: &Meter, cost: u64) -> Option<u64> {
        if cost > meter.most {
            return None;
        }
        if self.cause == Cause::TableFull {
            // Not known: some live bucket must end first. A second is an honest guess at when to look again.
            return Some(1_000_000_000);
        }
        match meter.kind {
            Kind::Forever => (self.left(meter)? >= cost).then_some(0),
            Kind::Fixed | Kind::Sliding | Kind::TwoWindow => {
                if self.left(meter).is_some_and(|left| left >= cost) {
                    return Some(0);
                }
                Some(match (meter.kind, self.place) {
                    (Kind::Fixed, Place::Own | Place::Nowhere) => self.end.saturating_sub(self.now),
                    (_, _) => {
                        let meter = self.counted_by(meter);
                        let (previous, current) = (self.previous, self.current);
                        let cost = cost.min(meter.most);
                        sliding::wait(&meter, previous, current, self.end, self.now, cost)
                    }
                })
            }
            Kind::TokenBucket => {
                let need = cost.saturating_mul(meter.interval);
                let over = self
                    .debt(meter)
                    .saturating_add(need)
                    .saturating_sub(meter.full);
                Some(token_bucket::nanos(meter, over))
            }
        }
    }

    /// The instant of the decision on the table's clock, in nanoseconds since the epoch: the time that the decision
    /// was asked for at, or the latest that the table had seen.
    #[must_use]
    pub const fn decided_at_ns(&self) -> u64 {
        self.now
    }

    /// When the decision's window ends, in nanoseconds since the epoch: which window it was counted in. For token
    /// buckets, when the bucket would be full.
    #[must_use]
    pub fn window_end_ns(&self, meter: &Meter) -> u64 {
        match meter.kind {
            Kind::Fixed | Kind::Forever | Kind::Sliding | Kind::TwoWindow => self.end,
            Kind::TokenBucket => token_bucket::nanos(meter, self.end),
        }
    }

    /// The meter that the words were counted by.
    #[inline]
    fn counted_by(&self, meter: &Meter) -> Meter {
        match self.place {
            Place::Own | Place::Nowhere => *meter,
            Place::Shared => meter.of_cell(),
        }
    }

    /// Counting windows: units left; `None` if more than all are used.
    #[inline]
    fn left(&self, meter: &Meter) -> Option<u64> {
        let meter = self.counted_by(meter);
        match meter.kind {
            Kind::Fixed | Kind::Forever => meter.most.checked_sub(self.current),
            Kind::Sliding | Kind::TwoWindow => {
                sliding::left(&meter, self.previous, self.current, self.end, self.now)
            }
            Kind::TokenBucket => None,
        }
    }

    /// Token bucket: ticks until it is full.
    fn debt(&self, meter: &Meter) -> u64 {
        self.end
            .saturating_sub(token_bucket::ticks(meter, self.now))
    }
}
