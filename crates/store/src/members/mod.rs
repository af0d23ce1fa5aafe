//! The list of members that a fleet keeps for itself: who joins, who leaves, who died, and from when a list holds.
//!
//! One document, changed only by compare-and-set, holds the lists and every member's lease. [`Membership`] decides, from
//! the document and the time, what this node wants to change in it; it does no IO, so that the simulator can run it.
//! [`crate::nats::NatsMembers`] keeps the document in JetStream.

mod machine;
mod roster;

pub use self::machine::{Entry, LEASE, MOST_SKEW, Membership, SHORT, Standing};
pub use self::roster::{ListedView, MOST_BYTES, MOST_SEATS, Roster, RosterError, Seat, SeatState};
