//! What lasts for a fleet: the ledger of durable limits, and the list of members.
//!
//! This crate keeps what it is told to keep and says truthfully whether it was kept. It must never decide who gets
//! credit, never read a clock, and never answer "kept" before what was written would survive a crash.
#![forbid(unsafe_code)]

pub mod file;
pub mod ledger;
pub mod members;
pub mod nats;
pub mod record;
pub mod slots;
pub mod sqlite;
pub mod tranche;
