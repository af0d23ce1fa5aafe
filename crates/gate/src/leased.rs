//! The decision table as the lease protocol sees it: [`Credit`] over a [`Table`].
//!
//! A subject of the protocol is a bucket id of the table, and both number windows alike. This never decides how much
//! credit there is; it carries out what the protocol says, one atomic step a call.

use lease::bucket::{Bucket, Subject};
use lease::credit::{Credit, Level};
use lease::terms::Terms;

use crate::bucket::BucketId;
use crate::meter::Meter;
use crate::table::Table;
use crate::time::Now;

/// A table at one instant, for one input of the protocol's node.
#[derive(Clone, Copy)]
pub struct LeasedTable<'t> {
    table: &'t Table,
    now: Now,
}

impl<'t> LeasedTable<'t> {
    /// A table, and the wall clock as the protocol's node reads it for this input.
    #[must_use]
    pub const fn new(table: &'t Table, now: Now) -> Self {
        Self { table, now }
    }
}

impl Credit for LeasedTable<'_> {
    fn install(&mut self, bucket: Bucket, terms: &Terms, units: u64) -> bool {
        let meter = Meter::leased(terms);
        let id = bucket_id(bucket.subject);
        self.table
            .install(id, &meter, bucket.window.0, units, self.now)
    }

    fn take_back(&mut self, bucket: Bucket, terms: &Terms, keep: u64) -> u64 {
        let meter = Meter::leased(terms);
        let id = bucket_id(bucket.subject);
        self.table.take_back(id, &meter, bucket.window.0, keep)
    }

    fn read(&mut self, bucket: Bucket, terms: &Terms) -> Option<Level> {
        let meter = Meter::leased(terms);
        let id = bucket_id(bucket.subject);
        let leased = self.table.leased(id, &meter, bucket.window.0)?;
        (self.now.nanos() < bucket.end(terms.slot_ns()).0).then_some(Level {
            available: leased.available,
            demand: leased.demand,
        })
    }
}

/// The bucket that a subject of the protocol is in the table.
#[must_use]
pub const fn bucket_id(subject: Subject) -> BucketId {
    BucketId(subject.0)
}

/// The protocol's name for a bucket.
#[must_use]
pub const fn subject(id: BucketId) -> Subject {
    Subject(id.0)
}
