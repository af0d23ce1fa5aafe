//! Shared cells, for when the table is full of live buckets.
//!
//! A live bucket is never given up for another: forgetting an exhausted key would refill it. A key that finds no slot
//! is charged to a cell that it shares with a sixteenth of its limit's other such keys. A cell counts like a bucket
//! of the limit but more strictly (see [`Meter::of_cell`]), so no key takes more through a cell than its limit allows
//! in any interval of a window's length. Nobody is let through uncounted: if there is no room for the cell either,
//! the request is refused.
//!
//! # From a cell to a slot
//!
//! A key that gets a slot later begins with all that its cell holds: at least what the key used there. Who charges a
//! cell first raises `overflow_until`, charges, and then looks for the key's slot again; who claims a slot publishes
//! the claim, then reads `overflow_until`, then the cell. So either the claimer's reading has the charge in it, or
//! the charger sees the claim, takes its charge back and uses the slot.

use super::Table;
use super::charge::Ask;
use super::claim::Found;
use super::level::{Cause, Level, Place};
use super::probe::{Key, Span};
use super::refund::Refund;
use super::sync::{bump, raise, read};
use crate::algorithm::{TIME_STEP_NS, token_bucket};
use crate::bucket::BucketId;
use crate::meter::{Kind, Meter};

/// Cells of a limit.
const CELLS: u64 = 16;

/// Slots for cells in a table for so many live buckets.
pub(super) fn cells(live_buckets: u64) -> u64 {
    (live_buckets / 32).max(if cfg!(loom) { 2 } else { 64 })
}

impl Table {
    /// The cell that stands in for a key of the limit `group`. How the limit counts goes into the cell's id as well, so
    /// that a cell's state is never read by another algorithm, even if a caller gave two limits one group.
    fn cell(&self, key: &Key, group: u64, of_cell: &Meter) -> Key {
        // SplitMix64's finaliser (Steele, Lea, Flood 2014): the group is a keyed hash already.
        let mix = |mut x: u64| {
            x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            x ^ x >> 31
        };
        let algorithm = match of_cell.kind {
            Kind::Fixed | Kind::Sliding | Kind::TwoWindow => 0,
            Kind::Forever => 1,
            Kind::TokenBucket => 2,
        };
        let counted = mix(of_cell.window_ns << 2 | algorithm);
        let number = (key.own % CELLS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let low = mix(mix(group ^ counted).wrapping_add(number));
        let id = BucketId(u128::from(mix(low ^ group)) << 64 | u128::from(low));
        Key::new(id, self.cells)
    }

    /// Whether this key is a shared cell itself.
    fn is_cell(&self, span: Span) -> bool {
        span.first == self.cells.first
    }

    /// Until when a charge to a cell at `now` can matter to a key.
    fn cell_life(meter: &Meter, now: u64) -> u64 {
        match meter.kind {
            Kind::Forever => u64::MAX,
            Kind::Fixed | Kind::Sliding | Kind::TwoWindow => now
                .saturating_add(2 * meter.window_ns)
                .saturating_add(TIME_STEP_NS),
            Kind::TokenBucket => now
                .saturating_add(token_bucket::nanos(meter, meter.full))
                .saturating_add(TIME_STEP_NS),
        }
    }

    /// Charges the key's cell. `None` if the key has a slot or a claim after all, and nothing was charged.
    #[cold]
    pub(super) fn take_shared(
        &self,
        key: &Key,
        group: u64,
        meter: &Meter,
        cost: u64,
        now: u64,
    ) -> Option<Level> {
        let header = self.region.header();
        // The key's slot may have been taken over while we searched for it: nothing is decided before that time.
        let now = self.later(now);
        let of_cell = meter.of_cell();
        let cell = self.cell(key, group, &of_cell);
        raise(&header.overflow_until.0, Self::cell_life(&of_cell, now));
        let level = match self.take_own(&cell, group, &of_cell, cost, now) {
            Some(level) => level,
            None => {
                bump(&header.no_room.0);
                return Some(Level {
                    admitted: false,
                    cause: Cause::TableFull,
                    place: Place::Nowhere,
                    now,
                    end: now,
                    current: 0,
                    previous: 0,
                });
            }
        };
        if level.admitted {
            match self.find(key, now) {
                Found::Absent(_) => {}
                Found::Own(..) | Found::Claim(..) => {
                    self.refund_own(&cell, &of_cell, cost, Refund::Of { end: level.end }, now);
                    return None;
                }
            }
        }
        bump(&header.overflow_takes.0);
        Some(Level {
            place: Place::Shared,
            ..level
        })
    }

    /// How the key's cell stands, if a cell may hold anything of the key's at `now`.
    pub(super) fn cell_level(
        &self,
        key: &Key,
        group: u64,
        meter: &Meter,
        now: u64,
    ) -> Option<Level> {
        if read(&self.region.header().overflow_until.0) < now || self.is_cell(key.span) {
            return None;
        }
        let of_cell = meter.of_cell();
        let cell = self.cell(key, group, &of_cell);
        loop {
            match self.find(&cell, now) {
                Found::Own(slot, word) => {
                    let level = self.decide(slot, word, &cell, &of_cell, Ask::Look(0), now);
                    if let Some(level) = level {
                        return Some(Level {
                            place: Place::Shared,
                            ..level
                        });
                    }
                }
                // A claim has not been charged, and a charge that follows will see the key's claim.
                Found::Claim(..) | Found::Absent(_) => return None,
            }
        }
    }

    /// Takes back a charge to the key's cell.
    pub(super) fn undo_shared(
        &self,
        key: &Key,
        group: u64,
        meter: &Meter,
        cost: u64,
        end: u64,
        now: u64,
    ) {
        let of_cell = meter.of_cell();
        let cell = self.cell(key, group, &of_cell);
        self.refund_own(&cell, &of_cell, cost, Refund::Of { end }, now);
    }
}
