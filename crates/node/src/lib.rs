//! The Leasehold node: configuration, clock, surfaces and telemetry around the gate.
//!
//! This crate does the IO; it decides nothing. Every surface reads the clock once, asks the gate once, and renders
//! what the gate said.

pub mod check;
pub mod clock;
pub mod config;
pub mod drain;
pub mod fleet;
pub mod health;
pub mod log;
pub mod metrics;
pub mod peers;
pub mod reload;
pub mod render;
pub mod rls;
pub mod serve;
