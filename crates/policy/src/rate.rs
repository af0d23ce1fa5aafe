//! Units per window, and the bounds within which every algorithm is exact.
//!
//! A value of these types is always in range: what could overflow or round is refused when it is built, with the
//! bound named, so that the decision path needs no checks of its own.

use std::fmt;

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
