//! The ledger of durable limits: the record, the rule of what may replace it and the file are those of `store`.
//!
//! A shared one is a map of the records' bytes, whose answers are lost or late. An owner's own one is `store`'s file on a
//! disk that loses its power between any two writes, and then keeps any part of what was not synced.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use lease::bucket::Bucket;
use lease::durable::{self, StoreAnswer};
use lease::node::{Identity, Input};
use store::record::{self, Authorized, Decision, Fence, Record, Refusal};
use store::slots::{Disk, Slots, SlotsError};

use super::queue::Event;
use super::setup::Ledger;
use super::{Failure, World};

const MS: u64 = 1_000_000;
/// How long an owner waits for a shared ledger's answer.
const DEADLINE_NS: u64 = 300 * MS;
/// How late a change may be made at most.
const LATEST_NS: u64 = 600 * MS;
/// Buckets that an owner's own ledger has room for.
const MOST: usize = 256;

/// Something asked of the ledger.
#[derive(Clone, Copy, Debug)]
struct Question {
    machine: u16,
    start: u32,
    who: Identity,
    bucket: Bucket,
    /// `None` to know what lies there.
    change: Option<durable::Change>,
    answer: StoreAnswer,
    /// The ledger is still to hear it, and who asked is still to be answered.
    open: u8,
    /// Whether who asked hears what became of it.
    heard: bool,
}

/// The shared ledger, and all questions to it or to one's own that are under way.
#[derive(Debug, Default)]
pub(crate) struct Durable {
    records: BTreeMap<[u8; 24], Vec<u8>>,
    questions: Vec<Question>,
    free: Vec<u32>,
}

impl Durable {
    fn put(&mut self, question: Question) -> u32 {
        if let Some(place) = self.free.pop() {
            self.questions[place as usize] = question;
            place
        } else {
            self.questions.push(question);
            (self.questions.len() - 1) as u32
        }
    }

    /// The machine that asked.
    pub(crate) fn asker(&self, question: u32) -> u16 {
        self.questions[question as usize].machine
    }

    fn done(&mut self, place: u32) {
        let question = &mut self.questions[place as usize];
        question.open -= 1;
        if question.open == 0 {
            self.free.push(place);
        }
    }

    fn shared(&mut self, question: &Question) -> StoreAnswer {
        let key = record::key(question.bucket);
        let found = match self.records.get(&key) {
            None => None,
            Some(bytes) => match Record::decode_of(question.bucket, bytes) {
                Ok(record) => Some(record),
                Err(_) => return StoreAnswer::Refused,
            },
        };
        let Some(change) = question.change else {
            return StoreAnswer::Is(found.map(|record| known(record.authorized)));
        };
        match record::decide(found.as_ref(), &asked(&change, question.who)) {
            Decision::Write(record) => {
                self.records.insert(key, record.encode().to_vec());
                StoreAnswer::Kept(known(record.authorized))
            }
            Decision::Done(authorized) => StoreAnswer::Kept(known(authorized)),
            Decision::Refuse(refusal) => refused(&refusal),
        }
    }
}

impl World<'_> {
    /// A node asks the ledger what lies there, or to change it.
    pub(crate) fn ask(&mut self, place: usize, bucket: Bucket, change: Option<durable::Change>) {
        let machine = &self.machines[place];
        let Some(process) = &machine.process else {
            return;
        };
        let mut question = Question {
            machine: place as u16,
            start: machine.start,
            who: process.node.identity(),
            bucket,
            change,
            answer: StoreAnswer::Unknown,
            open: 2,
            heard: true,
        };
        let chance = &mut self.stores;
        let there = chance.between(MS / 20, self.setup.disk_ns.max(MS / 20));
        let back = there + chance.between(MS / 20, self.setup.disk_ns.max(MS / 20));
        let fails = chance.happens(self.setup.stores.faults);
        let (there, back) = match self.setup.stores.ledger {
            Ledger::Nowhere => {
                question.answer = StoreAnswer::Refused;
                question.heard = false;
                (None, 0)
            }
            Ledger::Own | Ledger::OwnOnLyingDisks => (Some(there), back),
            Ledger::Shared if !fails => (Some(there), back),
            Ledger::Shared => {
                question.heard = false;
                match chance.index(3) {
                    0 => {
                        self.tally.saw("ledger question lost");
                        (None, DEADLINE_NS)
                    }
                    1 => {
                        self.tally.saw("ledger answer lost");
                        (Some(there), DEADLINE_NS)
                    }
                    _ => {
                        self.tally.saw("ledger change late");
                        (Some(chance.between(DEADLINE_NS, LATEST_NS)), DEADLINE_NS)
                    }
                }
            }
        };
        question.open = 1 + u8::from(there.is_some());
        let question = self.durable.put(question);
        if let Some(there) = there {
            self.queue
                .put(self.at.plus(there), Event::Asked { question });
        }
        self.queue
            .put(self.at.plus(back), Event::Answered { question });
    }

    /// The machine that a question is answered on, if that is who asks.
    pub(crate) fn at_own_ledger(&self, question: u32) -> Option<u16> {
        match self.setup.stores.ledger {
            Ledger::Own | Ledger::OwnOnLyingDisks => Some(self.durable.asker(question)),
            Ledger::Nowhere | Ledger::Shared => None,
        }
    }

    pub(crate) fn asked(&mut self, place: u32) {
        let question = self.durable.questions[place as usize];
        let answer = match self.setup.stores.ledger {
            Ledger::Nowhere | Ledger::Shared => self.durable.shared(&question),
            Ledger::Own | Ledger::OwnOnLyingDisks => self.own(&question),
        };
        if question.change.is_some() && matches!(answer, StoreAnswer::Kept(_)) {
            self.tally.saw("tranche");
        }
        if question.heard {
            self.durable.questions[place as usize].answer = answer;
        }
        self.durable.done(place);
    }

    pub(crate) fn answered(&mut self, place: u32) {
        let question = self.durable.questions[place as usize];
        self.durable.done(place);
        let asker = usize::from(question.machine);
        if self.machines[asker].start == question.start {
            let (bucket, answer) = (question.bucket, question.answer);
            self.tell(asker, Input::Store { bucket, answer });
        }
    }

    /// At an owner's own ledger, now and then, the power goes.
    fn own(&mut self, question: &Question) -> StoreAnswer {
        let place = usize::from(question.machine);
        let machine = &mut self.machines[place];
        if machine.start != question.start || machine.process.is_none() {
            return StoreAnswer::Unknown;
        }
        let Some(slots) = &mut machine.ledger.slots else {
            return StoreAnswer::Refused;
        };
        let Some(change) = question.change else {
            return match slots.load(question.bucket) {
                Ok(found) => StoreAnswer::Is(found.map(known)),
                Err(_) => StoreAnswer::Refused,
            };
        };
        let cut = self.stores.happens(self.setup.stores.faults);
        if cut {
            // The write goes through or not; the sync does not.
            machine.ledger.fuse.set(Some(self.stores.below(2)));
        }
        match slots.authorize(&asked(&change, question.who)) {
            Ok(authorized) => {
                machine.ledger.fuse.set(None);
                StoreAnswer::Kept(known(authorized))
            }
            Err(SlotsError::Refused(refusal)) => {
                machine.ledger.fuse.set(None);
                refused(&refusal)
            }
            Err(SlotsError::Disk(_)) => {
                self.tally.saw("ledger write cut short");
                self.crash(place);
                let again = self.at.plus(self.stores.between(MS, 200 * MS));
                let machine = question.machine;
                self.queue.put(again, Event::Again { machine });
                StoreAnswer::Unknown
            }
            Err(fault) => {
                self.failure = Some(Failure::Ledger(fault.to_string()));
                StoreAnswer::Refused
            }
        }
    }

    /// A process opens its own ledger. `false` if the power goes while it does.
    pub(crate) fn open_ledger(&mut self, place: usize) -> bool {
        match self.setup.stores.ledger {
            Ledger::Nowhere | Ledger::Shared => return true,
            Ledger::Own | Ledger::OwnOnLyingDisks => {}
        }
        let lies = self.setup.stores.ledger == Ledger::OwnOnLyingDisks;
        let cut = self.stores.happens(self.setup.stores.faults);
        let own = &mut self.machines[place].ledger;
        if cut {
            own.fuse.set(Some(self.stores.below(4)));
        }
        let mut disk = std::mem::take(&mut own.disk);
        disk.fuse = Rc::clone(&own.fuse);
        disk.lies = lies;
        // What an opening that fails leaves on the disk is what it has written until then.
        let copy = Platter::of(&disk);
        let opened = Slots::open(disk, MOST);
        own.fuse.set(None);
        match opened {
            Ok(slots) => {
                own.slots = Some(slots);
                true
            }
            Err(SlotsError::Disk(_)) => {
                own.disk = copy.after_crash(self.stores.bits());
                self.tally.saw("ledger opening cut short");
                let again = self.at.plus(self.stores.between(MS, 200 * MS));
                let machine = place as u16;
                self.queue.put(again, Event::Again { machine });
                false
            }
            Err(fault) => {
                self.failure = Some(Failure::Ledger(fault.to_string()));
                false
            }
        }
    }
}

/// One machine's own ledger.
#[derive(Debug, Default)]
pub(crate) struct OwnLedger {
    /// While a process has it open.
    slots: Option<Slots<Platter>>,
    /// While none has.
    disk: Platter,
    fuse: Rc<Cell<Option<u64>>>,
}

impl OwnLedger {
    /// The machine loses its power, or its process dies.
    pub(crate) fn close(&mut self, chance: u64) {
        self.fuse.set(None);
        if let Some(slots) = self.slots.take() {
            self.disk = slots.into_disk().after_crash(chance);
        }
    }
}

/// A disk: what was synced, and what was written since.
#[derive(Debug, Default)]
struct Platter {
    /// Shared with the copy that outlives a failed opening.
    bytes: Rc<RefCell<Bytes>>,
    /// After so many more operations the power goes.
    fuse: Rc<Cell<Option<u64>>>,
    /// It says that it has synced, and has not.
    lies: bool,
}

#[derive(Debug, Default)]
struct Bytes {
    synced: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

impl Platter {
    fn of(other: &Self) -> Self {
        Self {
            bytes: Rc::clone(&other.bytes),
            ..Self::default()
        }
    }

    /// What is found after a loss of power: of what was not synced, any part. Of a disk that lies, nothing.
    fn after_crash(self, chance: u64) -> Self {
        let mut bytes = self.bytes.borrow_mut();
        let unsynced = std::mem::take(&mut bytes.unsynced);
        if !self.lies {
            for (place, (at, written)) in unsynced.into_iter().enumerate() {
                put(&mut bytes.synced, at, &written, |index| {
                    chance.rotate_left((index / 3 + 7 * place) as u32) & 1 == 1
                });
            }
        }
        Self {
            bytes: Rc::clone(&self.bytes),
            ..Self::default()
        }
    }

    fn operation(&self) -> io::Result<()> {
        match self.fuse.get() {
            None => Ok(()),
            Some(0) => Err(io::Error::other("the power is out")),
            Some(left) => {
                self.fuse.set(Some(left - 1));
                Ok(())
            }
        }
    }
}

fn put(image: &mut Vec<u8>, at: usize, bytes: &[u8], arrives: impl Fn(usize) -> bool) {
    for (index, byte) in bytes.iter().enumerate() {
        if arrives(index) {
            if image.len() <= at + index {
                image.resize(at + index + 1, 0);
            }
            image[at + index] = *byte;
        }
    }
}

impl Disk for Platter {
    fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let bytes = self.bytes.borrow();
        let mut image = bytes.synced.clone();
        for (at, written) in &bytes.unsynced {
            put(&mut image, *at, written, |_| true);
        }
        if image.len() > most {
            return Err(io::Error::other("larger than it may be"));
        }
        Ok(image)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        // The power may go while the bytes are on their way: any part of them arrives.
        self.bytes
            .borrow_mut()
            .unsynced
            .push((offset as usize, bytes.to_vec()));
        self.operation()
    }

    fn sync(&mut self) -> io::Result<()> {
        self.operation()?;
        if self.lies {
            return Ok(());
        }
        let mut bytes = self.bytes.borrow_mut();
        for (at, written) in std::mem::take(&mut bytes.unsynced) {
            put(&mut bytes.synced, at, &written, |_| true);
        }
        Ok(())
    }
}

fn asked(change: &durable::Change, who: Identity) -> record::Change {
    record::Change {
        bucket: change.bucket,
        expected: change.expected.map(|known| Authorized {
            total: known.total,
            base: known.base,
            fence: fence(known.fence),
            version: known.version,
        }),
        to: change.to,
        fence: fence(who),
        keep_until: change.keep_until,
    }
}

const fn fence(who: Identity) -> Fence {
    Fence {
        node: who.node,
        epoch: who.epoch,
    }
}

const fn known(kept: Authorized) -> durable::Authorized {
    durable::Authorized {
        total: kept.total,
        base: kept.base,
        fence: Identity {
            node: kept.fence.node,
            epoch: kept.fence.epoch,
        },
        version: kept.version,
    }
}

/// As the product's nodes take a refusal.
fn refused(refusal: &Refusal) -> StoreAnswer {
    match refusal {
        Refusal::Changed { found } => StoreAnswer::Is(found.map(known)),
        Refusal::Stale { .. } | Refusal::TwoOfOne(_) | Refusal::BelowBase { .. } => {
            StoreAnswer::Refused
        }
    }
}
