//! Real nodes as processes, real clients, and real faults: killed, frozen, cut off, restarted.
//!
//! What is admitted is counted at the clients. Safety is asserted strictly; liveness with time to spare, because the
//! machine may be busy.

pub mod bus;
mod cases;
mod fleet;
mod load;
mod probe;
mod relay;
mod storm;
mod top;
