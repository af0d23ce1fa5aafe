//! How a bucket counts: pure functions from a state and a time to a verdict and the next state.
//!
//! Every algorithm keeps one `u64` a bucket (the sliding window one for each of its two windows), counts in whole
//! numbers and never rounds in the caller's favour. Nothing here touches memory shared with others: [`crate::table`]
//! reads the words, calls these functions and puts the result back by compare-and-swap.

pub(crate) mod fixed;
pub(crate) mod sliding;
pub(crate) mod token_bucket;

use crate::meter::Meter;

/// By how much a state may be ahead of the table's time without being damage: the table raises its time in steps of
/// this many nanoseconds.
pub(crate) const TIME_STEP_NS: u64 = 1_000_000;

/// The last instant that states can hold: a hundred years (of 366 days) from Leasehold's epoch. Later readings count
/// as this one.
pub(crate) const LAST_NS: u64 = policy::rate::LONGEST_WINDOW_MS * 1_000_000;

/// The number of the window that `now` lies in. Window 0 is the one that begins before time 0 and ends at the phase.
pub(crate) fn window_index(meter: &Meter, phase: u64, now: u64) -> u64 {
    // At most 2 * LAST_NS, which fits.
    (now + meter.window_ns - phase) / meter.window_ns
}

/// When the window of this number ends.
///
/// A state read from a damaged file may hold any number of `index_bits` bits: less than twice the largest in use, so
/// the product stays below 4 * LAST_NS, which fits.
#[inline]
pub(crate) fn window_end(meter: &Meter, phase: u64, index: u64) -> u64 {
    index * meter.window_ns + phase
}
