//! The second half of a decision: charge every limit or none, and say how each stands.
//!
//! First every limit is looked at; only if all that enforce have room is any charged. Should another thread take the
//! room in between, what was already charged is taken back. Shadow limits are charged last and never refuse.

use std::time::Duration;

use policy::model::{Amount, Mode};
use smallvec::SmallVec;

use crate::compile::{Compiled, CompiledLimit};
use crate::decision::{Decision, Outcome, Refusal, Verdict};
use crate::meter::Meter;
use crate::request::Hits;
use crate::resolve::{Charge, Resolved};
use crate::table::{Level, Table};
use crate::time::Now;

/// One charge with its limit at hand.
struct Bill<'s> {
    charge: Charge,
    limit: &'s CompiledLimit,
    amount: Amount,
    meter: Option<Meter>,
    /// Units, for [`Hits::Take`]; 0 looks.
    cost: u64,
    level: Option<Level>,
    /// Whether [`Bill::level`] is the answer to a charge that stands.
    charged: bool,
}

/// Decides what was resolved.
#[inline]
pub(crate) fn decide<'s>(
    table: &Table,
    policy: &'s Compiled,
    resolved: &Resolved,
    now: Now,
) -> Decision<'s> {
    let mut bills: SmallVec<[Bill<'s>; 4]> = SmallVec::new();
    for (index, charge) in resolved.charges.iter().enumerate() {
        bills.push(bill(policy, resolved, index, *charge));
        if resolved.charges.len() > 1 {
            table.prefetch(charge.bucket);
        }
    }
    let verdict = charge_all_or_none(table, &mut bills, resolved.key_absent, now);
    if verdict == Verdict::Admitted {
        for bill in &bills {
            if let (Hits::GiveBack(_), Some(meter)) = (bill.charge.hits, &bill.meter) {
                table.give_back(bill.charge.bucket, meter, bill.units_back(), now);
            }
        }
    }
    Decision {
        verdict,
        outcomes: bills.iter().map(|bill| bill.outcome(table, now)).collect(),
    }
}

fn bill<'s>(policy: &'s Compiled, resolved: &Resolved, index: usize, charge: Charge) -> Bill<'s> {
    let limit = policy.limit(charge.limit);
    let (mut amount, mut meter) = (limit.facts.amount, limit.meter);
    if charge.overridden
        && let Some(own) = resolved
            .overrides
            .iter()
            .find(|own| usize::from(own.charge) == index)
    {
        (amount, meter) = (own.amount, own.meter);
    }
    let cost = match charge.hits {
        Hits::Take(hits) => hits.saturating_mul(u64::from(limit.cost)),
        Hits::GiveBack(_) => 0,
    };
    Bill {
        charge,
        limit,
        amount,
        meter,
        cost,
        level: None,
        charged: false,
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
    bills: &mut [Bill<'_>],
    key_absent: bool,
    now: Now,
) -> Verdict {
    // One limit alone needs no look before it is charged: the charge is all or none by itself.
    if bills.len() > 1 || key_absent {
        for bill in bills.iter_mut() {
            bill.look(table, now);
        }
        if let Some(refusal) = refusal(bills, key_absent) {
            return Verdict::Refused(refusal);
        }
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
fn take_back(table: &Table, bills: &mut [Bill<'_>], now: Now) -> Verdict {
    let refused = refusal(bills, false).unwrap_or(Refusal::OverLimit);
    for bill in bills.iter_mut().rev().filter(|bill| bill.charged) {
        bill.undo(table, now);
        bill.look(table, now);
    }
    Verdict::Refused(refused)
}

fn no_quota_has_room(bills: &[Bill<'_>]) -> bool {
    let mut quotas = bills
        .iter()
        .filter(|bill| bill.force() == Force::Quota)
        .peekable();
    quotas.peek().is_some() && quotas.all(|bill| !bill.has_room())
}

/// Why the bills, as they were last looked at, refuse the request.
fn refusal(bills: &[Bill<'_>], key_absent: bool) -> Option<Refusal> {
    let quotas_refuse = no_quota_has_room(bills);
    let refusing = bills.iter().filter(|bill| match bill.force() {
        Force::Strict => !bill.has_room(),
        Force::Quota => quotas_refuse,
        Force::Shadow => false,
    });
    let mut over_limit = false;
    for bill in refusing {
        over_limit = true;
        if bill.never_has_room() {
            return Some(Refusal::Never);
        }
    }
    if key_absent {
        return Some(Refusal::KeyAbsent);
    }
    over_limit.then_some(Refusal::OverLimit)
}

impl Bill<'_> {
    const fn group(&self) -> u64 {
        self.limit.identity.group()
    }

    fn force(&self) -> Force {
        match self.limit.facts.mode {
            Mode::Shadow => Force::Shadow,
            Mode::Enforce if self.limit.quota_mode => Force::Quota,
            Mode::Enforce => Force::Strict,
        }
    }

    fn look(&mut self, table: &Table, now: Now) {
        if let Some(meter) = &self.meter {
            self.level = Some(table.look(self.charge.bucket, self.group(), meter, self.cost, now));
        }
    }

    /// Charges, and says whether there was room.
    fn take(&mut self, table: &Table, now: Now) -> bool {
        if let Some(meter) = &self.meter {
            let level = table.take(self.charge.bucket, self.group(), meter, self.cost, now);
            self.charged = level.admitted;
            self.level = Some(level);
        }
        self.has_room()
    }

    /// Takes back a charge that [`Bill::take`] made.
    fn undo(&mut self, table: &Table, now: Now) {
        if let (Some(meter), Some(level)) = (&self.meter, &self.level) {
            table.undo(
                self.charge.bucket,
                self.group(),
                meter,
                self.cost,
                level,
                now,
            );
        }
        self.charged = false;
    }

    fn has_room(&self) -> bool {
        match (self.amount, &self.level) {
            // Giving back is never refused.
            _ if matches!(self.charge.hits, Hits::GiveBack(_)) => true,
            (Amount::Unlimited, _) => true,
            (Amount::Deny, _) => false,
            (Amount::Metered { .. }, Some(level)) => level.admitted,
            (Amount::Metered { .. }, None) => false,
        }
    }

    fn never_has_room(&self) -> bool {
        match (&self.meter, &self.level) {
            (Some(meter), Some(level)) => level.retry_after_ns(meter, self.cost).is_none(),
            (Some(_), None) => false,
            (None, _) => self.amount == Amount::Deny,
        }
    }

    const fn units_back(&self) -> u64 {
        match self.charge.hits {
            Hits::GiveBack(hits) => hits.saturating_mul(self.limit.cost as u64),
            Hits::Take(_) => 0,
        }
    }
}

impl<'s> Bill<'s> {
    fn outcome(&self, table: &Table, now: Now) -> Outcome<'s> {
        let has_room = self.has_room();
        let mut outcome = Outcome {
            part: self.charge.part,
            facts: &self.limit.facts,
            amount: self.amount,
            has_room,
            remaining: match self.amount {
                Amount::Unlimited => None,
                Amount::Deny | Amount::Metered { .. } => Some(0),
            },
            reset_after: Duration::ZERO,
            retry_after: None,
        };
        let Some(meter) = &self.meter else {
            return outcome;
        };
        let level = match (self.charge.hits, &self.level) {
            // What was given back is seen only by a fresh look.
            (Hits::Take(_), Some(level)) => *level,
            (Hits::Take(_), None) | (Hits::GiveBack(_), _) => {
                table.look(self.charge.bucket, self.group(), meter, 0, now)
            }
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
