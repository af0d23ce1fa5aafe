//! The record of one durable bucket: its bytes, and which changes of it are allowed.
//!
//! It must never do IO: every store, and the simulator, keeps these bytes and asks [`decide`] what may replace them. A
//! record is read whole or not at all; a byte that is off is an error, never "nothing was issued yet".

use lease::bucket::{Bucket, Subject, WindowId};
use lease::id::{Epoch, NodeId};
use lease::time::Wall;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

/// The size of an encoded record.
pub const BYTES: usize = 96;

const MAGIC: [u8; 4] = *b"LHDL";
const FORMAT: u16 = 1;
/// The checksum's place: the last eight bytes.
const CHECKED: usize = BYTES - 8;

/// Which incarnation of which node raised a total: nobody but it may go on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence {
    /// The node.
    pub node: NodeId,
    /// Its incarnation.
    pub epoch: Epoch,
}

/// How far an owner may issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authorized {
    /// Units that may be issued in this bucket, in all, by all owners that it ever had.
    pub total: u64,
    /// Units of those that earlier owners were authorized for, and so may have issued. The owner named by `fence`
    /// issues the rest, `total - base`, and no more.
    pub base: u64,
    /// Who may issue them.
    pub fence: Fence,
    /// Grows with every change, so that a change that was overtaken never applies.
    pub version: u64,
}

/// What is kept for one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which.
    pub bucket: Bucket,
    /// How far it was authorized.
    pub authorized: Authorized,
    /// From this time on nobody issues for the bucket, and the record may go.
    pub keep_until: Wall,
}

/// A wish to authorize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// For which bucket.
    pub bucket: Bucket,
    /// What the owner was last told, by a load or by its last change; `None` if there was nothing.
    pub expected: Option<Authorized>,
    /// The new total, in units.
    pub to: u64,
    /// Who asks.
    pub fence: Fence,
    /// When the record may go: the bucket's end plus two rounds at the least, and better an hour, for clocks that are
    /// behind.
    pub keep_until: Wall,
}

/// What becomes of a [`Change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Replace what is there by this, if it is still there.
    Write(Record),
    /// It is so already: nothing to write. This is how a change is recognized whose answer was lost.
    Done(Authorized),
    /// No.
    Refuse(Refusal),
}

/// Why a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Somebody else changed the bucket since.
    #[error("another owner changed the bucket; load it and start from what it has")]
    Changed {
        /// What is there now.
        found: Option<Authorized>,
    },
    /// A later incarnation of the same node has taken over.
    #[error("incarnation {} of node {:016x} is over: incarnation {} has taken its place", asked.epoch.count, asked.node.0, found.epoch.count)]
    Stale {
        /// Who asked.
        asked: Fence,
        /// Who has taken over.
        found: Fence,
    },
    /// Two processes run as the same incarnation of the same node.
    #[error("two processes run as incarnation {} of node {:016x}; give each a node id and a data directory of its own", .0.epoch.count, .0.node.0)]
    TwoOfOne(Fence),
    /// The total would fall below what earlier owners may have issued.
    #[error("a total of {to} units is below the {base} that earlier owners may have issued")]
    BelowBase {
        /// What was asked for.
        to: u64,
        /// The least that can be.
        base: u64,
    },
}

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    /// Of another size.
    #[error("a ledger record has {BYTES} bytes, this has {0}")]
    Size(usize),
    /// Not one of ours.
    #[error("not a ledger record: it does not begin with \"LHDL\"")]
    Magic,
    /// Written by a later release.
    #[error("a ledger record of format {0}; this release knows format {FORMAT}")]
    Format(u16),
    /// Torn or damaged.
    #[error("a ledger record is damaged: its checksum does not match")]
    Checksum,
    /// The record of another bucket lies in this one's place.
    #[error("the ledger record is of another bucket")]
    OtherBucket,
    /// Whole, but no owner ever wrote it.
    #[error("a ledger record contradicts itself: base {base} of {total} units, version {version}")]
    Contradiction {
        /// Its base.
        base: u64,
        /// Its total.
        total: u64,
        /// Its version.
        version: u64,
    },
}

impl Record {
    /// The bytes: magic, format, then each number in big-endian order, and a checksum (XXH3-64) over all before it.
    #[must_use]
    pub fn encode(&self) -> [u8; BYTES] {
        let Authorized {
            total,
            base,
            fence,
            version,
        } = self.authorized;
        let mut bytes = [0; BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&MAGIC);
        put(&FORMAT.to_be_bytes());
        put(&[0; 2]);
        put(&key(self.bucket));
        for number in [
            total,
            base,
            fence.node.0,
            fence.epoch.count,
            fence.epoch.nonce,
            version,
            self.keep_until.0,
        ] {
            put(&number.to_be_bytes());
        }
        let checksum = xxh3_64(&bytes[..CHECKED]);
        bytes[CHECKED..].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`RecordError`]; nothing of it may be used.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let bytes: &[u8; BYTES] = bytes
            .try_into()
            .map_err(|_| RecordError::Size(bytes.len()))?;
        if bytes[..4] != MAGIC {
            return Err(RecordError::Magic);
        }
        if u64_at(bytes, CHECKED) != xxh3_64(&bytes[..CHECKED]) {
            return Err(RecordError::Checksum);
        }
        let format = u16::from_be_bytes([bytes[4], bytes[5]]);
        if format != FORMAT || bytes[6..8] != [0; 2] {
            return Err(RecordError::Format(format));
        }
        let subject = u128::from(u64_at(bytes, 8)) << 64 | u128::from(u64_at(bytes, 16));
        let [total, base, node, count, nonce, version, keep_until] =
            [32, 40, 48, 56, 64, 72, 80].map(|at| u64_at(bytes, at));
        if base > total || version == 0 {
            return Err(RecordError::Contradiction {
                base,
                total,
                version,
            });
        }
        Ok(Self {
            bucket: Bucket {
                subject: Subject(subject),
                window: WindowId(u64_at(bytes, 24)),
            },
            authorized: Authorized {
                total,
                base,
                fence: Fence {
                    node: NodeId(node),
                    epoch: Epoch { count, nonce },
                },
                version,
            },
            keep_until: Wall(keep_until),
        })
    }

    /// Reads the record that was kept for a bucket.
    ///
    /// # Errors
    /// [`RecordError`], also if it is another bucket's.
    pub fn decode_of(bucket: Bucket, bytes: &[u8]) -> Result<Self, RecordError> {
        let record = Self::decode(bytes)?;
        if record.bucket != bucket {
            return Err(RecordError::OtherBucket);
        }
        Ok(record)
    }
}

/// A bucket as 24 bytes, for stores that look records up by key.
#[must_use]
pub fn key(bucket: Bucket) -> [u8; 24] {
    let mut key = [0; 24];
    key[..16].copy_from_slice(&bucket.subject.0.to_be_bytes());
    key[16..].copy_from_slice(&bucket.window.0.to_be_bytes());
    key
}

fn u64_at(bytes: &[u8; BYTES], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(number)
}

/// What becomes of a change, given what is there. The store must see to it that nothing comes between its reading of
/// `found` and its writing of the result.
///
/// An owner that has not written this bucket yet *claims* it: from then on every change of the owner before it is
/// refused, and what that owner was authorized for counts as issued (`base`).
#[must_use]
pub fn decide(found: Option<&Record>, change: &Change) -> Decision {
    let Some(record) = found else {
        return match change.expected {
            None => Decision::Write(change.record(0, 1, change.keep_until)),
            Some(_) => Decision::Refuse(Refusal::Changed { found: None }),
        };
    };
    let found = record.authorized;
    let asked = change.fence;
    if found.fence.node == asked.node && found.fence != asked {
        if found.fence.epoch.count > asked.epoch.count {
            return Decision::Refuse(Refusal::Stale {
                asked,
                found: found.fence,
            });
        }
        if found.fence.epoch.count == asked.epoch.count {
            return Decision::Refuse(Refusal::TwoOfOne(asked));
        }
    }
    let own = found.fence == asked;
    if own && found.total == change.to {
        // Either nothing is to be done, or it was done and the answer was lost: nobody else writes with this fence.
        // That a change of this owner which is still under way could undo it, the version rules out.
        return Decision::Done(found);
    }
    if change.expected != Some(found) {
        return Decision::Refuse(Refusal::Changed { found: Some(found) });
    }
    let base = if own { found.base } else { found.total };
    if change.to < base {
        return Decision::Refuse(Refusal::BelowBase {
            to: change.to,
            base,
        });
    }
    // At a billion changes a second it would take 584 years to stand still.
    let version = found.version.saturating_add(1);
    Decision::Write(change.record(base, version, record.keep_until.max(change.keep_until)))
}

impl Change {
    fn record(&self, base: u64, version: u64, keep_until: Wall) -> Record {
        Record {
            bucket: self.bucket,
            authorized: Authorized {
                total: self.to,
                base,
                fence: self.fence,
                version,
            },
            keep_until,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BUCKET: Bucket = Bucket {
        subject: Subject(0x0123_4567_89AB_CDEF_1032_5476_98BA_DCFE),
        window: WindowId(0xABCD),
    };

    fn fence(node: u64, count: u64) -> Fence {
        Fence {
            node: NodeId(node),
            epoch: Epoch {
                count,
                nonce: node << 32 | count,
            },
        }
    }

    fn change(expected: Option<Authorized>, to: u64, fence: Fence) -> Change {
        Change {
            bucket: BUCKET,
            expected,
            to,
            fence,
            keep_until: Wall(1_000),
        }
    }

    fn written(found: Option<&Record>, change: Change) -> Record {
        match decide(found, &change) {
            Decision::Write(record) => record,
            other @ (Decision::Done(_) | Decision::Refuse(_)) => panic!("{other:?}"),
        }
    }

    fn refused(found: &Record, change: Change) -> Refusal {
        match decide(Some(found), &change) {
            Decision::Refuse(refusal) => refusal,
            other @ (Decision::Done(_) | Decision::Write(_)) => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_bytes_are_these() {
        let record = Record {
            bucket: BUCKET,
            authorized: Authorized {
                total: 0x0102,
                base: 0x01,
                fence: fence(0x77, 0x05),
                version: 0x09,
            },
            keep_until: Wall(0x0A0B_0C0D),
        };
        let hex: String = record.encode().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            hex[..176],
            [
                "4c48444c00010000",
                "0123456789abcdef1032547698badcfe",
                "000000000000abcd",
                "0000000000000102",
                "0000000000000001",
                "0000000000000077",
                "0000000000000005",
                "0000007700000005",
                "0000000000000009",
                "000000000a0b0c0d",
            ]
            .concat()
        );
        assert_eq!(Record::decode(&record.encode()), Ok(record));
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded_and_no_changed_byte_passes(
            subject: u128, window: u64, total: u64, base: u64, node: u64, count: u64, nonce: u64,
            version in 1_u64.., keep_until: u64, at in 0..BYTES, flip in 1_u8..,
        ) {
            let record = Record {
                bucket: Bucket { subject: Subject(subject), window: WindowId(window) },
                authorized: Authorized {
                    total: total.max(base),
                    base: total.min(base),
                    fence: Fence { node: NodeId(node), epoch: Epoch { count, nonce } },
                    version,
                },
                keep_until: Wall(keep_until),
            };
            let mut bytes = record.encode();
            prop_assert_eq!(Record::decode(&bytes), Ok(record));
            bytes[at] ^= flip;
            prop_assert!(Record::decode(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_a_record_or_an_error(bytes: Vec<u8>) {
            prop_assert!(Record::decode(&bytes).is_err());
        }
    }

    #[test]
    fn a_record_of_a_later_format_or_another_bucket_is_refused() {
        let record = written(None, change(None, 5, fence(1, 1)));
        let mut later = record.encode();
        later[5] = 2;
        let checksum = xxh3_64(&later[..CHECKED]);
        later[CHECKED..].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(Record::decode(&later), Err(RecordError::Format(2)));
        let other = Bucket {
            window: WindowId(1),
            ..BUCKET
        };
        assert_eq!(
            Record::decode_of(other, &record.encode()),
            Err(RecordError::OtherBucket)
        );
        assert_eq!(Record::decode(&[]), Err(RecordError::Size(0)));
        assert_eq!(Record::decode(&[0; BYTES]), Err(RecordError::Magic));
    }

    #[test]
    fn an_owner_raises_and_lowers_what_it_claimed() {
        let owner = fence(1, 1);
        let first = written(None, change(None, 100, owner));
        assert_eq!((first.authorized.base, first.authorized.version), (0, 1));
        let more = written(Some(&first), change(Some(first.authorized), 200, owner));
        assert_eq!((more.authorized.total, more.authorized.version), (200, 2));
        let less = written(Some(&more), change(Some(more.authorized), 50, owner));
        assert_eq!((less.authorized.total, less.authorized.version), (50, 3));
    }

    #[test]
    fn a_claim_counts_all_that_came_before_as_issued_and_fences_the_owner_before() {
        let (old, new) = (fence(1, 1), fence(2, 7));
        let first = written(None, change(None, 100, old));
        let claimed = written(Some(&first), change(Some(first.authorized), 150, new));
        assert_eq!(
            (claimed.authorized.base, claimed.authorized.total),
            (100, 150)
        );
        // The old owner raises, lowers, or says again what it said: no.
        for to in [200, 150, 100, 0] {
            let late = change(Some(first.authorized), to, old);
            let found = Some(claimed.authorized);
            assert_eq!(refused(&claimed, late), Refusal::Changed { found });
        }
        // The new one cannot go below what the old one may have issued.
        let below = change(Some(claimed.authorized), 99, new);
        let refusal = Refusal::BelowBase { to: 99, base: 100 };
        assert_eq!(refused(&claimed, below), refusal);
        let below = change(Some(first.authorized), 99, new);
        assert_eq!(refused(&first, below), refusal);
    }

    #[test]
    fn an_incarnation_that_is_over_is_stale_and_one_that_runs_twice_is_named() {
        let first = written(None, change(None, 100, fence(1, 2)));
        let stale = change(Some(first.authorized), 200, fence(1, 1));
        assert!(matches!(refused(&first, stale), Refusal::Stale { .. }));
        let mut twin = fence(1, 2);
        twin.epoch.nonce += 1;
        let twice = change(Some(first.authorized), 200, twin);
        assert_eq!(refused(&first, twice), Refusal::TwoOfOne(twin));
        let next = written(
            Some(&first),
            change(Some(first.authorized), 100, fence(1, 3)),
        );
        assert_eq!(next.authorized.base, 100);
    }

    #[test]
    fn a_change_whose_answer_was_lost_is_recognized_and_an_overtaken_one_is_not_applied() {
        let owner = fence(1, 1);
        let first = change(None, 100, owner);
        let one = written(None, first);
        assert_eq!(decide(Some(&one), &first), Decision::Done(one.authorized));
        // Lowered, raised to where it was: a lowering that was long under way does not apply.
        let late = change(Some(one.authorized), 10, owner);
        let two = written(Some(&one), change(Some(one.authorized), 50, owner));
        let three = written(Some(&two), change(Some(two.authorized), 100, owner));
        let found = Some(three.authorized);
        assert_eq!(refused(&three, late), Refusal::Changed { found });
        // Gone, or never there.
        assert_eq!(
            decide(None, &late),
            Decision::Refuse(Refusal::Changed { found: None })
        );
    }

    #[test]
    fn a_record_is_kept_as_long_as_anybody_asked() {
        let owner = fence(1, 1);
        let one = written(None, change(None, 1, owner));
        let mut sooner = change(Some(one.authorized), 2, owner);
        sooner.keep_until = Wall(1);
        assert_eq!(written(Some(&one), sooner).keep_until, Wall(1_000));
    }
}
