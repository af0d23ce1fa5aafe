//! The policy model: who is limited, by what, and to how much.
//!
//! This crate reads and checks policy files and holds the checked model. It never does IO beyond a reader handed
//! in, never reads a clock, and never turns a fault into "no limit": a [`model::Policy`] exists only if every rule
//! in it was understood.

pub mod model;
pub mod path;
pub mod rate;
