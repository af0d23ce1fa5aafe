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
    /// What a file holds; see `open`. Written before the table is shared, never after.
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
    /// How often all leased credit was dropped: goes into the tags of buckets that hold such credit. Written when a
    /// node begins, read by every spend.
    pub forgotten: Alone,
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
            forgotten: alone(),
        }
    }
}

/// The layout's version; raised with every change of the layout or of what states mean.
pub(crate) const VERSION: u64 = 1;

/// The first word of a table's file: `LSHTABLE`, read as a little-endian number.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"LSHTABLE");

/// What a file's first bytes say of it: the words of [`Header::preamble`] that are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Preamble {
    pub magic: u64,
    pub version: u64,
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// Slots for buckets.
    pub slots: u64,
    /// Slots for shared cells.
    pub cells: u64,
    /// This boot of the machine.
    pub boot: u128,
    /// Tells whether the hash secret is the same.
    pub secret_check: u64,
}

/// Bytes of the preamble in a file: eight words and their checksum.
pub(crate) const PREAMBLE_BYTES: usize = 9 * 8;

impl Preamble {
    fn words(&self) -> [u64; 8] {
        let (high, low) = ((self.boot >> 64) as u64, self.boot as u64);
        [
            self.magic,
            self.version,
            self.slot_bytes,
            self.slots,
            self.cells,
            high,
            low,
            self.secret_check,
        ]
    }

    /// As a file holds it.
    pub fn encode(&self) -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        for (to, word) in bytes.chunks_exact_mut(8).zip(self.words()) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        let sum = xxhash_rust::xxh3::xxh3_64(&bytes[..64]);
        bytes[64..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// From a file; whether the checksum is right comes with it.
    pub fn decode(bytes: &[u8; PREAMBLE_BYTES]) -> (Self, bool) {
        let mut words = [0; 9];
        for (word, from) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*from);
        }
        let [
            magic,
            version,
            slot_bytes,
            slots,
            cells,
            high,
            low,
            secret_check,
            sum,
        ] = words;
        let boot = u128::from(high) << 64 | u128::from(low);
        let read = Self {
            magic,
            version,
            slot_bytes,
            slots,
            cells,
            boot,
            secret_check,
        };
        (read, sum == xxhash_rust::xxh3::xxh3_64(&bytes[..64]))
    }
}
