//! The list of members in a store that all reach, most of the time: each process keeps its part of it by the machine of
//! `store`, and the document travels as the bytes that `store` makes of it.
//!
//! Only the store is played here: one document, replaced if it is still the revision that the writer has seen.

use lease::node::Input;
use lease::view::View;
use store::members::{Entry, Membership, Roster, Standing};

use super::clock::START;
use super::queue::{At, Event};
use super::{Failure, World};

const MS: u64 = 1_000_000;
/// The slowest that a reading or writing reaches the store.
const SLOWEST_NS: u64 = 20 * MS;
/// A writing without an answer is given up after so long.
const PATIENCE_NS: u64 = 2_000 * MS;

/// One process's part.
#[derive(Debug)]
pub(crate) struct Seat {
    membership: Membership,
    /// What its node was last told.
    told: Vec<View>,
    /// A writing is under way, at most until then.
    writing: Option<At>,
    /// The revision that it has read last.
    read: u64,
    /// Whether its name is its own. Until it is, its node neither speaks nor hears: what a process promises in a name that
    /// another one serves under would release what is held back for that one.
    pub(crate) speaks: bool,
}

/// A writing under way.
#[derive(Debug)]
struct Writing {
    machine: u16,
    start: u32,
    expected: u64,
    roster: Roster,
    bytes: Vec<u8>,
    /// The revision and the store's clock, if it was kept.
    kept: Option<(u64, lease::time::Wall)>,
}

/// The document, and who writes it.
#[derive(Debug, Default)]
pub(crate) struct Document {
    stored: Option<(u64, Vec<u8>)>,
    writings: Vec<Option<Writing>>,
    /// How many faults keep everybody from it.
    pub(crate) out: u32,
}

impl Document {
    /// The machine that a writing came from.
    pub(crate) fn writer(&self, writing: u32) -> Option<u16> {
        self.writings[writing as usize]
            .as_ref()
            .map(|writing| writing.machine)
    }
}

impl World<'_> {
    /// A process takes its seat, or will.
    pub(crate) fn sit(&mut self, place: usize, previous: Option<lease::id::Epoch>) {
        let machine = &mut self.machines[place];
        let Some(process) = &machine.process else {
            return;
        };
        let who = process.node.identity();
        machine.seat = Some(Seat {
            membership: Membership::new(Entry {
                node: who.node,
                name: format!("node-{place}"),
                address: "192.0.2.1:1".to_owned(),
                epoch: who.epoch,
                previous,
                new_fleet: true,
            }),
            told: Vec::new(),
            writing: None,
            read: 0,
            speaks: false,
        });
        let start = machine.start;
        let first = self.at.plus(self.stores.between(MS, 100 * MS));
        let machine = place as u16;
        self.queue.put(first, Event::Poll { machine, start });
    }

    /// It reads the document, and writes what it wants changed.
    pub(crate) fn poll(&mut self, place: usize, start: u32) {
        let at = self.at;
        let again = at.plus(self.stores.between(100 * MS, 300 * MS));
        let reached = self.document.out == 0 && !self.stores.happens(self.setup.stores.faults);
        let machine = &mut self.machines[place];
        let Some(seat) = &mut machine.seat else {
            return;
        };
        if machine.start != start {
            return;
        }
        if reached {
            match &self.document.stored {
                None => seat.membership.observed_none(),
                Some((revision, bytes)) if *revision > seat.read => {
                    seat.read = *revision;
                    match Roster::decode(bytes) {
                        Ok(roster) => seat.membership.observed(*revision, roster),
                        Err(fault) => self.failure = Some(Failure::Ledger(fault.to_string())),
                    }
                }
                Some(_) => {}
            }
        }
        self.voice(place);
        self.tell_lists(place);
        self.write_seat(place, reached);
        let now = self.machines[place].clock.now(at);
        let left = self.machines[place]
            .seat
            .as_ref()
            .is_some_and(|seat| seat.membership.standing(now) == Standing::Left);
        if left {
            // What began before is over by the next reading but a few; then the process ends.
            self.tally.saw("member left");
            self.tell(place, Input::Leave);
            self.crash(place);
            return;
        }
        let machine = place as u16;
        self.queue.put(again, Event::Poll { machine, start });
    }

    /// A process whose name has become its own begins as node only then: what it may issue rests on when it began.
    fn voice(&mut self, place: usize) {
        let at = self.at;
        let machine = &mut self.machines[place];
        let now = machine.clock.now(at);
        let Some(seat) = &mut machine.seat else {
            return;
        };
        let speaks = match seat.membership.standing(now) {
            Standing::Unknown | Standing::NameTaken { .. } | Standing::Replaced => false,
            Standing::Vanished => seat.speaks,
            Standing::Joining
            | Standing::Member
            | Standing::Lapsed
            | Standing::ClockDiffers
            | Standing::Left => true,
        };
        if !speaks {
            self.tally.saw("name taken");
        }
        let begins = speaks && !seat.speaks;
        seat.speaks = speaks;
        if begins {
            seat.told.clear();
            self.begin_node(place);
        }
    }

    fn write_seat(&mut self, place: usize, reached: bool) {
        let at = self.at;
        let machine = &mut self.machines[place];
        let now = machine.clock.now(at);
        let start = machine.start;
        let Some(seat) = &mut machine.seat else {
            return;
        };
        if seat.writing.is_some_and(|until| at < until) {
            return;
        }
        let Some((expected, roster)) = seat.membership.step(now) else {
            return;
        };
        seat.writing = Some(at.plus(PATIENCE_NS));
        // It keeps to what it is about to write before anybody can read it.
        self.tell_lists(place);
        if !reached {
            return;
        }
        let bytes = match roster.encode() {
            Ok(bytes) => bytes,
            Err(fault) => {
                self.failure = Some(Failure::Ledger(fault.to_string()));
                return;
            }
        };
        self.document.writings.push(Some(Writing {
            machine: place as u16,
            start,
            expected,
            roster,
            bytes,
            kept: None,
        }));
        let writing = (self.document.writings.len() - 1) as u32;
        let there = at.plus(self.stores.between(MS / 10, SLOWEST_NS));
        self.queue.put(there, Event::Put { writing });
    }

    /// A writing reaches the store.
    pub(crate) fn put(&mut self, place: u32) {
        let document = &mut self.document;
        let Some(writing) = &mut document.writings[place as usize] else {
            return;
        };
        let revision = document
            .stored
            .as_ref()
            .map_or(0, |(revision, _)| *revision);
        if document.out > 0 {
            self.tally.saw("list's writing lost");
            return;
        }
        if writing.expected == revision {
            let bytes = std::mem::take(&mut writing.bytes);
            self.tally.saw("list written");
            if let Some((_, before)) = &document.stored
                && let Ok(before) = Roster::decode(before)
                && before.latest().number < writing.roster.latest().number
            {
                self.tally.saw("new list");
                if before.latest().members.len() > writing.roster.latest().members.len() {
                    self.tally.saw("member dropped");
                }
            }
            document.stored = Some((revision + 1, bytes));
            let stored_at = lease::time::Wall(START.0.saturating_add(self.at.0));
            writing.kept = Some((revision + 1, stored_at));
        } else {
            self.tally.saw("list's writing overtaken");
        }
        if self.stores.happens(self.setup.stores.faults) {
            self.tally.saw("list's answer lost");
            return;
        }
        let back = self.at.plus(self.stores.between(MS / 10, SLOWEST_NS));
        self.queue.put(back, Event::Stored { writing: place });
    }

    /// Who wrote hears what became of it.
    pub(crate) fn stored(&mut self, place: u32) {
        let Some(writing) = self.document.writings[place as usize].take() else {
            return;
        };
        let place = usize::from(writing.machine);
        let machine = &mut self.machines[place];
        let now = machine.clock.now(self.at);
        let Some(seat) = &mut machine.seat else {
            return;
        };
        if machine.start != writing.start {
            return;
        }
        seat.writing = None;
        if let Some((revision, stored_at)) = writing.kept {
            seat.membership
                .written(now, revision, writing.roster, stored_at);
            self.tell_lists(place);
        }
    }

    /// A node hears of lists that are new, and of leases that are longer or shorter.
    fn tell_lists(&mut self, place: usize) {
        let Some(seat) = &mut self.machines[place].seat else {
            return;
        };
        let lists = seat.membership.views();
        let news: Vec<View> = lists
            .iter()
            .filter(|list| !seat.told.contains(list))
            .cloned()
            .collect();
        seat.told = lists;
        for list in news {
            self.tell(place, Input::View(list));
        }
    }

    /// A node wants to leave.
    pub(crate) fn leave(&mut self, place: usize) {
        if let Some(seat) = &mut self.machines[place].seat {
            seat.membership.leave();
        }
    }
}
