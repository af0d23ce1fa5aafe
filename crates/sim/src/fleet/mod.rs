//! A fleet in one thread on virtual time: machines with clocks and disks, real protocol nodes on them, a network
//! between them, and a checker that sees all of it after every step.
//!
//! A run is a function of its [`Setup`]: nothing here reads a clock, draws chance of its own or looks at the order of
//! a hash map.

mod apply;
mod clock;
mod credit;
mod drive;
mod durable;
mod limits;
mod machine;
mod members;
mod outcome;
mod queue;
mod request;
mod setup;
mod tally;
mod trace;

use lease::bucket::Bucket;
use lease::id::{NodeId, ViewId};
use lease::time::Wall;
use lease::view::View;

pub use clock::START;
pub(crate) use limits::Limits;
pub(crate) use outcome::shares;
pub use outcome::{Failure, Outcome, Share};
pub use queue::At;
pub use setup::{Key, Ledger, Setup, Stores};
pub use tally::Tally;

use crate::chance::Chance;
use crate::check::{Accounts, Issuers};
use crate::net::{Post, Wires};
use crate::traffic::Flow;
use clock::Clock;
use durable::Durable;
use machine::Machine;
use members::Document;
use queue::{Event, Queue};
use trace::{Digest, Trace};

/// Everything there is.
pub(crate) struct World<'a> {
    setup: &'a Setup,
    view: View,
    at: At,
    queue: Queue,
    machines: Vec<Machine>,
    wires: Wires,
    post: Post,
    flows: Vec<Flow>,
    limits: Limits,
    accounts: Accounts,
    durable: Durable,
    document: Document,
    issuers: Issuers,
    trace: Trace,
    digest: Digest,
    tally: Tally,
    /// Draws of the network; of all else, but for the stores.
    net: Chance,
    chance: Chance,
    stores: Chance,
    failure: Option<Failure>,
}

/// Runs a setup to its end, or to the first fault that a checker finds.
#[must_use]
pub fn run(setup: &Setup) -> Outcome {
    World::new(setup, None).run()
}

/// Runs it again and tells what happened to one bucket.
#[must_use]
pub fn trace(setup: &Setup, bucket: Bucket) -> Vec<String> {
    let mut world = World::new(setup, Some(bucket));
    world.run_to_end();
    world.trace.lines()
}

/// The id of the n-th machine. Ids are hashes of names, so they are in no order.
#[must_use]
pub fn node_id(machine: usize) -> NodeId {
    NodeId(Chance::new(machine as u64 ^ 0x6e6f_6465).bits())
}

/// A setup's streams of requests. Which draws they make decides the traffic: in a fleet as in a baseline.
pub(crate) fn flows(setup: &Setup, chance: &mut Chance) -> Vec<Flow> {
    let salt = chance.bits();
    setup
        .streams
        .iter()
        .map(|stream| Flow::new(stream.clone(), setup.nodes, salt, chance.fork()))
        .collect()
}

impl<'a> World<'a> {
    fn new(setup: &'a Setup, told: Option<Bucket>) -> Self {
        let mut chance = Chance::new(setup.seed);
        let net = chance.fork();
        let twin = |place| setup.stores.twin && place > 0 && place + 1 == setup.nodes;
        let members: Vec<NodeId> = (0..setup.nodes)
            .map(|place| node_id(if twin(place) { 0 } else { place }))
            .collect();
        let terms: Vec<_> = setup.keys.iter().map(|key| key.terms).collect();
        let machines = members
            .iter()
            .enumerate()
            .map(|(place, &id)| {
                let error = setup.clock_errors_ns.get(place).copied().unwrap_or(0);
                Machine::new(id, Clock::new(error, 0), terms.clone(), twin(place))
            })
            .collect();
        let flows = flows(setup, &mut chance);
        Self {
            setup,
            view: View::fixed(ViewId(1), members),
            at: At(0),
            queue: Queue::default(),
            machines,
            wires: Wires::new(setup.link, setup.nodes),
            post: Post::default(),
            flows,
            limits: Limits::new(&setup.keys, setup.nodes),
            accounts: Accounts::new(setup.keys.iter().map(|key| (key.subject, key.terms))),
            durable: Durable::default(),
            document: Document::default(),
            issuers: Issuers::default(),
            trace: Trace::of(told),
            digest: Digest::new(),
            tally: Tally::default(),
            net,
            chance,
            stores: Chance::new(setup.seed ^ 0x7374_6f72_6573),
            failure: None,
        }
    }

    fn run(mut self) -> Outcome {
        self.run_to_end();
        Outcome::of(self)
    }

    fn run_to_end(&mut self) {
        for machine in 0..self.machines.len() {
            self.start(machine);
        }
        for (step, planned) in self.setup.plan.iter().enumerate() {
            let step = step as u32;
            self.queue.put(planned.at, Event::Fault { step });
        }
        if let Some(heal) = self.setup.heal {
            self.queue.put(heal, Event::Heal);
        }
        for source in 0..self.flows.len() {
            self.next_arrival(source);
        }
        while self.failure.is_none()
            && let Some((at, event)) = self.queue.next(self.setup.end)
        {
            self.at = at;
            self.tally.events += 1;
            self.digest.number(at.0);
            self.dispatch(event);
            if let Some(over) = self.accounts.over.take() {
                self.failure = Some(Failure::OverAdmission(over));
            }
            if let Some(two) = self.issuers.two.take() {
                self.failure = Some(Failure::TwoIssuers(two));
            }
            if let Some(over) = self.accounts.spans.over.take() {
                self.failure = Some(Failure::OverSpan(over));
            }
        }
        for machine in &self.machines {
            if let Some(process) = &machine.process {
                self.tally.process(process.node.stats());
            }
        }
    }

    /// What an event does. A machine that is stopped gets it when it goes on.
    fn dispatch(&mut self, event: Event) {
        let machine = match event {
            Event::Deliver { letter } => Some(self.post.to(letter)),
            Event::Wake { machine, .. }
            | Event::Written { machine, .. }
            | Event::Poll { machine, .. } => Some(machine),
            Event::Stored { writing } => self.document.writer(writing),
            Event::Answered { question } => Some(self.durable.asker(question)),
            Event::Asked { question } => self.at_own_ledger(question),
            Event::Arrival { .. }
            | Event::Fault { .. }
            | Event::Heal
            | Event::Again { .. }
            | Event::Put { .. } => None,
        };
        if let Some(machine) = machine
            && let Some(kept) = &mut self.machines[usize::from(machine)].stopped
        {
            kept.push(event);
            return;
        }
        match event {
            Event::Deliver { letter } => self.deliver(letter),
            Event::Wake { machine, start } => self.wake(usize::from(machine), start),
            Event::Written {
                machine,
                start,
                floor,
            } => self.written(usize::from(machine), start, Wall(floor)),
            Event::Arrival { source } => self.arrival(source as usize),
            Event::Fault { step } => self.fault(step as usize),
            Event::Heal => self.heal(),
            Event::Asked { question } => self.asked(question),
            Event::Answered { question } => self.answered(question),
            Event::Poll { machine, start } => self.poll(usize::from(machine), start),
            Event::Put { writing } => self.put(writing),
            Event::Stored { writing } => self.stored(writing),
            Event::Again { machine } => self.start(usize::from(machine)),
        }
    }
}
