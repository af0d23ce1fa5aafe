//! The first 4,096 bytes of a table: what it is, and what all who use it share.
//!
//! Cells that are written often lie on lines of their own, apart from the time that every decision reads.

use super::sync::AtomicU64;

/// Bytes before the first slot.
pub(crate) const HEADER_BYTES: usize = 4096;

/// A word with a cache line (and its neighbour, which processors fetch along) to itself.
#[cfg_attr(not(loom), repr(C, align(128)))]
pub(crate) struct Alone(pub AtomicU64);

/// The header. All zero in a new table.
#[cfg_attr(not(loom), repr(C, align(4096)))]
pub(crate) struct Header {
    /// What a file holds. Written before the table is shared, never after.
    pub preamble: [AtomicU64; 16],
    /// No decision is made at an earlier time than this, in nanoseconds since the epoch; never falls.
    pub floor: Alone,
    /// Until when some shared cell may hold what a bucket without a slot used; never falls.
    pub overflow_until: Alone,
    /// Numbers used once, for claims.
    pub nonce: Alone,
    /// Takes that went to a shared cell.
    pub overflow_takes: Alone,
    /// Takes refused because there was no room even in the shared cells.
    pub no_room: Alone,
    /// Slots taken over from buckets that were over.
    pub reclaimed: Alone,
    /// States found that no charge can have written.
    pub damaged: Alone,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Header>() == HEADER_BYTES);

#[cfg(loom)]
impl Header {
    pub fn zeroed() -> Self {
        let alone = || Alone(AtomicU64::new(0));
        Self {
            preamble: std::array::from_fn(|_| AtomicU64::new(0)),
            floor: alone(),
            overflow_until: alone(),
            nonce: alone(),
            overflow_takes: alone(),
            no_room: alone(),
            reclaimed: alone(),
            damaged: alone(),
        }
    }
}
