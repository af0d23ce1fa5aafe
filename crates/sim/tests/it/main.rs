//! Tests of the crate from outside.

#![expect(clippy::unwrap_used, reason = "a test fails by it, as it should")]

mod docs;
mod fleet;
mod log;
mod measure;
mod mutants;
mod schedules;
