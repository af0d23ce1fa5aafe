//! The gate: a table, a policy in force, and the decision over both.
//!
//! [`Gate::check`] is the whole decision path. It takes no lock and does no IO, and allocates nothing for a request
//! with at most four limits and a path, host and key of common length.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use lease::bucket::Bucket;
use lease::terms::Terms;
use lease::time::Wall;
use policy::model::{
    ClientAddressReading, IdentityReading, Limit, LimitName, Policy, RuleName, Sharing,
};

use crate::compile::{CompileError, Compiled};
use crate::decide;
use crate::decision::{Decision, LimitFacts, LimitNumber};
use crate::fleet::{Fleet, Lineage};
use crate::hash::{HashSecret, KeyHasher};
use crate::leased;
use crate::request::{Hits, Part};
use crate::resolve::{Met, Resolved};
use crate::table::Table;
use crate::time::Now;

/// Decides. Shared by all threads of a process.
pub struct Gate {
    table: Table,
    hasher: KeyHasher,
    compiled: ArcSwap<Compiled>,
    /// How limits are shared that do not say; `None` of a node alone.
    sharing: Option<Sharing>,
    /// Locked only while a policy is installed.
    numbers: Mutex<Numbers>,
}

/// A policy in force, held for as long as one request needs it.
pub type Snapshot = arc_swap::Guard<Arc<Compiled>>;

/// Numbers of limits, given once and never again to another.
#[derive(Debug, Default)]
struct Numbers {
    known: HashMap<(RuleName, LimitName), LimitNumber>,
}

impl Numbers {
    fn of(&mut self, rule: &RuleName, limit: &Limit) -> LimitNumber {
        let next = LimitNumber(u32::try_from(self.known.len()).unwrap_or(u32::MAX));
        *self
            .known
            .entry((rule.clone(), limit.name.clone()))
            .or_insert(next)
    }
}

impl Gate {
    /// Puts a table under a policy, for a node alone: it counts every limit by itself, however it is to be shared.
    ///
    /// # Errors
    /// [`CompileError`] if the policy cannot be enforced as it stands.
    pub fn new(table: Table, secret: &HashSecret, policy: &Policy) -> Result<Self, CompileError> {
        Self::with(table, secret, policy, None)
    }

    /// The same for a node of a fleet. Shared limits admit what credit is installed for them in
    /// [`LeasedTable`](crate::leased::LeasedTable): nothing, until the lease protocol runs. Credit that a table continued
    /// from a file still holds is dropped: the books of whom it was granted to are gone.
    ///
    /// # Errors
    /// [`CompileError`] if the policy cannot be enforced as it stands, or a limit cannot be shared as it asks.
    pub fn in_fleet(
        table: Table,
        secret: &HashSecret,
        policy: &Policy,
        fleet: Fleet,
    ) -> Result<Self, CompileError> {
        table.forget_leased();
        Self::with(table, secret, policy, Some(fleet))
    }

    fn with(
        table: Table,
        secret: &HashSecret,
        policy: &Policy,
        fleet: Option<Fleet>,
    ) -> Result<Self, CompileError> {
        let hasher = KeyHasher::new(secret);
        let mut numbers = Numbers::default();
        let mut number = |rule: &RuleName, limit: &Limit| numbers.of(rule, limit);
        let compiled = Compiled::new(policy, &hasher, fleet, &mut number)?;
        Ok(Self {
            table,
            hasher,
            compiled: ArcSwap::from_pointee(compiled),
            sharing: fleet.map(|fleet| fleet.sharing),
            numbers: Mutex::new(numbers),
        })
    }

    /// Puts another policy in force, whole or not at all. Counters of limits that both have go on.
    ///
    /// # Errors
    /// [`CompileError`]; the policy before stays in force.
    pub fn install(&self, policy: &Policy) -> Result<(), CompileError> {
        let revision = self.compiled.load().revision;
        self.install_revision(policy, revision)
    }

    /// The same for a node of a fleet, where the policy has a number: see [`Fleet::revision`].
    ///
    /// # Errors
    /// [`CompileError`]; the policy before stays in force.
    pub fn install_revision(&self, policy: &Policy, revision: u64) -> Result<(), CompileError> {
        // A panic elsewhere cannot have left the numbers half-changed: each is one insertion.
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let fleet = self.sharing.map(|sharing| Fleet { sharing, revision });
        let mut number = |rule: &RuleName, limit: &Limit| numbers.of(rule, limit);
        let compiled = Compiled::new(policy, &self.hasher, fleet, &mut number)?;
        self.compiled.store(Arc::new(compiled));
        Ok(())
    }

    /// The policy in force now. A decision borrows from it.
    #[inline]
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.compiled.load()
    }

    /// Decides a request of one or more parts: charges every limit that any part meets, or none.
    #[inline]
    #[must_use]
    pub fn check<'s>(&self, policy: &'s Compiled, parts: &[Part<'_>], now: Now) -> Decision<'s> {
        let resolved = self.resolve(policy, parts);
        self.decide(policy, &resolved, now)
    }

    /// Finds the limits that a request meets and their buckets. The result may be decided on again and again under
    /// the same policy.
    #[must_use]
    pub fn resolve(&self, policy: &Compiled, parts: &[Part<'_>]) -> Resolved {
        Resolved::new(policy, &self.hasher, parts)
    }

    /// Of each limit that a request meets, in the order of [`Decision::outcomes`]: the bucket that it shares with the
    /// fleet at `now`, and under which terms; `None` if it shares none.
    pub fn shared_buckets(
        &self,
        policy: &Compiled,
        parts: &[Part<'_>],
        now: Now,
    ) -> Vec<Option<(Bucket, Terms)>> {
        let resolved = self.resolve(policy, parts);
        let bucket = |index: usize| {
            let charge = &resolved.charges[index];
            let terms = *resolved.terms(policy, index)?;
            let subject = leased::subject(charge.bucket);
            Some((subject.bucket_at(terms.slot_ns(), Wall(now.nanos())), terms))
        };
        (0..resolved.charges.len()).map(bucket).collect()
    }

    /// Decides what was resolved.
    #[inline]
    #[must_use]
    pub fn decide<'s>(&self, policy: &'s Compiled, resolved: &Resolved, now: Now) -> Decision<'s> {
        let mut decision = Decision::new();
        decide::decide(&self.table, policy, resolved, now, &mut decision);
        decision
    }

    /// Decides for a key that was resolved before: no matching, no hashing.
    #[inline]
    #[must_use]
    pub fn check_met<'s>(
        &self,
        policy: &'s Compiled,
        met: &[Met],
        hits: Hits,
        now: Now,
    ) -> Decision<'s> {
        let mut decision = Decision::new();
        decide::decide_met(&self.table, policy, met, hits, now, &mut decision);
        decision
    }

    /// The same, written over an earlier decision: a decision is large, and moving it costs as much as making it.
    #[inline]
    pub fn check_met_into<'s>(
        &self,
        policy: &'s Compiled,
        met: &[Met],
        hits: Hits,
        now: Now,
        decision: &mut Decision<'s>,
    ) {
        decision.outcomes.clear();
        decision.dry.clear();
        decide::decide_met(&self.table, policy, met, hits, now, decision);
    }

    /// The bucket table, for its figures.
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }

    /// The keyed hashes, for what must be named without being shown.
    #[must_use]
    pub const fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }
}

impl Compiled {
    /// What is known of every limit in force.
    pub fn limits(&self) -> impl Iterator<Item = &LimitFacts> {
        self.limits.iter().map(|limit| &limit.facts)
    }

    /// Every limit in force that is shared, as the lease protocol sees it.
    pub fn shared(&self) -> impl Iterator<Item = (&LimitFacts, &Terms)> {
        self.limits
            .iter()
            .filter_map(|limit| Some((&limit.facts, limit.terms.as_ref()?)))
    }

    /// The same, by what a limit is found again by in a later policy.
    pub fn lineages(&self) -> impl Iterator<Item = (Lineage, &Terms)> {
        self.limits
            .iter()
            .filter_map(|limit| Some((limit.lineage, limit.terms.as_ref()?)))
    }

    /// The policy's number in the fleet; 0 of a node alone.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Where requests carry who they are from.
    #[must_use]
    pub const fn identity_reading(&self) -> &IdentityReading {
        &self.identity
    }

    /// How the client's address is found.
    #[must_use]
    pub const fn client_address_reading(&self) -> &ClientAddressReading {
        &self.client_address
    }
}
