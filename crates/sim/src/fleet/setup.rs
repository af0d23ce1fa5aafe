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
