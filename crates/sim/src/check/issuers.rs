//! Rule S11, seen from outside: no two members issue credit of one bucket, whatever lists they go by.
//!
//! Knows nothing of lists, leases or owners: only who said to have issued. Durable buckets are left out, as their owners
//! change and the store sees to that.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use lease::bucket::Bucket;
use lease::id::NodeId;

use super::accounts::ById;
use crate::fleet::At;

/// A bucket that two members have issued credit of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "bucket {:032x}/{}: issued by {:016x} and by {:016x}, after {} ns",
    bucket.subject.0, bucket.window.0, first.0, second.0, at.0
)]
pub struct TwoIssuers {
    /// Which.
    pub bucket: Bucket,
    /// One member.
    pub first: NodeId,
    /// And another.
    pub second: NodeId,
    /// When.
    pub at: At,
}

/// Who issues what.
#[derive(Debug, Default)]
pub(crate) struct Issuers {
    buckets: HashMap<Bucket, NodeId, BuildHasherDefault<ById>>,
    /// The first fault found.
    pub(crate) two: Option<TwoIssuers>,
}

impl Issuers {
    pub(crate) fn issued(&mut self, at: At, bucket: Bucket, second: NodeId) {
        let first = *self.buckets.entry(bucket).or_insert(second);
        if first != second && self.two.is_none() {
            self.two = Some(TwoIssuers {
                bucket,
                first,
                second,
                at,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use lease::bucket::{Subject, WindowId};

    use super::*;

    #[test]
    fn one_member_may_issue_again_and_again_and_no_other_once() {
        let bucket = |window| Bucket {
            subject: Subject(1),
            window: WindowId(window),
        };
        let mut issuers = Issuers::default();
        issuers.issued(At(1), bucket(1), NodeId(1));
        issuers.issued(At(2), bucket(1), NodeId(1));
        issuers.issued(At(3), bucket(2), NodeId(2));
        assert_eq!(issuers.two, None);
        issuers.issued(At(4), bucket(1), NodeId(2));
        let two = issuers.two.expect("two issuers of one bucket");
        assert_eq!((two.first, two.second), (NodeId(1), NodeId(2)));
    }
}
