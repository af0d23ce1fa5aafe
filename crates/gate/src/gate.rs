//! The gate: a table, a policy in force, and the decision over both.
//!
//! [`Gate::check`] is the whole decision path. It takes no lock and does no IO, and allocates nothing for a request
//! with at most four limits and a path, host and key of common length.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use policy::model::{ClientAddressReading, IdentityReading, Limit, LimitName, Policy, RuleName};

use crate::compile::{CompileError, Compiled};
use crate::decide;
use crate::decision::{Decision, LimitFacts, LimitNumber};
use crate::hash::{HashSecret, KeyHasher};
use crate::request::{Hits, Part};
use crate::resolve::{Met, Resolved};
use crate::table::Table;
use crate::time::Now;

/// Decides. Shared by all threads of a process.
pub struct Gate {
    table: Table,
    hasher: KeyHasher,
    compiled: ArcSwap<Compiled>,
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
    /// Puts a table under a policy.
    ///
    /// # Errors
    /// [`CompileError`] if the policy cannot be enforced as it stands.
    pub fn new(table: Table, secret: &HashSecret, policy: &Policy) -> Result<Self, CompileError> {
        let hasher = KeyHasher::new(secret);
        let mut numbers = Numbers::default();
        let compiled = Compiled::new(policy, &hasher, &mut |rule, limit| numbers.of(rule, limit))?;
        Ok(Self {
            table,
            hasher,
            compiled: ArcSwap::from_pointee(compiled),
            numbers: Mutex::new(numbers),
        })
    }

    /// Puts another policy in force, whole or not at all. Counters of limits that both have go on.
    ///
    /// # Errors
    /// [`CompileError`]; the policy before stays in force.
    pub fn install(&self, policy: &Policy) -> Result<(), CompileError> {
        // A panic elsewhere cannot have left the numbers half-changed: each is one insertion.
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let compiled = Compiled::new(policy, &self.hasher, &mut |rule, limit| {
            numbers.of(rule, limit)
        })?;
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
