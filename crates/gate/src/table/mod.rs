//! The bucket table: one flat region of 64-byte slots in which every decision is made.
//!
//! It takes no lock, allocates nothing after it was made, never blocks and never forgets a live bucket. It may lie in
//! a file that several processes map at once; any of them may be killed or stopped between any two instructions, and
//! the others neither wait for it nor admit more than a limit allows.
//!
//! | part | what it does |
//! |---|---|
//! | `slot`, `header` | the layout |
//! | `probe` | where a bucket may lie |
//! | `claim` | finding a slot, claiming one |
//! | `charge`, `refund` | one atomic step on a slot |
//! | `leased`, `held` | credit of the fleet: installed, spent, taken back |
//! | `overflow` | shared cells for keys that find no slot |
//! | `region`, `open` | the memory and the file |
//! | `sync`, `wide` | the atomics, real and modelled |
//!
//! Nothing here reads a clock: every call brings its time. The table has a time of its own as well, at or above every
//! time it was called with (to a millisecond), and decides nothing at an earlier one; so a clock that steps back
//! refills nothing.

// The model has no files, so what only they need is unused there.
#![cfg_attr(loom, allow(dead_code))]

mod charge;
mod claim;
mod error;
mod header;
mod held;
#[cfg(all(test, loom))]
mod interleavings;
mod leased;
#[cfg(all(test, loom))]
mod leased_interleavings;
mod level;
#[cfg(not(loom))]
mod open;
mod overflow;
mod probe;
mod refund;
#[cfg(not(loom))]
mod region;
#[cfg(loom)]
#[path = "modelled_region.rs"]
mod region;
mod slot;
mod stats;
mod sync;
#[cfg(all(not(loom), target_arch = "x86_64"))]
mod wide;

use std::num::NonZeroU64;

use crate::algorithm::{LAST_NS, TIME_STEP_NS, fixed, sliding, token_bucket};
use crate::bucket::BucketId;
use crate::meter::{Kind, Meter, phase};
use crate::time::Now;

pub use error::{Discard, TableError};
pub use leased::Leased;
pub use level::{Cause, Level, NEVER_NS, Place};
#[cfg(not(loom))]
pub use open::{Continued, MapOptions, OnDamage, set_aside};
pub use stats::TableStats;

use charge::Ask;
use claim::{Found, Opening};
use probe::{Key, Span};
use refund::Refund;
use region::Region;
use slot::NEVER;
use sync::{raise, read};

/// The most live buckets that a table may be made for: 2^32, some 400 GB.
pub const MOST_LIVE_BUCKETS: u64 = 1 << 32;

/// The bucket table. See the module's text.
pub struct Table {
    region: Region,
    /// The slots of buckets.
    own: Span,
    /// The slots of shared cells.
    cells: Span,
    claimed: Claimed,
}

/// Slots that this process claimed, on a line of its own, apart from what every decision reads. It only counts, so it
/// is no part of what loom models.
#[derive(Default)]
#[repr(align(128))]
struct Claimed(std::sync::atomic::AtomicU64);

/// Slots for so many live buckets, and for their shared cells. Together they stay within 100 bytes a live bucket.
fn sizes(live_buckets: NonZeroU64) -> Result<(u64, u64), TableError> {
    let live_buckets = live_buckets.get();
    if !sync::supported() {
        return Err(TableError::Processor);
    }
    if live_buckets > MOST_LIVE_BUCKETS {
        return Err(TableError::TooLarge { live_buckets });
    }
    let least = if cfg!(loom) { 1 } else { 64 };
    Ok((
        (live_buckets * 3).div_ceil(2).max(least),
        overflow::cells(live_buckets),
    ))
}

impl Table {
    /// A new table in this process's own memory. It stands for `live_buckets` buckets at once with room to spare, and
    /// for half as many again with longer searches. Keys beyond that share cells that count for several of them, more strictly: see [`Place::Shared`].
    ///
    /// # Errors
    /// If it is too large, or there is no memory for it.
    pub fn anonymous(live_buckets: NonZeroU64) -> Result<Self, TableError> {
        let (slots, cells) = sizes(live_buckets)?;
        let bytes = region::bytes(slots + cells).unwrap_or(usize::MAX) as u64;
        let region = Region::anonymous(slots + cells)
            .map_err(|source| TableError::Memory { bytes, source })?;
        Ok(Self::over(region, slots, cells))
    }

    fn over(region: Region, slots: u64, cells: u64) -> Self {
        debug_assert_eq!(region.slots() as u64, slots + cells);
        let (slots, cells) = (slots as usize, cells as usize);
        Self {
            region,
            own: Span {
                first: 0,
                len: slots,
            },
            cells: Span {
                first: slots,
                len: cells,
            },
            claimed: Claimed::default(),
        }
    }

    /// Asks the processor to fetch a bucket's likely slot, ahead of a call that needs it.
    #[inline]
    pub fn prefetch(&self, id: BucketId) {
        self.region.prefetch(Key::new(id, self.own).home());
    }

    /// Tells how a bucket stands and whether `cost` would be admitted, and changes nothing. `group` is the same for
    /// all buckets of a limit: a keyed hash of its identity.
    pub fn look(&self, id: BucketId, group: u64, meter: &Meter, cost: u64, now: Now) -> Level {
        let now = self.now(now);
        let key = Key::new(id, self.own);
        let level = loop {
            match self.find(&key, now) {
                Found::Own(slot, word) => {
                    if let Some(level) = self.decide(slot, word, &key, meter, Ask::Look(cost), now)
                    {
                        break level;
                    }
                }
                Found::Claim(..) | Found::Absent(_) => {
                    let level = self.cell_level(&key, group, meter, now);
                    let level = level.unwrap_or_else(|| unused(&key, meter, now));
                    let room = level.retry_after_ns(meter, cost) == Some(0);
                    let cause = if room { Cause::Room } else { Cause::Used };
                    break Level {
                        admitted: room,
                        cause,
                        ..level
                    };
                }
            }
        };
        too_costly(level, meter, cost)
    }

    /// Charges `cost` units to a bucket if there is room for all of them, else nothing; in one atomic step. A cost of
    /// 0 looks. `group` is the same for all buckets of a limit: a keyed hash of its identity.
    #[inline(always)]
    pub fn take(&self, id: BucketId, group: u64, meter: &Meter, cost: u64, now: Now) -> Level {
        if cost == 0 || cost > meter.most {
            return self.look(id, group, meter, cost, now);
        }
        let now = self.now(now);
        let key = Key::new(id, self.own);
        // The common case without the bookkeeping of a search: the bucket is in its first window.
        for k in 0..probe::WIDTH {
            let slot = self.region.slot(key.place(0, k));
            let word = slot.words[0].load();
            if word.tag == key.own {
                // Each common kind returns by itself, so that its level stays in registers: put together in memory by
                // parts and read back whole, it would cost as much as the atomic step.
                let ask = Ask::Take(cost);
                match meter.kind {
                    Kind::Fixed => {
                        if let Some(level) = self.decide_fixed(slot, word, &key, meter, ask, now) {
                            return level;
                        }
                    }
                    Kind::TokenBucket => {
                        if let Some(level) =
                            self.decide_token_bucket(slot, word, &key, meter, ask, now)
                        {
                            return level;
                        }
                    }
                    Kind::Sliding | Kind::TwoWindow => {
                        if let Some(level) = self.decide_sliding(slot, &key, meter, ask, now) {
                            return level;
                        }
                    }
                    Kind::Forever => {
                        if let Some(level) = self.decide(slot, word, &key, meter, ask, now) {
                            return level;
                        }
                    }
                }
                break;
            }
            if word.tag == NEVER {
                break;
            }
        }
        self.take_elsewhere(&key, group, meter, cost, now)
    }

    #[cold]
    fn take_elsewhere(&self, key: &Key, group: u64, meter: &Meter, cost: u64, now: u64) -> Level {
        loop {
            if let Some(level) = self.take_own(key, group, meter, cost, now) {
                return level;
            }
            if let Some(level) = self.take_shared(key, group, meter, cost, now) {
                return level;
            }
        }
    }

    /// Charges a bucket in its slot, claiming one if it has none. `None` if there is no place for it.
    fn take_own(&self, key: &Key, group: u64, meter: &Meter, cost: u64, now: u64) -> Option<Level> {
        let mut now = now;
        let opening = Opening::Counted { group, meter };
        loop {
            match self.find(key, now) {
                Found::Own(slot, word) => {
                    let level = self.decide(slot, word, key, meter, Ask::Take(cost), now);
                    if level.is_some() {
                        return level;
                    }
                }
                Found::Claim(slot, claim) => self.settle(key, opening, slot, claim, now),
                Found::Absent(None) => return None,
                Found::Absent(Some(vacancy)) => self.claim(key, opening, vacancy, now),
            }
            now = self.later(now);
        }
    }

    /// Gives `cost` units back, at most what is charged in the current window (of a token bucket: what it lacks). Does
    /// nothing if the bucket has no slot: what was counted in a shared cell may be another key's.
    pub fn give_back(&self, id: BucketId, meter: &Meter, cost: u64, now: Now) {
        let key = Key::new(id, self.own);
        self.refund_own(&key, meter, cost, Refund::Clamped, self.now(now));
    }

    /// Takes back a charge just made, of which `level` is the answer. Does nothing if its window has ended, or if it
    /// charged nothing.
    pub fn undo(
        &self,
        id: BucketId,
        group: u64,
        meter: &Meter,
        cost: u64,
        level: &Level,
        now: Now,
    ) {
        if !level.admitted || cost == 0 {
            return;
        }
        let now = self.now(now);
        let key = Key::new(id, self.own);
        match level.place {
            Place::Own => {
                self.refund_own(&key, meter, cost, Refund::Of { end: level.end }, now);
            }
            Place::Shared => self.undo_shared(&key, group, meter, cost, level.end, now),
            Place::Nowhere => {}
        }
    }

    fn refund_own(&self, key: &Key, meter: &Meter, cost: u64, refund: Refund, now: u64) {
        match self.find(key, now) {
            Found::Own(slot, _) => self.refund(slot, key, meter, cost, refund, now),
            Found::Claim(..) | Found::Absent(_) => {}
        }
    }

    /// The time that the table decides at: never before the latest it has seen, to a millisecond.
    #[inline]
    fn now(&self, now: Now) -> u64 {
        let now = now.nanos().min(LAST_NS);
        let floor = &self.region.header().floor.0;
        // A damaged file may hold any number.
        let seen = read(floor).min(LAST_NS);
        if now > seen.saturating_add(TIME_STEP_NS) {
            raise(floor, now);
        }
        now.max(seen)
    }

    /// The same for a time that the table gave before and that others may have moved on from.
    fn later(&self, now: u64) -> u64 {
        now.max(read(&self.region.header().floor.0).min(LAST_NS))
    }

    /// The latest time that the table has seen, to a millisecond. A node that continues a table should begin its clock
    /// at or above it: until its clock gets there, the table stands still.
    #[must_use]
    pub fn latest(&self) -> Now {
        Now::from_nanos(read(&self.region.header().floor.0))
    }
}

/// The level of a bucket that has no slot: nothing used.
fn unused(key: &Key, meter: &Meter, now: u64) -> Level {
    let phase = phase(key.id, meter);
    let end = match meter.kind {
        Kind::Fixed => fixed::fresh(meter, phase, now).end,
        Kind::Sliding | Kind::TwoWindow => sliding::read(meter, phase, [None, None], now).end,
        Kind::Forever => u64::MAX,
        Kind::TokenBucket => token_bucket::ticks(meter, now),
    };
    Level {
        admitted: true,
        cause: Cause::Room,
        place: Place::Nowhere,
        now,
        end,
        current: 0,
        previous: 0,
    }
}

/// Marks a level whose cost is more than the limit can ever hold.
fn too_costly(level: Level, meter: &Meter, cost: u64) -> Level {
    if cost > meter.most {
        return Level {
            admitted: false,
            cause: Cause::TooCostly,
            ..level
        };
    }
    level
}
