//! Many runs: seeds over threads, failing ones made small.
//!
//! What is added up here does not depend on which thread ran what, or when.

mod seeds;
mod shrink;

pub use seeds::{Failed, Sweep, sweep};
pub use shrink::shrink;
