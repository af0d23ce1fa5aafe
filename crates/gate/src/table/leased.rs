//! Leased credit in the table: installed by the lease protocol, spent by requests, taken back by the protocol.
//!
//! A bucket of leased credit holds units that requests may take, not units that they took. It never makes any: what is
//! spent and taken back in a window is never more than what was installed for it. There is no shared cell for it
//! either: a key without a slot has no credit.
//!
//! # Layout
//!
//! Window `k` lies in `words[k & 1]` as `{k, announced, units}`, so the next window's credit can lie there while the
//! current one is spent. Like a charge, each step is one compare-and-swap of {state, tag}, so units move exactly once.
//! A window's units are found by its number: when the number is another, there are none.
//!
//! # Why installed credit stays until its window ends
//!
//! Who takes a slot over reads its first word, then `live_until`, and then replaces exactly the word it read. An
//! installer raises `live_until` to its window's end first. After that:
//!
//! - The units of an even window change the first word, so a taker who read it before fails, and one who reads it
//!   after sees that the slot is live. Should the word come to be the same again, the units are gone: nothing is lost.
//! - Those of an odd window change only the second word. So an installer first *announces* it in the first: the even
//!   window before is marked there, after the raise; an even window after says as much, being installed later. The
//!   pair (even window, announced) only ever grows while a bucket has the slot, and a bucket that loses its slot begins
//!   again with a larger pair, or with none announced. So a taker who read the first word before fails.
//!
//! A second word under a foreign tag is believed to be left from earlier only if the first still carries the bucket's
//! own tag after it was read. A thread that was stopped may still spend, from a second word that is the bucket's, what
//! is left of a window that is over for all others: units that were installed, and once.
//!
//! # Demand
//!
//! `credit[k & 1]` holds, beside 16 bits that tell the key and the window, what was installed and not taken back plus
//! what was refused. Less what is available that is what was asked for; so an admitted request writes one word only.
//! It is a figure for deciding how much credit is sent where: it is not read in one step with the units, can be off by
//! a change that is under way, and stops at 2^48.

use super::Table;
use super::claim::{Found, Opening};
use super::held::{Held, Lying};
use super::level::{Cause, Level, Place};
use super::probe::{Key, WIDTH, WINDOWS};
use super::slot::{NEVER, Slot};
use super::sync::{AtomicU64, Word, bump, raise, read, replace};
use crate::algorithm::{window_end, window_index};
use crate::bucket::BucketId;
use crate::meter::{Meter, phase};
use crate::time::Now;

/// What lies in the table for one window of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leased {
    /// Units that requests may still take.
    pub available: u64,
    /// Units that requests asked for in the window so far, admitted or not.
    pub demand: u64,
}

impl Table {
    /// Adds `units` to what requests may take of a bucket in a window, numbered as [`lease::bucket`] numbers them.
    /// Whether they lie there now: not if the window is neither the current one nor the next at `now`, or if there is
    /// no place for the bucket or for so many units; then nothing was added. An installed bucket keeps its slot until
    /// the window's end.
    pub fn install(&self, id: BucketId, meter: &Meter, window: u64, units: u64, now: Now) -> bool {
        let key = self.leased_key(id);
        let phase = phase(id, meter);
        let mut now = self.now(now);
        loop {
            let current = window_index(meter, phase, now);
            if window != current && window != current + 1 {
                return false;
            }
            match self.find(&key, now) {
                Found::Own(slot, _) => {
                    if let Some(added) = add(slot, &key, meter, window, units) {
                        return added;
                    }
                }
                Found::Claim(slot, claim) => {
                    self.settle(&key, Opening::Leased(meter), slot, claim, now);
                }
                Found::Absent(None) => return false,
                Found::Absent(Some(vacancy)) => {
                    self.claim(&key, Opening::Leased(meter), vacancy, now);
                }
            }
            now = self.later(now);
        }
    }

    /// Takes `cost` units of what is installed for the current window if there are so many, else none; in one atomic
    /// step. A cost of 0 only looks. What is refused counts as demand.
    #[inline]
    pub fn spend(&self, id: BucketId, meter: &Meter, cost: u64, now: Now) -> Level {
        let now = self.now(now);
        let key = self.leased_key(id);
        let phase = phase(id, meter);
        let Some((slot, mut first)) = self.leased_slot(&key) else {
            return refused(&key, meter, cost, now);
        };
        loop {
            let Some(lying) = Lying::at(slot, first, &key, meter, phase, now) else {
                let level = refused(&key, meter, cost, now);
                if first.tag == key.own {
                    count_refused(slot, &key, window_index(meter, phase, now), cost);
                }
                return level;
            };
            let held = lying.held;
            let end = window_end(meter, phase, held.window);
            let level = level(held.units, meter, cost, end, now);
            if !level.admitted {
                count_refused(slot, &key, held.window, cost);
            }
            if !level.admitted || cost == 0 {
                return level;
            }
            let units = held.units - cost;
            if lying.replace(slot, &key, meter, Held { units, ..held }) {
                return left_after(level, meter, units);
            }
            first = slot.words[0].load();
        }
    }

    /// Tells how a bucket stands and whether `cost` would be admitted, and changes nothing.
    pub fn look_leased(&self, id: BucketId, meter: &Meter, cost: u64, now: Now) -> Level {
        let now = self.now(now);
        let key = self.leased_key(id);
        let phase = phase(id, meter);
        self.leased_slot(&key)
            .and_then(|(slot, first)| Lying::at(slot, first, &key, meter, phase, now))
            .map_or_else(
                || refused(&key, meter, cost, now),
                |Lying { held, .. }| {
                    let end = window_end(meter, phase, held.window);
                    level(held.units, meter, cost, end, now)
                },
            )
    }

    /// Counts units that a request asked for and that a look refused it.
    pub fn count_unmet(&self, id: BucketId, meter: &Meter, cost: u64, now: Now) {
        let now = self.now(now);
        let key = self.leased_key(id);
        if let Some((slot, _)) = self.leased_slot(&key) {
            let window = window_index(meter, phase(id, meter), now);
            count_refused(slot, &key, window, cost);
        }
    }

    /// Gives back what a spend took whose answer was `level`, for a request that was refused elsewhere. Whether it lies
    /// there again: not if the window is over, or if the bucket lost its slot.
    pub fn unspend(&self, id: BucketId, meter: &Meter, cost: u64, level: &Level, now: Now) -> bool {
        if !level.admitted || self.now(now) >= level.end {
            return false;
        }
        let key = self.leased_key(id);
        // The end is a multiple of windows after the phase.
        let window = level.end.saturating_sub(phase(id, meter)) / meter.window_ns;
        self.change(&key, meter, window, |units| {
            units
                .checked_add(cost)
                .filter(|units| *units <= meter.most_leased())
        })
        .is_some()
    }

    /// Lowers what requests may take of a bucket in a window to `keep`, and says by how much that was.
    pub fn take_back(&self, id: BucketId, meter: &Meter, window: u64, keep: u64) -> u64 {
        let key = self.leased_key(id);
        let Some((slot, units)) =
            self.change(&key, meter, window, |units| (units > keep).then_some(keep))
        else {
            return 0;
        };
        let taken = units - keep;
        count(
            &slot.credit[(window & 1) as usize],
            check(&key, window),
            |n| n.saturating_sub(taken),
        );
        taken
    }

    /// What lies there for a window, also for one that is over, until another is installed in its place. `None` if
    /// the bucket has no slot or lost the one that it had; nothing available, or `None`, if nothing was installed for
    /// the window.
    #[must_use]
    pub fn leased(&self, id: BucketId, meter: &Meter, window: u64) -> Option<Leased> {
        let key = self.leased_key(id);
        let (slot, first) = self.leased_slot(&key)?;
        let lying = Lying::of(slot, first, &key, meter, window)?;
        let cell = read(&slot.credit[lying.which]);
        let available = lying.held.units;
        let demand = match counted(cell, check(&key, window)) {
            // It stopped counting: at least so much.
            MOST_COUNTED => MOST_COUNTED,
            count => count.saturating_sub(available),
        };
        Some(Leased { available, demand })
    }

    /// Drops all leased credit, at once. For a node that begins without the books of the one that installed it: what
    /// it finds in the table would be spent, or handed back, beside what it is granted anew.
    pub fn forget_leased(&self) {
        bump(&self.region.header().forgotten.0);
    }

    #[inline]
    fn leased_key(&self, id: BucketId) -> Key {
        Key::leased(id, self.own, read(&self.region.header().forgotten.0))
    }

    /// The bucket's slot and its first word. Unlike a search for a place it ends where no bucket of this home can be.
    #[inline]
    fn leased_slot(&self, key: &Key) -> Option<(&Slot, Word)> {
        for window in 0..WINDOWS {
            // Raised before the claim that needs it is published, so before there is credit.
            if window > 0 && read(&self.region.slot(key.home()).reach) < window as u64 {
                return None;
            }
            for k in 0..WIDTH {
                let slot = self.region.slot(key.place(window, k));
                let word = slot.words[0].load();
                if word.tag == key.own {
                    return Some((slot, word));
                }
                if word.tag == NEVER {
                    return None;
                }
            }
        }
        None
    }

    /// Changes a window's units to what `to` says, if it says anything. Gives the slot and the units before.
    fn change(
        &self,
        key: &Key,
        meter: &Meter,
        window: u64,
        to: impl Fn(u64) -> Option<u64>,
    ) -> Option<(&Slot, u64)> {
        loop {
            let (slot, first) = self.leased_slot(key)?;
            let lying = Lying::of(slot, first, key, meter, window)?;
            let held = lying.held;
            let units = to(held.units)?;
            if lying.replace(slot, key, meter, Held { units, ..held }) {
                return Some((slot, held.units));
            }
        }
    }
}

/// Adds units to a window in the bucket's slot. `None` if the slot is the bucket's no more.
fn add(slot: &Slot, key: &Key, meter: &Meter, window: u64, units: u64) -> Option<bool> {
    raise(
        &slot.live_until,
        window_end(meter, phase(key.id, meter), window),
    );
    if window & 1 == 1 && !announce(slot, key, meter, window)? {
        return Some(false);
    }
    let which = (window & 1) as usize;
    loop {
        let word = slot.words[which].load();
        let own = word.tag == key.own;
        // Another's second word is only replaced if it cannot be the next owner's.
        if !own && (which == 0 || slot.words[0].load().tag != key.own) {
            return None;
        }
        let held = own.then(|| Held::unpack(meter, word.state));
        let after = match held {
            Some(held) if held.window > window => return Some(false),
            Some(held) if held.window == window => Held {
                units: held.units.saturating_add(units),
                ..held
            },
            Some(_) | None => Held {
                window,
                announced: false,
                units,
            },
        };
        if after.units > meter.most_leased() {
            return Some(false);
        }
        if slot.words[which].replace(word, after.word(meter, key)) {
            count(&slot.credit[which], check(key, window), |n| {
                n.saturating_add(units)
            });
            return Some(true);
        }
    }
}

/// Says in the first word that the slot is kept until the end of an odd window. `None` if the slot is the bucket's no
/// more, `false` if the window is over.
fn announce(slot: &Slot, key: &Key, meter: &Meter, window: u64) -> Option<bool> {
    let before = window - 1;
    loop {
        let word = slot.words[0].load();
        if word.tag != key.own {
            return None;
        }
        let held = Held::unpack(meter, word.state);
        if held.window > before {
            // The even window after, installed ahead, keeps the slot longer still.
            return Some(held.window == window + 1);
        }
        let units = match held.window == before {
            true if held.announced => return Some(true),
            true => held.units,
            // Of a window that is over.
            false => 0,
        };
        let after = Held {
            window: before,
            announced: true,
            units,
        };
        if slot.words[0].replace(word, after.word(meter, key)) {
            return Some(true);
        }
    }
}

/// Bits of a demand cell that count.
const COUNT_BITS: u32 = 48;

/// Where a demand cell stops.
const MOST_COUNTED: u64 = (1 << COUNT_BITS) - 1;

/// What tells a cell's key and window from others, in the bits above the count.
fn check(key: &Key, window: u64) -> u64 {
    // Multiplications by odd constants (of SplitMix64), so that the upper bits depend on all of both.
    let mixed =
        (key.own ^ window.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed >> COUNT_BITS << COUNT_BITS
}

/// A cell's count, if it is of this key and window.
fn counted(cell: u64, check: u64) -> u64 {
    if cell & !MOST_COUNTED == check {
        cell & MOST_COUNTED
    } else {
        0
    }
}

/// Changes a cell's count; one of another key or window counts as 0.
fn count(cell: &AtomicU64, check: u64, change: impl Fn(u64) -> u64) {
    loop {
        let old = read(cell);
        let new = check | change(counted(old, check)).min(MOST_COUNTED);
        if new == old || replace(cell, old, new) {
            return;
        }
    }
}

#[cold]
fn count_refused(slot: &Slot, key: &Key, window: u64, cost: u64) {
    if cost > 0 {
        count(
            &slot.credit[(window & 1) as usize],
            check(key, window),
            |n| n.saturating_add(cost),
        );
    }
}

/// The level of a bucket with so many units left, asked for `cost`.
#[inline]
fn level(units: u64, meter: &Meter, cost: u64, end: u64, now: u64) -> Level {
    let cause = if cost > meter.most {
        Cause::TooCostly
    } else if cost > units {
        Cause::Used
    } else {
        Cause::Room
    };
    Level {
        admitted: cause == Cause::Room,
        cause,
        place: Place::Own,
        now,
        end,
        // So that what is left of the limit is what is held here.
        current: meter.most.saturating_sub(units),
        previous: 0,
    }
}

#[inline]
fn left_after(level: Level, meter: &Meter, units: u64) -> Level {
    Level {
        current: meter.most.saturating_sub(units),
        ..level
    }
}

/// The level of a bucket for whose current window nothing is installed.
#[cold]
fn refused(key: &Key, meter: &Meter, cost: u64, now: u64) -> Level {
    let phase = phase(key.id, meter);
    let end = window_end(meter, phase, window_index(meter, phase, now));
    Level {
        place: Place::Nowhere,
        ..level(0, meter, cost, end, now)
    }
}
