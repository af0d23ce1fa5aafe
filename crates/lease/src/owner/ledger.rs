//! One bucket in an owner's ledger: who was issued what, and the sum that must never exceed the allowance (S5).
//!
//! Totals are kept per holder, epoch and generation and only ever grow; they are added up, never replaced (S2). Nothing
//! here may lower a charge but a holder's own word that credit came back.

use super::durable::Durable;
use crate::bucket::Bucket;
use crate::config::Config;
use crate::id::{Epoch, Generation, NodeId, Seq};
use crate::mutant::Mutant;
use crate::terms::{Shape, Terms};
use crate::time::{Instant, Wall};

/// The most incarnations and generations of one holder in one bucket.
const MOST_LIVES: usize = 4096;

/// What one record of one incarnation of a holder was issued, and says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub epoch: Epoch,
    pub generation: Generation,
    pub granted: u64,
    /// Of it, what came back to this ledger; never more than was granted.
    pub returned: u64,
    pub self_granted: u64,
    pub spent: u64,
    /// Only under a mutant: issued, but not charged yet.
    pub uncharged: u64,
}

/// A holder's account for one bucket.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub node: NodeId,
    pub lives: Vec<Life>,
    /// The report that the following were taken from (L).
    pub seq: Seq,
    pub demand: u64,
    pub available: u64,
    pub pending: u64,
    pub quantum: u64,
    /// It has been told that nothing is left.
    pub exhausted: bool,
    pub recall_to: Option<u64>,
    pub recalled_at: Option<Instant>,
    pub issued_at: Option<Instant>,
}

#[derive(Debug)]
pub(crate) struct Entry {
    pub terms: Terms,
    pub start: Wall,
    pub end: Wall,
    /// S10: whether this incarnation may issue.
    pub authority: bool,
    /// It did not add up once: nothing more is issued.
    pub broken: bool,
    /// Units that resets have added.
    pub added: u64,
    /// What a slot may admit, as last computed; whole windows have their units.
    pub ceiling: u64,
    /// A token bucket's slot has issued: its ceiling stays.
    pub fixed: bool,
    /// Its standing with the store, if it is a durable limit's.
    pub durable: Option<Durable>,
    /// The requests that they came from.
    pub resets: Vec<u128>,
    /// The largest allowance that anybody has counted by.
    pub most: u64,
    pub accounts: Vec<Account>,
    /// Members that had not pledged this start when last asked (S8).
    pub unpledged: Vec<(NodeId, u64)>,
    /// Whose turn it is for what cannot be split evenly.
    pub turn: usize,
}

impl Account {
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            lives: Vec::new(),
            seq: Seq(0),
            demand: 0,
            available: 0,
            pending: 0,
            quantum: 1,
            exhausted: false,
            recall_to: None,
            recalled_at: None,
            issued_at: None,
        }
    }

    /// Forgets what the holder was last heard to want and have: it is another incarnation now.
    pub fn quiet(&mut self) {
        let (node, lives) = (self.node, std::mem::take(&mut self.lives));
        *self = Self {
            lives,
            ..Self::new(node)
        };
    }

    /// It was issued something: what it was told before is no longer so.
    pub const fn settled(&mut self, now: Instant) {
        self.issued_at = Some(now);
        self.exhausted = false;
        self.recall_to = None;
        self.recalled_at = None;
    }

    pub fn granted(&self) -> u64 {
        self.lives.iter().map(|life| life.granted).sum()
    }

    pub fn returned(&self) -> u64 {
        self.lives.iter().map(|life| life.returned).sum()
    }

    pub fn self_granted(&self) -> u64 {
        self.lives
            .iter()
            .fold(0, |sum, life| life.self_granted.saturating_add(sum))
    }

    pub fn spent(&self) -> u64 {
        self.lives
            .iter()
            .fold(0, |sum, life| life.spent.saturating_add(sum))
    }

    /// Units issued that have not come back.
    pub fn out(&self) -> u64 {
        self.lives
            .iter()
            .map(|life| life.granted - life.returned - life.uncharged)
            .sum()
    }

    pub fn newest(&self) -> Option<&Life> {
        self.lives
            .iter()
            .max_by_key(|life| (life.epoch, life.generation))
    }

    pub fn newest_mut(&mut self) -> Option<&mut Life> {
        self.lives
            .iter_mut()
            .max_by_key(|life| (life.epoch, life.generation))
    }

    /// Whether a record is known, or there is room for another: no peer may fill the memory with generations.
    pub fn has_room(&self, epoch: Epoch, generation: Generation) -> bool {
        self.lives.len() < MOST_LIVES
            || self
                .lives
                .iter()
                .any(|life| life.epoch == epoch && life.generation == generation)
    }

    /// The record of one incarnation and generation; a new one is all zero.
    pub fn life(&mut self, epoch: Epoch, generation: Generation, config: &Config) -> &mut Life {
        let known = self
            .lives
            .iter()
            .position(|life| life.epoch == epoch && life.generation == generation);
        let place = match known {
            Some(place) => place,
            None => {
                if config.broken(Mutant::NoEpochSum) {
                    self.lives.retain(|life| life.epoch == epoch);
                }
                self.lives.push(Life {
                    epoch,
                    generation,
                    granted: 0,
                    returned: 0,
                    self_granted: 0,
                    spent: 0,
                    uncharged: 0,
                });
                self.lives.len() - 1
            }
        };
        &mut self.lives[place]
    }
}

impl Entry {
    pub fn new(bucket: Bucket, terms: Terms, authority: bool) -> Self {
        Self {
            terms,
            start: bucket.start(terms.slot_ns()),
            end: bucket.end(terms.slot_ns()),
            authority,
            broken: false,
            added: 0,
            ceiling: 0,
            fixed: false,
            durable: terms.durable.then(Durable::default),
            resets: Vec::new(),
            most: terms.most(),
            accounts: Vec::new(),
            unpledged: Vec::new(),
            turn: 0,
        }
    }

    /// A(b).
    pub const fn allowance(&self) -> u64 {
        let units = match self.terms.shape {
            Shape::FixedWindow => self.terms.units,
            Shape::SlidingWindow | Shape::TokenBucket { .. } => self.ceiling,
        };
        let units = units.saturating_add(self.added);
        match &self.durable {
            Some(durable) => durable.allowance(units),
            None => units,
        }
    }

    pub fn holdback(&self, node: NodeId) -> u64 {
        self.unpledged
            .iter()
            .find(|(member, _)| *member == node)
            .map_or(0, |(_, share)| *share)
    }

    pub fn place(&self, node: NodeId) -> Option<usize> {
        self.accounts
            .binary_search_by_key(&node, |account| account.node)
            .ok()
    }

    pub fn account(&mut self, node: NodeId) -> &mut Account {
        let place = match self
            .accounts
            .binary_search_by_key(&node, |account| account.node)
        {
            Ok(place) => place,
            Err(place) => {
                self.accounts.insert(place, Account::new(node));
                place
            }
        };
        &mut self.accounts[place]
    }

    /// The sum before S5: what is out, plus per holder the larger of what it took alone and what is held back for it.
    pub fn charged(&self) -> u64 {
        let mut sum: u64 = 0;
        for account in &self.accounts {
            let alone = account.self_granted().max(self.holdback(account.node));
            sum = sum.saturating_add(account.out()).saturating_add(alone);
        }
        for (node, share) in &self.unpledged {
            if self.place(*node).is_none() {
                sum = sum.saturating_add(*share);
            }
        }
        sum
    }

    pub fn free(&self) -> u64 {
        self.allowance().saturating_sub(self.charged())
    }

    /// What may still be admitted, fleet-wide, as far as it was told: for display only.
    pub fn remaining(&self) -> u64 {
        self.accounts.iter().fold(self.free(), |sum, account| {
            sum.saturating_add(account.available.min(account.out()))
        })
    }

    /// L: so many holders ask for so few units that whatever one of them keeps is missing elsewhere.
    pub fn is_sparse(&self) -> bool {
        let asking = self
            .accounts
            .iter()
            .filter(|account| account.demand > 0 || account.pending > 0)
            .count() as u64;
        asking >= 3 && self.allowance() < asking * 3
    }

    /// L: after issuing, says "exhausted" with the credit where nothing is left and nobody else has any.
    pub fn mark_last(&mut self, place: usize) {
        let elsewhere = self
            .accounts
            .iter()
            .enumerate()
            .any(|(other, account)| other != place && account.available > 0);
        let units = self.terms.units.saturating_add(self.added);
        let more_to_come = self.durable.is_some_and(|durable| durable.usable < units);
        if self.free() == 0 && !elsewhere && !more_to_come {
            self.accounts[place].exhausted = true;
        }
    }

    /// Units out at holders, and units held back.
    pub fn levels(&self) -> (u64, u64) {
        let out = self
            .accounts
            .iter()
            .fold(0_u64, |sum, account| sum.saturating_add(account.out()));
        let held = self
            .unpledged
            .iter()
            .fold(0_u64, |sum, (_, share)| sum.saturating_add(*share));
        (out, held)
    }

    /// S5: charges units to a holder's newest record, before anything is sent. Issues nothing, and says so, if they are
    /// not there.
    pub fn issue(&mut self, place: usize, units: u64, config: &Config) -> bool {
        let late = config.broken(Mutant::SendBeforeCharge);
        if units == 0 || self.broken || units > self.free() {
            return false;
        }
        let Some(life) = self.accounts[place].newest_mut() else {
            return false;
        };
        life.granted = life.granted.saturating_add(units);
        self.fixed = true;
        if late {
            life.uncharged += units;
        }
        debug_assert!(late || self.charged() <= self.allowance(), "S5: {self:?}");
        true
    }

    /// Whether the ledger adds up: never more than the largest allowance in force since the bucket began.
    pub fn adds_up(&self) -> bool {
        self.charged() <= self.most.saturating_add(self.added)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bucket::{Subject, WindowId};
    use crate::terms::{Mode, OnDegraded};

    const EPOCH: Epoch = Epoch { count: 1, nonce: 7 };

    fn entry(units: u64) -> Entry {
        let terms = Terms {
            units,
            window_ns: 1_000_000_000,
            shape: Shape::FixedWindow,
            durable: false,
            on_degraded: OnDegraded::FairShare,
            mode: Mode::Lease,
            revision: 1,
        };
        let bucket = Bucket {
            subject: Subject(5),
            window: WindowId(9),
        };
        Entry::new(bucket, terms, true)
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_and_comes_back_the_charge_stays_within_the_allowance(
            units in 0_u64..500, unpledged in proptest::collection::vec(0_u64..40, 0..6),
            steps in proptest::collection::vec((0_u64..6, 0_u64..4, 0_u64..120, any::<bool>()), 0..60),
        ) {
            let config = Config::default();
            let mut entry = entry(units);
            entry.unpledged = unpledged.iter().enumerate().map(|(node, share)| (NodeId(node as u64), *share)).collect();
            prop_assume!(entry.charged() <= units);
            for (node, generation, amount, issue) in steps {
                entry.account(NodeId(node)).life(EPOCH, Generation(generation), &config);
                let place = entry.place(NodeId(node)).unwrap();
                let before = entry.charged();
                if issue {
                    let free = entry.free();
                    prop_assert_eq!(entry.issue(place, amount, &config), amount > 0 && amount <= free);
                } else {
                    let life = entry.accounts[place].newest_mut().unwrap();
                    life.returned = life.granted.min(life.returned + amount);
                    prop_assert!(entry.charged() <= before);
                }
                prop_assert!(entry.charged() <= entry.allowance());
                prop_assert!(entry.adds_up());
            }
        }
    }

    #[test]
    fn a_share_taken_alone_replaces_what_was_held_back_for_it() {
        let mut entry = entry(10);
        entry.unpledged = vec![(NodeId(1), 4), (NodeId(2), 3)];
        assert_eq!((entry.charged(), entry.free()), (7, 3));
        let life = entry
            .account(NodeId(1))
            .life(EPOCH, Generation(1), &Config::default());
        life.self_granted = 4;
        assert_eq!(entry.charged(), 7);
        entry.unpledged.retain(|(node, _)| *node == NodeId(1));
        assert_eq!(entry.charged(), 4);
    }
}
