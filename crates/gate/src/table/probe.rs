//! Where a bucket may lie.
//!
//! A bucket's places are up to four *windows* of 16 consecutive slots: the first from its home slot, the others from
//! further hash positions, used only while the earlier ones are full of live buckets. All who look for a bucket visit
//! its places in the same order.
//!
//! The identity of a bucket in the table is its 63-bit tag and its places. Two of n buckets are taken for one another
//! only if their tags are equal and their places overlap: about n²/2 · 64/slots · 2⁻⁶³, which for a million buckets in
//! their table is below 2⁻³⁷. The hash is keyed, so nobody can look for such a pair.

use super::slot::{claim_tag, own_tag};
use crate::bucket::BucketId;

/// Slots in a probe window.
pub(crate) const WIDTH: usize = if cfg!(loom) { 2 } else { 16 };

/// Probe windows of a bucket.
pub(crate) const WINDOWS: usize = if cfg!(loom) { 2 } else { 4 };

/// A run of slots that holds one kind of bucket: the keys' own, or the shared cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub first: usize,
    pub len: usize,
}

/// A bucket as the table knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub id: BucketId,
    pub own: u64,
    pub claim: u64,
    pub span: Span,
}

/// Odd constants (from the fractional parts of square roots) that send a bucket's windows apart.
const SPREAD: [u64; 4] = [
    1,
    0x6a09_e667_f3bc_c909,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
];

impl Key {
    #[inline]
    pub fn new(id: BucketId, span: Span) -> Self {
        let own = own_tag(id.high());
        Self {
            id,
            own,
            claim: claim_tag(own),
            span,
        }
    }

    /// A bucket that holds leased credit. Its tag is another for every number in `forgotten`, and never the one that
    /// the same id has as a bucket that counts: credit cannot be read as a count, nor outlive its holder's books.
    #[inline]
    pub fn leased(id: BucketId, span: Span, forgotten: u64) -> Self {
        let mixed = forgotten
            .wrapping_add(1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let own = own_tag(id.high() ^ mixed);
        Self {
            id,
            own,
            claim: claim_tag(own),
            span,
        }
    }

    /// The slot that the first window begins with.
    #[inline]
    pub fn home(&self) -> usize {
        self.span.first + scale(self.id.low(), self.span.len)
    }

    /// The `k`th slot of window `w`.
    #[inline]
    pub fn place(&self, w: usize, k: usize) -> usize {
        let from = match w {
            0 => self.id.low(),
            _ => (self.id.low() ^ self.own.rotate_left(w as u32)).wrapping_mul(SPREAD[w & 3]),
        };
        let mut at = scale(from, self.span.len) + k;
        if at >= self.span.len {
            at -= self.span.len;
        }
        self.span.first + at
    }
}

/// A uniform number below `len` from a uniform one below 2^64.
#[inline]
fn scale(hash: u64, len: usize) -> usize {
    ((u128::from(hash) * len as u128) >> 64) as usize
}
