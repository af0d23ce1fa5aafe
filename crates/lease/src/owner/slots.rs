//! Limits that are issued in slots (section 7a): how much one slot may admit, given the slots before it.
//!
//! *Sliding window*: what is charged over a slot and the ten before it, with shares held back once, stays within the
//! units. *Token bucket*: a slot has what the one before left over plus the inflow, at most the burst, fixed when it
//! first issues. A slot must never count on credit that may still be spent in an earlier one.

use std::collections::{BTreeMap, BTreeSet};

use crate::bucket::{Bucket, Subject, WindowId};
use crate::terms::{Shape, Terms};
use crate::time::Wall;
use crate::turn::Turn;

use super::Owner;
use super::ledger::Entry;

/// Slots without an entry that are gone through one by one where somebody may have taken a share alone; what lies before
/// them counts as empty.
const MOST_STEPS: u64 = 64;

/// What was left of token buckets in slots whose entries are gone.
#[derive(Debug, Default)]
pub(super) struct Carries {
    left: BTreeMap<Subject, Carry>,
    /// When each is full at the latest, and can be forgotten.
    full: BTreeSet<(Wall, Subject)>,
}

#[derive(Clone, Copy, Debug)]
struct Carry {
    window: WindowId,
    left: u64,
    full: Wall,
}

impl Owner {
    /// Computes what a slot may admit.
    pub(super) fn set_ceiling(&mut self, bucket: Bucket, turn: &mut Turn<'_>) {
        self.provision(bucket, turn);
        let Some(entry) = self.ledger.get(&bucket) else {
            return;
        };
        let ceiling = match entry.terms.shape {
            Shape::FixedWindow => return,
            Shape::SlidingWindow => self.sliding(bucket, entry),
            Shape::TokenBucket { .. } if entry.fixed => return,
            Shape::TokenBucket { burst } => self.tokens(bucket, &entry.terms, burst, turn),
        };
        if let Some(entry) = self.ledger.get_mut(&bucket) {
            entry.ceiling = ceiling;
        }
    }

    /// What is charged to this slot now, and what more fits into every span that it is part of. In each, shares are
    /// held back for who has not pledged *this* slot: who has can take none that counts together with it.
    fn sliding(&self, bucket: Bucket, entry: &Entry) -> u64 {
        let units = entry.terms.units;
        let charged = entry.charged();
        let later = bucket..=bucket.subject.last();
        let slack = self
            .ledger
            .range(later)
            .map(|(end, _)| units.saturating_sub(self.span_charge(*end, entry)))
            .min();
        charged.saturating_add(slack.unwrap_or(0))
    }

    /// What is charged over the span that ends with a slot: credit once per slot, shares taken alone or held back once
    /// per member.
    fn span_charge(&self, end: Bucket, slot: &Entry) -> u64 {
        let first = end.back(slot.terms.span_slots());
        let mut sum: u64 = 0;
        let mut alone: BTreeMap<_, u64> = BTreeMap::new();
        for (_, entry) in self.ledger.range(first..=end) {
            for account in &entry.accounts {
                sum = sum.saturating_add(account.out());
                let taken = alone.entry(account.node).or_default();
                *taken = taken.saturating_add(account.self_granted());
            }
        }
        for (node, share) in &slot.unpledged {
            let taken = alone.entry(*node).or_default();
            *taken = (*taken).max(*share);
        }
        alone
            .values()
            .fold(sum, |sum, taken| sum.saturating_add(*taken))
    }

    /// What a token bucket's slot begins with.
    fn tokens(&self, bucket: Bucket, terms: &Terms, burst: u64, turn: &Turn<'_>) -> u64 {
        let before = if bucket.window.0 == 0 {
            0
        } else {
            self.left_after(bucket.back(1), terms, burst, turn)
        };
        before.saturating_add(terms.inflow(bucket)).min(burst)
    }

    /// What is left when a slot has ended.
    fn left_after(&self, last: Bucket, terms: &Terms, burst: u64, turn: &Turn<'_>) -> u64 {
        // From the newest slot whose rest is known; else from where this owner's authority begins, with nothing.
        let begin = self.authority_slot(last, terms, turn);
        let known = self
            .ledger
            .range(last.first()..=last)
            .rev()
            .find(|(_, entry)| entry.fixed)
            .map(|(slot, entry)| (slot.window, entry.ceiling.saturating_sub(entry.charged())));
        let carried = self
            .carries
            .left
            .get(&last.subject)
            .map(|carry| (carry.window, carry.left));
        let known = match (known, carried) {
            (Some(entry), Some(carry)) => Some(if carry.0 > entry.0 { carry } else { entry }),
            (entry, carry) => entry.or(carry),
        };
        // Between views another may have issued.
        let known = known.filter(|(window, _)| *window >= begin.window);
        let (mut slot, mut left) = match known {
            Some((window, left)) => (
                Bucket {
                    window: WindowId(window.0 + 1),
                    ..last
                },
                left,
            ),
            None => (begin, 0),
        };
        if slot.window <= last.window && self.all_pledged(slot, last, terms, turn) {
            return left
                .saturating_add(terms.inflow_between(slot, last))
                .min(burst);
        }
        let earliest = last.back(MOST_STEPS - 1);
        if slot < earliest {
            (slot, left) = (earliest, 0);
        }
        while slot.window <= last.window {
            left = left.saturating_add(terms.inflow(slot)).min(burst);
            left = left.saturating_sub(self.perhaps_spent(slot, terms, turn));
            slot = slot.next();
        }
        left
    }

    /// The first slot that this incarnation may issue for under the view of the slot after `last`.
    fn authority_slot(&self, last: Bucket, terms: &Terms, turn: &Turn<'_>) -> Bucket {
        let active = turn
            .views
            .governing(last.end(terms.slot_ns()))
            .map_or(Wall(u64::MAX), |view| view.active_from);
        let from = self.authority_from.max(active);
        if from.0 == 0 {
            return last.first();
        }
        last.subject.bucket_at(terms.slot_ns(), from).next()
    }

    /// Whether nobody can have taken a share alone in these slots, and none of them has an entry.
    fn all_pledged(&self, first: Bucket, last: Bucket, terms: &Terms, turn: &Turn<'_>) -> bool {
        let (from, to) = (first.start(terms.slot_ns()), last.start(terms.slot_ns()));
        let Some(view) = turn.views.governing(to) else {
            return false;
        };
        self.ledger.range(first..=last).next().is_none()
            && view.members.iter().all(|member| {
                self.holders
                    .get(member)
                    .is_some_and(|holder| holder.pledges.covers_all(from, to))
            })
    }

    /// What may have been spent in a slot in which nothing was issued.
    fn perhaps_spent(&self, slot: Bucket, terms: &Terms, turn: &Turn<'_>) -> u64 {
        if let Some(entry) = self.ledger.get(&slot) {
            return entry.charged();
        }
        let start = slot.start(terms.slot_ns());
        let Some(view) = turn.views.governing(start) else {
            return u64::MAX;
        };
        view.members
            .iter()
            .filter(|member| {
                !self
                    .holders
                    .get(member)
                    .is_some_and(|holder| holder.pledges.covers(start))
            })
            .fold(0, |sum, member| {
                view.share_of(slot, terms, *member).saturating_add(sum)
            })
    }

    /// Keeps what a token bucket's slot has left before its entry goes.
    pub(super) fn carry_over(&mut self, bucket: Bucket, turn: &Turn<'_>) {
        let Some(entry) = self.ledger.get(&bucket) else {
            return;
        };
        let Shape::TokenBucket { burst } = entry.terms.shape else {
            return;
        };
        let terms = entry.terms;
        let left = if entry.fixed {
            entry.ceiling.saturating_sub(entry.charged())
        } else {
            self.left_after(bucket, &terms, burst, turn)
        };
        let older = self
            .carries
            .left
            .get(&bucket.subject)
            .is_none_or(|carry| carry.window < bucket.window);
        if older {
            // An empty bucket is full after burst / rate.
            let fill =
                u128::from(burst) * u128::from(terms.window_ns) / u128::from(terms.units.max(1));
            let fill = u64::try_from(fill).unwrap_or(u64::MAX);
            let full = Wall(
                turn.time
                    .sure
                    .0
                    .saturating_add(fill)
                    .saturating_add(terms.window_ns),
            );
            let carry = Carry {
                window: bucket.window,
                left,
                full,
            };
            if let Some(before) = self.carries.left.insert(bucket.subject, carry) {
                self.carries.full.remove(&(before.full, bucket.subject));
            }
            self.carries.full.insert((full, bucket.subject));
        }
    }

    /// A share was taken alone in a slot that is gone: nothing of what was there before is counted on any more.
    pub(super) fn empty(&mut self, bucket: Bucket, terms: &Terms, turn: &Turn<'_>) {
        if !matches!(terms.shape, Shape::TokenBucket { .. }) || terms.window_ns == 0 {
            return;
        }
        let now = bucket.subject.bucket_at(terms.slot_ns(), turn.time.sure);
        let full = Wall(u64::MAX);
        let carry = Carry {
            window: now.back(1).window,
            left: 0,
            full,
        };
        if let Some(before) = self.carries.left.insert(bucket.subject, carry) {
            self.carries.full.remove(&(before.full, bucket.subject));
        }
        self.carries.full.insert((full, bucket.subject));
    }

    /// Forgets what has been full for a while: as much would flow in from nothing.
    pub(super) fn forget_full(&mut self, turn: &Turn<'_>) {
        while let Some((full, subject)) = self.carries.full.first().copied()
            && full <= turn.time.sure
        {
            self.carries.full.pop_first();
            self.carries.left.remove(&subject);
        }
    }
}
