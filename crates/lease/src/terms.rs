//! What a limit promises, as numbers: all that the protocol knows of a policy.

use crate::bucket::Bucket;
use crate::time::Wall;

/// How the limit counts. A limit's identity covers it, so one subject never changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// `units` in each window.
    FixedWindow,
    /// `units` in any window-long stretch of window time, counted in slots.
    SlidingWindow,
    /// `units` a window flow in, at most `burst` are kept; issued in slots.
    TokenBucket {
        /// The most that is kept, in units.
        burst: u64,
    },
}

/// What a node does for a limit whose owner it has not heard for longer than the degraded time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OnDegraded {
    /// It keeps giving itself its share.
    FairShare,
    /// It admits, up to the backstop multiple of the allowance, by itself.
    FailOpen,
    /// It refuses.
    FailClosed,
}

/// Who issues the credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The fold owner, by this protocol.
    Lease,
    /// Nobody: each member has a fixed share, and nothing is said about it.
    Fixed,
}

/// A limit as the protocol sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// Units a window.
    pub units: u64,
    /// The window's length in nanoseconds, at least 100 ms. Part of the limit's identity: a subject never changes it.
    pub window_ns: u64,
    /// How it counts.
    pub shape: Shape,
    /// Whether what is issued is kept in a store that outlives the owner.
    pub durable: bool,
    /// Out of contact for long.
    pub on_degraded: OnDegraded,
    /// Who issues.
    pub mode: Mode,
    /// The policy's number: of two reports the terms with the larger one hold; of two with the same, the fewer units.
    pub revision: u64,
}

impl Terms {
    /// Slots of a sliding window.
    pub const SLIDING_SLOTS: u64 = 10;
    /// A token bucket's slot in nanoseconds: 100 ms.
    pub const TOKEN_BUCKET_SLOT_NS: u64 = 100_000_000;

    /// The shortest window that the protocol serves, in nanoseconds: 100 ms.
    pub const LEAST_WINDOW_NS: u64 = 100_000_000;

    /// How long one bucket of the protocol is, in nanoseconds: the window, or the slots that it is cut into. Buckets
    /// are numbered by this length.
    #[must_use]
    pub const fn slot_ns(&self) -> u64 {
        match self.shape {
            Shape::FixedWindow => self.window_ns,
            Shape::SlidingWindow => self.window_ns / Self::SLIDING_SLOTS,
            Shape::TokenBucket { .. } => Self::TOKEN_BUCKET_SLOT_NS,
        }
    }

    /// How many earlier slots count together with one: the span in which a sliding window's units may be spent once.
    #[must_use]
    pub const fn span_slots(&self) -> u64 {
        match self.shape {
            Shape::SlidingWindow => Self::SLIDING_SLOTS,
            Shape::FixedWindow | Shape::TokenBucket { .. } => 0,
        }
    }

    /// The start of the first slot that counts together with a bucket: what pledges, authority and shares of it are
    /// measured by.
    #[must_use]
    pub const fn anchor(&self, bucket: Bucket) -> Wall {
        bucket.back(self.span_slots()).start(self.slot_ns())
    }

    /// Units that flow into a token bucket in one slot: whole units, so that none is lost over many slots. For other
    /// shapes the units of the window.
    #[must_use]
    pub fn inflow(&self, bucket: Bucket) -> u64 {
        match self.shape {
            Shape::FixedWindow | Shape::SlidingWindow => self.units,
            Shape::TokenBucket { .. } => self.inflow_between(bucket, bucket),
        }
    }

    /// Units that flow into a token bucket in the slots from `first` to `last`.
    pub(crate) fn inflow_between(&self, first: Bucket, last: Bucket) -> u64 {
        let window = u128::from(self.window_ns.max(1));
        let until = |slot: u64| {
            let time = u128::from(slot) * u128::from(Self::TOKEN_BUCKET_SLOT_NS);
            // Whole windows apart, so that nothing overflows.
            (time / window) * u128::from(self.units)
                + (time % window) * u128::from(self.units) / window
        };
        let units = until(last.window.0.saturating_add(1)).saturating_sub(until(first.window.0));
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// Whether buckets of both are cut alike; a burst may change.
    pub(crate) const fn counts_like(&self, other: &Self) -> bool {
        matches!(
            (self.shape, other.shape),
            (Shape::FixedWindow, Shape::FixedWindow)
                | (Shape::SlidingWindow, Shape::SlidingWindow)
                | (Shape::TokenBucket { .. }, Shape::TokenBucket { .. })
        )
    }

    /// The most that one bucket may ever admit.
    pub(crate) const fn most(&self) -> u64 {
        match self.shape {
            Shape::FixedWindow | Shape::SlidingWindow => self.units,
            Shape::TokenBucket { burst } => burst,
        }
    }

    /// The units that members have fair shares of.
    #[must_use]
    pub fn shared(&self, bucket: Bucket) -> u64 {
        match self.shape {
            Shape::FixedWindow | Shape::SlidingWindow => self.units,
            Shape::TokenBucket { burst } => self.inflow(bucket).min(burst),
        }
    }
}
