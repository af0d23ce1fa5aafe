//! Units per window, and the bounds within which every algorithm is exact.
//!
//! A value of these types is always in range: what could overflow or round is refused when it is built, with the
//! bound named, so that the decision path needs no checks of its own.

pub mod text;

use std::fmt;

use crate::model::Algorithm;

/// The shortest window that a limit may have.
pub const SHORTEST_WINDOW_MS: u64 = 100;

/// The longest window that a limit may have: 100 years of 366 days. A quota that never renews uses
/// [`Window::Forever`].
pub const LONGEST_WINDOW_MS: u64 = 100 * 366 * 24 * 3600 * 1000;

/// How long a limit counts before it starts anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Window {
    /// Whole milliseconds, from [`SHORTEST_WINDOW_MS`] to [`LONGEST_WINDOW_MS`].
    Millis(WindowMs),
    /// A quota that never renews.
    Forever,
}

/// A window's length in milliseconds, in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WindowMs(u64);

impl WindowMs {
    /// Takes a length in milliseconds.
    ///
    /// # Errors
    /// [`RateError::WindowTooShort`] or [`RateError::WindowTooLong`].
    pub const fn new(ms: u64) -> Result<Self, RateError> {
        if ms < SHORTEST_WINDOW_MS {
            return Err(RateError::WindowTooShort { ms });
        }
        if ms > LONGEST_WINDOW_MS {
            return Err(RateError::WindowTooLong { ms });
        }
        Ok(Self(ms))
    }

    /// The length in milliseconds.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The length in nanoseconds; fits because the longest window is 100 years.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0 * 1_000_000
    }
}

/// So many units in each window, both in range for the algorithm that the limit uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rate {
    /// Units per window; 0 never occurs (it is [`crate::model::Amount::Deny`]).
    pub units: u64,
    /// The window.
    pub window: Window,
}

/// Why a rate was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateError {
    /// The window is under 100 ms.
    #[error("a window of {ms} ms is too short: at least {SHORTEST_WINDOW_MS} ms")]
    WindowTooShort {
        /// The length asked for.
        ms: u64,
    },
    /// The window is over 100 years.
    #[error(
        "a window of {ms} ms is too long: at most 100 years, or `forever` for a quota that never renews"
    )]
    WindowTooLong {
        /// The length asked for.
        ms: u64,
    },
    /// More units than the algorithm can count exactly in such a window.
    #[error("{units} units per {window} are too many for {algorithm}: at most {most}")]
    TooManyUnits {
        /// The units asked for.
        units: u64,
        /// The window.
        window: Window,
        /// The algorithm's name in policy files.
        algorithm: &'static str,
        /// The most that are counted exactly.
        most: u64,
    },
    /// A token bucket cannot refill at this rate without being more than 0.1% too slow.
    #[error(
        "a token bucket cannot refill at {units} per {window} exactly enough: its nearest rates \
         are {below}{} per {window}; or use fixed_window", Above(*above)
    )]
    UnevenRefill {
        /// The units asked for.
        units: u64,
        /// The window.
        window: Window,
        /// The nearest lower rate that is possible.
        below: u64,
        /// The nearest higher rate that is possible.
        above: Option<u64>,
    },
    /// The burst is 0: the bucket would never hold a token.
    #[error("a burst of 0 admits nothing: at least 1, or `deny` to refuse all")]
    ZeroBurst,
    /// The bucket would take too long to fill.
    #[error(
        "a burst of {burst} would take longer than {longest_years} years to refill at \
         {units} per {window}: at most {most}"
    )]
    BurstTooLarge {
        /// The burst asked for.
        burst: u64,
        /// Units per window.
        units: u64,
        /// The window.
        window: Window,
        /// The most that refill in time.
        most: u64,
        /// The longest time to refill, for windows of this length.
        longest_years: u64,
    },
    /// The algorithm has no meaning without an end of the window.
    #[error("{algorithm} cannot have the window `forever`: use fixed_window")]
    Endless {
        /// The algorithm's name in policy files.
        algorithm: &'static str,
    },
}

/// The second of two suggestions, if there is one.
struct Above(Option<u64>);

impl fmt::Display for Above {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(units) => write!(f, " and {units}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forever => f.write_str("forever"),
            Self::Millis(ms) => {
                const NAMED: [(u64, &str); 5] = [
                    (24 * 3600 * 1000, "d"),
                    (3600 * 1000, "h"),
                    (60 * 1000, "m"),
                    (1000, "s"),
                    (1, "ms"),
                ];
                let (unit, name) = NAMED
                    .into_iter()
                    .find(|(unit, _)| ms.get().is_multiple_of(*unit))
                    .expect("every whole number is a multiple of 1");
                write!(f, "{}{name}", ms.get() / unit)
            }
        }
    }
}

/// Bits of a counting window's state that hold the window's number, so that the numbers of 100
/// years of windows fit, and one more for the key's phase. The count has the other bits of a `u64`.
#[must_use]
pub const fn index_bits(window_ms: u64) -> u32 {
    let window_ms = if window_ms == 0 { 1 } else { window_ms };
    let last = LONGEST_WINDOW_MS.div_ceil(window_ms) + 1;
    let bits = u64::BITS - last.leading_zeros();
    if bits < 2 { 2 } else { bits }
}

/// The most units that a fixed window counts: all bits that [`index_bits`] leaves.
#[must_use]
pub const fn max_units_fixed(window_ms: u64) -> u64 {
    (1 << (u64::BITS - index_bits(window_ms))) - 1
}

/// The most units that a sliding window counts: one bit less than a fixed window, so that the
/// shares of two windows add up without overflow.
#[must_use]
pub const fn max_units_sliding(window_ms: u64) -> u64 {
    (1 << (u64::BITS - index_bits(window_ms) - 1)) - 1
}

/// The most units of a quota that never renews.
pub const MAX_UNITS_FOREVER: u64 = i64::MAX as u64;

/// The longest window whose token buckets count in ticks of 1/8 ns; longer ones count in ticks of
/// 1 ns. One day.
pub const LONGEST_FINE_WINDOW_MS: u64 = 24 * 3600 * 1000;

/// Ticks in a nanosecond for windows up to [`LONGEST_FINE_WINDOW_MS`].
pub const FINE_TICKS_PER_NANO: u64 = 8;

const FINE_REFILL_YEARS: u64 = 20;
const COARSE_REFILL_YEARS: u64 = 200;
const YEAR_NANOS: u64 = 366 * 24 * 3600 * 1_000_000_000;

/// Ticks in a nanosecond of the token buckets of such a window.
#[must_use]
pub const fn ticks_per_nano(window_ms: u64) -> u64 {
    if window_ms <= LONGEST_FINE_WINDOW_MS {
        FINE_TICKS_PER_NANO
    } else {
        1
    }
}

/// The longest that an empty bucket may take to fill, in ticks: 20 years, or 200 for windows of
/// more than a day. With it, a bucket's state stays below 2^64 ticks.
#[must_use]
pub const fn max_refill_ticks(window_ms: u64) -> u64 {
    max_refill_years(window_ms) * YEAR_NANOS * ticks_per_nano(window_ms)
}

const fn max_refill_years(window_ms: u64) -> u64 {
    if window_ms <= LONGEST_FINE_WINDOW_MS {
        FINE_REFILL_YEARS
    } else {
        COARSE_REFILL_YEARS
    }
}

/// A window's length in the ticks of its token buckets.
const fn window_ticks(window_ms: WindowMs) -> u64 {
    window_ms.nanos() * ticks_per_nano(window_ms.get())
}

/// The ticks in which a token bucket gains one token, rounded up so that it never refills faster
/// than asked. `units` of 0 count as 1.
#[must_use]
pub const fn interval_ticks(window_ms: WindowMs, units: u64) -> u64 {
    window_ticks(window_ms).div_ceil(if units == 0 { 1 } else { units })
}

/// Tells whether an algorithm counts a rate exactly.
///
/// # Errors
/// A [`RateError`] that names the bound.
pub const fn check(rate: Rate, algorithm: Algorithm) -> Result<(), RateError> {
    let Rate { units, window } = rate;
    match (algorithm, window) {
        (Algorithm::FixedWindow, Window::Forever) => at_most(rate, algorithm, MAX_UNITS_FOREVER),
        (Algorithm::FixedWindow, Window::Millis(ms)) => {
            at_most(rate, algorithm, max_units_fixed(ms.get()))
        }
        (Algorithm::SlidingWindow, Window::Millis(ms)) => {
            at_most(rate, algorithm, max_units_sliding(ms.get()))
        }
        (Algorithm::SlidingWindow | Algorithm::TokenBucket { .. }, Window::Forever) => {
            Err(RateError::Endless {
                algorithm: algorithm.name(),
            })
        }
        (Algorithm::TokenBucket { burst }, Window::Millis(ms)) => {
            let interval = interval_ticks(ms, units);
            let length = window_ticks(ms);
            let refilled = units as u128 * interval as u128;
            if refilled * 999 > length as u128 * 1000 {
                // Intervals are whole ticks: this one and the next shorter one are the choices.
                let above = if interval > 1 {
                    Some(length.div_ceil(interval - 1))
                } else {
                    None
                };
                let below = length.div_ceil(interval);
                return Err(RateError::UnevenRefill {
                    units,
                    window,
                    below,
                    above,
                });
            }
            if burst == 0 {
                return Err(RateError::ZeroBurst);
            }
            let most = max_refill_ticks(ms.get()) / interval;
            if burst > most {
                let longest_years = max_refill_years(ms.get());
                return Err(RateError::BurstTooLarge {
                    burst,
                    units,
                    window,
                    most,
                    longest_years,
                });
            }
            Ok(())
        }
    }
}

const fn at_most(rate: Rate, algorithm: Algorithm, most: u64) -> Result<(), RateError> {
    let Rate { units, window } = rate;
    if units > most {
        return Err(RateError::TooManyUnits {
            units,
            window,
            algorithm: algorithm.name(),
            most,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
