//! Giving units back to a bucket that has its slot.
//!
//! A refund never reaches a window that is over, nor makes a bucket fuller than full. Like a charge it is one
//! compare-and-swap from the state that it was worked out from; it does not touch `live_until`.

use super::Table;
use super::probe::Key;
use super::slot::Slot;
use super::sync::Word;
use crate::algorithm::{fixed, sliding, token_bucket};
use crate::meter::{Kind, Meter, phase};

/// Gives back `cost` units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refund {
    /// Whatever the current window has, at most.
    Clamped,
    /// Exactly one earlier charge: only if its window (its `end`) is still the current one; of a token bucket, the
    /// part of it that has not refilled since.
    Of {
        /// The level's `end` after the charge.
        end: u64,
    },
}

impl Table {
    /// Gives units back in the slot, if it is still the bucket's.
    pub(super) fn refund(
        &self,
        slot: &Slot,
        key: &Key,
        meter: &Meter,
        cost: u64,
        refund: Refund,
        now: u64,
    ) {
        let phase = phase(key.id, meter);
        loop {
            let words = [slot.words[0].load(), slot.words[1].load()];
            if words[0].tag != key.own {
                return;
            }
            let (which, state) = match meter.kind {
                Kind::Fixed => {
                    let at = fixed::read(meter, phase, words[0].state, now);
                    let Some(used) = less(at.used, cost, at.end, refund) else {
                        return;
                    };
                    if at.damaged {
                        return;
                    }
                    (0, fixed::state(meter, at.index, used))
                }
                Kind::Forever => {
                    let Some(used) = less(words[0].state, cost, u64::MAX, refund) else {
                        return;
                    };
                    (0, used)
                }
                Kind::Sliding | Kind::TwoWindow => {
                    let own = words.map(|word| (word.tag == key.own).then_some(word.state));
                    let at = sliding::read(meter, phase, own, now);
                    let Some(count) = less(at.current, cost, at.end, refund) else {
                        return;
                    };
                    if at.damaged {
                        return;
                    }
                    let counted = sliding::Counted {
                        index: at.index,
                        sealed: false,
                        count,
                    };
                    ((at.index & 1) as usize, sliding::pack(meter, counted))
                }
                Kind::TokenBucket => {
                    let at = token_bucket::read(meter, words[0].state, now);
                    let back = cost.saturating_mul(meter.interval).min(at.debt);
                    let back = match refund {
                        Refund::Clamped => back,
                        Refund::Of { end } => {
                            back.min(end.saturating_sub(token_bucket::ticks(meter, now)))
                        }
                    };
                    if back == 0 || at.clamped {
                        return;
                    }
                    (0, at.full_at - back)
                }
            };
            if slot.words[which].replace(
                words[which],
                Word {
                    tag: key.own,
                    state,
                },
            ) {
                return;
            }
        }
    }
}

/// A window's count less what is given back; `None` if nothing is to be.
fn less(used: u64, cost: u64, window_end: u64, refund: Refund) -> Option<u64> {
    match refund {
        Refund::Clamped => (used > 0 && cost > 0).then(|| used.saturating_sub(cost)),
        Refund::Of { end } => {
            if end != window_end {
                return None;
            }
            used.checked_sub(cost).filter(|_| cost > 0)
        }
    }
}
