//! The network between the nodes: what is lost, doubled, held back or cut. Messages travel as the bytes that
//! [`wire`] makes of them. Nothing here looks into one.

mod link;
mod post;

pub(crate) use link::Wires;
pub use link::{Delay, Link};
pub(crate) use post::{Letter, Post};
