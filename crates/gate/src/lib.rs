//! The decision path: compiled rules, the bucket table and the algorithms.
//!
//! [`Gate::check`] decides one request: it finds the limits that the request meets, and charges all of them or none.
//! On the common path it takes no lock, allocates nothing and does no IO; it never reads a clock.

mod account;
mod algorithm;
pub mod bucket;
mod compile;
pub mod counter;
mod decide;
pub mod decision;
mod descriptors;
pub mod explain;
pub mod fleet;
mod gate;
pub mod hash;
mod key;
pub mod leased;
mod matcher;
pub mod meter;
mod pattern;
mod reading;
pub mod request;
mod resolve;
pub mod table;
pub mod time;
mod trie;

pub use compile::{CompileError, Compiled};
pub use decision::{Decision, Outcome, Refusal, Verdict};
pub use fleet::{Dry, Fleet, Lineage};
pub use gate::{Gate, Snapshot};
pub use matcher::Unmet;
pub use request::{Hits, Part, Request};
pub use resolve::{Met, Resolved};
