//! The protocol from outside: whole fleets of nodes, driven by inputs and outputs alone.
#![allow(clippy::unwrap_used)]

mod adversary;
mod fleet;
mod golden;
mod line;
#[cfg(feature = "mutants")]
mod mutants;
mod random;
