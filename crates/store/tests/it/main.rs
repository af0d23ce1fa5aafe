//! Tests of the stores against the real things.

// All of this is tests, though much of it is not in functions marked so.
#![allow(clippy::unwrap_used)]

mod cluster;
mod conformance;
mod deployed;
mod file;
mod members;
mod nats;
mod relay;
mod server;
mod sqlite;
