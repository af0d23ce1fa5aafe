//! What is counted: a (key, limit, window), and when it starts. Every node computes these alike, from numbers only.

use std::ops::RangeInclusive;

use crate::time::Wall;

/// The keyed 128-bit hash of (key, limit): the decision table's bucket id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject(pub u128);

/// Which window: `floor((wall - phase) / window) + 1`, as the decision table numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WindowId(pub u64);

/// A (key, limit, window): what an allowance is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    /// The key and the limit.
    pub subject: Subject,
    /// The window.
    pub window: WindowId,
}

impl Subject {
    /// Where in a window's length this key's windows begin, in nanoseconds. The same formula as the decision table's:
    /// the low half of the id, its halves swapped, scaled to the window by one multiplication.
    #[must_use]
    pub const fn phase_ns(self, window_ns: u64) -> u64 {
        let low = (self.0 as u64).rotate_left(32);
        ((low as u128 * window_ns as u128) >> 64) as u64
    }

    /// All of its buckets, as a range of an ordered map.
    pub(crate) fn buckets(self) -> RangeInclusive<Bucket> {
        let bucket = |window| Bucket {
            subject: self,
            window: WindowId(window),
        };
        bucket(0)..=bucket(u64::MAX)
    }

    /// The last of them.
    pub(crate) const fn last(self) -> Bucket {
        Bucket {
            subject: self,
            window: WindowId(u64::MAX),
        }
    }

    /// The window that `at` lies in. Window 0 is the one that ends at the phase.
    #[must_use]
    pub const fn bucket_at(self, window_ns: u64, at: Wall) -> Bucket {
        let window_ns = if window_ns == 0 { 1 } else { window_ns };
        let since = at.0.saturating_add(window_ns - self.phase_ns(window_ns));
        Bucket {
            subject: self,
            window: WindowId(since / window_ns),
        }
    }
}

impl Bucket {
    /// When the window starts; time 0 for the first.
    #[must_use]
    pub const fn start(self, window_ns: u64) -> Wall {
        Wall(self.end(window_ns).0.saturating_sub(window_ns))
    }

    /// When it ends and the next one starts.
    #[must_use]
    pub const fn end(self, window_ns: u64) -> Wall {
        let from = self.window.0.saturating_mul(window_ns);
        Wall(from.saturating_add(self.subject.phase_ns(window_ns)))
    }

    /// The same key's next window.
    #[must_use]
    pub const fn next(self) -> Self {
        Self {
            subject: self.subject,
            window: WindowId(self.window.0.saturating_add(1)),
        }
    }

    /// The same key's window 0.
    pub(crate) const fn first(self) -> Self {
        self.back(u64::MAX)
    }

    /// The same key, so many windows earlier; at most the first.
    #[must_use]
    pub const fn back(self, windows: u64) -> Self {
        Self {
            subject: self.subject,
            window: WindowId(self.window.0.saturating_sub(windows)),
        }
    }
}
