//! The policy crate's integration tests, in one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bounds;
mod diff;
mod documentation;
mod envoy;
mod golden;
mod required;
mod round_trip;
mod schema;
mod warnings;
