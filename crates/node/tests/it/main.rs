//! The node's integration tests, in one binary.

// All of this is tests, though much of it is not in functions marked so.
#![allow(clippy::unwrap_used)]

mod check;
mod fixture;
mod fleet;
mod log;
mod metrics;
#[path = "../../../store/tests/it/server.rs"]
mod nats_server;
mod peers;
mod reload;
mod render;
mod rls;
mod serve;
mod transports;
