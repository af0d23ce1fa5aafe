//! All that decides a run, but for its seed.

use lease::bucket::Subject;
use lease::config::Config;
use lease::terms::Terms;

use super::queue::At;
use crate::fault::Planned;
use crate::net::Link;
use crate::traffic::Stream;

/// A key under a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its hash.
    pub subject: Subject,
    /// Its limit, as the run begins.
    pub terms: Terms,
}

/// Where the ledger of durable limits lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ledger {
    /// Nowhere: nothing is authorized.
    #[default]
    Nowhere,
    /// In a store that all members reach, most of the time.
    Shared,
    /// In each owner's own directory.
    Own,
    /// The same, on disks that say that they have written what they have not. Rule broken: for mutants.
    OwnOnLyingDisks,
}

/// What lasts outside the processes, and what goes wrong there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stores {
    /// The ledger of durable limits.
    pub ledger: Ledger,
    /// How many questions to a shared store, or their answers, get lost or come late, from 0 to 1; how many writes to
    /// one's own ledger are cut short by a crash of the machine.
    pub faults: f64,
    /// Whether members join, leave and are found dead by a list in a store. Else the list is fixed.
    pub members: bool,
    /// Whether the last machine runs under the first one's name.
    pub twin: bool,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// What decides every draw.
    pub seed: u64,
    /// How many members.
    pub nodes: usize,
    /// The protocol's settings.
    pub config: Config,
    /// Who is limited.
    pub keys: Vec<Key>,
    /// Who asks.
    pub streams: Vec<Stream>,
    /// How the links behave at first, and again after `heal`.
    pub link: Link,
    /// The error of each machine's wall clock at the start, in nanoseconds; right where none is given.
    pub clock_errors_ns: Vec<i64>,
    /// How long a write to the disk takes at most, in nanoseconds.
    pub disk_ns: u64,
    /// What lasts outside the processes.
    pub stores: Stores,
    /// What goes wrong, in order of time.
    pub plan: Vec<Planned>,
    /// From here on nothing is wrong any more: links, clocks and processes are well.
    pub heal: Option<At>,
    /// Whether the measured windows must have admitted what was asked of them.
    pub judged: bool,
    /// Only windows that start from here on are measured.
    pub measure: At,
    /// When the run ends.
    pub end: At,
}
