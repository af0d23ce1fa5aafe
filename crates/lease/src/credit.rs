//! The decision table as the protocol sees it: where installed credit lies and is spent.
//!
//! The protocol never sees a request that credit admits; it learns what was spent by reading what is left.

use crate::bucket::Bucket;
use crate::terms::Terms;

/// What lies in the table for one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Units that requests may still take.
    pub available: u64,
    /// Units that requests asked for in this window so far, admitted or not.
    pub demand: u64,
}

/// Credit in the decision table. Each call is one atomic step on one bucket; requests are decided at the same time.
pub trait Credit {
    /// Adds `units` to what requests may take. Says whether they lie there now: not if the window is over, or if the
    /// table has no place.
    fn install(&mut self, bucket: Bucket, terms: &Terms, units: u64) -> bool;

    /// Takes back what exceeds `keep`, and says how much that was.
    fn take_back(&mut self, bucket: Bucket, terms: &Terms, keep: u64) -> u64;

    /// What lies there. `None` if the table does not know the bucket: never installed, over, or evicted.
    fn read(&mut self, bucket: Bucket, terms: &Terms) -> Option<Level>;
}
