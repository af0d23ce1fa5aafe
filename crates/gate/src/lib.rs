//! The decision path: compiled rules, the bucket table and the algorithms.
//!
//! [`Gate::check`] decides one request: it finds the limits that the request meets, and charges all of them or none.
//! On the common path it takes no lock, allocates nothing and does no IO; it never reads a clock.

mod algorithm;
pub mod bucket;
pub mod decision;
pub mod meter;
pub mod request;
pub mod table;
pub mod time;
