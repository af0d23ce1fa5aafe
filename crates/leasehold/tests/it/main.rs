//! The real binary behind the real proxies, with the files of `deploy/` as they are shipped.
//!
//! Needs the programs that `scripts/test setup` installs, and fails without them: a proxy that is not run is not
//! tested.

#![expect(clippy::unwrap_used, reason = "a test fails by it, as it should")]

mod envoy;
mod faults;
mod fleet;
mod harness;
mod measure_command;
mod node;
mod policies;
mod policy_command;
mod proxies;
mod readme;
mod simulate_command;
