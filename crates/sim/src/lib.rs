//! What a fleet would do, found out beforehand: access logs read and measured, fleets simulated, results drawn.
//!
//! Nothing here serves requests, and nothing here reads the clock or makes chance of its own: both are passed in, so
//! that the same input gives the same bytes.

pub mod baseline;
pub mod chance;
pub mod check;
pub mod compare;
pub mod fault;
pub mod fleet;
pub mod log;
pub mod measure;
pub mod net;
pub mod plot;
pub mod report;
pub mod run;
pub mod scenario;
pub mod traffic;

mod text;
