//! Keyed hashes: of bucket keys, of limits' identities and of API keys.
//!
//! All are keyed with one secret, so that nobody without it can aim two keys at one bucket or try out keys against a
//! stored hash. The secret itself is never shown: not in `Debug`, not in errors.

use policy::model::ApiKeyHash;
use xxhash_rust::xxh3::xxh3_128_with_secret;

use crate::bucket::BucketId;

/// What all hashes of a deployment are keyed with: 32 random bytes. Nodes that share buckets share it.
#[derive(Clone)]
pub struct HashSecret {
    version: u32,
    bytes: [u8; 32],
}

impl HashSecret {
    /// Takes the secret and its version, which API key hashes name (`v1.` ...).
    #[must_use]
    pub const fn new(version: u32, bytes: [u8; 32]) -> Self {
        Self { version, bytes }
    }
}

impl std::fmt::Debug for HashSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HashSecret(v{}, ..)", self.version)
    }
}

/// The length of an XXH3 secret.
const XXH3_SECRET_BYTES: usize = 192;

/// The keyed hash functions, ready to use.
pub struct KeyHasher {
    version: u32,
    bucket_secret: [u8; XXH3_SECRET_BYTES],
    identity_key: [u8; 32],
    api_key_key: [u8; 32],
    check: u64,
}

impl std::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyHasher(v{}, ..)", self.version)
    }
}

/// The hash of a key's parts, before a limit's identity is mixed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyHash(pub(crate) u128);

impl KeyHash {
    /// The hash itself, to tell keys apart where no gate is.
    #[must_use]
    pub const fn get(self) -> u128 {
        self.0
    }
}

/// What a limit is, whatever its units: rule, window and algorithm, hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LimitIdentity(pub(crate) u128);

impl LimitIdentity {
    /// A group for the table's overflow cells: the same for all keys under this limit.
    #[must_use]
    pub const fn group(self) -> u64 {
        self.0 as u64
    }
}

impl KeyHasher {
    /// Derives a key for each use from the secret (BLAKE3's `derive_key`), so that no use weakens another.
    #[must_use]
    pub fn new(secret: &HashSecret) -> Self {
        let mut bucket_secret = [0; XXH3_SECRET_BYTES];
        blake3::Hasher::new_derive_key("leasehold 2026-11-30 bucket key hash")
            .update(&secret.bytes)
            .finalize_xof()
            .fill(&mut bucket_secret);
        let check = blake3::derive_key("leasehold 2026-11-30 secret check", &secret.bytes);
        Self {
            version: secret.version,
            bucket_secret,
            identity_key: blake3::derive_key("leasehold 2026-11-30 limit identity", &secret.bytes),
            api_key_key: blake3::derive_key("leasehold 2026-11-30 api key hash", &secret.bytes),
            check: u64::from_le_bytes([
                check[0], check[1], check[2], check[3], check[4], check[5], check[6], check[7],
            ]),
        }
    }

    /// A value by which two users of one table see that their secrets differ; it tells nothing of the secret.
    #[must_use]
    pub const fn secret_check(&self) -> u64 {
        self.check
    }

    /// Hashes the encoded parts of a key.
    #[inline]
    #[must_use]
    pub fn key(&self, encoded: &[u8]) -> KeyHash {
        KeyHash(xxh3_128_with_secret(encoded, &self.bucket_secret))
    }

    /// The bucket of a key under a limit.
    #[inline]
    #[must_use]
    pub fn bucket(&self, key: KeyHash, limit: LimitIdentity) -> BucketId {
        let mut both = [0; 32];
        both[..16].copy_from_slice(&key.0.to_le_bytes());
        both[16..].copy_from_slice(&limit.0.to_le_bytes());
        BucketId(xxh3_128_with_secret(&both, &self.bucket_secret))
    }

    /// Hashes what makes a limit what it is. Each part is length-prefixed.
    #[must_use]
    pub fn identity(&self, parts: &[&[u8]]) -> LimitIdentity {
        let mut hasher = blake3::Hasher::new_keyed(&self.identity_key);
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let mut digest = [0; 16];
        hasher.finalize_xof().fill(&mut digest);
        LimitIdentity(u128::from_le_bytes(digest))
    }

    /// The keyed hash under which an API key may be stored, named and compared.
    #[must_use]
    pub fn api_key(&self, raw: &[u8]) -> ApiKeyHash {
        ApiKeyHash {
            version: self.version,
            digest: *blake3::keyed_hash(&self.api_key_key, raw).as_bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hasher(byte: u8) -> KeyHasher {
        KeyHasher::new(&HashSecret::new(1, [byte; 32]))
    }

    #[test]
    fn another_secret_gives_other_hashes_everywhere() {
        let (a, b) = (hasher(1), hasher(2));
        assert_ne!(a.key(b"k"), b.key(b"k"));
        assert_ne!(a.identity(&[b"r"]), b.identity(&[b"r"]));
        assert_ne!(a.api_key(b"k"), b.api_key(b"k"));
        assert_ne!(a.secret_check(), b.secret_check());
        let limit = a.identity(&[b"r"]);
        assert_ne!(a.bucket(a.key(b"k"), limit), b.bucket(a.key(b"k"), limit));
    }

    #[test]
    fn parts_of_an_identity_do_not_run_together() {
        let h = hasher(1);
        assert_ne!(h.identity(&[b"ab", b"c"]), h.identity(&[b"a", b"bc"]));
        assert_ne!(h.identity(&[b"ab"]), h.identity(&[b"ab", b""]));
    }

    #[test]
    fn debug_shows_nothing_of_the_secret() {
        let secret = HashSecret::new(3, [0xAB; 32]);
        for shown in [
            format!("{secret:?}"),
            format!("{:?}", KeyHasher::new(&secret)),
        ] {
            assert!(
                !shown.to_lowercase().contains("ab") && !shown.contains("171"),
                "{shown}"
            );
        }
    }
}
