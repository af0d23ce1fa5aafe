//! The durable ledger: how far each bucket of a durable limit was authorized, kept where it outlives the owner.
//!
//! An implementation must never say that a change was kept before it would survive a crash, and never apply a change
//! that was overtaken. It may fail to say that a change was kept: [`LedgerError::Unavailable`] means "perhaps".

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use lease::bucket::Bucket;
use lease::time::Wall;
use thiserror::Error;

use crate::record::{Authorized, Change, RecordError, Refusal};

/// What a ledger will say; it waits for the store, up to its deadline.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, LedgerError>> + Send + 'a>>;

/// How far each bucket was authorized.
///
/// An owner changes one bucket by one call at a time. After [`LedgerError::Unavailable`] it does not know whether the
/// change was made: until a later call tells, it issues up to the smaller of the two totals. Giving up the wait is the
/// same.
pub trait DurableLedger: fmt::Debug + Send + Sync {
    /// How far a bucket was authorized; `None` if nobody ever issued for it, or if it was removed.
    fn load(&self, bucket: Bucket) -> Answer<'_, Option<Authorized>>;

    /// Changes how far, if nothing has changed since `change.expected`: see [`crate::record::decide`].
    fn authorize(&self, change: Change) -> Answer<'_, Authorized>;

    /// Removes records with `keep_until` at or before `now`, some thousands at most, and says how many. To be called
    /// now and then, by any node.
    fn sweep(&self, now: Wall) -> Answer<'_, u64>;
}

/// Why a ledger gives no answer, or not the one that was wanted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LedgerError {
    /// The change is not allowed; it was not made.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// What is kept cannot be read. Nothing may be issued for the bucket.
    #[error("the ledger at {place} cannot be used: {source}")]
    Damaged {
        /// Which store.
        place: String,
        /// What is wrong.
        source: RecordError,
    },
    /// No room for another bucket; those that have a record go on.
    #[error(
        "the ledger at {place} is full with {most} buckets; raise its limit, or use fewer durable limits"
    )]
    Full {
        /// Which store.
        place: String,
        /// How many it holds.
        most: u64,
    },
    /// No answer. Whether the change was made is not known.
    #[error("the ledger at {place} does not answer: {reason}")]
    Unavailable {
        /// Which store.
        place: String,
        /// What is known about why. No secret is in it.
        reason: String,
    },
}
