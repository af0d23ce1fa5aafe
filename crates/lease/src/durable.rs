//! What an owner asks of the store that keeps a durable limit's ledger, and what it is answered (section 7).
//!
//! The store keeps one number a bucket: how many units may have been issued in all. It is raised ahead of need by a
//! compare-and-set and never by two owners at once; whoever takes over counts all of it as issued.

use crate::bucket::Bucket;
use crate::node::Identity;
use crate::time::Wall;

/// How far a bucket is authorized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authorized {
    /// Units that may have been issued, by all owners so far.
    pub total: u64,
    /// Of them, those of owners before the one that wrote this.
    pub base: u64,
    /// Who wrote it.
    pub fence: Identity,
    /// Grows with every change.
    pub version: u64,
}

/// A change of a bucket's total, to be made only if what lies there is what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub bucket: Bucket,
    /// What must lie there. `None` for nothing.
    pub expected: Option<Authorized>,
    /// The new total.
    pub to: u64,
    /// The record may be removed at this time, not before.
    pub keep_until: Wall,
}

/// What became of a question to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreAnswer {
    /// This lies there: the answer to a load, and to a change that was overtaken.
    Is(Option<Authorized>),
    /// The change was made, and would survive a crash.
    Kept(Authorized),
    /// No answer in time: perhaps the change was made, perhaps it still will be.
    Unknown,
    /// This incarnation may not change it, or it cannot be read: nothing more is issued.
    Refused,
}
