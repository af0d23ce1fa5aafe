//! The owner: the only issuer of credit for the buckets that the view gives it.
//!
//! It must never issue what the ledger does not have (S5), never issue for a bucket that an incarnation before it may
//! have served (S10), never forget a ledger entry before its bucket is over (S7), and never take a holder's word for
//! more than that holder was given.

use std::collections::{BTreeMap, BTreeSet};

use crate::audit;
use crate::bucket::{Bucket, Subject, WindowId};
use crate::config::{Config, LEAD, SKEW};
use crate::id::{Epoch, LedgerId, NodeId};
use crate::mutant::Mutant;
use crate::node::Event;
use crate::pledge::Pledges;
use crate::stream::{Incoming, Outgoing};
use crate::terms::Terms;
use crate::time::{Instant, Wall};
use crate::turn::Turn;

mod durable;
mod grant;
mod issue;
pub(crate) mod ledger;
mod recall;
mod record;
mod slots;

use ledger::Entry;
use slots::Carries;

/// What this node, as owner, knows of a holder.
#[derive(Debug, Default)]
pub(crate) struct Holder {
    pub out: Outgoing,
    pub into: Incoming,
    pub epoch: Option<Epoch>,
    pub pledges: Pledges,
    /// When its last report was stored whole.
    pub heard: Option<Instant>,
    /// Buckets that credit is held back of for it, by start.
    pub unsure: BTreeSet<(Wall, Bucket)>,
    /// It was away, and is heard again since.
    pub back_since: Option<Instant>,
}

impl Holder {
    /// S8: whether it has taken no share alone, but for what it listed, of any slot that counts together with a bucket,
    /// nor will. It must have pledged the bucket itself: then no share that it takes later counts together with it, as
    /// the whole span of that must start after all that was ever pledged (S9). For the same reason an earlier slot is
    /// safe if any in the span that ends with it was pledged.
    pub fn pledged(&self, bucket: Bucket, terms: &Terms) -> bool {
        if !self.pledges.covers(bucket.start(terms.slot_ns())) {
            return false;
        }
        let slots = terms.span_slots();
        let mut unpledged = 0;
        for back in (0..=slots * 2).rev() {
            let start = bucket.back(back).start(terms.slot_ns());
            unpledged = if self.pledges.covers(start) {
                0
            } else {
                unpledged + 1
            };
            if back <= slots && unpledged > slots {
                return false;
            }
        }
        true
    }

    /// L: not heard for three paces.
    pub fn is_absent(&self, turn: &Turn<'_>) -> bool {
        self.heard.is_none_or(|at| {
            turn.time.instant.since(at) > turn.config.round * 3 * turn.config.idle_pace
        })
    }

    /// L: there, and if it was away then back for one full round.
    pub fn is_settled(&self, turn: &Turn<'_>) -> bool {
        let back = self
            .back_since
            .is_none_or(|at| turn.time.instant.since(at) >= turn.config.round);
        back && !self.is_absent(turn)
    }
}

/// S7: how long an entry is kept: until its bucket has ended plus two rounds, and a span longer if later slots count it.
pub(crate) fn keep_until(bucket: Bucket, terms: &Terms, turn: &Turn<'_>) -> Wall {
    let last = Bucket {
        window: WindowId(bucket.window.0.saturating_add(terms.span_slots())),
        ..bucket
    };
    last.end(terms.slot_ns()).plus(turn.config.round * 2)
}

#[derive(Debug)]
pub(crate) struct Owner {
    ledger: BTreeMap<Bucket, Entry>,
    holders: BTreeMap<NodeId, Holder>,
    ends: BTreeSet<(Wall, Bucket)>,
    /// Buckets that may have something to hand out.
    stirred: BTreeSet<Bucket>,
    /// What must be told at once, by holder.
    urgent: BTreeMap<NodeId, Vec<Bucket>>,
    pub ledger_id: LedgerId,
    /// S10: earlier starts are not issued by this incarnation.
    pub authority_from: Wall,
    levels: (u64, u64),
    round: u64,
    full_told: u64,
    carries: Carries,
}

impl Owner {
    pub fn new(ledger_id: LedgerId, boot: Wall, config: &Config) -> Self {
        let authority_from = if boot.0 == 0 || config.broken(Mutant::NoAuthority) {
            Wall(0)
        } else {
            boot.plus(LEAD + SKEW)
        };
        Self {
            ledger: BTreeMap::new(),
            holders: BTreeMap::new(),
            ends: BTreeSet::new(),
            stirred: BTreeSet::new(),
            urgent: BTreeMap::new(),
            ledger_id,
            authority_from,
            levels: (0, 0),
            round: 0,
            full_told: 0,
            carries: Carries::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.ledger.len()
    }

    pub fn holder(&mut self, node: NodeId) -> &mut Holder {
        self.holders.entry(node).or_default()
    }

    /// A holder's new incarnation knows nothing: what the one before was to be told is moot.
    pub fn new_holder_incarnation(&mut self, node: NodeId, epoch: Epoch) {
        let holder = self.holder(node);
        holder.epoch = Some(epoch);
        holder.out.clear();
        holder.into = Incoming::default();
        for entry in self.ledger.values_mut() {
            if let Some(place) = entry.place(node) {
                entry.accounts[place].quiet();
            }
        }
    }

    /// Takes over newer terms of a key, if it has any bucket of it.
    pub fn retune(&mut self, subject: Subject, terms: Terms, turn: &mut Turn<'_>) {
        let buckets: Vec<Bucket> = self
            .ledger
            .range(subject.buckets())
            .map(|(bucket, _)| *bucket)
            .collect();
        for bucket in buckets {
            self.adopt(bucket, terms, turn);
        }
    }

    /// Finds or begins a ledger entry. `None` if the ledger is full (S7: nothing is dropped early for it).
    fn open(&mut self, bucket: Bucket, terms: Terms, turn: &mut Turn<'_>) -> Option<&mut Entry> {
        if !self.ledger.contains_key(&bucket) {
            if self.ledger.len() >= turn.config.most_owned {
                turn.stats.owned_refused += 1;
                if self.full_told != self.round {
                    self.full_told = self.round;
                    turn.event(Event::LedgerFull);
                }
                return None;
            }
            let start = bucket.start(terms.slot_ns());
            let anchor = terms.anchor(bucket);
            let span = start > anchor;
            let authority = terms.durable
                || anchor >= self.authority_from
                    && turn
                        .views
                        .governing(start)
                        .is_some_and(|view| !span || anchor >= view.active_from);
            let mut entry = Entry::new(bucket, terms, authority);
            if !terms.durable
                && !turn.config.broken(Mutant::NoHoldback)
                && let Some(view) = turn.views.governing(start)
            {
                for member in &view.members {
                    let pledged = self
                        .holders
                        .get(member)
                        .is_some_and(|holder| holder.pledged(bucket, &terms));
                    if !pledged {
                        let share = view.share_of(bucket, &terms, *member);
                        entry.unpledged.push((*member, share));
                        let holder = self.holders.entry(*member).or_default();
                        holder.unsure.insert((start, bucket));
                    }
                }
            }
            let (out, held) = entry.levels();
            self.levels = (self.levels.0 + out, self.levels.1 + held);
            self.ends.insert((keep_until(bucket, &terms, turn), bucket));
            self.ledger.insert(bucket, entry);
        }
        self.ledger.get_mut(&bucket)
    }

    /// Does something to an entry, and keeps the levels and the invariant.
    fn with<R>(
        &mut self,
        bucket: Bucket,
        turn: &mut Turn<'_>,
        change: impl FnOnce(&mut Entry, &BTreeMap<NodeId, Holder>, &mut Turn<'_>) -> R,
    ) -> Option<R> {
        let entry = self.ledger.get_mut(&bucket)?;
        let before = entry.levels();
        let result = change(entry, &self.holders, turn);
        let after = entry.levels();
        self.levels.0 = self
            .levels
            .0
            .saturating_sub(before.0)
            .saturating_add(after.0);
        self.levels.1 = self
            .levels
            .1
            .saturating_sub(before.1)
            .saturating_add(after.1);
        if !entry.broken && !entry.adds_up() {
            debug_assert!(turn.config.any_broken(), "S5: {bucket:?} {entry:?}");
            entry.broken = true;
            turn.stats.invariant_broken += 1;
            turn.event(Event::InvariantBroken(bucket));
        }
        Some(result)
    }

    /// Says at once how a bucket stands with a holder.
    fn hurry(&mut self, node: NodeId, bucket: Bucket) {
        self.holder(node).out.touch(bucket);
        let urgent = self.urgent.entry(node).or_default();
        if !urgent.contains(&bucket) {
            urgent.push(bucket);
        }
    }

    pub fn take_urgent(&mut self) -> BTreeMap<NodeId, Vec<Bucket>> {
        std::mem::take(&mut self.urgent)
    }

    /// One round: hands out what is free where somebody wants it, and drops what is over.
    pub fn round(&mut self, turn: &mut Turn<'_>) {
        self.round += 1;
        for bucket in std::mem::take(&mut self.stirred) {
            self.hand_out(bucket, false, turn);
        }
        while let Some((until, bucket)) = self.ends.first().copied()
            && until <= turn.time.sure
        {
            self.ends.pop_first();
            self.carry_over(bucket, turn);
            self.drop_entry(bucket);
        }
        self.forget_full(turn);
        (turn.stats.credit_outstanding, turn.stats.holdback_units) = self.levels;
    }

    fn drop_entry(&mut self, bucket: Bucket) {
        if let Some(entry) = self.ledger.remove(&bucket) {
            let (out, held) = entry.levels();
            self.levels.0 = self.levels.0.saturating_sub(out);
            self.levels.1 = self.levels.1.saturating_sub(held);
            self.stirred.remove(&bucket);
            for account in &entry.accounts {
                if let Some(holder) = self.holders.get_mut(&account.node) {
                    holder.out.forget(bucket);
                }
            }
            for (node, _) in &entry.unpledged {
                if let Some(holder) = self.holders.get_mut(node) {
                    holder.unsure.remove(&(entry.start, bucket));
                }
            }
        }
    }

    pub fn audit(&self) -> impl Iterator<Item = audit::Owned> + '_ {
        self.ledger.iter().map(|(bucket, entry)| audit::Owned {
            bucket: *bucket,
            terms: entry.terms,
            allowance: entry.allowance(),
            charged: entry.charged(),
            authority: entry.authority,
            accounts: entry
                .accounts
                .iter()
                .map(|account| audit::Account {
                    node: account.node,
                    granted: account.granted(),
                    returned: account.returned(),
                    self_granted: account.self_granted(),
                    holdback: entry.holdback(account.node),
                    spent: account.spent(),
                    available: account.available,
                })
                .collect(),
        })
    }

    pub fn folds(&self, now: Instant) -> impl Iterator<Item = audit::Fold> + '_ {
        self.holders.iter().map(move |(node, holder)| audit::Fold {
            node: *node,
            epoch: holder.epoch,
            age: holder.heard.map(|at| now.since(at)),
        })
    }

    /// The buckets with the most demand, in units a second, busiest first.
    pub fn busiest(&self, most: usize, now: Wall) -> Vec<(Bucket, u64)> {
        let mut busy: Vec<(Bucket, u64)> = self
            .ledger
            .iter()
            .map(|(bucket, entry)| {
                let left = entry.end.0.saturating_sub(now.0.max(entry.start.0)).max(1);
                let demand: u128 = entry.accounts.iter().map(|a| u128::from(a.demand)).sum();
                let rate = demand * 1_000_000_000 / u128::from(left);
                (*bucket, u64::try_from(rate).unwrap_or(u64::MAX))
            })
            .filter(|(_, rate)| *rate > 0)
            .collect();
        busy.sort_by_key(|(bucket, rate)| (std::cmp::Reverse(*rate), *bucket));
        busy.truncate(most);
        busy
    }
}
