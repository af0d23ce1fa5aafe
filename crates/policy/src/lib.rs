//! The policy model: who is limited, by what, and to how much.
//!
//! This crate reads and checks policy files and holds the checked model. It never does IO beyond a reader handed
//! in, never reads a clock, and never turns a fault into "no limit": a [`model::Policy`] exists only if every rule
//! in it was understood.

pub mod address;
pub mod diff;
pub mod envoy;
pub mod fault;
pub mod fields;
pub mod file;
pub mod host;
pub mod model;
pub mod normalize;
pub mod path;
pub mod pattern;
pub mod rate;
pub mod yaml;
