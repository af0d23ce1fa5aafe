//! Fetching credit back (L): when somebody asks and nothing is free, from who has more than its fair part; and when the
//! allowance was lowered. A recall is a wish: only what the holder says has come back is free again.

use crate::bucket::Bucket;
use crate::fair::{Want, split};
use crate::id::NodeId;
use crate::turn::Turn;

use super::Owner;
use super::ledger::Entry;

/// The most resets of one bucket.
const MOST_RESETS: usize = 64;

impl Owner {
    /// Requests wait and too little is free: recalls what others have beyond their fair part, or tells the waiting that
    /// nothing is left. Returns whom to tell.
    pub(super) fn fetch(&mut self, bucket: Bucket, turn: &mut Turn<'_>) -> Vec<NodeId> {
        let told = self.with(bucket, turn, |entry, holders, turn| {
            let mut told = Vec::new();
            let alloc = if entry.is_sparse() {
                // A request that waits is surer than one that may come.
                vec![0; entry.accounts.len()]
            } else {
                fair_parts(entry, entry.free())
            };
            // More may be authorized yet: a durable limit's store has been asked.
            let mut coming = entry.durable.is_some_and(|durable| durable.is_waiting());
            for (place, part) in alloc.into_iter().enumerate() {
                let account = &mut entry.accounts[place];
                let waits = account.pending > 0;
                let absent = holders
                    .get(&account.node)
                    .is_none_or(|holder| holder.is_absent(turn));
                let surplus = account.available.min(account.out()).saturating_sub(part);
                if waits || surplus == 0 || absent {
                    continue;
                }
                coming = true;
                let just_issued = account
                    .issued_at
                    .is_some_and(|at| turn.time.instant.since(at) < turn.config.fast_path_deadline);
                if just_issued {
                    // For a request that waits there: it must be able to use it first.
                    continue;
                }
                let lately = account
                    .recalled_at
                    .is_some_and(|at| turn.time.instant.since(at) < turn.config.round);
                if account.recall_to.is_none_or(|to| part < to) || !lately {
                    account.recall_to = Some(part);
                    account.recalled_at = Some(turn.time.instant);
                    turn.stats.recalls += 1;
                    told.push(account.node);
                }
            }
            if !coming {
                for account in &mut entry.accounts {
                    if account.pending > 0 {
                        account.exhausted = true;
                        account.pending = 0;
                        told.push(account.node);
                    }
                }
            }
            told
        });
        told.unwrap_or_default()
    }

    /// Raises the allowance by what was spent, as far as it was told, once for each request.
    pub fn reset(&mut self, bucket: Bucket, request: u128, turn: &mut Turn<'_>) {
        let done = self.with(bucket, turn, |entry, _, _| {
            if entry.resets.len() >= MOST_RESETS || entry.resets.contains(&request) {
                return false;
            }
            entry.resets.push(request);
            let spent = entry
                .accounts
                .iter()
                .fold(0_u64, |sum, account| sum.saturating_add(account.spent()));
            // What was given back by an earlier reset is not given back again.
            let more = spent.saturating_sub(entry.added);
            entry.added = entry.added.saturating_add(more);
            more > 0
        });
        if done == Some(true) {
            self.units_changed(bucket, false, turn);
        }
    }

    /// The allowance is another. A lowered one is recalled down to what is left of it; a raised one can be issued from.
    pub(super) fn units_changed(&mut self, bucket: Bucket, lowered: bool, turn: &mut Turn<'_>) {
        let told = self.with(bucket, turn, |entry, _, turn| {
            let mut told = Vec::new();
            let over = entry.charged() > entry.allowance();
            if lowered && over {
                let spent = entry
                    .accounts
                    .iter()
                    .fold(0_u64, |sum, account| sum.saturating_add(account.spent()));
                let alloc = fair_split(entry, entry.allowance().saturating_sub(spent));
                for (account, part) in entry.accounts.iter_mut().zip(alloc) {
                    if account.available.min(account.out()) > part {
                        account.recall_to = Some(part);
                        account.recalled_at = Some(turn.time.instant);
                        turn.stats.recalls += 1;
                        told.push(account.node);
                    }
                }
            } else {
                for account in &mut entry.accounts {
                    account.exhausted &= lowered;
                    told.push(account.node);
                }
            }
            told
        });
        for node in told.unwrap_or_default() {
            self.hurry(node, bucket);
        }
        self.stirred.insert(bucket);
    }
}

/// What each holder should have of all that is unspent, by what it can use.
fn fair_parts(entry: &Entry, free: u64) -> Vec<u64> {
    let unspent = entry.accounts.iter().fold(free, |sum, account| {
        sum.saturating_add(account.available.min(account.out()))
    });
    fair_split(entry, unspent)
}

fn fair_split(entry: &Entry, units: u64) -> Vec<u64> {
    let wants: Vec<Want> = entry
        .accounts
        .iter()
        .map(|account| Want {
            units: account.demand.max(account.pending),
            quantum: account.quantum.max(1),
        })
        .collect();
    split(units, &wants, entry.turn)
}
