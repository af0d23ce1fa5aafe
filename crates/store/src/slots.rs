//! Ledger records in one file: fixed slots, two for each bucket, of which the older is overwritten.
//!
//! It must never overwrite the record that was acknowledged last, so a crash in the middle of any write leaves the old
//! record or the new one. All IO goes through [`Disk`], so that the simulator and the tests can lose, tear and fail any
//! write. Like SQLite ("powersafe overwrite"), it relies on a write that loses power not to damage bytes beside it.
//!
//! The file: a header of 256 bytes, then pairs of slots of 128 bytes. A slot is a record, a number that grows with
//! every write to the file, and a checksum. The valid slot with the larger number is the pair's record.

use std::collections::BTreeMap;
use std::io;

use lease::bucket::Bucket;
use lease::time::Wall;
use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

use crate::record::{self, Authorized, Change, Decision, Record, RecordError, Refusal};

/// Bytes before the first pair.
pub const HEADER_BYTES: usize = 256;
/// Bytes of a slot; a pair has two.
pub const SLOT_BYTES: usize = 128;
const PAIR_BYTES: usize = 2 * SLOT_BYTES;
const MAGIC: &[u8; 8] = b"LHLEDGER";
const FORMAT: u16 = 1;
const NUMBER_AT: usize = record::BYTES;
const CHECKSUM_AT: usize = NUMBER_AT + 8;

/// Where the bytes lie.
pub trait Disk {
    /// All bytes there are.
    ///
    /// # Errors
    /// If they cannot be read, or are more than `most`.
    fn read(&mut self, most: usize) -> io::Result<Vec<u8>>;

    /// Writes at an offset; beyond the end the file grows, with zeros in between.
    ///
    /// # Errors
    /// If it cannot be written; then any part of it may have been.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Returns once all that was written would survive a loss of power.
    ///
    /// # Errors
    /// If that cannot be promised; then any part of what was written since the last time may be lost.
    fn sync(&mut self) -> io::Result<()>;
}

/// What can be wrong.
#[derive(Debug, Error)]
pub enum SlotsError {
    /// The change is not allowed; it was not made.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No room for another bucket.
    #[error("full with {0} buckets")]
    Full(usize),
    /// A read, write or sync failed.
    #[error("{0}")]
    Disk(#[from] io::Error),
    /// An earlier write failed, so what lies on the disk is not known. Open the file again to find out.
    #[error("an earlier write failed; the file must be opened again")]
    Broken,
    /// The file is not one of ours, or of a later release.
    #[error("not a ledger file of format {FORMAT}")]
    NotALedger,
    /// Neither slot of a pair can be read, though both were written: more than a crash can do.
    #[error("both copies of pair {pair} are damaged: {source}")]
    Damaged {
        /// Which pair, from 0.
        pair: usize,
        /// What is wrong with one of them.
        source: RecordError,
    },
}

/// A ledger file that is open.
#[derive(Debug)]
pub struct Slots<D> {
    disk: D,
    most: usize,
    /// Where each live bucket's record is.
    live: BTreeMap<Bucket, Place>,
    /// Pairs that no live bucket uses, with the slot to write next.
    free: Vec<Place>,
    pairs: usize,
    /// The number of the latest write.
    number: u64,
    broken: bool,
    #[cfg(test)]
    mutant: Option<tests::Mutant>,
}

/// A pair, and which of its slots is to be overwritten next.
#[derive(Clone, Copy, Debug)]
struct Place {
    pair: usize,
    next: usize,
    /// `None` in a free pair.
    record: Option<Record>,
    number: u64,
}

impl Place {
    fn offset(&self) -> u64 {
        (HEADER_BYTES + self.pair * PAIR_BYTES + self.next * SLOT_BYTES) as u64
    }
}

impl<D: Disk> Slots<D> {
    /// Opens a file with room for `most` buckets, or begins an empty one. What a crash left half-written is passed
    /// over.
    ///
    /// # Errors
    /// [`SlotsError`].
    pub fn open(mut disk: D, most: usize) -> Result<Self, SlotsError> {
        let most_bytes = HEADER_BYTES.saturating_add(most.saturating_mul(PAIR_BYTES));
        let image = disk.read(most_bytes)?;
        let (header, body) = image.split_at(image.len().min(HEADER_BYTES));
        if *header != header_bytes() {
            // A header is synced before the first pair: without pairs its own writing was cut short, or it is new.
            let cut_short = body.is_empty() && !foreign(header);
            if !cut_short {
                return Err(SlotsError::NotALedger);
            }
            disk.write_at(0, &header_bytes())?;
            disk.sync()?;
        }
        let mut slots = Self {
            disk,
            most,
            live: BTreeMap::new(),
            free: Vec::new(),
            pairs: 0,
            number: 0,
            broken: false,
            #[cfg(test)]
            mutant: None,
        };
        let pairs = body.len().div_ceil(PAIR_BYTES);
        for (pair, bytes) in body.chunks(PAIR_BYTES).enumerate() {
            let Some(place) = read_pair(pair, bytes, pair + 1 == pairs)? else {
                break;
            };
            slots.pairs = pair + 1;
            slots.number = slots.number.max(place.number);
            slots.index(place);
        }
        slots.confirm_latest(body)?;
        Ok(slots)
    }

    /// If a sync fails, the latest write may be in the system's cache and not on the disk, and reading cannot tell. So
    /// it is written once more, the same bytes in the same place, and synced.
    fn confirm_latest(&mut self, body: &[u8]) -> Result<(), SlotsError> {
        let latest = body
            .chunks(SLOT_BYTES)
            .enumerate()
            .find(|(_, slot)| read_slot(slot).is_ok_and(|(_, number)| number == self.number));
        if let Some((index, slot)) = latest {
            let offset = HEADER_BYTES + index * SLOT_BYTES;
            self.disk.write_at(offset as u64, slot)?;
            self.disk.sync()?;
        }
        Ok(())
    }

    fn index(&mut self, place: Place) {
        let Some(record) = place.record else {
            self.free.push(place);
            return;
        };
        // A bucket that was removed and came back may have left its old pair as it was: the later write counts.
        let older = match self.live.get(&record.bucket) {
            Some(other) if other.number > place.number => Some(place),
            Some(_) | None => self.live.insert(record.bucket, place),
        };
        if let Some(older) = older {
            self.free.push(Place {
                record: None,
                ..older
            });
        }
    }

    /// How far a bucket was authorized.
    ///
    /// # Errors
    /// [`SlotsError::Broken`].
    pub fn load(&self, bucket: Bucket) -> Result<Option<Authorized>, SlotsError> {
        if self.broken {
            return Err(SlotsError::Broken);
        }
        let record = self.live.get(&bucket).and_then(|place| place.record);
        Ok(record.map(|record| record.authorized))
    }

    /// Changes how far; returns once that would survive a loss of power.
    ///
    /// # Errors
    /// [`SlotsError`]. After one of the disk the change may have been made or not, and the file must be opened again.
    pub fn authorize(&mut self, change: &Change) -> Result<Authorized, SlotsError> {
        if self.broken {
            return Err(SlotsError::Broken);
        }
        let found = self.live.get(&change.bucket).copied();
        let record = match record::decide(found.and_then(|place| place.record).as_ref(), change) {
            Decision::Done(authorized) => return Ok(authorized),
            Decision::Refuse(refusal) => return Err(refusal.into()),
            Decision::Write(record) => record,
        };
        let place = match found.or_else(|| self.free.pop()) {
            Some(place) => place,
            None if self.pairs < self.most => self.append(),
            None => return Err(SlotsError::Full(self.most)),
        };
        let number = self.number.saturating_add(1);
        if let Err(error) = self.write(place, &record, number) {
            self.broken = true;
            return Err(error.into());
        }
        self.number = number;
        #[cfg(test)]
        let place = match self.mutant {
            Some(tests::Mutant::OverwritesTheNewest) => Place {
                next: 1 - place.next,
                ..place
            },
            Some(tests::Mutant::NeverSyncs) | None => place,
        };
        let place = Place {
            next: 1 - place.next,
            record: Some(record),
            number,
            ..place
        };
        self.live.insert(record.bucket, place);
        Ok(record.authorized)
    }

    fn append(&mut self) -> Place {
        let pair = self.pairs;
        self.pairs += 1;
        Place {
            pair,
            next: 0,
            record: None,
            number: 0,
        }
    }

    fn write(&mut self, place: Place, record: &Record, number: u64) -> io::Result<()> {
        let mut slot = [0; SLOT_BYTES];
        slot[..record::BYTES].copy_from_slice(&record.encode());
        slot[NUMBER_AT..CHECKSUM_AT].copy_from_slice(&number.to_be_bytes());
        let checksum = xxh3_64(&slot[..CHECKSUM_AT]);
        slot[CHECKSUM_AT..CHECKSUM_AT + 8].copy_from_slice(&checksum.to_be_bytes());
        self.disk.write_at(place.offset(), &slot)?;
        #[cfg(test)]
        if self.mutant == Some(tests::Mutant::NeverSyncs) {
            return Ok(());
        }
        self.disk.sync()
    }

    /// Forgets records with `keep_until` at or before `now`; their place is used again. Says how many.
    ///
    /// # Errors
    /// [`SlotsError::Broken`].
    pub fn sweep(&mut self, now: Wall) -> Result<u64, SlotsError> {
        if self.broken {
            return Err(SlotsError::Broken);
        }
        let before = self.live.len();
        let free = &mut self.free;
        self.live.retain(|_, place| {
            let keep = place.record.is_some_and(|record| record.keep_until > now);
            if !keep {
                free.push(Place {
                    record: None,
                    ..*place
                });
            }
            keep
        });
        Ok((before - self.live.len()) as u64)
    }

    /// How many buckets have a record.
    #[must_use]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Ends the use of the file.
    pub fn into_disk(self) -> D {
        self.disk
    }
}

fn header_bytes() -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..10].copy_from_slice(&FORMAT.to_be_bytes());
    header
}

/// Whether a header holds something that no interrupted writing of ours leaves behind.
fn foreign(header: &[u8]) -> bool {
    let ours = header_bytes();
    header
        .iter()
        .zip(ours)
        .any(|(byte, our)| *byte != our && *byte != 0)
}

fn read_slot(bytes: &[u8]) -> Result<(Record, u64), RecordError> {
    if bytes.len() != SLOT_BYTES {
        return Err(RecordError::Size(bytes.len()));
    }
    let number = |at: usize| {
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[at..at + 8]);
        u64::from_be_bytes(number)
    };
    if number(CHECKSUM_AT) != xxh3_64(&bytes[..CHECKSUM_AT]) {
        return Err(RecordError::Checksum);
    }
    let record = Record::decode(&bytes[..record::BYTES])?;
    Ok((record, number(NUMBER_AT)))
}

/// The record of a pair; `None` if its first writing was cut short, which can only have happened at the file's end.
fn read_pair(pair: usize, bytes: &[u8], last: bool) -> Result<Option<Place>, SlotsError> {
    let (first, second) = bytes.split_at(bytes.len().min(SLOT_BYTES));
    let (newest, number, next) = match (read_slot(first), read_slot(second)) {
        (Ok((a, a_number)), Ok((b, b_number))) => {
            if a_number > b_number {
                (a, a_number, 1)
            } else {
                (b, b_number, 0)
            }
        }
        (Ok((a, a_number)), Err(_)) => (a, a_number, 1),
        (Err(_), Ok((b, b_number))) => (b, b_number, 0),
        (Err(_), Err(_)) if last && second.iter().all(|byte| *byte == 0) => return Ok(None),
        (Err(source), Err(_)) => return Err(SlotsError::Damaged { pair, source }),
    };
    Ok(Some(Place {
        pair,
        next,
        record: Some(newest),
        number,
    }))
}

#[cfg(test)]
mod tests {
    use lease::bucket::{Subject, WindowId};
    use lease::id::{Epoch, NodeId};
    use proptest::prelude::*;

    use super::*;
    use crate::record::Fence;

    /// A disk that loses what was not synced: each byte written since may be there or not.
    #[derive(Clone, Debug, Default)]
    struct Frail {
        synced: Vec<u8>,
        unsynced: Vec<(usize, Vec<u8>)>,
        /// Operations until one fails.
        left: usize,
        /// Chooses, by its bits, which bytes of an unsynced write arrive.
        chance: u64,
    }

    fn put(image: &mut Vec<u8>, at: usize, bytes: &[u8], arrives: impl Fn(usize) -> bool) {
        for (index, byte) in bytes
            .iter()
            .enumerate()
            .filter(|(index, _)| arrives(*index))
        {
            if image.len() <= at + index {
                image.resize(at + index + 1, 0);
            }
            image[at + index] = *byte;
        }
    }

    impl Frail {
        fn operation(&mut self) -> io::Result<()> {
            self.left = self
                .left
                .checked_sub(1)
                .ok_or_else(|| io::Error::other("the power is out"))?;
            Ok(())
        }

        /// After a loss of power.
        fn crashed(mut self, chance: u64) -> Self {
            self.chance = chance;
            for (at, bytes) in std::mem::take(&mut self.unsynced) {
                put(&mut self.synced, at, &bytes, |index| {
                    chance.rotate_left((index / 3) as u32) & 1 == 1
                });
            }
            self.left = usize::MAX;
            self
        }
    }

    impl Disk for Frail {
        fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
            self.operation()?;
            assert!(self.unsynced.is_empty(), "each test opens after a crash");
            assert!(self.synced.len() <= most);
            Ok(self.synced.clone())
        }

        fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
            // What fails may have been done in part.
            self.unsynced.push((offset as usize, bytes.to_vec()));
            self.operation()
        }

        fn sync(&mut self) -> io::Result<()> {
            self.operation()?;
            for (at, bytes) in std::mem::take(&mut self.unsynced) {
                put(&mut self.synced, at, &bytes, |_| true);
            }
            Ok(())
        }
    }

    fn disk() -> Frail {
        Frail {
            left: usize::MAX,
            ..Frail::default()
        }
    }

    fn bucket(window: u64) -> Bucket {
        Bucket {
            subject: Subject(7),
            window: WindowId(window),
        }
    }

    fn change(window: u64, expected: Option<Authorized>, to: u64) -> Change {
        Change {
            bucket: bucket(window),
            expected,
            to,
            fence: Fence {
                node: NodeId(1),
                epoch: Epoch { count: 1, nonce: 2 },
            },
            keep_until: Wall(window * 1_000),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        /// Power fails at any operation, again and again, and any part of what was not synced is lost: what was
        /// acknowledged is there, and what was not is there whole or not at all.
        #[test]
        fn a_crash_leaves_the_old_record_or_the_new(
            lives in prop::collection::vec(
                (prop::collection::vec((1_u64..5, 1_u64..1_000, any::<bool>()), 1..12), 0_usize..24, any::<u64>()),
                1..8,
            ),
        ) {
            let mut frail = disk();
            let mut acknowledged: BTreeMap<u64, Authorized> = BTreeMap::new();
            let mut now = 0;
            for (changes, left, chance) in lives {
                let spare = frail.clone();
                frail.left = left;
                let mut perhaps: Option<(u64, u64)> = None;
                frail = match Slots::open(frail, 4) {
                    // The power failed while it was opened.
                    Err(SlotsError::Disk(_)) => spare.crashed(chance),
                    Err(other) => panic!("{other}"),
                    Ok(mut slots) => {
                        // What was swept and not overwritten comes back when the file is opened.
                        slots.sweep(Wall(now)).unwrap();
                        for (window, to, sweeps) in changes {
                            let expected = acknowledged.get(&window).copied();
                            match slots.authorize(&change(window, expected, to)) {
                                Ok(authorized) => {
                                    prop_assert_eq!(authorized.total, to);
                                    acknowledged.insert(window, authorized);
                                }
                                Err(SlotsError::Disk(_)) => {
                                    perhaps = Some((window, to));
                                    prop_assert!(matches!(slots.load(bucket(window)), Err(SlotsError::Broken)));
                                    break;
                                }
                                Err(other) => panic!("{other}"),
                            }
                            if sweeps {
                                now = now.max(window * 1_000);
                                slots.sweep(Wall(now)).unwrap();
                                acknowledged.retain(|window, _| window * 1_000 > now);
                            }
                        }
                        slots.into_disk().crashed(chance)
                    }
                };
                let mut slots = Slots::open(frail, 4).unwrap();
                slots.sweep(Wall(now)).unwrap();
                for window in 1..5 {
                    let found = slots.load(bucket(window)).unwrap();
                    match perhaps.filter(|(perhaps, _)| *perhaps == window) {
                        Some((_, to)) if found.is_some_and(|found| found.total == to) => {}
                        Some(_) | None if window * 1_000 <= now => {}
                        Some(_) | None => prop_assert_eq!(found, acknowledged.get(&window).copied()),
                    }
                    match found {
                        Some(found) => acknowledged.insert(window, found),
                        None => acknowledged.remove(&window),
                    };
                }
                frail = slots.into_disk();
            }
        }
    }

    /// A rule switched off, to see that a crash finds it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Mutant {
        OverwritesTheNewest,
        NeverSyncs,
    }

    /// Changes one of three buckets after the other until the power fails. Says whether something that was told as kept
    /// is gone, or changed, or the file cannot be opened.
    fn loses(seed: u64, mutant: Option<Mutant>) -> bool {
        let bits = |at: u64| xxh3_64(&[seed.to_be_bytes(), at.to_be_bytes()].concat());
        let mut slots = Slots::open(disk(), 4).unwrap();
        slots.mutant = mutant;
        slots.disk.left = bits(0) as usize % 30;
        let mut kept: BTreeMap<u64, Authorized> = BTreeMap::new();
        let mut perhaps = None;
        for turn in 1..40 {
            let (window, to) = (1 + bits(turn) % 3, 1 + bits(turn + 1_000) % 500);
            let expected = kept.get(&window).copied();
            match slots.authorize(&change(window, expected, to)) {
                Ok(authorized) => kept.insert(window, authorized),
                Err(SlotsError::Disk(_)) => {
                    perhaps = Some((window, to));
                    break;
                }
                Err(other) => panic!("{other}"),
            };
        }
        let Ok(slots) = Slots::open(slots.into_disk().crashed(bits(2_000)), 4) else {
            return true;
        };
        (1..4).any(|window| {
            let found = slots.load(bucket(window)).unwrap();
            let as_asked = found.map(|found| (window, found.total)) == perhaps && perhaps.is_some();
            found != kept.get(&window).copied() && !as_asked
        })
    }

    #[test]
    fn each_rule_of_writing_switched_off_is_found_by_a_crash() {
        const SEEDS: u64 = 500;
        assert_eq!((0..SEEDS).find(|seed| loses(*seed, None)), None);
        for mutant in [Mutant::OverwritesTheNewest, Mutant::NeverSyncs] {
            let found = (0..SEEDS).filter(|seed| loses(*seed, Some(mutant))).count();
            println!("{mutant:?}: {found} of {SEEDS} seeds");
            assert!(found > 0, "{mutant:?} is not found");
        }
    }

    #[test]
    fn the_place_of_what_was_swept_is_used_again() {
        let mut slots = Slots::open(disk(), 2).unwrap();
        for window in 1..50 {
            slots.authorize(&change(window, None, 10)).unwrap();
            if window > 1 {
                assert_eq!(slots.sweep(Wall((window - 1) * 1_000)).unwrap(), 1);
            }
            assert_eq!(slots.len(), 1);
        }
        slots.authorize(&change(100, None, 10)).unwrap();
        let full = slots.authorize(&change(101, None, 10)).unwrap_err();
        assert_eq!(full.to_string(), "full with 2 buckets");
        let frail = slots.into_disk();
        assert_eq!(frail.synced.len(), HEADER_BYTES + 2 * PAIR_BYTES);
        let slots = Slots::open(frail.crashed(0), 2).unwrap();
        assert_eq!(slots.load(bucket(100)).unwrap().unwrap().total, 10);
        assert!(slots.load(bucket(48)).unwrap().is_none());
    }

    #[test]
    fn more_damage_than_a_crash_can_do_is_an_error() {
        let mut slots = Slots::open(disk(), 4).unwrap();
        for window in 1..4 {
            slots.authorize(&change(window, None, 10)).unwrap();
        }
        let frail = slots.into_disk().crashed(0);
        // A record that was kept and has no second copy yet: of the last pair it cannot be told from a crash.
        let mut damaged = frail.clone();
        damaged.synced[HEADER_BYTES + PAIR_BYTES + 40] ^= 1;
        let error = Slots::open(damaged, 4).unwrap_err();
        assert!(
            matches!(error, SlotsError::Damaged { pair: 1, .. }),
            "{error}"
        );
        let mut other = frail.clone();
        other.synced[0] = b'X';
        assert!(matches!(Slots::open(other, 4), Err(SlotsError::NotALedger)));
        let mut later = frail;
        later.synced[9] = 2;
        assert!(matches!(Slots::open(later, 4), Err(SlotsError::NotALedger)));
        let mut text = disk();
        text.synced = b"some text".to_vec();
        assert!(matches!(Slots::open(text, 4), Err(SlotsError::NotALedger)));
    }

    #[test]
    fn what_may_lie_in_the_cache_only_is_written_again_when_opened() {
        let mut slots = Slots::open(disk(), 4).unwrap();
        let first = slots.authorize(&change(1, None, 10)).unwrap();
        slots.disk.left = 1;
        assert!(slots.authorize(&change(1, Some(first), 20)).is_err());
        // The sync failed, and yet the system shows what was written.
        let mut frail = slots.into_disk();
        let (at, bytes) = frail.unsynced.pop().unwrap();
        let mut cached = frail.synced.clone();
        put(&mut cached, at, &bytes, |_| true);
        let before = frail.synced.clone();
        frail.synced = cached;
        frail.left = usize::MAX;
        let slots = Slots::open(frail, 4).unwrap();
        assert_eq!(slots.load(bucket(1)).unwrap().unwrap().total, 20);
        let mut written = slots.into_disk();
        assert_ne!(before, written.synced);
        // It had been written and synced: on the disk without the cache it would be there too.
        written.synced = before;
        assert!(written.unsynced.is_empty());
    }
}
