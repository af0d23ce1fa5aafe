//! No starvation: once all is well, whole windows admit what is asked of them.

use std::collections::BTreeMap;

use crate::fleet::Share;

/// Units that a key's measured windows may fall short by, in all. A window that begins before its credit has come costs
/// a request or two.
const SLACK_UNITS: u64 = 2;
/// Or this part of what is due, in percent.
const SLACK_PERCENT: u64 = 5;

/// A key whose windows admitted too little, though nothing was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "key {key} starves: {windows} windows, in which nothing was wrong, admitted {admitted} of {due} units; \
     at least {least} were due"
)]
pub struct Starved {
    /// Its place in the setup.
    pub key: usize,
    /// How many windows were measured.
    pub windows: u64,
    /// Units admitted in all of them.
    pub admitted: u64,
    /// Units asked for, but no more than allowed.
    pub due: u64,
    /// What would have been enough.
    pub least: u64,
}

/// The first key that starved, of the windows measured after all was well again.
pub(crate) fn starved(shares: &[Share]) -> Option<Starved> {
    let mut keys: BTreeMap<usize, Starved> = BTreeMap::new();
    for share in shares {
        let sum = keys.entry(share.key).or_insert(Starved {
            key: share.key,
            windows: 0,
            admitted: 0,
            due: 0,
            least: 0,
        });
        sum.windows += 1;
        sum.admitted += share.admitted;
        sum.due += share.due;
    }
    keys.into_values()
        .map(|mut sum| {
            let slack = SLACK_UNITS.max(sum.due * SLACK_PERCENT / 100);
            sum.least = sum.due.saturating_sub(slack);
            sum
        })
        .find(|sum| sum.admitted < sum.least)
}

#[cfg(test)]
mod tests {
    use lease::bucket::{Bucket, Subject, WindowId};

    use super::*;

    fn share(key: usize, window: u64, admitted: u64) -> Share {
        Share {
            key,
            bucket: Bucket {
                subject: Subject(key as u128),
                window: WindowId(window),
            },
            due: 10,
            admitted,
            allowance: 10,
        }
    }

    #[test]
    fn two_units_in_all_may_be_missing_and_no_more() {
        let enough = [share(0, 1, 9), share(0, 2, 9), share(1, 1, 10)];
        assert_eq!(starved(&enough), None);
        let fault = starved(&[share(0, 1, 10), share(1, 1, 9), share(1, 2, 8)]).unwrap();
        assert_eq!((fault.key, fault.admitted, fault.least), (1, 17, 18));
    }
}
