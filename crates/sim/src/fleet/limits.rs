//! The largest allowance that a bucket may have, while a policy change goes round the fleet: what any node's policy
//! says, or said so shortly ago that credit issued then may still be on its way.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use lease::bucket::Subject;

use super::queue::At;
use super::setup::Key;
use crate::check::ById;

#[derive(Debug)]
struct Limit {
    /// By machine.
    units: Vec<u64>,
    most: u64,
    /// What some machine's policy said, and until when that counts.
    retired: Vec<(At, u64)>,
    /// How long a retired policy counts: the window that has begun, the one that may have been issued ahead, and the
    /// slowest message.
    keep_ns: u64,
}

/// All limits of a run.
#[derive(Debug)]
pub(crate) struct Limits {
    limits: Vec<Limit>,
    places: HashMap<Subject, usize, BuildHasherDefault<ById>>,
}

impl Limits {
    pub(crate) fn new(keys: &[Key], machines: usize) -> Self {
        Self {
            limits: keys
                .iter()
                .map(|key| Limit {
                    units: vec![key.terms.units; machines],
                    most: key.terms.units,
                    retired: Vec::new(),
                    keep_ns: 2 * key.terms.window_ns + 1_000_000_000,
                })
                .collect(),
            places: keys
                .iter()
                .enumerate()
                .map(|(place, key)| (key.subject, place))
                .collect(),
        }
    }

    /// The most units that a bucket which comes to be now may admit. None of an unknown subject's.
    pub(crate) fn bound(&self, subject: Subject, at: At) -> u64 {
        let Some(place) = self.places.get(&subject) else {
            return 0;
        };
        let limit = &self.limits[*place];
        limit
            .retired
            .iter()
            .filter(|(until, _)| *until > at)
            .map(|(_, units)| *units)
            .fold(limit.most, u64::max)
    }

    /// The place of a subject in the run's list of keys.
    pub(crate) fn place(&self, subject: Subject) -> Option<usize> {
        self.places.get(&subject).copied()
    }

    /// A machine's policy changes.
    pub(crate) fn change(&mut self, machine: usize, key: usize, units: u64, at: At) {
        let limit = &mut self.limits[key];
        let old = std::mem::replace(&mut limit.units[machine], units);
        limit.retired.retain(|(until, _)| *until > at);
        limit.retired.push((at.plus(limit.keep_ns), old));
        limit.most = limit.units.iter().copied().max().unwrap_or(0);
    }
}
