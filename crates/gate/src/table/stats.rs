//! What a table tells of itself.

use super::slot::{NEVER, WITHDRAWN};
use super::sync::read;
use super::{Table, region};
use crate::time::Now;

/// Figures of a table. The counters are shared by all processes that use it, and begin at 0 with its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Live buckets, extrapolated from a sample of slots.
    pub live_estimate: u64,
    /// Slots for buckets.
    pub slots: u64,
    /// Bytes of memory that the table has.
    pub bytes: u64,
    /// Takes that were counted in a shared cell because the table was full of live buckets.
    pub overflow_takes: u64,
    /// Takes that were refused because there was no room even in the shared cells.
    pub no_room: u64,
    /// Slots taken over from buckets that were over.
    pub reclaimed: u64,
    /// Slots claimed, by this process alone, for buckets that had none.
    pub claimed: u64,
    /// States found that no charge can have written.
    pub damaged: u64,
}

impl Table {
    /// Figures of the table at `now`. It samples up to 4,096 slots: not for the decision path.
    #[must_use]
    pub fn stats(&self, now: Now) -> TableStats {
        const SAMPLE: usize = 4096;
        let now = self.now(now);
        let stride = self.own.len.div_ceil(SAMPLE);
        let mut seen = 0;
        let mut live = 0;
        for index in (0..self.own.len).step_by(stride) {
            let slot = self.region.slot(index);
            let tag = slot.words[0].load().tag;
            seen += 1;
            let used = tag != NEVER && tag != WITHDRAWN && read(&slot.live_until) >= now;
            live += u64::from(used);
        }
        let header = self.region.header();
        TableStats {
            live_estimate: (u128::from(live) * self.own.len as u128 / seen) as u64,
            slots: self.own.len as u64,
            bytes: region::bytes(self.region.slots() as u64).unwrap_or(usize::MAX) as u64,
            overflow_takes: read(&header.overflow_takes.0),
            no_room: read(&header.no_room.0),
            reclaimed: read(&header.reclaimed.0),
            claimed: self.claimed.0.load(std::sync::atomic::Ordering::Relaxed),
            damaged: read(&header.damaged.0),
        }
    }

    /// Whether, at `now`, a key without a slot may share its count with others: the table was full of live buckets,
    /// and what was counted in shared cells since may still matter. It reads two words.
    #[must_use]
    pub fn shares_cells(&self, now: Now) -> bool {
        let until = read(&self.region.header().overflow_until.0);
        until != 0 && until >= self.now(now)
    }
}
