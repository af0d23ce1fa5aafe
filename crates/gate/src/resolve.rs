//! The first half of a decision: which limits a request meets, and in which buckets. It charges nothing.

use lease::terms::Terms;
use policy::model::{Amount, Mode, OnAbsent};
use smallvec::SmallVec;

use crate::bucket::BucketId;
use crate::compile::{Compiled, CompiledRule, LimitIndex, LimitSet, limit_identity};
use crate::descriptors::TreeMatches;
use crate::fleet;
use crate::hash::{KeyHash, KeyHasher};
use crate::key::{KeyBuilder, PartTag};
use crate::meter::Meter;
use crate::reading::{Reading, Scratch};
use crate::request::{Hits, Part};

/// What a request is to be charged, where. It belongs to the policy that it was resolved under.
#[derive(Clone, Debug, Default)]
pub struct Resolved {
    pub(crate) charges: SmallVec<[Charge; 4]>,
    /// Limits that descriptors brought along, by their charges.
    pub(crate) overrides: Vec<Override>,
    /// A rule refuses this request, since it lacks the rule's key.
    pub(crate) key_absent: bool,
}

/// A limit that a request meets, and its bucket: what a caller may keep of a [`Resolved`] request, say for as long as a
/// connection lasts. It belongs to the policy that it was resolved under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Met {
    pub(crate) bucket: BucketId,
    pub(crate) limit: LimitIndex,
}

/// One limit to be charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    pub(crate) bucket: BucketId,
    pub(crate) limit: LimitIndex,
    pub(crate) part: u16,
    /// Whether an [`Override`] stands in for the limit's own amount.
    pub(crate) overridden: bool,
    pub(crate) hits: Hits,
}

/// A limit that a descriptor brought along.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Override {
    pub(crate) charge: u16,
    pub(crate) amount: Amount,
    pub(crate) meter: Option<Meter>,
    /// If it is shared in a fleet.
    pub(crate) terms: Option<Terms>,
}

impl Override {
    /// It is shared as the fleet shares limits that do not say. What cannot be shared is refused, or has fewer units.
    fn new(compiled: &Compiled, charge: u16, amount: Amount) -> Self {
        let (amount, terms) = fleet::terms_of_brought(amount, compiled.sharing, compiled.revision);
        Self {
            charge,
            amount,
            meter: match &terms {
                Some(terms) => Some(Meter::leased(terms)),
                None => Meter::of(amount),
            },
            terms,
        }
    }
}

impl Resolved {
    /// The limits met, to be decided on by [`Gate::check_met`](crate::Gate::check_met). `None` if there is more to this
    /// request: a rule that refuses it for want of a key, several parts, or limits brought along.
    pub fn met(&self) -> Option<impl Iterator<Item = Met> + '_> {
        let simple = !self.key_absent
            && self
                .charges
                .iter()
                .all(|charge| charge.part == 0 && !charge.overridden);
        simple.then(|| {
            self.charges.iter().map(|charge| Met {
                bucket: charge.bucket,
                limit: charge.limit,
            })
        })
    }

    /// How a charge is shared; `None` if this node counts it by itself.
    pub(crate) fn terms<'r>(&'r self, compiled: &'r Compiled, index: usize) -> Option<&'r Terms> {
        let charge = &self.charges[index];
        let brought = self
            .overrides
            .iter()
            .find(|own| usize::from(own.charge) == index);
        match brought.filter(|_| charge.overridden) {
            Some(brought) => brought.terms.as_ref(),
            None => compiled.limit(charge.limit).terms.as_ref(),
        }
    }

    pub(crate) fn new(compiled: &Compiled, hasher: &KeyHasher, parts: &[Part<'_>]) -> Self {
        let mut resolved = Self::default();
        let mut trees = TreeMatches::default();
        for (index, part) in parts.iter().enumerate() {
            let index = u16::try_from(index).unwrap_or(u16::MAX);
            let mut scratch = Scratch::default();
            let reading = Reading::new(part.request, compiled, &mut scratch);
            resolved.meet_rules(compiled, hasher, &reading, index, part.hits);
            if part.request.domain.is_some() {
                trees.find(&compiled.domains, &part.request, index);
            }
        }
        resolved.meet_trees(compiled, hasher, &trees, parts);
        resolved
    }

    fn meet_rules(
        &mut self,
        compiled: &Compiled,
        hasher: &KeyHasher,
        reading: &Reading<'_>,
        part: u16,
        hits: Hits,
    ) {
        let matched = compiled
            .matcher
            .matches(reading, |rule| &compiled.rule(rule).when);
        if matched.is_empty() {
            return;
        }
        let subject = reading.subject(hasher);
        for index in matched {
            let rule = compiled.rule(index);
            let Some(key) = self.key(compiled, hasher, reading, rule) else {
                continue;
            };
            let (_, set) = compiled.limits_of(index, subject);
            self.charge_set(compiled, hasher, key, set, part, hits);
        }
    }

    /// The rule's key in this request; `None` if the rule has no more to do with it.
    fn key(
        &mut self,
        compiled: &Compiled,
        hasher: &KeyHasher,
        reading: &Reading<'_>,
        rule: &CompiledRule,
    ) -> Option<KeyHash> {
        let mut key = KeyBuilder::new(hasher);
        for part in &rule.by {
            let Err(lack) = reading.push_part(&mut key, part) else {
                continue;
            };
            return match rule.in_want(lack) {
                OnAbsent::Share => Some(compiled.absent_key),
                OnAbsent::Skip => None,
                OnAbsent::Deny => {
                    // A shadow rule refuses nothing, not even this.
                    self.key_absent |= rule.mode == Mode::Enforce;
                    None
                }
            };
        }
        Some(key.finish())
    }

    fn charge_set(
        &mut self,
        compiled: &Compiled,
        hasher: &KeyHasher,
        key: KeyHash,
        set: LimitSet,
        part: u16,
        hits: Hits,
    ) {
        for limit in set.indexes() {
            self.charges.push(Charge {
                bucket: hasher.bucket(key, compiled.limit(limit).identity),
                limit,
                part,
                overridden: false,
                hits,
            });
        }
    }

    /// Charges the limits found in descriptor trees, less those that others replace.
    fn meet_trees(
        &mut self,
        compiled: &Compiled,
        hasher: &KeyHasher,
        trees: &TreeMatches<'_>,
        parts: &[Part<'_>],
    ) {
        for found in trees.in_force() {
            let part = &parts[usize::from(found.part)];
            let mut key = KeyBuilder::new(hasher);
            key.push(
                PartTag::EnvoyDomain,
                part.request.domain.unwrap_or_default().as_bytes(),
            );
            for (name, value) in found.key_entries(part.request.entries) {
                key.push(PartTag::EnvoyEntry, name.as_bytes());
                key.push(PartTag::EnvoyEntry, value.as_bytes());
            }
            let mut identity = compiled.limit(found.limit).identity;
            if let Some(amount) = part.request.limit_override {
                let charge = u16::try_from(self.charges.len()).unwrap_or(u16::MAX);
                let brought = Override::new(compiled, charge, amount);
                identity = limit_identity(hasher, "override", amount, brought.terms.is_some());
                self.overrides.push(brought);
            }
            self.charges.push(Charge {
                bucket: hasher.bucket(key.finish(), identity),
                limit: found.limit,
                part: found.part,
                overridden: part.request.limit_override.is_some(),
                hits: part.hits,
            });
        }
    }
}
