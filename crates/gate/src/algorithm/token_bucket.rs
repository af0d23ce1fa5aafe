//! Token bucket by the generic cell rate algorithm (ITU-T I.371, virtual scheduling).
//!
//! The state is the theoretical arrival time: the instant, in ticks since Leasehold's epoch, at which the bucket will
//! be full if nothing more is taken. It is a time and not a number of tokens, so that what is owed stays owed when
//! the rate or the burst changes. Ticks are eighths of a nanosecond, or nanoseconds for windows above a day.

use super::TIME_STEP_NS;
use crate::meter::Meter;

/// `now` in the meter's ticks. Readings beyond what 64 bits of ticks hold count as the last that they hold.
#[inline]
pub(crate) fn ticks(meter: &Meter, now: u64) -> u64 {
    now.min(u64::MAX >> meter.tick_shift) << meter.tick_shift
}

/// The instant of a tick, rounded up to whole nanoseconds.
#[inline]
pub(crate) fn nanos(meter: &Meter, ticks: u64) -> u64 {
    (ticks >> meter.tick_shift) + u64::from(ticks & ((1 << meter.tick_shift) - 1) != 0)
}

/// A bucket as it stands at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// When the bucket will be full, in ticks; not before now.
    pub full_at: u64,
    /// Ticks until it is full: the meter's `full` if it is empty, and hardly more.
    pub debt: u64,
    /// More was owed than an empty bucket owes (the burst was lowered, or the state is damaged): the bucket counts as
    /// just emptied, and should be written back so, that it begins to fill.
    pub clamped: bool,
}

/// Reads a state at an instant.
#[inline]
pub(crate) fn read(meter: &Meter, state: u64, now: u64) -> Standing {
    let now = ticks(meter, now);
    let debt = state.saturating_sub(now);
    // A state written at a slightly later reading than ours is no cause to rewrite it.
    let clamped = debt.saturating_sub(meter.full) > TIME_STEP_NS << meter.tick_shift;
    let debt = if clamped { meter.full } else { debt };
    Standing {
        full_at: now.saturating_add(debt),
        debt,
        clamped,
    }
}

/// The state after taking `cost` tokens, or `None` if there is no room.
#[inline]
pub(crate) fn charge(meter: &Meter, standing: &Standing, cost: u64) -> Option<u64> {
    let need = cost.checked_mul(meter.interval)?;
    if need > meter.full.saturating_sub(standing.debt) {
        return None;
    }
    standing.full_at.checked_add(need)
}
