//! Deciding on a bucket that has its slot: the charge, and the look.
//!
//! # Why no unit is lost
//!
//! A charge is one compare-and-swap of {state, tag}: it cannot land on another bucket's words, and it fails if the
//! state it was worked out from has changed. Before it, the charger raises `live_until` to when the charge is
//! forgotten. Who takes a slot over reads its first word *before* `live_until`, and replaces exactly the word it read:
//!
//! - If the charge came before that reading, so did the raise, so the taker sees a slot that is live.
//! - If it came after, the word has changed and the taker fails. It can be back at the value the taker read only if
//!   charges were given back in between, or if the bucket was taken over, claimed anew and is unused; either way no
//!   unit is lost. It cannot be back with units in it: a new incarnation's window (or arrival time) lies after the
//!   `live_until` of the old one, because takers raise the table's time above it before they touch the word, and
//!   claimers read that time after they have found the bucket absent.
//!
//! For the same reason a bucket's windows only ever move forward, even for a thread that was stopped for an hour
//! between reading the clock and charging: it is decided in the slot's later window.
//!
//! # Sliding windows
//!
//! The second word is the owner's only while it carries the owner's tag; under any other tag it counts nothing. A
//! taker replaces only the first word. What that means for the second:
//!
//! - An even window is charged in the first word, so the charge and the takeover exclude each other. Its predecessor
//!   is the second word, sealed; nobody but the bucket's own chargers change it while the bucket has the slot.
//! - An odd window is charged in the second word, after the first was sealed for it. Who seals (the
//!   charger, or the claimer of a new bucket) raises `live_until` to the end of the window after, then changes the
//!   first word. If that is before the taker's reading,
//!   the taker waits until that time has passed; if after, the taker fails. So a slot can be taken between the reading
//!   and the charge of an odd window only by a taker whose time is past the window after it. The charge may then still
//!   succeed, by a thread that was stopped that long: on top of all others of its window, within the units, and with
//!   no one left to whom that window matters, because the bucket's next incarnation begins later still.
//! - A foreign second word is believed to be left from earlier only if the first is still what it was when the second
//!   was read. So if a new owner comes and charges its own second word, a replacement worked out before fails.
//! - What is left in the second word from earlier owners, or written there by such a thread, is either under another
//!   tag or of a window at least two before any that its reader decides. Every such write is a compare-and-swap from
//!   a value whose window has passed, so it cannot undo a charge.

use super::Table;
use super::level::{Cause, Level, Place};
use super::probe::Key;
use super::slot::Slot;
use super::sync::{Word, bump, raise};
use crate::algorithm::{fixed, sliding, token_bucket};
use crate::meter::{Kind, Meter, phase};

/// What is asked of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Charge so much if there is room.
    Take(u64),
    /// Only tell whether there would be.
    Look(u64),
}

impl Ask {
    #[inline]
    fn cost(self) -> u64 {
        match self {
            Self::Take(cost) | Self::Look(cost) => cost,
        }
    }

    #[inline]
    fn charges(self) -> bool {
        matches!(self, Self::Take(1..))
    }
}

impl Table {
    /// Decides in the slot. `word` is its first word as read, which carries the key's tag. `None` if the slot is the
    /// bucket's no more.
    #[inline]
    pub(super) fn decide(
        &self,
        slot: &Slot,
        word: Word,
        key: &Key,
        meter: &Meter,
        ask: Ask,
        now: u64,
    ) -> Option<Level> {
        match meter.kind {
            Kind::Fixed => self.decide_fixed(slot, word, key, meter, ask, now),
            Kind::TokenBucket => self.decide_token_bucket(slot, word, key, meter, ask, now),
            Kind::Sliding | Kind::TwoWindow => self.decide_sliding(slot, key, meter, ask, now),
            Kind::Forever => self.decide_forever(slot, word, key, meter, ask, now),
        }
    }

    #[inline(always)]
    pub(super) fn decide_fixed(
        &self,
        slot: &Slot,
        mut word: Word,
        key: &Key,
        meter: &Meter,
        ask: Ask,
        mut now: u64,
    ) -> Option<Level> {
        let phase = phase(key.id, meter);
        loop {
            let mut at = fixed::read(meter, phase, word.state, now);
            if at.damaged {
                now = self.later(now);
                at = fixed::read(meter, phase, word.state, now);
            }
            let room = meter
                .most
                .checked_sub(at.used)
                .is_some_and(|left| ask.cost() <= left);
            let charged = if room { at.used + ask.cost() } else { at.used };
            let level = counted(room, now, at.end, charged, 0);
            if at.damaged && matches!(ask, Ask::Take(_)) {
                raise(&slot.live_until, at.end);
                self.heal(slot, word, fixed::state(meter, at.index, at.used));
            }
            if !room || !ask.charges() {
                return Some(Level {
                    current: at.used,
                    ..level
                });
            }
            raise(&slot.live_until, at.end);
            let charged = Word {
                tag: key.own,
                state: fixed::state(meter, at.index, charged),
            };
            if slot.words[0].replace(word, charged) {
                return Some(level);
            }
            word = slot.words[0].load();
            if word.tag != key.own {
                return None;
            }
        }
    }

    fn decide_forever(
        &self,
        slot: &Slot,
        mut word: Word,
        key: &Key,
        meter: &Meter,
        ask: Ask,
        now: u64,
    ) -> Option<Level> {
        loop {
            let used = word.state;
            let room = meter
                .most
                .checked_sub(used)
                .is_some_and(|left| ask.cost() <= left);
            if !room || !ask.charges() {
                return Some(counted(room, now, u64::MAX, used, 0));
            }
            raise(&slot.live_until, u64::MAX);
            let charged = Word {
                tag: key.own,
                state: used + ask.cost(),
            };
            if slot.words[0].replace(word, charged) {
                return Some(counted(true, now, u64::MAX, charged.state, 0));
            }
            word = slot.words[0].load();
            if word.tag != key.own {
                return None;
            }
        }
    }

    #[inline(always)]
    pub(super) fn decide_token_bucket(
        &self,
        slot: &Slot,
        mut word: Word,
        key: &Key,
        meter: &Meter,
        ask: Ask,
        mut now: u64,
    ) -> Option<Level> {
        loop {
            let mut at = token_bucket::read(meter, word.state, now);
            if at.clamped {
                now = self.later(now);
                at = token_bucket::read(meter, word.state, now);
            }
            let charged = token_bucket::charge(meter, &at, ask.cost());
            let room = charged.is_some();
            let full_at = charged.filter(|_| ask.charges()).unwrap_or(at.full_at);
            let level = counted(room, now, full_at, 0, 0);
            let writes = room && ask.charges() || at.clamped && matches!(ask, Ask::Take(_));
            if !writes {
                return Some(level);
            }
            let until = token_bucket::nanos(meter, full_at);
            if super::sync::read(&slot.live_until) < until {
                // An eighth longer than needed, so that a steady trickle does not write this every time.
                raise(
                    &slot.live_until,
                    until.saturating_add(until.saturating_sub(now) / 8),
                );
            }
            if slot.words[0].replace(
                word,
                Word {
                    tag: key.own,
                    state: full_at,
                },
            ) {
                return Some(level);
            }
            word = slot.words[0].load();
            if word.tag != key.own {
                return None;
            }
        }
    }

    #[inline(always)]
    pub(super) fn decide_sliding(
        &self,
        slot: &Slot,
        key: &Key,
        meter: &Meter,
        ask: Ask,
        mut now: u64,
    ) -> Option<Level> {
        let phase = phase(key.id, meter);
        loop {
            let words = [slot.words[0].load(), slot.words[1].load()];
            if words[0].tag != key.own {
                return None;
            }
            let own = words.map(|word| (word.tag == key.own).then_some(word.state));
            if own[1].is_none() && slot.words[0].load() != words[0] {
                // The second word may be the next owner's.
                continue;
            }
            let mut at = sliding::read(meter, phase, own, now);
            if at.damaged {
                now = self.later(now);
                at = sliding::read(meter, phase, own, now);
            }
            let here = (at.index & 1) as usize;
            if at.damaged {
                if matches!(ask, Ask::Take(_)) {
                    self.heal_sliding(slot, words, key, meter, &at);
                }
                return Some(counted(false, now, at.end, at.current, at.previous));
            }
            let left = sliding::left(meter, at.previous, at.current, at.end, now);
            let room = left.is_some_and(|left| ask.cost() <= left);
            if !room || !ask.charges() {
                return Some(counted(room, now, at.end, at.current, at.previous));
            }
            raise(&slot.live_until, at.end.saturating_add(meter.window_ns));
            if !at.sealed {
                let before = sliding::Counted {
                    index: at.index.wrapping_sub(1),
                    sealed: true,
                    count: at.previous,
                };
                let sealed = Word {
                    tag: key.own,
                    state: sliding::pack(meter, before),
                };
                slot.words[1 - here].replace(words[1 - here], sealed);
                continue;
            }
            let current = at.current + ask.cost();
            let counted_now = sliding::Counted {
                index: at.index,
                sealed: false,
                count: current,
            };
            let charged = Word {
                tag: key.own,
                state: sliding::pack(meter, counted_now),
            };
            if slot.words[here].replace(words[here], charged) {
                return Some(counted(true, now, at.end, current, at.previous));
            }
        }
    }

    /// Writes a state over one that no charge can have left. If another is faster, that is as well.
    #[cold]
    fn heal(&self, slot: &Slot, word: Word, state: u64) {
        if slot.words[0].replace(
            word,
            Word {
                tag: word.tag,
                state,
            },
        ) {
            bump(&self.region.header().damaged.0);
        }
    }

    /// The same for two words: the current window is used up, the one before says nothing.
    #[cold]
    fn heal_sliding(
        &self,
        slot: &Slot,
        words: [Word; 2],
        key: &Key,
        meter: &Meter,
        at: &sliding::Standing,
    ) {
        raise(&slot.live_until, at.end.saturating_add(meter.window_ns));
        let here = (at.index & 1) as usize;
        let current = sliding::Counted {
            index: at.index,
            sealed: false,
            count: at.current,
        };
        let before = sliding::Counted {
            index: at.index.wrapping_sub(1),
            sealed: true,
            count: 0,
        };
        // The current one first: until both are written the bucket still reads as damaged or used up.
        for (which, counted) in [(here, current), (1 - here, before)] {
            let state = sliding::pack(meter, counted);
            if slot.words[which].replace(
                words[which],
                Word {
                    tag: key.own,
                    state,
                },
            ) {
                bump(&self.region.header().damaged.0);
            }
        }
    }
}

/// The level of a bucket in its own slot.
#[inline]
fn counted(admitted: bool, now: u64, end: u64, current: u64, previous: u64) -> Level {
    let cause = if admitted { Cause::Room } else { Cause::Used };
    Level {
        admitted,
        cause,
        place: Place::Own,
        now,
        end,
        current,
        previous,
    }
}
