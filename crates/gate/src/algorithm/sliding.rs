//! Sliding windows from two counted windows: the current one, and the one before weighted by the share of it that a
//! window ending now would still cover.
//!
//! A request is admitted iff `previous * (W - elapsed) / W + current + cost <= units`, in exact integers. The weight
//! assumes that the previous window's units were spread evenly over it: if they all came at its end, up to twice the
//! units can pass within some interval of length W (but never in one whole window of the key).
//! The method is that of Cloudflare ("How we built rate limiting capable of scaling to millions of domains", 2017).
//!
//! With weight 1 ([`Kind::TwoWindow`]) the bound holds for every interval, at the price of half the average rate.
//!
//! Windows of even number are counted in the slot's first word, odd ones in its second. Before a window's first
//! charge the other word is *sealed*: set to the window before, closed for charges. A charge is then one
//! compare-and-swap on the current word, because the sealed word cannot change while the current one is open.

use super::{TIME_STEP_NS, window_end, window_index};
use crate::meter::{Kind, Meter};

/// One window's word taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    pub index: u64,
    pub sealed: bool,
    pub count: u64,
}

/// Takes a state apart.
#[inline]
pub(crate) fn unpack(meter: &Meter, state: u64) -> Counted {
    Counted {
        index: state >> (meter.count_bits + 1),
        sealed: state >> meter.count_bits & 1 == 1,
        count: state & meter.count_mask(),
    }
}

/// Puts a state together.
#[inline]
pub(crate) fn pack(meter: &Meter, counted: Counted) -> u64 {
    (counted.index << 1 | u64::from(counted.sealed)) << meter.count_bits | counted.count
}

/// A bucket as it stands at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// The current window's number.
    pub index: u64,
    /// Units counted in it.
    pub current: u64,
    /// Units counted in the one before.
    pub previous: u64,
    /// When the current window ends.
    pub end: u64,
    /// The other word already holds the window before, sealed.
    pub sealed: bool,
    /// A word was of no possible window: the bucket counts as used up, and should be written back so.
    pub damaged: bool,
}

/// Reads the two words at an instant; `None` for a word that is not this bucket's.
#[inline]
pub(crate) fn read(meter: &Meter, phase: u64, words: [Option<u64>; 2], now: u64) -> Standing {
    let words = words.map(|word| word.map(|state| unpack(meter, state)));
    let mut index = None;
    for word in words.into_iter().flatten() {
        // A sealed window is over, whatever our clock says.
        let open = word.index + u64::from(word.sealed);
        index = index.max(Some(open));
    }
    // The newest word's window, if it is not over; no division on the common path.
    let index = match index {
        Some(index) if now < window_end(meter, phase, index) => index,
        Some(_) | None => window_index(meter, phase, now),
    };
    let end = window_end(meter, phase, index);
    // A new bucket may begin in the next window: see the table's claims.
    if end > now + 2 * meter.window_ns + TIME_STEP_NS {
        let index = window_index(meter, phase, now);
        return Standing {
            index,
            current: meter.count_mask(),
            previous: 0,
            end: window_end(meter, phase, index),
            sealed: false,
            damaged: true,
        };
    }
    let here = (index & 1) as usize;
    let current = words[here]
        .filter(|word| word.index == index)
        .map_or(0, |word| word.count);
    let before = words[1 - here].filter(|word| word.index + 1 == index);
    Standing {
        index,
        current,
        previous: before.map_or(0, |word| word.count),
        end,
        // Before window 0 there is nothing to seal.
        sealed: index == 0 || before.is_some_and(|word| word.sealed),
        damaged: false,
    }
}

/// The part of a window's units that counts, times the window's length.
#[inline]
fn weighted(meter: &Meter, previous: u64, end: u64, now: u64) -> u128 {
    let left = match meter.kind {
        Kind::Sliding => end.saturating_sub(now).min(meter.window_ns),
        Kind::TwoWindow | Kind::Fixed | Kind::Forever | Kind::TokenBucket => meter.window_ns,
    };
    u128::from(previous) * u128::from(left)
}

/// Units left at `now`, of a window that ends at `end`. `None` if more than all are used.
#[inline]
pub(crate) fn left(meter: &Meter, previous: u64, current: u64, end: u64, now: u64) -> Option<u64> {
    let room = meter.most.checked_sub(current)?;
    if previous == 0 {
        return Some(room);
    }
    let weighted = weighted(meter, previous, end, now);
    if weighted >> 64 == 0 {
        // The common sizes: one 64-bit division.
        return room.checked_sub((weighted as u64).div_ceil(meter.window_ns));
    }
    // At most the previous window's count, so it fits.
    room.checked_sub(weighted.div_ceil(u128::from(meter.window_ns)) as u64)
}

/// The least time after which `cost` units fit if nothing more is taken, for a cost within the limit.
pub(crate) fn wait(
    meter: &Meter,
    previous: u64,
    current: u64,
    end: u64,
    now: u64,
    cost: u64,
) -> u64 {
    let rest = end.saturating_sub(now);
    // Until `count` weighs at most `room`, from the start of the window in which it is the previous one.
    let decay = |count: u64, room: u64| -> u64 {
        if count <= room {
            return 0;
        }
        match meter.kind {
            Kind::Sliding => {
                let kept = u128::from(room) * u128::from(meter.window_ns) / u128::from(count);
                meter.window_ns - kept as u64
            }
            Kind::TwoWindow | Kind::Fixed | Kind::Forever | Kind::TokenBucket => meter.window_ns,
        }
    };
    match meter
        .most
        .checked_sub(current)
        .and_then(|room| room.checked_sub(cost))
    {
        Some(room) => {
            let elapsed = meter.window_ns - rest.min(meter.window_ns);
            let early = rest.saturating_sub(meter.window_ns);
            early + decay(previous, room).saturating_sub(elapsed)
        }
        None => rest + decay(current, meter.most - cost),
    }
}
