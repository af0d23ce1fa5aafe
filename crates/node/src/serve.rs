//! The process: listeners up, work, and down again in order.
