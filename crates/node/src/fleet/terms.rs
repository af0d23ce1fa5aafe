//! What a changed policy means for keys that are in use: which of them count by other terms now.
//!
//! A key's request would bring the new terms along. But a node that still holds credit asks for none, so a lowered limit
//! would reach what is held only when that is spent. Nothing here decides: the protocol takes terms over, or not.

use std::collections::BTreeMap;

use gate::{Compiled, Dry, Lineage};
use lease::bucket::{Bucket, Subject};
use lease::terms::Terms;

/// So many keys more than twice those held are remembered before those that are not held are forgotten.
const SPARE: usize = 4096;

/// Which limit counts each key that was asked for here, and which terms it had.
#[derive(Debug, Default)]
pub struct Tracked {
    limits: BTreeMap<Subject, Lineage>,
    in_force: BTreeMap<Lineage, Terms>,
    /// Keys whose terms are to be told to the protocol.
    changed: BTreeMap<Subject, Terms>,
}

/// The terms of a policy's shared limits.
fn terms_of(policy: &Compiled) -> BTreeMap<Lineage, Terms> {
    policy
        .lineages()
        .map(|(lineage, terms)| (lineage, *terms))
        .collect()
}

/// Where two policies differ for those whose limit it is. Not in its number, which is another each time.
fn differ(one: &Terms, other: &Terms) -> bool {
    let revision = one.revision;
    *one != Terms { revision, ..*other }
}

/// Terms just below the policy's own number: if a request says that others hold for its key (its caller has another plan
/// now), then those do.
const fn below(terms: Terms) -> Terms {
    Terms {
        revision: terms.revision.saturating_sub(1),
        ..terms
    }
}

impl Tracked {
    /// Begins under a policy.
    pub fn new(policy: &Compiled) -> Self {
        Self {
            in_force: terms_of(policy),
            ..Self::default()
        }
    }

    /// A request lacked this.
    pub fn learn(&mut self, dry: &Dry) {
        // A limit that a request brought along is in no policy.
        let Some(lineage) = dry.lineage else { return };
        self.limits.insert(dry.bucket.subject, lineage);
        // It was decided on just before the policy changed.
        if let Some(terms) = self.in_force.get(&lineage)
            && terms.revision > dry.terms.revision
            && differ(terms, &dry.terms)
        {
            self.changed.insert(dry.bucket.subject, below(*terms));
        }
    }

    /// Another policy is in force.
    pub fn policy(&mut self, policy: &Compiled) {
        let before = std::mem::replace(&mut self.in_force, terms_of(policy));
        let changes: BTreeMap<Lineage, Terms> = before
            .iter()
            .filter_map(|(lineage, old)| {
                let new = self.find(*lineage)?;
                differ(old, &new).then_some((*lineage, new))
            })
            .collect();
        let changed = self.limits.iter().filter_map(|(subject, lineage)| {
            let terms = *changes.get(lineage)?;
            Some((*subject, below(terms)))
        });
        self.changed.extend(changed);
    }

    /// The terms of a limit in the policy in force. If whose it was has none any more: the least of its kin.
    fn find(&self, lineage: Lineage) -> Option<Terms> {
        let exact = self.in_force.get(&lineage);
        let kin = || {
            self.in_force
                .iter()
                .filter(|(other, _)| other.is_kin(lineage))
                .map(|(_, terms)| terms)
                .min_by_key(|terms| terms.units)
        };
        exact.or_else(kin).copied()
    }

    /// A key whose terms have changed, each once.
    pub fn next_changed(&mut self) -> Option<(Subject, Terms)> {
        self.changed.pop_first()
    }

    /// Whether there is one.
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Forgets keys of which nothing is held, if there are many.
    pub fn forget_unheld(&mut self, count: usize, held: impl Iterator<Item = Bucket>) {
        if self.limits.len() <= count.saturating_mul(2).saturating_add(SPARE) {
            return;
        }
        let mut kept = BTreeMap::new();
        for bucket in held {
            if let Some((subject, lineage)) = self.limits.remove_entry(&bucket.subject) {
                kept.insert(subject, lineage);
            }
        }
        self.limits = kept;
    }
}
