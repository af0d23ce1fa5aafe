//! A bucket's key: the values that a rule counts by, encoded so that no two combinations can be the same bytes.
//!
//! Each part is written as a type byte, a length and the bytes; a long value is replaced by its hash, so that the
//! encoding stays small and is never cut. Nothing here decides.

use policy::model::{KeySource, Normalizer};
use policy::normalize::{ValueBuffer, normalize_into};
use smallvec::SmallVec;

use crate::hash::{KeyHash, KeyHasher};

/// Values longer than this are hashed first.
const LONGEST_INLINE_BYTES: usize = 96;

/// How an encoded part begins. The numbers are part of every bucket's id: they never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PartTag {
    Absent = 0,
    ApiKey = 1,
    User = 2,
    ClientAddress = 3,
    Header = 4,
    Descriptor = 5,
    Path = 6,
    Method = 7,
    Host = 8,
    EnvoyDomain = 9,
    EnvoyEntry = 10,
    /// Set beside another tag: the value is the hash of a long one.
    Hashed = 0x80,
}

impl PartTag {
    pub(crate) const fn of(source: &KeySource) -> Self {
        match source {
            KeySource::ApiKey => Self::ApiKey,
            KeySource::User => Self::User,
            KeySource::ClientAddress => Self::ClientAddress,
            KeySource::Header(_) => Self::Header,
            KeySource::Descriptor(_) => Self::Descriptor,
            KeySource::Path => Self::Path,
            KeySource::Method => Self::Method,
            KeySource::Host => Self::Host,
        }
    }
}

/// A key being put together.
pub(crate) struct KeyBuilder<'h> {
    hasher: &'h KeyHasher,
    encoded: SmallVec<[u8; 512]>,
}

impl<'h> KeyBuilder<'h> {
    pub(crate) fn new(hasher: &'h KeyHasher) -> Self {
        Self {
            hasher,
            encoded: SmallVec::new(),
        }
    }

    /// Adds one value.
    pub(crate) fn push(&mut self, tag: PartTag, value: &[u8]) {
        if value.len() <= LONGEST_INLINE_BYTES {
            self.encoded.push(tag as u8);
            self.encoded
                .extend_from_slice(&(value.len() as u32).to_le_bytes());
            self.encoded.extend_from_slice(value);
        } else {
            self.encoded.push(tag as u8 | PartTag::Hashed as u8);
            self.encoded
                .extend_from_slice(&self.hasher.key(value).0.to_le_bytes());
        }
    }

    /// Adds one value after folding it.
    pub(crate) fn push_folded(&mut self, tag: PartTag, value: &[u8], fold: Normalizer) {
        let mut buffer = ValueBuffer::new();
        self.push(tag, normalize_into(fold, value, &mut buffer));
    }

    /// The key of all requests that lack a part of it.
    pub(crate) fn absent(hasher: &KeyHasher) -> KeyHash {
        let mut key = KeyBuilder::new(hasher);
        key.push(PartTag::Absent, b"");
        key.finish()
    }

    pub(crate) fn finish(&self) -> KeyHash {
        self.hasher.key(&self.encoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::HashSecret;
    use proptest::prelude::*;

    fn key(parts: &[(PartTag, Vec<u8>)]) -> KeyHash {
        let hasher = KeyHasher::new(&HashSecret::new(1, [7; 32]));
        let mut key = KeyBuilder::new(&hasher);
        for (tag, value) in parts {
            key.push(*tag, value);
        }
        key.finish()
    }

    fn any_part() -> impl Strategy<Value = (PartTag, Vec<u8>)> {
        let tag = prop_oneof![
            Just(PartTag::ApiKey),
            Just(PartTag::User),
            Just(PartTag::Header),
            Just(PartTag::Path)
        ];
        (tag, proptest::collection::vec(0..4_u8, 0..120))
    }

    proptest! {
        /// Different lists of parts are different keys: nothing runs together, whatever the bytes.
        #[test]
        fn combinations_do_not_collide(
            a in proptest::collection::vec(any_part(), 0..4),
            b in proptest::collection::vec(any_part(), 0..4),
        ) {
            prop_assert_eq!(a == b, key(&a) == key(&b));
        }
    }

    #[test]
    fn a_long_value_is_not_its_own_hash_written_out() {
        let hasher = KeyHasher::new(&HashSecret::new(1, [7; 32]));
        let long = vec![b'x'; 70_000];
        let digest = hasher.key(&long).0.to_le_bytes().to_vec();
        assert_ne!(
            key(&[(PartTag::ApiKey, long)]),
            key(&[(PartTag::ApiKey, digest)])
        );
    }
}
