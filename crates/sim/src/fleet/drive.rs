//! The driver around a protocol node, as the product's is: it hands the node what happened, carries its messages,
//! writes its clock floor, and wakes the requests that wait.

use lease::bucket::Bucket;
use lease::id::ViewId;
use lease::message::Envelope;
use lease::node::{Event as NodeEvent, FastPath, Identity, Input, Node, Output};
use lease::time::Wall;
use lease::view::View;

use super::credit::{Taken, Watched};
use super::machine::Process;
use super::queue::{At, Event};
use super::{Failure, World};
use crate::net::Letter;

/// A clock that drifts calls the deadline by so much too late, at most.
const LATE_NS: u64 = 10_000;

impl World<'_> {
    /// Starts a process on a machine that has none.
    pub(crate) fn start(&mut self, place: usize) {
        let nonce = self.chance.bits();
        let seed = self.chance.bits();
        let at = self.at;
        let machine = &self.machines[place];
        if machine.process.is_some() || !self.open_ledger(place) {
            return;
        }
        let machine = &mut self.machines[place];
        let (identity, boot) = machine.boot(nonce);
        let now = machine.clock.now(at);
        let config = self.setup.config.clone();
        let previous = machine.previous.replace(identity.epoch);
        let view = if self.setup.stores.members {
            nobody(identity)
        } else {
            self.view.clone()
        };
        match Node::start(config, identity, view, boot, seed, now) {
            Ok(node) => {
                machine.process = Some(Process {
                    node,
                    waiting: Vec::new(),
                    wakes: At::NEVER,
                });
                self.trace.all(at, || {
                    format!("node {place} starts as {identity:?} at wall {now:?}, {boot:?}")
                });
                self.tell(place, Input::Timeout);
                if self.setup.stores.members {
                    self.sit(place, previous);
                }
                for view in self.machines[place].lists.clone() {
                    self.tell(place, Input::View(view));
                }
            }
            Err(fault) => self.failure = Some(Failure::Start(fault)),
        }
    }

    /// A running process begins its node anew, as the same incarnation, with nothing said or heard before.
    pub(crate) fn begin_node(&mut self, place: usize) {
        let seed = self.chance.bits();
        let machine = &mut self.machines[place];
        let boot = machine.found();
        let Some(process) = &mut machine.process else {
            return;
        };
        let identity = process.node.identity();
        let now = machine.clock.now(self.at);
        let config = self.setup.config.clone();
        match Node::start(config, identity, nobody(identity), boot, seed, now) {
            Ok(node) => process.node = node,
            Err(fault) => self.failure = Some(Failure::Start(fault)),
        }
        self.tell(place, Input::Timeout);
    }

    /// Ends it.
    pub(crate) fn crash(&mut self, place: usize) {
        let reached = self.chance.happens(0.5);
        let Some(process) = self.machines[place].die(reached) else {
            return;
        };
        self.machines[place].ledger.close(self.stores.bits());
        self.tally.process(process.node.stats());
        self.watched(place).drop_all();
        let at = self.at;
        self.trace.all(at, || format!("node {place} crashes"));
    }

    /// A machine's table, under the checker's eye.
    pub(crate) fn watched(&mut self, place: usize) -> Watched<'_> {
        Watched {
            table: &mut self.machines[place].table,
            accounts: &mut self.accounts,
            trace: &mut self.trace,
            limits: &self.limits,
            at: self.at,
            machine: place,
        }
    }

    /// Hands a node what happened, and does what it wants done.
    pub(crate) fn tell(&mut self, place: usize, input: Input) {
        let machine = &mut self.machines[place];
        let Some(process) = &mut machine.process else {
            return;
        };
        let mut watched = Watched {
            table: &mut machine.table,
            accounts: &mut self.accounts,
            trace: &mut self.trace,
            limits: &self.limits,
            at: self.at,
            machine: place,
        };
        let now = machine.clock.now(self.at);
        process.node.handle(now, input, &mut watched);
        self.tally.events += 1;
        self.outputs(place);
        self.set_timer(place);
    }

    fn outputs(&mut self, place: usize) {
        loop {
            let Some(process) = &mut self.machines[place].process else {
                return;
            };
            match process.node.poll_output() {
                None => return,
                Some(Output::Send(envelope)) => self.send(place, envelope),
                Some(Output::Wake {
                    bucket,
                    count,
                    outcome,
                }) => self.woken(place, bucket, count, outcome),
                Some(Output::SaveFloor(floor)) => self.write(place, floor),
                Some(Output::Load(bucket)) => self.ask(place, bucket, None),
                Some(Output::Authorize(change)) => self.ask(place, change.bucket, Some(change)),
                Some(Output::Event(event)) => self.tally.saw(name(&event)),
            }
        }
    }

    fn set_timer(&mut self, place: usize) {
        let machine = &mut self.machines[place];
        let start = machine.start;
        let Some(process) = &mut machine.process else {
            return;
        };
        let Some(timeout) = process.node.poll_timeout() else {
            return;
        };
        let when = machine.clock.when(timeout).max(self.at.plus(1));
        // One that is set already and comes earlier will ask again.
        if when < process.wakes || process.wakes <= self.at {
            process.wakes = when;
            let machine = place as u16;
            self.queue.put(when, Event::Wake { machine, start });
        }
    }

    /// The time has come, or nearly: an earlier timer that is no longer the next does nothing.
    pub(crate) fn wake(&mut self, place: usize, start: u32) {
        let machine = &self.machines[place];
        if machine.start != start {
            return;
        }
        let Some(process) = &machine.process else {
            return;
        };
        if process.wakes > self.at {
            return;
        }
        let due = process
            .node
            .poll_timeout()
            .is_some_and(|timeout| timeout <= machine.clock.now(self.at).instant);
        if due {
            self.tell(place, Input::Timeout);
        } else {
            self.set_timer(place);
        }
    }

    fn send(&mut self, from: usize, envelope: Box<Envelope>) {
        if self.machines[from].is_mute() {
            return;
        }
        self.tally.messages += 1;
        self.tally.said(&envelope);
        self.issued(&envelope);
        let bytes = match wire::peer::encode(&envelope) {
            Ok(bytes) => bytes,
            Err(fault) => {
                self.failure = Some(Failure::Unwritable(fault));
                return;
            }
        };
        self.tally.bytes += bytes.len() as u64;
        for to in 0..self.machines.len() {
            if self.machines[to].id != envelope.to {
                continue;
            }
            let (sender, receiver) = (from as u16, to as u16);
            self.trace
                .message(self.at, "sends", sender, receiver, &envelope);
            let copies = self.wires.send(from, to, &mut self.net);
            for ns in copies.into_iter().flatten() {
                let letter = self.post.put(Letter {
                    from: sender,
                    to: receiver,
                    bytes: bytes.clone(),
                });
                self.queue.put(self.at.plus(ns), Event::Deliver { letter });
            }
        }
    }

    /// S11, from outside: what a grant says to have issued.
    fn issued(&mut self, envelope: &Envelope) {
        for record in envelope.grant.iter().flat_map(|grant| &grant.records) {
            let fixed = self.limits.place(record.bucket.subject).is_some_and(|key| {
                let terms = &self.setup.keys[key].terms;
                !terms.durable
            });
            if fixed && record.granted_total > 0 {
                self.issuers.issued(self.at, record.bucket, envelope.from);
            }
        }
    }

    pub(crate) fn deliver(&mut self, letter: u32) {
        let Letter { from, to, bytes } = self.post.take(letter);
        let machine = &self.machines[usize::from(to)];
        if machine.process.is_none() || machine.is_mute() {
            return;
        }
        self.digest.bytes(&bytes);
        match wire::peer::decode(&bytes) {
            Ok(envelope) => {
                self.trace.message(self.at, "receives", from, to, &envelope);
                let input = Input::Message {
                    from: self.machines[usize::from(from)].id,
                    envelope: Box::new(envelope),
                };
                self.tell(usize::from(to), input);
            }
            Err(fault) => self.failure = Some(Failure::Unreadable(fault)),
        }
    }

    fn write(&mut self, place: usize, floor: Wall) {
        let delay = self.chance.between(50_000, self.setup.disk_ns.max(50_000));
        let machine = &mut self.machines[place];
        machine.disk.writing = Some(floor);
        let event = Event::Written {
            machine: place as u16,
            start: machine.start,
            floor: floor.0,
        };
        self.queue.put(self.at.plus(delay), event);
    }

    pub(crate) fn written(&mut self, place: usize, start: u32, floor: Wall) {
        let machine = &mut self.machines[place];
        if machine.start != start || machine.process.is_none() {
            return;
        }
        machine.disk.floor = machine.disk.floor.max(floor);
        if machine.disk.writing == Some(floor) {
            machine.disk.writing = None;
        }
        self.tell(place, Input::FloorSaved(floor));
    }

    /// The first that wait for a bucket try again, once, or give up.
    fn woken(&mut self, place: usize, bucket: Bucket, count: usize, outcome: FastPath) {
        let machine = &mut self.machines[place];
        // A machine that was stopped meanwhile could not keep to any deadline.
        let (awake, awake_since) = (machine.stopped.is_none(), machine.awake_since);
        let Some(process) = &mut machine.process else {
            return;
        };
        let mut left = count;
        let mut woken = Vec::new();
        process.waiting.retain(|request| {
            let wakes = request.bucket == bucket && left > 0;
            if wakes {
                left -= 1;
                woken.push(*request);
            }
            !wakes
        });
        let longest = self.setup.config.fast_path_deadline.as_nanos() as u64 + LATE_NS;
        for request in woken {
            let waited_ns = self.at.0 - request.since.0.max(awake_since.0);
            self.tally.longest_wait_ns = self.tally.longest_wait_ns.max(waited_ns);
            if awake && waited_ns > longest {
                self.failure = Some(Failure::Waits { bucket, waited_ns });
            }
            match outcome {
                FastPath::Credit => {
                    if self.watched(place).take(bucket, request.cost) == Taken::Yes {
                        self.admitted(request.cost);
                    }
                }
                FastPath::Missed if request.slept => self.tally.missed += 1,
                FastPath::Exhausted | FastPath::Missed => {}
            }
        }
    }
}

/// A list of nobody else, that governs nothing: until the members' document has been read.
fn nobody(identity: Identity) -> View {
    View {
        lease_until: Wall(0),
        ..View::fixed(ViewId(identity.epoch.nonce), vec![identity.node])
    }
}

const fn name(event: &NodeEvent) -> &'static str {
    match event {
        NodeEvent::BehindFloor { .. } => "behind floor",
        NodeEvent::PastFloor => "past floor",
        NodeEvent::Degraded(_) => "degraded",
        NodeEvent::Recovered(_) => "recovered",
        NodeEvent::OtherView { .. } => "other view",
        NodeEvent::ViewRefused(_) => "view refused",
        NodeEvent::TwoIncarnations(_) => "two incarnations",
        NodeEvent::LedgerFull => "ledger full",
        NodeEvent::HolderFull => "holder full",
        NodeEvent::StoreRefused(_) => "store refused",
        NodeEvent::InvariantBroken(_) => "invariant broken",
    }
}
