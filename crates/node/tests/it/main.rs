//! The node's integration tests, in one binary.

mod metrics;
mod render;
