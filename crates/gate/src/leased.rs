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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{LAST_NS, window_end, window_index};
    use crate::meter::phase;
    use lease::terms::{Mode, OnDegraded, Shape};
    use lease::time::Wall;
    use policy::model::Algorithm;
    use policy::rate::{LONGEST_WINDOW_MS, Rate, Window, WindowMs};
    use proptest::prelude::*;

    fn terms(window_ns: u64) -> Terms {
        Terms {
            units: 7,
            window_ns,
            shape: Shape::FixedWindow,
            durable: false,
            on_degraded: OnDegraded::FairShare,
            mode: Mode::Lease,
            revision: 0,
        }
    }

    proptest! {
        /// Both number windows by formulas of their own: the same window, the same start, the same end.
        #[test]
        fn windows_are_numbered_alike(
            id: u128,
            window_ms in prop_oneof![100..10_000u64, 100..=LONGEST_WINDOW_MS],
            at in 0..=LAST_NS,
        ) {
            let meter = Meter::leased(&terms(window_ms * 1_000_000));
            let phase = phase(BucketId(id), &meter);
            prop_assert_eq!(phase, Subject(id).phase_ns(meter.window_ns));
            let bucket = Subject(id).bucket_at(meter.window_ns, Wall(at));
            let index = window_index(&meter, phase, at);
            prop_assert_eq!(index, bucket.window.0);
            prop_assert_eq!(window_end(&meter, phase, index), bucket.end(meter.window_ns).0);
            let boundary = Wall(window_end(&meter, phase, index));
            prop_assume!(boundary.0 <= LAST_NS);
            let next = Subject(id).bucket_at(meter.window_ns, boundary);
            prop_assert_eq!(next, bucket.next());
            prop_assert_eq!(window_index(&meter, phase, boundary.0), next.window.0);
        }

        /// A leased fixed window lies in the table as the same window of a policy does.
        #[test]
        fn a_leased_meter_is_a_fixed_windows(
            window_ms in prop_oneof![100..10_000u64, 100..=LONGEST_WINDOW_MS],
        ) {
            let window = Window::Millis(WindowMs::new(window_ms).expect("in range"));
            let fixed = Meter::new(Rate { units: 7, window }, Algorithm::FixedWindow);
            prop_assert_eq!(Meter::leased(&terms(window_ms * 1_000_000)), fixed);
        }
    }
}
