//! Rule S6, seen from outside: for every bucket, the units admitted by all nodes since the world began plus the units
//! that some table would still admit never exceed the allowance.
//!
//! Shares no code with the protocol, and knows nothing of grants, reports or owners: only what tables admit and hold.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use lease::bucket::{Bucket, Subject};
use lease::terms::Terms;

use super::spans::Spans;

use crate::fleet::At;

/// Where one bucket stands, fleet-wide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Units that requests asked for, each request once.
    pub asked: u64,
    /// Units admitted.
    pub admitted: u64,
    /// Units that lie in tables.
    pub live: u64,
    /// The most that may be admitted.
    pub allowance: u64,
}

/// A bucket with more credit than its allowance.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "bucket {:032x}/{}: {} admitted and {} live, but {} allowed, after {} ns",
    bucket.subject.0, bucket.window.0, account.admitted, account.live, account.allowance, at.0
)]
pub struct OverAdmission {
    /// Which.
    pub bucket: Bucket,
    /// How it stands.
    pub account: Account,
    /// Since when.
    pub at: At,
}

/// All buckets of a run.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    buckets: HashMap<Bucket, Account, BuildHasherDefault<ById>>,
    /// The first fault found.
    pub(crate) over: Option<OverAdmission>,
    /// Limits that are counted in slots.
    pub(crate) spans: Spans,
    /// Whether a limit may be exceeded: with `fail_open`, or by a mode that promises nothing.
    pub(crate) lenient: bool,
}

impl Accounts {
    /// For these limits.
    pub(crate) fn new(limits: impl Iterator<Item = (Subject, Terms)>) -> Self {
        Self {
            spans: Spans::new(limits),
            ..Self::default()
        }
    }

    /// The account of a bucket, made with `allowance` if it is new.
    fn account(&mut self, bucket: Bucket, allowance: u64) -> &mut Account {
        match self.buckets.entry(bucket) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Account {
                allowance,
                ..Account::default()
            }),
        }
    }

    pub(crate) fn asked(&mut self, bucket: Bucket, allowance: u64, units: u64) {
        self.account(bucket, allowance).asked += units;
    }

    /// A table took units in.
    pub(crate) fn installed(&mut self, at: At, bucket: Bucket, allowance: u64, units: u64) {
        let account = self.account(bucket, allowance);
        account.live += units;
        let now = *account;
        if !self.spans.more(at, bucket, now.allowance, units) {
            self.check(at, bucket, now);
        }
    }

    /// A table lost units that nobody spent: taken back, forgotten, gone with its process.
    pub(crate) fn gone(&mut self, bucket: Bucket, units: u64) {
        self.spans.gone(bucket, units);
        if let Some(account) = self.buckets.get_mut(&bucket) {
            account.live = account.live.saturating_sub(units);
        }
    }

    /// A request was admitted from a table.
    pub(crate) fn admitted(&mut self, at: At, bucket: Bucket, allowance: u64, units: u64) {
        let account = self.account(bucket, allowance);
        let unseen = units.saturating_sub(account.live);
        account.live = account.live.saturating_sub(units);
        account.admitted += units;
        let now = *account;
        if !self.spans.more(at, bucket, now.allowance, unseen) {
            self.check(at, bucket, now);
        }
    }

    /// The allowance of a limit's buckets has grown, at some node at least: those that live may admit as much.
    pub(crate) fn raise(&mut self, subject: Subject, allowance: u64) {
        self.spans.raise(subject, allowance);
        for (bucket, account) in &mut self.buckets {
            if bucket.subject == subject {
                account.allowance = account.allowance.max(allowance);
            }
        }
    }

    fn check(&mut self, at: At, bucket: Bucket, account: Account) {
        if account.admitted + account.live > account.allowance
            && !self.lenient
            && self.over.is_none()
        {
            self.over = Some(OverAdmission {
                bucket,
                account,
                at,
            });
        }
    }

    /// All buckets, in no order that may decide anything.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Bucket, &Account)> {
        self.buckets.iter()
    }
}

/// Subjects are keyed hashes already: their low half and the window make a hash, by one multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ById(u64);

impl Hasher for ById {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }

    fn write_u128(&mut self, value: u128) {
        self.write_u64(value as u64);
    }
}

#[cfg(test)]
mod tests {
    use lease::bucket::WindowId;

    use super::*;

    const BUCKET: Bucket = Bucket {
        subject: Subject(1),
        window: WindowId(2),
    };

    #[test]
    fn credit_counts_once_whether_spent_or_not() {
        let mut accounts = Accounts::default();
        accounts.installed(At(1), BUCKET, 10, 6);
        accounts.admitted(At(2), BUCKET, 10, 6);
        accounts.installed(At(3), BUCKET, 10, 4);
        accounts.gone(BUCKET, 3);
        accounts.installed(At(4), BUCKET, 10, 3);
        assert_eq!(accounts.over, None);
        accounts.installed(At(5), BUCKET, 10, 1);
        let over = accounts.over.expect("11 of 10");
        assert_eq!(over.at, At(5));
        assert_eq!((over.account.admitted, over.account.live), (6, 5));
    }

    #[test]
    fn units_admitted_without_credit_count_too() {
        let mut accounts = Accounts::default();
        accounts.admitted(At(1), BUCKET, 2, 2);
        assert_eq!(accounts.over, None);
        accounts.admitted(At(1), BUCKET, 2, 1);
        assert!(accounts.over.is_some());
    }

    #[test]
    fn a_raised_allowance_holds_for_buckets_that_live() {
        let mut accounts = Accounts::default();
        accounts.installed(At(1), BUCKET, 2, 2);
        accounts.raise(BUCKET.subject, 5);
        accounts.installed(At(1), BUCKET, 2, 3);
        assert_eq!(accounts.over, None);
        accounts.installed(At(1), BUCKET, 2, 1);
        assert!(accounts.over.is_some());
    }
}
