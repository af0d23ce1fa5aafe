//! The decision table of a simulated process, and the eye that the checker keeps on it.
//!
//! [`Exact`] is the plainest table there is: two windows a subject, each a count. What the checker believes about live
//! credit is what lies here.

use std::collections::BTreeMap;

use lease::bucket::{Bucket, Subject, WindowId};
use lease::credit::{Credit, Level};
use lease::terms::Terms;

use super::limits::Limits;
use super::queue::At;
use super::trace::Trace;
use crate::check::Accounts;

/// One window's credit.
#[derive(Clone, Copy, Debug)]
struct Held {
    window: WindowId,
    /// Nothing was ever installed: only demand is known.
    level: Level,
}

/// What a subject has: the window that was last in use, and one more.
#[derive(Clone, Copy, Debug, Default)]
struct Pair([Option<Held>; 2]);

impl Pair {
    fn get(&mut self, window: WindowId) -> Option<&mut Level> {
        self.0
            .iter_mut()
            .flatten()
            .find(|held| held.window == window)
            .map(|held| &mut held.level)
    }

    /// Makes room for a window, if it is not older than both that lie here. Says what was dropped for it.
    fn make(&mut self, window: WindowId) -> Option<Option<Held>> {
        if self.get(window).is_some() {
            return Some(None);
        }
        let new = Held {
            window,
            level: Level::default(),
        };
        if let Some(free) = self.0.iter_mut().find(|held| held.is_none()) {
            *free = Some(new);
            return Some(None);
        }
        let oldest = self.0.iter_mut().flatten().min_by_key(|held| held.window)?;
        if oldest.window > window {
            return None;
        }
        Some(Some(std::mem::replace(oldest, new)))
    }
}

/// A table.
#[derive(Debug, Default)]
pub(crate) struct Exact {
    subjects: BTreeMap<Subject, Pair>,
}

/// How a request fared at the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It was admitted.
    Yes,
    /// There is too little.
    TooLittle,
}

/// A table under the checker's eye, at one instant.
pub(crate) struct Watched<'a> {
    pub(crate) table: &'a mut Exact,
    pub(crate) accounts: &'a mut Accounts,
    pub(crate) trace: &'a mut Trace,
    pub(crate) at: At,
    pub(crate) machine: usize,
    pub(crate) limits: &'a Limits,
}

impl Watched<'_> {
    /// Counts a request once, when it comes.
    pub(crate) fn ask(&mut self, bucket: Bucket, units: u64) {
        let allowance = self.allowance(bucket);
        self.accounts.asked(bucket, allowance, units);
        if let Some(level) = self.make(bucket) {
            level.demand += units;
        }
    }

    /// Takes `units` if so many are there.
    pub(crate) fn take(&mut self, bucket: Bucket, units: u64) -> Taken {
        let Some(level) = self
            .table
            .subjects
            .get_mut(&bucket.subject)
            .and_then(|pair| pair.get(bucket.window))
            .filter(|level| level.available >= units)
        else {
            return Taken::TooLittle;
        };
        level.available -= units;
        let allowance = self.allowance(bucket);
        self.accounts.admitted(self.at, bucket, allowance, units);
        self.trace.admit(self.at, self.machine, bucket, units);
        Taken::Yes
    }

    /// The table forgets a subject, credit and all.
    pub(crate) fn evict(&mut self, subject: Subject) -> bool {
        let Some(pair) = self.table.subjects.remove(&subject) else {
            return false;
        };
        for held in pair.0.into_iter().flatten() {
            self.lost(subject, held);
        }
        true
    }

    /// The process is gone, and its table with it.
    pub(crate) fn drop_all(&mut self) {
        for (subject, pair) in std::mem::take(&mut self.table.subjects) {
            for held in pair.0.into_iter().flatten() {
                self.lost(subject, held);
            }
        }
    }

    fn allowance(&self, bucket: Bucket) -> u64 {
        self.limits.bound(bucket.subject, self.at)
    }

    fn lost(&mut self, subject: Subject, held: Held) {
        let bucket = Bucket {
            subject,
            window: held.window,
        };
        self.accounts.gone(bucket, held.level.available);
        self.trace
            .lost(self.at, self.machine, bucket, held.level.available);
    }

    fn make(&mut self, bucket: Bucket) -> Option<&mut Level> {
        let dropped = self
            .table
            .subjects
            .entry(bucket.subject)
            .or_default()
            .make(bucket.window)?;
        if let Some(held) = dropped {
            self.lost(bucket.subject, held);
        }
        self.table
            .subjects
            .get_mut(&bucket.subject)
            .and_then(|pair| pair.get(bucket.window))
    }
}

impl Credit for Watched<'_> {
    fn install(&mut self, bucket: Bucket, _terms: &Terms, units: u64) -> bool {
        let Some(level) = self.make(bucket) else {
            return false;
        };
        level.available += units;
        let allowance = self.allowance(bucket);
        self.accounts.installed(self.at, bucket, allowance, units);
        self.trace.install(self.at, self.machine, bucket, units);
        true
    }

    fn take_back(&mut self, bucket: Bucket, _terms: &Terms, keep: u64) -> u64 {
        let Some(level) = self
            .table
            .subjects
            .get_mut(&bucket.subject)
            .and_then(|pair| pair.get(bucket.window))
        else {
            return 0;
        };
        let taken = level.available.saturating_sub(keep);
        level.available -= taken;
        self.accounts.gone(bucket, taken);
        self.trace.take_back(self.at, self.machine, bucket, taken);
        taken
    }

    fn read(&mut self, bucket: Bucket, _terms: &Terms) -> Option<Level> {
        self.table
            .subjects
            .get_mut(&bucket.subject)
            .and_then(|pair| pair.get(bucket.window))
            .map(|level| *level)
    }
}
