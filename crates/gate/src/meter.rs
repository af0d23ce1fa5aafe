//! A limit made ready for counting: the numbers that the algorithms need, worked out once when a policy is installed.
//!
//! A meter never changes and refers to nothing. It must not hold anything that the bucket's identity does not cover
//! and that the meaning of stored counts depends on: two meters of one limit identity (rule, window, algorithm) read
//! each other's counts, whatever their units and bursts.

use lease::terms::{Shape, Terms};
use policy::model::Algorithm;
use policy::rate::{self, Rate, Window};

use crate::algorithm::LAST_NS;
use crate::bucket::BucketId;

/// How a meter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Windows from the key's own phase.
    Fixed,
    /// One count that never starts anew.
    Forever,
    /// Two windows, the one before weighted by what is left of the current one.
    Sliding,
    /// Two windows, both at full weight: whatever interval of a window's length one looks at, it holds at most the
    /// units. Only the shared cells of [`crate::table`] count so.
    TwoWindow,
    /// Generic cell rate algorithm.
    TokenBucket,
}

/// A metered limit, compiled. Made from a rate that [`policy::rate`] has found to be in range, so nothing here fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meter {
    pub(crate) kind: Kind,
    /// Low bits of a window's state that hold the count; for sliding windows the bit above them is the seal.
    pub(crate) count_bits: u8,
    /// log2 of a token bucket's ticks in a nanosecond.
    pub(crate) tick_shift: u8,
    /// The most that the limit can ever hold at once: units, or a bucket's burst.
    pub(crate) most: u64,
    /// The window in nanoseconds; 0 for [`Kind::Forever`].
    pub(crate) window_ns: u64,
    /// Ticks in which a token bucket gains one token; at least 1.
    pub(crate) interval: u64,
    /// Ticks in which an empty token bucket fills.
    pub(crate) full: u64,
}

impl Meter {
    /// Compiles a checked rate. What [`policy::rate::check`] would have refused is counted more strictly, never less.
    #[must_use]
    pub fn new(rate: Rate, algorithm: Algorithm) -> Self {
        let blank = Self {
            kind: Kind::Forever,
            count_bits: 63,
            tick_shift: 0,
            most: rate.units.min(rate::MAX_UNITS_FOREVER),
            window_ns: 0,
            interval: 1,
            full: 0,
        };
        let window = match rate.window {
            Window::Forever => {
                return match algorithm {
                    Algorithm::FixedWindow | Algorithm::SlidingWindow => blank,
                    Algorithm::TokenBucket { burst } => Self {
                        most: blank.most.min(burst),
                        ..blank
                    },
                };
            }
            Window::Millis(window) => window,
        };
        let window_ns = window.nanos();
        let count_bits = u64::BITS - rate::index_bits(window.get());
        match algorithm {
            Algorithm::FixedWindow => Self {
                kind: Kind::Fixed,
                count_bits: count_bits as u8,
                most: rate.units.min(rate::max_units_fixed(window.get())),
                window_ns,
                ..blank
            },
            Algorithm::SlidingWindow => Self {
                kind: Kind::Sliding,
                count_bits: count_bits as u8 - 1,
                most: rate.units.min(rate::max_units_sliding(window.get())),
                window_ns,
                ..blank
            },
            Algorithm::TokenBucket { burst } => {
                let ticks = rate::ticks_per_nano(window.get());
                let interval = rate::interval_ticks(window, rate.units).max(1);
                let burst = if rate.units == 0 { 0 } else { burst };
                let burst = burst.min(rate::max_refill_ticks(window.get()) / interval);
                Self {
                    kind: Kind::TokenBucket,
                    tick_shift: ticks.trailing_zeros() as u8,
                    most: burst,
                    window_ns,
                    interval,
                    full: burst * interval,
                    ..blank
                }
            }
        }
    }

    /// The meter of a limit whose credit is leased: it holds credit in windows as long as one bucket of the protocol,
    /// the limit's own window or a slot of it. What is out of range is counted more strictly, never less.
    #[must_use]
    pub fn leased(terms: &Terms) -> Self {
        let window_ns = terms.slot_ns().clamp(1, LAST_NS);
        let last = LAST_NS.div_ceil(window_ns) + 1;
        let index_bits = (u64::BITS - last.leading_zeros()).max(2);
        Self {
            kind: Kind::Fixed,
            count_bits: (u64::BITS - index_bits) as u8,
            tick_shift: 0,
            most: match terms.shape {
                Shape::FixedWindow | Shape::SlidingWindow => terms.units,
                Shape::TokenBucket { burst } => burst,
            },
            window_ns,
            interval: 1,
            full: 0,
        }
    }

    /// The most that the limit can ever hold at once: the units of a window, or a bucket's burst. A larger cost is
    /// never admitted.
    #[must_use]
    pub const fn most(&self) -> u64 {
        self.most
    }

    /// The meter of the cell that stands in for keys without a slot of their own: never more generous than this one
    /// for any of them, wherever their windows begin.
    pub(crate) fn of_cell(&self) -> Self {
        match self.kind {
            Kind::Fixed => {
                // The seal takes one bit of the count.
                let count_bits = self.count_bits - 1;
                let most = self.most.min((1 << count_bits) - 1);
                Self {
                    kind: Kind::TwoWindow,
                    count_bits,
                    most,
                    ..*self
                }
            }
            Kind::Sliding | Kind::TwoWindow => Self {
                kind: Kind::TwoWindow,
                ..*self
            },
            Kind::Forever | Kind::TokenBucket => *self,
        }
    }

    /// The most units of leased credit that a window's state can hold: the top bit of the count has another meaning.
    #[inline]
    pub(crate) const fn most_leased(&self) -> u64 {
        self.count_mask() >> 1
    }

    /// The largest count that a window's state can hold.
    pub(crate) const fn count_mask(&self) -> u64 {
        (1 << self.count_bits) - 1
    }
}

/// Where in a window's length the bucket's windows begin, in nanoseconds from 0 to the window's length: each key has
/// its own, so that not all keys start anew at one moment.
///
/// The low half of the id, scaled to the window's length by one multiplication. Its halves are swapped first because
/// the table places a bucket by the same scaling of the same half: neighbours in the table would share their phase.
#[must_use]
#[inline]
pub const fn phase(id: BucketId, meter: &Meter) -> u64 {
    ((id.low().rotate_left(32) as u128 * meter.window_ns as u128) >> 64) as u64
}

const _: () = assert!(size_of::<Meter>() <= 64);
