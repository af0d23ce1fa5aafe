//! Counters in shards, a thread's increments in its own.
//!
//! A shard is shared only if there are more threads than shards, so increments seldom contend; a scrape adds the
//! shards up. Every access is relaxed: each count stands alone, a scrape reads it some time after it was made, and
//! no other memory is reached through it. The number of cells is fixed at the start.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use gate::decision::LimitNumber;

use super::{Answer, ErrorKind, Surface};

/// Upper bounds of the duration buckets, in nanoseconds; one more bucket takes the rest.
pub(super) const DURATION_BOUNDS_NS: [u64; 14] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    1_000_000_000,
];
const DURATION_BUCKETS: usize = DURATION_BOUNDS_NS.len() + 1;
const MOST_SHARDS: usize = 16;

/// All shards.
#[derive(Debug)]
pub(super) struct Shards {
    shards: Box<[Shard]>,
}

/// One thread's cells. Aligned so that two shards share no cache line, nor the pair that x86 prefetches.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Shard {
    surfaces: [SurfaceCells; Surface::ALL.len()],
    errors: [AtomicU64; ErrorKind::ALL.len()],
    blocked_by_no_limit: AtomicU64,
    /// Buckets that were looked up to be charged.
    lookups: AtomicU64,
    /// One for each number below the bound, and the last for all others.
    limits: Box<[LimitCells]>,
}

#[derive(Debug, Default)]
struct SurfaceCells {
    answers: [AtomicU64; Answer::ALL.len()],
    durations: [AtomicU64; DURATION_BUCKETS],
    total_ns: AtomicU64,
}

/// What is counted of one limit.
#[derive(Debug, Default)]
pub(super) struct LimitCells {
    admitted: AtomicU64,
    charged_units: AtomicU64,
    blocked: AtomicU64,
    exceeded_enforced: AtomicU64,
    exceeded_in_shadow: AtomicU64,
    /// Milliseconds since 1970 in the upper 54 bits, thousandths used in the lower 10: one word, so that a scrape
    /// can tell which shard saw the limit last. 0 if never.
    usage: AtomicU64,
}

const USAGE_BITS: u32 = 10;

impl LimitCells {
    pub(super) fn admitted(&self) {
        self.admitted.fetch_add(1, Relaxed);
    }

    pub(super) fn charged(&self, units: u64) {
        self.charged_units.fetch_add(units, Relaxed);
    }

    pub(super) fn blocked(&self) {
        self.blocked.fetch_add(1, Relaxed);
    }

    pub(super) fn exceeded_enforced(&self) {
        self.exceeded_enforced.fetch_add(1, Relaxed);
    }

    pub(super) fn exceeded_in_shadow(&self) {
        self.exceeded_in_shadow.fetch_add(1, Relaxed);
    }

    pub(super) fn saw_usage(&self, unix_ms: u64, permille: u16) {
        self.usage.store(
            (unix_ms << USAGE_BITS) | u64::from(permille.min(1000)),
            Relaxed,
        );
    }
}

impl Shard {
    fn new(limits: usize) -> Self {
        Self {
            surfaces: Default::default(),
            errors: Default::default(),
            blocked_by_no_limit: AtomicU64::new(0),
            lookups: AtomicU64::new(0),
            limits: (0..=limits).map(|_| LimitCells::default()).collect(),
        }
    }

    pub(super) fn request(&self, surface: Surface, answer: Answer, elapsed: Duration) {
        let cells = &self.surfaces[surface as usize];
        let nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        cells.answers[answer as usize].fetch_add(1, Relaxed);
        let bucket = DURATION_BOUNDS_NS.partition_point(|bound| *bound < nanos);
        cells.durations[bucket].fetch_add(1, Relaxed);
        cells.total_ns.fetch_add(nanos, Relaxed);
    }

    pub(super) fn error(&self, kind: ErrorKind) {
        self.errors[kind as usize].fetch_add(1, Relaxed);
    }

    pub(super) fn blocked_by_no_limit(&self) {
        self.blocked_by_no_limit.fetch_add(1, Relaxed);
    }

    pub(super) fn looked_up(&self) {
        self.lookups.fetch_add(1, Relaxed);
    }

    pub(super) fn limit(&self, number: LimitNumber) -> &LimitCells {
        let shared = self.limits.len() - 1;
        &self.limits[(number.0 as usize).min(shared)]
    }
}

/// One limit's counts, all shards together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LimitCounts {
    pub(super) admitted: u64,
    pub(super) charged_units: u64,
    pub(super) blocked: u64,
    pub(super) exceeded_enforced: u64,
    pub(super) exceeded_in_shadow: u64,
    /// When its usage was last seen, and what it was, as [`LimitCells::saw_usage`] writes it; 0 if never.
    latest: u64,
}

impl LimitCounts {
    /// The used share, from 0 to 1; none if never seen.
    pub(super) fn usage(&self) -> Option<f64> {
        let permille = self.latest & ((1 << USAGE_BITS) - 1);
        (self.latest != 0).then_some(permille as f64 / 1000.0)
    }

    /// With another limit's counts, under one series.
    pub(super) fn and(self, more: Self) -> Self {
        Self {
            admitted: self.admitted.wrapping_add(more.admitted),
            charged_units: self.charged_units.wrapping_add(more.charged_units),
            blocked: self.blocked.wrapping_add(more.blocked),
            exceeded_enforced: self.exceeded_enforced.wrapping_add(more.exceeded_enforced),
            exceeded_in_shadow: self
                .exceeded_in_shadow
                .wrapping_add(more.exceeded_in_shadow),
            latest: self.latest.max(more.latest),
        }
    }

    /// Without the usage, which is nobody's where many share a series.
    pub(super) fn without_usage(self) -> Self {
        Self { latest: 0, ..self }
    }
}

impl Shards {
    pub(super) fn new(most_limits: usize) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let count = threads.clamp(1, MOST_SHARDS);
        Self {
            shards: (0..count).map(|_| Shard::new(most_limits)).collect(),
        }
    }

    /// The calling thread's shard: the same at each call, taken in turn at the first.
    pub(super) fn of_thread(&self) -> &Shard {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static TURN: Cell<Option<usize>> = const { Cell::new(None) };
        }
        let turn = TURN.get().unwrap_or_else(|| {
            let turn = NEXT.fetch_add(1, Relaxed);
            TURN.set(Some(turn));
            turn
        });
        &self.shards[turn % self.shards.len()]
    }

    pub(super) fn has_own_series(&self, number: LimitNumber) -> bool {
        (number.0 as usize) < self.shared_index()
    }

    /// The index of the cells that all limits beyond the bound share.
    pub(super) fn shared_index(&self) -> usize {
        self.shards[0].limits.len() - 1
    }

    fn sum(&self, cell: impl Fn(&Shard) -> &AtomicU64) -> u64 {
        self.shards
            .iter()
            .fold(0, |sum, shard| sum.wrapping_add(cell(shard).load(Relaxed)))
    }

    pub(super) fn answers(&self, surface: Surface, answer: Answer) -> u64 {
        self.sum(|shard| &shard.surfaces[surface as usize].answers[answer as usize])
    }

    pub(super) fn errors(&self, kind: ErrorKind) -> u64 {
        self.sum(|shard| &shard.errors[kind as usize])
    }

    pub(super) fn blocked_without_limit(&self) -> u64 {
        self.sum(|shard| &shard.blocked_by_no_limit)
    }

    pub(super) fn lookups(&self) -> u64 {
        self.sum(|shard| &shard.lookups)
    }

    /// Counts by bucket, the last without bound, and the seconds in all.
    pub(super) fn durations(&self, surface: Surface) -> ([u64; DURATION_BUCKETS], f64) {
        let counts = std::array::from_fn(|bucket| {
            self.sum(|shard| &shard.surfaces[surface as usize].durations[bucket])
        });
        let nanos = self.sum(|shard| &shard.surfaces[surface as usize].total_ns);
        (counts, nanos as f64 / 1e9)
    }

    pub(super) fn limit(&self, index: usize) -> LimitCounts {
        let latest = self
            .shards
            .iter()
            .map(|shard| shard.limits[index].usage.load(Relaxed))
            .max()
            .unwrap_or(0);
        LimitCounts {
            admitted: self.sum(|shard| &shard.limits[index].admitted),
            charged_units: self.sum(|shard| &shard.limits[index].charged_units),
            blocked: self.sum(|shard| &shard.limits[index].blocked),
            exceeded_enforced: self.sum(|shard| &shard.limits[index].exceeded_enforced),
            exceeded_in_shadow: self.sum(|shard| &shard.limits[index].exceeded_in_shadow),
            latest,
        }
    }
}
