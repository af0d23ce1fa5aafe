//! Many runs: seeds over threads, failing ones made small, mutants hunted, scenarios measured.
//!
//! What is added up here does not depend on which thread ran what, or when.

#[cfg(feature = "mutants")]
mod mutants;
mod seeds;
mod shrink;

#[cfg(feature = "mutants")]
pub use mutants::{Hunt, hunt};
pub use seeds::{Failed, Sweep, sweep};
pub use shrink::shrink;
