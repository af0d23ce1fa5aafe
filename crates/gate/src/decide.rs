//! The second half of a decision: charge every limit or none, and say how each stands.
//!
//! First every limit is looked at; only if all that enforce have room is any charged. Should another thread take the
//! room in between, what was already charged is taken back. Shadow limits are charged last and never refuse.

use std::time::Duration;

use policy::model::{Amount, Mode, OnDegraded};
use smallvec::SmallVec;

use crate::account::Account;
use crate::compile::{Compiled, CompiledLimit};
use crate::decision::{Decision, Outcome, Refusal, Verdict};
use crate::fleet::Dry;
use crate::meter::Meter;
use crate::request::Hits;
use crate::resolve::{Charge, Met, Override, Resolved};
use crate::table::{Cause, Level, Table};
use crate::time::Now;

/// One charge with its limit at hand.
struct Bill<'s, 'r> {
    charge: Charge,
    limit: &'s CompiledLimit,
    /// A limit that the descriptor brought along, in place of the policy's.
    brought: Option<&'r Override>,
    /// Units, for [`Hits::Take`]; 0 looks.
    cost: u64,
    level: Option<Level>,
    /// Whether [`Bill::level`] is the answer to a charge that stands.
    charged: bool,
}

/// Decides what was resolved. `decision` is empty.
#[inline]
pub(crate) fn decide<'s>(
    table: &Table,
    policy: &'s Compiled,
    resolved: &Resolved,
    now: Now,
    decision: &mut Decision<'s>,
) {
    let Resolved {
        charges,
        overrides,
        key_absent,
    } = resolved;
    if let ([charge], false, true) = (charges.as_slice(), *key_absent, overrides.is_empty())
        && let Some((limit, account, cost)) = short_way(policy, charge)
    {
        return decide_one(table, charge, limit, &account, cost, now, decision);
    }
    let mut bills: SmallVec<[Bill<'s, '_>; 4]> = SmallVec::new();
    for (index, charge) in charges.iter().enumerate() {
        table.prefetch(charge.bucket);
        bills.push(Bill::new(policy, overrides, index, *charge));
    }
    decide_bills(table, &mut bills, *key_absent, now, decision);
}

/// Decides on limits that were met before, for one part. `decision` is empty.
#[inline]
pub(crate) fn decide_met<'s>(
    table: &Table,
    policy: &'s Compiled,
    met: &[Met],
    hits: Hits,
    now: Now,
    decision: &mut Decision<'s>,
) {
    let charge = |met: &Met| Charge {
        bucket: met.bucket,
        limit: met.limit,
        part: 0,
        overridden: false,
        hits,
    };
    if let [met] = met
        && let charge = charge(met)
        && let Some((limit, account, cost)) = short_way(policy, &charge)
    {
        return decide_one(table, &charge, limit, &account, cost, now, decision);
    }
    let mut bills: SmallVec<[Bill<'s, '_>; 4]> = SmallVec::new();
    for met in met {
        table.prefetch(met.bucket);
        bills.push(Bill::new(policy, &[], 0, charge(met)));
    }
    decide_bills(table, &mut bills, false, now, decision);
}

/// What [`decide_one`] needs, if a charge is what most are: of one of the policy's own limits, counted, hits to take.
#[inline]
fn short_way<'s>(
    policy: &'s Compiled,
    charge: &Charge,
) -> Option<(&'s CompiledLimit, Account<'s>, u64)> {
    let limit = policy.limit(charge.limit);
    match (&limit.meter, charge.hits) {
        (Some(meter), Hits::Take(hits)) => {
            let account = Account::new(charge.bucket, limit, meter);
            Some((limit, account, hits.saturating_mul(u64::from(limit.cost))))
        }
        (Some(_), Hits::GiveBack(_)) | (None, _) => None,
    }
}

/// Decides on one limit. One charge is all or none by itself, so nothing is looked at first and nothing can have to
/// be taken back.
#[inline]
fn decide_one<'s>(
    table: &Table,
    charge: &Charge,
    limit: &'s CompiledLimit,
    account: &Account<'_>,
    cost: u64,
    now: Now,
    decision: &mut Decision<'s>,
) {
    let level = account.take(table, cost, now);
    decision.verdict = Verdict::Admitted;
    decision.outcomes.push(Outcome {
        part: charge.part,
        facts: &limit.facts,
        brought: None,
        has_room: level.admitted,
        charged: if level.admitted { cost } else { 0 },
        remaining: Some(level.remaining(account.meter)),
        reset_after: Duration::from_nanos(level.reset_after_ns(account.meter)),
        retry_after: None,
    });
    if !level.admitted {
        uncharged(decision, limit, account, &level, cost);
    }
}

/// What a decision on one limit is when that was not charged.
#[cold]
fn uncharged(
    decision: &mut Decision<'_>,
    limit: &CompiledLimit,
    account: &Account<'_>,
    level: &Level,
    cost: u64,
) {
    decision
        .dry
        .extend(account.dry(level, cost, Some(limit.lineage)));
    let Some(refusal) = lack(level, limit.facts.on_degraded) else {
        for outcome in &mut decision.outcomes {
            outcome.has_room = true;
        }
        return;
    };
    match limit.facts.mode {
        Mode::Enforce => decision.verdict = Verdict::Refused(refusal),
        Mode::Shadow => {}
    }
    let retry_after = level.retry_after_ns(account.meter, cost);
    for outcome in &mut decision.outcomes {
        outcome.retry_after = retry_after.map(Duration::from_nanos);
    }
}

/// Why a metered limit that stands so would refuse. `None` if it admits: it had room, or could not count at all and
/// says to let all through then.
#[inline]
fn lack(level: &Level, on_degraded: OnDegraded) -> Option<Refusal> {
    if level.admitted {
        return None;
    }
    match (level.cause, on_degraded) {
        (Cause::TooCostly, _) => Some(Refusal::Never),
        (Cause::TableFull, OnDegraded::FailOpen) => None,
        (Cause::TableFull, OnDegraded::FailClosed) => Some(Refusal::Unavailable),
        (Cause::TableFull, OnDegraded::FairShare) | (Cause::Room | Cause::Used, _) => {
            Some(Refusal::OverLimit)
        }
    }
}

/// Of several reasons to refuse the greatest is told: what no waiting mends, before what may pass.
const fn weight(refusal: &Refusal) -> u8 {
    match refusal {
        Refusal::OverLimit => 0,
        Refusal::Unavailable => 1,
        Refusal::KeyAbsent => 2,
        Refusal::Never => 3,
    }
}

#[inline]
fn decide_bills<'s>(
    table: &Table,
    bills: &mut [Bill<'s, '_>],
    key_absent: bool,
    now: Now,
    decision: &mut Decision<'s>,
) {
    let verdict = charge_all_or_none(table, bills, key_absent, now);
    if verdict == Verdict::Admitted {
        for bill in bills.iter() {
            bill.give_back(table, now);
        }
    }
    decision.verdict = verdict;
    tell_dry(bills, verdict, &mut decision.dry);
    for bill in bills.iter() {
        decision.outcomes.push(bill.outcome(table, now));
    }
}

/// Tells what credit to ask for, if any: see [`Decision::dry`].
fn tell_dry(bills: &[Bill<'_, '_>], verdict: Verdict, dry: &mut Vec<Dry>) {
    let asks_for = match verdict {
        Verdict::Admitted => Force::Shadow,
        Verdict::Refused(Refusal::OverLimit) => Force::Strict,
        // Nothing that credit would mend.
        Verdict::Refused(Refusal::Never | Refusal::KeyAbsent | Refusal::Unavailable) => return,
    };
    let quotas_refuse = asks_for == Force::Strict && no_quota_has_room(bills);
    for bill in bills {
        let lacks = match bill.force() {
            Force::Quota => quotas_refuse,
            force => force == asks_for,
        } && !bill.has_room();
        if !lacks {
            continue;
        }
        match bill.dry() {
            Some(one) => dry.push(one),
            // Any of the quotas would do; without this one nothing does.
            None if bill.force() == Force::Strict => return dry.clear(),
            None => {}
        }
    }
    let helps = |bill: &Bill<'_, '_>| bill.force() == Force::Quota && bill.dry().is_some();
    if quotas_refuse && !bills.iter().any(helps) {
        dry.clear();
    }
}

/// What a bill without room means for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Force {
    /// It is refused.
    Strict,
    /// It is refused if no bill of this kind has room.
    Quota,
    /// Nothing.
    Shadow,
}

/// Charges every bill, or leaves all as they were.
fn charge_all_or_none(
    table: &Table,
    bills: &mut [Bill<'_, '_>],
    key_absent: bool,
    now: Now,
) -> Verdict {
    for bill in bills.iter_mut() {
        bill.look(table, now);
    }
    if let Some(refusal) = refusal(bills, key_absent) {
        for bill in bills.iter().filter(|bill| !bill.has_room()) {
            bill.count_unmet(table, now);
        }
        return Verdict::Refused(refusal);
    }
    for force in [Force::Strict, Force::Quota, Force::Shadow] {
        for index in 0..bills.len() {
            if bills[index].force() != force {
                continue;
            }
            if !bills[index].take(table, now) && force == Force::Strict {
                return take_back(table, bills, now);
            }
        }
        if force == Force::Quota && no_quota_has_room(bills) {
            return take_back(table, bills, now);
        }
    }
    Verdict::Admitted
}

/// Undoes what was charged, since another thread took the room that was seen.
fn take_back(table: &Table, bills: &mut [Bill<'_, '_>], now: Now) -> Verdict {
    let refused = refusal(bills, false).unwrap_or(Refusal::OverLimit);
    for bill in bills.iter_mut().rev().filter(|bill| bill.charged) {
        bill.undo(table, now);
        bill.look(table, now);
    }
    Verdict::Refused(refused)
}

fn no_quota_has_room(bills: &[Bill<'_, '_>]) -> bool {
    let mut quotas = bills
        .iter()
        .filter(|bill| bill.force() == Force::Quota)
        .peekable();
    quotas.peek().is_some() && quotas.all(|bill| !bill.has_room())
}

/// Why the bills, as they were last looked at, refuse the request.
fn refusal(bills: &[Bill<'_, '_>], key_absent: bool) -> Option<Refusal> {
    let quotas_refuse = no_quota_has_room(bills);
    bills
        .iter()
        .filter(|bill| match bill.force() {
            Force::Strict => true,
            Force::Quota => quotas_refuse,
            Force::Shadow => false,
        })
        .filter_map(Bill::lack)
        .chain(key_absent.then_some(Refusal::KeyAbsent))
        .max_by_key(weight)
}

impl<'s, 'r> Bill<'s, 'r> {
    #[inline]
    fn new(policy: &'s Compiled, overrides: &'r [Override], index: usize, charge: Charge) -> Self {
        let limit = policy.limit(charge.limit);
        let cost = match charge.hits {
            Hits::Take(hits) => hits.saturating_mul(u64::from(limit.cost)),
            Hits::GiveBack(_) => 0,
        };
        let brought = if charge.overridden {
            overrides
                .iter()
                .find(|own| usize::from(own.charge) == index)
        } else {
            None
        };
        Self {
            charge,
            limit,
            brought,
            cost,
            level: None,
            charged: false,
        }
    }

    #[inline]
    fn amount(&self) -> Amount {
        self.brought
            .map_or(self.limit.facts.amount, |brought| brought.amount)
    }

    #[inline]
    fn meter(&self) -> Option<&Meter> {
        match self.brought {
            Some(brought) => brought.meter.as_ref(),
            None => self.limit.meter.as_ref(),
        }
    }

    /// Where it is counted; `None` if it is not.
    #[inline]
    fn account(&self) -> Option<Account<'_>> {
        let terms = match self.brought {
            Some(brought) => brought.terms.as_ref(),
            None => self.limit.terms.as_ref(),
        };
        self.meter().map(|meter| Account {
            terms,
            ..Account::new(self.charge.bucket, self.limit, meter)
        })
    }

    /// The credit that it lacked, as it was last looked at, if it is for want of credit that it has no room.
    fn dry(&self) -> Option<Dry> {
        let lineage = self.brought.is_none().then_some(self.limit.lineage);
        self.account()?
            .dry(self.level.as_ref()?, self.cost, lineage)
    }

    /// Counts as demand what a look refused: no charge did.
    fn count_unmet(&self, table: &Table, now: Now) {
        if let Some(account) = self.account() {
            account.count_unmet(table, self.cost, now);
        }
    }

    fn force(&self) -> Force {
        match self.limit.facts.mode {
            Mode::Shadow => Force::Shadow,
            Mode::Enforce if self.limit.quota_mode => Force::Quota,
            Mode::Enforce => Force::Strict,
        }
    }

    fn look(&mut self, table: &Table, now: Now) {
        let level = self
            .account()
            .map(|account| account.look(table, self.cost, now));
        self.level = level.or(self.level);
    }

    /// Charges, and says whether there was room.
    fn take(&mut self, table: &Table, now: Now) -> bool {
        if let Some(level) = self
            .account()
            .map(|account| account.take(table, self.cost, now))
        {
            self.charged = level.admitted;
            self.level = Some(level);
        }
        self.has_room()
    }

    /// Takes back a charge that [`Bill::take`] made.
    fn undo(&mut self, table: &Table, now: Now) {
        if let (Some(account), Some(level)) = (self.account(), &self.level) {
            account.undo(table, self.cost, level, now);
        }
        self.charged = false;
    }

    fn has_room(&self) -> bool {
        self.lack().is_none()
    }

    /// Why it would refuse by itself, as it was last looked at; `None` if it admits.
    fn lack(&self) -> Option<Refusal> {
        match (self.charge.hits, self.amount(), &self.level) {
            // Giving back is never refused.
            (Hits::GiveBack(_), _, _) | (_, Amount::Unlimited, _) => None,
            (Hits::Take(_), Amount::Deny, _) => Some(Refusal::Never),
            (Hits::Take(_), Amount::Metered { .. }, Some(level)) => {
                lack(level, self.limit.facts.on_degraded)
            }
            (Hits::Take(_), Amount::Metered { .. }, None) => Some(Refusal::OverLimit),
        }
    }

    fn give_back(&self, table: &Table, now: Now) {
        if let (Hits::GiveBack(hits), Some(account)) = (self.charge.hits, self.account()) {
            let units = hits.saturating_mul(u64::from(self.limit.cost));
            account.give_back(table, units, now);
        }
    }

    #[inline]
    fn outcome(&self, table: &Table, now: Now) -> Outcome<'s> {
        let has_room = self.has_room();
        let mut outcome = Outcome {
            part: self.charge.part,
            facts: &self.limit.facts,
            brought: self.brought.map(|brought| brought.amount),
            has_room,
            charged: if self.charged { self.cost } else { 0 },
            remaining: match self.amount() {
                Amount::Unlimited => None,
                Amount::Deny | Amount::Metered { .. } => Some(0),
            },
            reset_after: Duration::ZERO,
            retry_after: None,
        };
        let Some(account) = self.account() else {
            return outcome;
        };
        let meter = account.meter;
        let level = match (self.charge.hits, &self.level) {
            // What was given back is seen only by a fresh look.
            (Hits::Take(_), Some(level)) => *level,
            (Hits::Take(_), None) | (Hits::GiveBack(_), _) => account.look(table, 0, now),
        };
        outcome.remaining = Some(level.remaining(meter));
        outcome.reset_after = Duration::from_nanos(level.reset_after_ns(meter));
        if !has_room {
            outcome.retry_after = level
                .retry_after_ns(meter, self.cost)
                .map(Duration::from_nanos);
        }
        outcome
    }
}
