//! Which limits are enforced without their owner, because that has been out of contact for too long.
//!
//! It only tells of what the protocol has found; what a node then does is the protocol's, by the limit's `on_degraded`.

use std::collections::BTreeSet;

use gate::time::Now;
use gate::{Compiled, Decision, Gate, Part, Refusal, Verdict};
use lease::bucket::Bucket;
use lease::id::NodeId;
use lease::terms::{Mode, OnDegraded, Terms};
use lease::time::Wall;
use lease::view::View;

use super::Fleet;

/// Owners out of contact, and what they own. There is at least one.
#[derive(Debug)]
pub struct Degraded {
    /// In order of when they begin to hold.
    pub views: Vec<View>,
    /// Who is out of contact.
    pub owners: BTreeSet<NodeId>,
}

impl Degraded {
    fn concerns(&self, bucket: Bucket, terms: &Terms, now: Wall) -> bool {
        // A durable bucket is the present owner's.
        let when = if terms.durable {
            now
        } else {
            bucket.start(terms.slot_ns())
        };
        let governing = self
            .views
            .iter()
            .rev()
            .find(|view| view.active_from <= when);
        terms.mode == Mode::Lease
            && governing.is_some_and(|view| self.owners.contains(&view.issuer(bucket, terms)))
    }
}

/// Whether a decision rests on a limit that is enforced without its owner. If such a limit refuses and is to fail closed,
/// then that is no used-up quota: the verdict becomes [`Refusal::Unavailable`].
///
/// `parts`, `policy` and `now` are what was decided on. While all owners are in contact this costs one load.
pub(crate) fn is_degraded(
    fleet: Option<&Fleet>,
    gate: &Gate,
    policy: &Compiled,
    parts: &[Part<'_>],
    now: Now,
    decision: &mut Decision<'_>,
) -> bool {
    let Some(degraded) = fleet.and_then(|fleet| fleet.degraded.load_full()) else {
        return false;
    };
    let mut found = false;
    let shared = gate.shared_buckets(policy, parts, now);
    for (outcome, shared) in decision.outcomes.iter().zip(shared) {
        let enforces = outcome.facts.mode == policy::model::Mode::Enforce;
        let Some((bucket, terms)) = shared.filter(|_| enforces) else {
            continue;
        };
        if !degraded.concerns(bucket, &terms, Wall(now.nanos())) {
            continue;
        }
        found = true;
        if decision.verdict == Verdict::Refused(Refusal::OverLimit)
            && !outcome.has_room
            && terms.on_degraded == OnDegraded::FailClosed
        {
            decision.verdict = Verdict::Refused(Refusal::Unavailable);
        }
    }
    found
}
