//! Fixed windows from the key's own phase, and quotas that never renew.
//!
//! A window's state is its number and the units used in it. Around a boundary up to twice the units can pass within
//! one window's length: that is what a fixed window means; use a sliding window where it matters.

use super::{TIME_STEP_NS, window_end, window_index};
use crate::meter::Meter;

/// A bucket as it stands at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The window's number.
    pub index: u64,
    /// Units used in it.
    pub used: u64,
    /// When it ends.
    pub end: u64,
    /// The stored state was of no possible window: it counts as used up, and should be written back so.
    pub damaged: bool,
}

/// Reads a state at an instant. A state whose window is over reads as the current window, unused; one whose window
/// began after `now` (another thread's clock reading was later) is decided in that window.
#[inline]
pub(crate) fn read(meter: &Meter, phase: u64, state: u64, now: u64) -> Standing {
    let index = state >> meter.count_bits;
    let end = window_end(meter, phase, index);
    if now >= end {
        return fresh(meter, phase, now);
    }
    if end > now + meter.window_ns + TIME_STEP_NS {
        return Standing {
            used: meter.count_mask(),
            damaged: true,
            ..fresh(meter, phase, now)
        };
    }
    Standing {
        index,
        used: state & meter.count_mask(),
        end,
        damaged: false,
    }
}

/// The current window, unused.
pub(crate) fn fresh(meter: &Meter, phase: u64, now: u64) -> Standing {
    let index = window_index(meter, phase, now);
    Standing {
        index,
        used: 0,
        end: window_end(meter, phase, index),
        damaged: false,
    }
}

/// The state that holds a window and a count.
#[inline]
pub(crate) fn state(meter: &Meter, index: u64, used: u64) -> u64 {
    index << meter.count_bits | used
}
