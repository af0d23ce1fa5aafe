//! One window's word of leased credit: what it says, and which of a slot's two words is a window's. See
//! [`super::leased`].

use super::probe::Key;
use super::slot::Slot;
use super::sync::Word;
use crate::algorithm::{window_end, window_index};
use crate::meter::{Meter, phase};

/// One window's word taken apart: `{window, announced, units}` from the top bits down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// Its number.
    pub window: u64,
    /// In an even window's word: the slot is kept until the odd window after has ended.
    pub announced: bool,
    /// Units that may be taken.
    pub units: u64,
}

impl Held {
    #[inline]
    pub fn unpack(meter: &Meter, state: u64) -> Self {
        Self {
            window: state >> meter.count_bits,
            announced: state >> (meter.count_bits - 1) & 1 == 1,
            units: state & meter.most_leased(),
        }
    }

    #[inline]
    pub fn word(self, meter: &Meter, key: &Key) -> Word {
        let window = self.window << 1 | u64::from(self.announced);
        Word {
            tag: key.own,
            state: window << (meter.count_bits - 1) | self.units,
        }
    }

    /// What a bucket begins with that has just got a slot: no credit, nothing announced.
    pub fn first(key: &Key, meter: &Meter, now: u64) -> Self {
        let window = window_index(meter, phase(key.id, meter), now);
        Self {
            window: window & !1,
            announced: false,
            units: 0,
        }
    }
}

/// The word that a window's units lie in, as it was read.
#[derive(Clone, Copy)]
pub(super) struct Lying {
    /// 0 for even windows, 1 for odd ones.
    pub which: usize,
    pub word: Word,
    pub held: Held,
}

impl Lying {
    fn new(which: usize, word: Word, meter: &Meter) -> Self {
        Self {
            which,
            word,
            held: Held::unpack(meter, word.state),
        }
    }

    /// The word of the window that `now` lies in, if there is one. `first` is the slot's first word as read.
    #[inline]
    pub fn at(
        slot: &Slot,
        first: Word,
        key: &Key,
        meter: &Meter,
        phase: u64,
        now: u64,
    ) -> Option<Self> {
        // No division on the common path.
        let covers = |held: &Held| {
            let end = window_end(meter, phase, held.window);
            now < end && end - now <= meter.window_ns
        };
        if first.tag != key.own {
            return None;
        }
        let even = Self::new(0, first, meter);
        if covers(&even.held) {
            return Some(even);
        }
        let second = slot.words[1].load();
        let odd = Self::new(1, second, meter);
        (second.tag == key.own && covers(&odd.held)).then_some(odd)
    }

    /// The word of a window by its number, if there is one.
    pub fn of(slot: &Slot, first: Word, key: &Key, meter: &Meter, window: u64) -> Option<Self> {
        let lying = match window & 1 {
            0 => Self::new(0, first, meter),
            _ => Self::new(1, slot.words[1].load(), meter),
        };
        (lying.word.tag == key.own && lying.held.window == window).then_some(lying)
    }

    /// Puts `after` in the word's place if nobody changed it.
    #[inline]
    pub fn replace(&self, slot: &Slot, key: &Key, meter: &Meter, after: Held) -> bool {
        slot.words[self.which].replace(self.word, after.word(meter, key))
    }
}
