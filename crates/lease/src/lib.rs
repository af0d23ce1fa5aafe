//! The lease protocol: how a fleet of nodes shares one limit with no network call on the common decision path, and
//! never admits more than the limit allows.
//!
//! It is sans-IO. [`node::Node`] is told what happened ([`node::Input`]) and at what time, calls the decision table
//! through [`credit::Credit`], and says what is to be sent and kept ([`node::Output`]). It must never touch a socket,
//! a file, a clock, an atomic, a thread, global randomness or the order of a hash map: the same inputs give the same
//! outputs, bit for bit, which is what lets the simulator replay any run.
//!
//! Rules marked **S** in comments are safety, and are asserted after every change, in production too; rules marked
//! **L** are liveness and accuracy.
#![forbid(unsafe_code)]

pub mod audit;
pub mod bucket;
pub mod config;
pub mod credit;
pub mod durable;
pub mod id;
pub mod message;
#[cfg(not(feature = "mutants"))]
mod mutant;
#[cfg(feature = "mutants")]
pub mod mutant;
pub mod node;
pub mod stats;
pub mod terms;
pub mod time;
pub mod view;

mod clock;
mod exchange;
mod fair;
mod holder;
mod owner;
mod peers;
mod pledge;
mod stream;
mod turn;
