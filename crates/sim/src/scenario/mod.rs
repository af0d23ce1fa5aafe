//! What a comparison runs: a fleet, its network, who asks for what, and what goes wrong. From a preset, from a file, or
//! from access logs.
//!
//! A scenario is checked whole before anything runs: what is out of range is refused by the name of its field, and never
//! cut to fit.

mod change;
mod check;
mod file;
mod limit;
mod logged;
mod preset;
mod setup;

use std::sync::Arc;

use lease::config::Config;
use policy::rate::WindowMs;

pub use change::{Changes, place};
pub use check::{FieldError, MOST_KEYS, MOST_NODES, MOST_REQUESTS};
pub use file::{ScenarioError, read};
pub use limit::time_ns;
pub use logged::{LoggedError, LoggedFleet, NodeLog, logged};
pub use preset::PRESETS;
pub(crate) use setup::limits;
pub use setup::setup;

use crate::net::Link;
use crate::traffic::Logged;
pub use crate::traffic::Place;

/// One second in nanoseconds.
pub(crate) const SECOND_NS: u64 = 1_000_000_000;

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is called.
    pub name: String,
    /// How many members the fleet has.
    pub nodes: usize,
    /// What decides every draw.
    pub seed: u64,
    /// How long it runs before anything is measured, in nanoseconds.
    pub warm_up_ns: u64,
    /// How long it is measured, in nanoseconds.
    pub measured_ns: u64,
    /// The network.
    pub link: Link,
    /// The protocol's settings.
    pub config: Config,
    /// Who asks for what.
    pub traffic: Vec<Traffic>,
    /// What goes wrong.
    pub faults: Vec<Outage>,
}

/// Keys under limits, each limit with as many keys of its own.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// The limits.
    pub limits: Vec<Limit>,
    /// How many keys each has.
    pub keys: usize,
    /// How much each asks for, and when.
    pub demand: Demand,
    /// At which nodes.
    pub place: Place,
    /// Units a request asks for, at least and at most.
    pub cost: (u64, u64),
}

/// So many units in each fixed window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Units, at least 1.
    pub units: u64,
    /// The window.
    pub window: WindowMs,
}

/// How much is asked for, and when.
#[derive(Clone, Debug)]
pub enum Demand {
    /// By each key, so many times its limit, at independent moments.
    Steady {
        /// In units, against the limit's.
        load: f64,
    },
    /// By each key, so many times its limit at once, at a random moment of every window's length.
    Burst {
        /// In units, against the limit's.
        load: f64,
        /// Within how many nanoseconds.
        within_ns: u64,
    },
    /// By each key, as steady, but `times` as much for a while.
    Crowd {
        /// Outside of that while.
        load: f64,
        /// How much more in it.
        times: f64,
        /// When it begins, in nanoseconds of the measured time.
        from_ns: u64,
        /// How long it takes.
        for_ns: u64,
    },
    /// By all keys of a limit together, the first most often, by Zipf's law.
    Zipf {
        /// Requests a second.
        per_s: f64,
        /// How much more often the first.
        exponent: f64,
    },
    /// What a log tells.
    Logged(Arc<[Logged]>),
}

/// Something that goes wrong for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// What.
    pub what: What,
    /// When, in nanoseconds of the measured time.
    pub at_ns: u64,
    /// For how long; none: to the end.
    pub for_ns: Option<u64>,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A node's process is dead; then another is started.
    Down {
        /// Which.
        node: usize,
    },
    /// A node's process stands still, as by SIGSTOP.
    Stopped {
        /// Which.
        node: usize,
    },
    /// Nothing gets from a node to the others, nor back.
    CutOff {
        /// Which.
        node: usize,
    },
    /// Nothing gets from any node to another.
    BusOut,
    /// The nodes go down one after the other, each for as long as the outage says.
    Rolling {
        /// From one node's death to the next one's, in nanoseconds.
        every_ns: u64,
    },
}

impl Scenario {
    /// When nothing is wrong any more, in nanoseconds of the measured time; none if there are no faults, or one does
    /// not end.
    #[must_use]
    pub fn healed_ns(&self) -> Option<u64> {
        let ends = self.faults.iter().map(|fault| fault.end_ns(self.nodes));
        ends.collect::<Option<Vec<u64>>>()?.into_iter().max()
    }

    /// When the first thing goes wrong, in nanoseconds of the measured time.
    #[must_use]
    pub fn first_fault_ns(&self) -> Option<u64> {
        self.faults.iter().map(|fault| fault.at_ns).min()
    }
}

impl Outage {
    fn end_ns(&self, nodes: usize) -> Option<u64> {
        let begins = match self.what {
            What::Rolling { every_ns } => self
                .at_ns
                .saturating_add(every_ns.saturating_mul(nodes.saturating_sub(1) as u64)),
            What::Down { .. } | What::Stopped { .. } | What::CutOff { .. } | What::BusOut => {
                self.at_ns
            }
        };
        Some(begins.saturating_add(self.for_ns?))
    }
}

impl std::fmt::Display for Traffic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let limits: Vec<String> = self.limits.iter().map(ToString::to_string).collect();
        let ms = |ns: u64| ns / 1_000_000;
        let seconds = |ns: u64| ns as f64 / SECOND_NS as f64;
        write!(f, "{}, {} keys each: ", limits.join(", "), self.keys)?;
        match &self.demand {
            Demand::Steady { load } => write!(f, "{load} times the limit")?,
            Demand::Burst { load, within_ns } => write!(
                f,
                "{load} times the limit within {} ms, once a window",
                ms(*within_ns)
            )?,
            Demand::Crowd {
                load,
                times,
                from_ns,
                for_ns,
            } => write!(
                f,
                "{load} times the limit, {times} times as much from {} s on for {} s",
                seconds(*from_ns),
                seconds(*for_ns)
            )?,
            Demand::Zipf { per_s, exponent } => write!(
                f,
                "{per_s} requests a second by Zipf's law, exponent {exponent}"
            )?,
            Demand::Logged(log) => write!(f, "{} logged requests", log.len())?,
        }
        let is_logged =
            matches!(&self.demand, Demand::Logged(log) if log.iter().any(|r| r.node.is_some()));
        if is_logged {
            return write!(f, ", at the nodes that logged them");
        }
        match self.place {
            Place::Node(node) => write!(f, ", at node {node}")?,
            Place::PerKey => write!(f, ", each key at one node")?,
            Place::Connections(most) => write!(f, ", each key on 1 to {most} connections")?,
            Place::Random => write!(f, ", each request at a random node")?,
            Place::Moving(every_ns) => write!(
                f,
                ", each key at one node for {} s at a time",
                seconds(every_ns)
            )?,
        }
        match self.cost {
            (1, 1) => Ok(()),
            (least, most) => write!(f, ", {least} to {most} units a request"),
        }
    }
}
