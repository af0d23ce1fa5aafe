//! What goes wrong, and when. A plan is a list that a seed decides; taking steps out of it leaves a plan, which is how
//! a failing run is made small.

mod swarm;
mod world;

pub use swarm::{Swarm, swarm};
pub use world::World;

use lease::view::View;

use crate::fleet::At;
use crate::net::Link;

/// One thing that goes wrong, or is mended.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// A process dies at once.
    Crash(usize),
    /// A process starts, if none runs.
    Start(usize),
    /// A machine stops in mid-step, as by SIGSTOP.
    Stop(usize),
    /// It goes on.
    Continue(usize),
    /// Nothing gets from the first machine to the second.
    Cut(usize, usize),
    /// It does again.
    Mend(usize, usize),
    /// Nothing gets from anyone to anyone.
    BusOut,
    /// It does again.
    BusBack,
    /// All links behave like this from now on.
    Links(Link),
    /// A machine is slow to send and to receive, by up to so many nanoseconds.
    Slow(usize, u64),
    /// A machine's wall clock jumps by so many nanoseconds.
    Step(usize, i64),
    /// A machine's clocks run faster by so many parts per million.
    Drift(usize, i64),
    /// A machine's table forgets a key.
    Evict(usize, usize),
    /// A member wants to leave the fleet, if its list is in a store.
    Leave(usize),
    /// Nobody reaches the store of the list of members.
    StoreOut,
    /// They do again.
    StoreBack,
    /// A machine learns of another list of members, or of another end of its lease of one.
    Members(usize, View),
    /// A machine learns that a key's limit has so many units, under this revision of the policy.
    Policy {
        /// Which machine.
        machine: usize,
        /// Which key.
        key: usize,
        /// Units a window.
        units: u64,
        /// The policy's number.
        revision: u64,
    },
}

/// A fault and its time.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// When.
    pub at: At,
    /// What.
    pub fault: Fault,
}

impl Fault {
    /// Whether there is nothing to judge windows by after it, even once all is well: a node whose clock was a day ahead
    /// owns nothing for a day, and where policies differ it is open how much is due.
    pub(crate) const fn blurs(&self) -> bool {
        matches!(
            self,
            Self::Step(..) | Self::Policy { .. } | Self::Members(..)
        )
    }

    /// What kind of fault it is, in a word or two.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Crash(_) => "crash",
            Self::Start(_) => "start",
            Self::Stop(_) => "stop",
            Self::Continue(_) => "continue",
            Self::Cut(..) => "cut",
            Self::Mend(..) => "mend",
            Self::BusOut => "bus out",
            Self::BusBack => "bus back",
            Self::Links(_) => "links change",
            Self::Slow(..) => "slow machine",
            Self::Step(..) => "clock step",
            Self::Drift(..) => "clock drift",
            Self::Evict(..) => "eviction",
            Self::Leave(_) => "leave",
            Self::StoreOut => "store out",
            Self::StoreBack => "store back",
            Self::Members(..) => "members change",
            Self::Policy { .. } => "policy change",
        }
    }
}
