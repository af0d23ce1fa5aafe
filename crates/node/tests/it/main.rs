//! The node's integration tests, in one binary.

mod render;
