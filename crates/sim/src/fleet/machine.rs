//! One machine of the fleet: its clocks, its disk, and the process that runs on it, if one does.

use lease::bucket::Bucket;
use lease::id::{Epoch, NodeId};
use lease::node::{Boot, Identity, Node};
use lease::terms::Terms;
use lease::time::Wall;
use lease::view::View;

use super::clock::Clock;
use super::credit::Exact;
use super::durable::OwnLedger;
use super::members::Seat;
use super::queue::{At, Event};

/// What survives a crash.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Disk {
    /// How often a process was started.
    pub(crate) starts: u64,
    /// The clock floor.
    pub(crate) floor: Wall,
    /// A floor that is on its way to the disk: a crash decides whether it got there.
    pub(crate) writing: Option<Wall>,
}

/// A request that waits for credit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) bucket: Bucket,
    pub(crate) cost: u64,
    pub(crate) since: At,
    /// It was not answered in the call that brought it.
    pub(crate) slept: bool,
}

/// A running process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) node: Node,
    pub(crate) waiting: Vec<Waiting>,
    /// When the queue will wake it.
    pub(crate) wakes: At,
}

/// One machine.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) id: NodeId,
    pub(crate) clock: Clock,
    pub(crate) disk: Disk,
    /// Its name is another machine's too.
    twin: bool,
    /// The incarnation before, as its disk has it.
    pub(crate) previous: Option<Epoch>,
    /// The running process's part in the list of members.
    pub(crate) seat: Option<Seat>,
    pub(crate) ledger: OwnLedger,
    /// The lists of members that it has heard of besides the first.
    pub(crate) lists: Vec<View>,
    pub(crate) table: Exact,
    pub(crate) process: Option<Process>,
    /// How many processes ran here: events for an earlier one are void.
    pub(crate) start: u32,
    /// When it was last stopped and went on.
    pub(crate) awake_since: At,
    /// Stopped, not dead: what happened to it since.
    pub(crate) stopped: Option<Vec<Event>>,
    /// The policy as this machine knows it: terms by key.
    pub(crate) terms: Vec<Terms>,
}

impl Machine {
    pub(crate) fn new(id: NodeId, clock: Clock, terms: Vec<Terms>, twin: bool) -> Self {
        Self {
            id,
            clock,
            disk: Disk::default(),
            twin,
            previous: None,
            seat: None,
            ledger: OwnLedger::default(),
            lists: Vec::new(),
            table: Exact::default(),
            process: None,
            start: 0,
            awake_since: At(0),
            stopped: None,
            terms,
        }
    }

    /// Whether a load balancer would send requests here.
    pub(crate) const fn serves(&self) -> bool {
        self.process.is_some() && self.stopped.is_none()
    }

    /// Counts a start on the disk, and says who starts and what it finds.
    pub(crate) fn boot(&mut self, nonce: u64) -> (Identity, Boot) {
        self.disk.starts += 1;
        let boot = self.found();
        self.start += 1;
        let identity = Identity {
            node: self.id,
            epoch: Epoch {
                count: self.disk.starts,
                nonce,
            },
        };
        (identity, boot)
    }

    /// What a process finds on the disk when its node begins.
    pub(crate) const fn found(&self) -> Boot {
        Boot {
            floor: self.disk.floor,
            first: self.disk.starts == 1 && !self.twin,
        }
    }

    /// Whether another process runs under its name, as far as it knows.
    pub(crate) fn is_mute(&self) -> bool {
        self.seat.as_ref().is_some_and(|seat| !seat.speaks)
    }

    /// The process dies. What was being written is on the disk or not, as `reached` says.
    pub(crate) fn die(&mut self, reached: bool) -> Option<Process> {
        if let Some(floor) = self.disk.writing.take()
            && reached
        {
            self.disk.floor = self.disk.floor.max(floor);
        }
        self.stopped = None;
        self.seat = None;
        self.process.take()
    }
}
