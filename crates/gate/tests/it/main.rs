//! The gate's tests against its public face.

#![allow(clippy::unwrap_used)]

extern crate leasehold_gate as gate;

mod allocation;
mod check;
mod envoy_files;
mod fixture;
mod fleet;
mod keys;
mod matching;
mod refused;
mod resolved;
mod table;
mod trees;
