//! The only reader of the operating system's clocks.
