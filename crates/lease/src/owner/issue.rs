//! Who gets how much of what is free (L). Whatever is decided here, the ledger has the last word (S5).

use std::time::Duration;

use crate::bucket::{Bucket, Subject, WindowId};
use crate::config::LEAD;
use crate::fair::{Want, split};
use crate::id::NodeId;
use crate::message::Pledge;
use crate::terms::Shape;
use crate::turn::Turn;

use super::Owner;
use super::ledger::Entry;

/// Before every other in order.
const FIRST: Bucket = Bucket {
    subject: Subject(0),
    window: WindowId(0),
};

/// Of the allowance, what is only given to requests that wait when several nodes ask, in percent: where the next
/// request comes to is not known then, and what lies at another node comes too late for it.
const SHARED_RESERVE_PERCENT: u32 = 30;

/// So many nodes are several.
const SEVERAL: usize = 3;

/// What a holder is in one handing out.
#[derive(Clone, Copy, Debug)]
struct Asker {
    place: usize,
    /// What it could use until the window ends, beyond what it has.
    want: u64,
    /// What requests of it wait for.
    pending: u64,
    demand: u64,
    quantum: u64,
}

impl Owner {
    /// Requests of some holder wait: answers at once, by credit, by "exhausted", or by fetching credit back.
    pub(super) fn answer(&mut self, bucket: Bucket, turn: &mut Turn<'_>) {
        self.release(bucket, turn);
        let mut told = Vec::new();
        let short = self.with(bucket, turn, |entry, holders, turn| {
            let may = may_issue(entry, turn);
            for place in 0..entry.accounts.len() {
                let account = &entry.accounts[place];
                let node = account.node;
                if account.pending == 0 || !holders.get(&node).is_some_and(|it| it.is_settled(turn))
                {
                    continue;
                }
                if may {
                    let units = for_one(entry, place, turn);
                    if entry.issue(place, units, turn.config) {
                        turn.stats.issued_units += units;
                        let account = &mut entry.accounts[place];
                        account.available = account.available.saturating_add(units);
                        account.pending = account.pending.saturating_sub(units);
                        account.settled(turn.time.instant);
                        entry.mark_last(place);
                        told.push(node);
                    }
                } else if !is_too_early(entry, turn) {
                    let account = &mut entry.accounts[place];
                    account.exhausted = true;
                    account.pending = 0;
                    told.push(node);
                }
            }
            may && entry.accounts.iter().any(|account| account.pending > 0)
        });
        if short == Some(true) {
            told.extend(self.fetch(bucket, turn));
        }
        for node in told {
            self.hurry(node, bucket);
        }
        self.provision(bucket, turn);
    }

    /// Hands out a part of what is free to all that want some, and tells them at once or in the next round.
    pub(super) fn hand_out(&mut self, bucket: Bucket, at_once: bool, turn: &mut Turn<'_>) {
        self.release(bucket, turn);
        let mut told = Vec::new();
        let again = self.with(bucket, turn, |entry, holders, turn| {
            if !may_issue(entry, turn) {
                // Too late, or not ours to issue; or too early: that comes again.
                return is_too_early(entry, turn);
            }
            let askers = askers(entry, |node| {
                holders
                    .get(&node)
                    .is_some_and(|holder| holder.is_settled(turn))
            });
            let free = entry.free();
            let pool = pool(entry, &askers, free, turn);
            if askers.is_empty() || pool == 0 {
                let durable = entry.durable.is_some();
                return (free > 0 || durable)
                    && entry.accounts.iter().any(|account| account.demand > 0);
            }
            let wants: Vec<Want> = askers
                .iter()
                .map(|asker| Want {
                    units: asker.want,
                    quantum: asker.quantum,
                })
                .collect();
            let mut shares = split(pool, &wants, entry.turn);
            entry.turn = entry.turn.wrapping_add(1) % entry.accounts.len().max(1);
            let left = pool - shares.iter().sum::<u64>();
            let demand: u64 = askers
                .iter()
                .fold(0, |sum, asker| asker.demand.saturating_add(sum));
            for (share, asker) in shares.iter_mut().zip(&askers) {
                // More than it wants, in proportion: it lives on that if this owner goes away.
                let more = u128::from(left) * u128::from(asker.demand) / u128::from(demand.max(1));
                let more = u64::try_from(more).unwrap_or(0);
                *share += more - more % asker.quantum;
            }
            for (units, asker) in shares.into_iter().zip(&askers) {
                if units > 0 && entry.issue(asker.place, units, turn.config) {
                    turn.stats.issued_units += units;
                    let account = &mut entry.accounts[asker.place];
                    account.available = account.available.saturating_add(units);
                    account.pending = account.pending.saturating_sub(units);
                    account.settled(turn.time.instant);
                    told.push(account.node);
                    entry.mark_last(asker.place);
                }
            }
            entry.free() > 0 || entry.durable.is_some()
        });
        for node in told {
            self.tell(node, bucket, at_once);
        }
        self.provision(bucket, turn);
        if again == Some(true) {
            self.stirred.insert(bucket);
        }
    }

    /// Stops holding back for members that have pledged since. Says whether there were any.
    pub(super) fn release(&mut self, bucket: Bucket, turn: &mut Turn<'_>) -> bool {
        let released = self.with(bucket, turn, |entry, holders, _| {
            let (terms, before) = (entry.terms, entry.unpledged.len());
            entry.unpledged.retain(|(node, _)| {
                !holders
                    .get(node)
                    .is_some_and(|it| it.pledged(bucket, &terms))
            });
            entry.unpledged.len() < before
        });
        self.set_ceiling(bucket, turn);
        released == Some(true)
    }

    /// A member has pledged: what was held back for it can be issued, at once if the window has begun. Who was told that
    /// nothing is left may ask again.
    pub(super) fn freed_by(&mut self, node: NodeId, pledge: Pledge, turn: &mut Turn<'_>) {
        if pledge.from >= pledge.until {
            return;
        }
        let range = (pledge.from, FIRST)..(pledge.until, FIRST);
        let unsure: Vec<_> = self.holder(node).unsure.range(range).copied().collect();
        for (start, bucket) in unsure {
            let released = self.release(bucket, turn);
            let entry = self.ledger.get(&bucket);
            if !entry.is_some_and(|it| it.unpledged.iter().any(|(member, _)| *member == node)) {
                self.holder(node).unsure.remove(&(start, bucket));
            }
            if !released {
                continue;
            }
            let freed = self.with(bucket, turn, |entry, _, _| {
                let exhausted = entry.accounts.iter_mut().filter(|it| it.exhausted);
                exhausted
                    .map(|account| {
                        account.exhausted = false;
                        account.node
                    })
                    .collect::<Vec<_>>()
            });
            let begun = start <= turn.time.sure;
            for node in freed.unwrap_or_default() {
                self.tell(node, bucket, begun);
            }
            if begun {
                self.hand_out(bucket, true, turn);
            } else {
                self.stirred.insert(bucket);
            }
        }
    }

    fn tell(&mut self, node: NodeId, bucket: Bucket, at_once: bool) {
        if at_once {
            self.hurry(node, bucket);
        } else {
            self.holder(node).out.touch(bucket);
        }
    }
}

/// S10, and not before anybody could use it or after: whether anything may be issued now.
pub(super) fn may_issue(entry: &Entry, turn: &Turn<'_>) -> bool {
    // A token bucket's slot may only begin to issue when the one before has ended: what is left of that carries over.
    let lead = match entry.terms.shape {
        Shape::FixedWindow | Shape::SlidingWindow => LEAD,
        Shape::TokenBucket { .. } => Duration::ZERO,
    };
    entry.authority
        && !entry.broken
        && !turn.time.behind
        && entry.start <= turn.time.sure.plus(lead)
        && turn.time.sure < entry.end
}

/// Whether what may not be issued now may be later.
fn is_too_early(entry: &Entry, turn: &Turn<'_>) -> bool {
    let begins = turn.time.behind || turn.time.sure < entry.start;
    begins && entry.authority && !entry.broken
}

fn askers(entry: &Entry, settled: impl Fn(NodeId) -> bool) -> Vec<Asker> {
    let mut askers = Vec::new();
    for (place, account) in entry.accounts.iter().enumerate() {
        if account.demand.max(account.pending) > 0
            && account.recall_to.is_none()
            && settled(account.node)
        {
            askers.push(Asker {
                place,
                want: account
                    .demand
                    .saturating_sub(account.available)
                    .max(account.pending),
                pending: account.pending,
                demand: account.demand.max(account.pending),
                quantum: account.quantum.max(1),
            });
        }
    }
    askers
}

/// What is kept for requests that wait.
fn reserve(entry: &Entry, askers: usize, turn: &Turn<'_>) -> u64 {
    let shared = if askers < SEVERAL {
        0
    } else {
        SHARED_RESERVE_PERCENT
    };
    percent(entry.allowance(), turn.config.reserve_percent.max(shared))
}

/// How much of what is free this round hands out.
fn pool(entry: &Entry, askers: &[Asker], free: u64, turn: &Turn<'_>) -> u64 {
    let reserve = reserve(entry, askers.len(), turn);
    let part = if askers.len() == 1 {
        turn.config.lone_issue_percent
    } else {
        turn.config.issue_percent
    };
    let part = if entry.is_sparse() { 0 } else { part };
    let pending: u64 = askers
        .iter()
        .fold(0, |sum, asker| asker.pending.saturating_add(sum));
    let mut pool = percent(free.saturating_sub(reserve), part);
    if entry.terms.shape != Shape::FixedWindow {
        // Credit dies with its slot: no more than can be used there.
        let wanted = askers
            .iter()
            .fold(0, |sum, asker| asker.want.saturating_add(sum));
        pool = pool.min(wanted);
    }
    pool.max(pending).min(free)
}

/// How much one waiting holder is given: what its requests wait for, and something to go on with.
fn for_one(entry: &Entry, place: usize, turn: &Turn<'_>) -> u64 {
    let free = entry.free();
    let account = &entry.accounts[place];
    let others = entry
        .accounts
        .iter()
        .filter(|other| other.node != account.node && (other.demand > 0 || other.available > 0))
        .count() as u64;
    let reserve = reserve(entry, others as usize + 1, turn);
    let part = if others == 0 {
        turn.config.lone_issue_percent
    } else {
        turn.config.issue_percent
    };
    let more = percent(free.saturating_sub(reserve), part) / (others + 1);
    // In the first moment of a burst nobody is known to be the only one: a fair part, and then as much again as it has had.
    let members = turn
        .views
        .governing(entry.start)
        .map_or(1, |view| view.members.len() as u64);
    let known = account.demand.max(account.granted()).max(account.pending);
    let more = more.min(known.max(entry.allowance() / members.max(1)));
    let quantum = account.quantum.max(1);
    let more = if entry.is_sparse() {
        0
    } else {
        more - more % quantum
    };
    let most = if entry.terms.shape == Shape::FixedWindow {
        account.pending.max(more)
    } else {
        account.pending.max(more.min(account.demand))
    };
    if most <= free {
        most
    } else {
        free - free % quantum
    }
}

/// Rounded up.
pub(super) fn percent(of: u64, percent: u32) -> u64 {
    let part = (u128::from(of) * u128::from(percent)).div_ceil(100);
    u64::try_from(part).unwrap_or(u64::MAX)
}
