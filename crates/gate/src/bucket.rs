//! Who is charged: a bucket's id.

/// The keyed 128-bit hash of (key, limit identity). Its two halves are used apart: see [`crate::table`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BucketId(pub u128);

impl BucketId {
    /// The upper half.
    #[must_use]
    pub const fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The lower half.
    #[must_use]
    pub const fn low(self) -> u64 {
        self.0 as u64
    }
}
