//! One bucket's 64 bytes, and what the tags in them mean.
//!
//! | bytes | word |
//! |---|---|
//! | 0..16 | `words[0]`: `{state, tag}`; even windows of a sliding limit or of leased credit, everything of the others. Its tag owns the slot |
//! | 16..32 | `words[1]`: `{state, tag}`; odd windows of a sliding limit or of leased credit; means nothing under a tag other than the owner's |
//! | 32..40 | `live_until`: the slot may be given to another bucket only at a later time; never falls |
//! | 40..56 | `credit`: what was wanted of a bucket with leased credit, in even and in odd windows: see `leased` |
//! | 56..64 | `reach`: how many further probe windows hold buckets whose home is this slot; never falls |
//!
//! A tag is 0 (never used: ends every search), a bucket's 63 bits, or those with the top bit set while the bucket
//! claims the slot; the top bit alone is a claim withdrawn, free for all. Once tagged, a slot never returns to 0.

use super::sync::{AtomicU64, AtomicWord, Word};

/// One bucket's place.
#[cfg_attr(not(loom), repr(C, align(64)))]
pub(crate) struct Slot {
    pub words: [AtomicWord; 2],
    pub live_until: AtomicU64,
    pub credit: [AtomicU64; 2],
    pub reach: AtomicU64,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Slot>() == 64 && align_of::<Slot>() == 64);

#[cfg(loom)]
impl Slot {
    pub fn zeroed() -> Self {
        Self {
            words: [AtomicWord::zeroed(), AtomicWord::zeroed()],
            live_until: AtomicU64::new(0),
            credit: [AtomicU64::new(0), AtomicU64::new(0)],
            reach: AtomicU64::new(0),
        }
    }
}

/// Set in the tag of a bucket that is claiming the slot.
const CLAIM: u64 = 1 << 63;

/// The tag of slots never used.
pub(crate) const NEVER: u64 = 0;

/// The tag of a claim withdrawn; the state is a number used once.
pub(crate) const WITHDRAWN: u64 = CLAIM;

/// A bucket's own tag from the upper half of its id.
#[inline]
pub(crate) const fn own_tag(high: u64) -> u64 {
    let tag = high >> 1;
    if tag == 0 { 1 } else { tag }
}

/// The tag of that bucket's claim.
#[inline]
pub(crate) const fn claim_tag(own: u64) -> u64 {
    own | CLAIM
}

/// A slot's first word and liveness as one reader saw them, in this order.
#[derive(Clone, Copy)]
pub(crate) struct Sight {
    pub word: Word,
    pub live_until: u64,
}

impl Slot {
    /// Reads what decides whether the slot may be taken over, after its first word. In this order, because a charge
    /// raises `live_until` before it changes a word: whoever sees the old `live_until` will fail to replace the word.
    pub fn sight(&self, word: Word) -> Sight {
        Sight {
            word,
            live_until: super::sync::read(&self.live_until),
        }
    }
}

impl Sight {
    /// Whether another bucket may take the slot at `now`.
    pub fn is_free(&self, now: u64) -> bool {
        match self.word.tag {
            NEVER | WITHDRAWN => true,
            _ => now > self.live_until,
        }
    }
}
