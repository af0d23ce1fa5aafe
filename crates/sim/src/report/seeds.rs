//! What came of many seeds: how much was checked, what was found, and what happened in them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;

use super::kind;
use crate::fleet::Failure;
use crate::run::Sweep;
use crate::text::grouped;

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct SeedsReport {
    /// The format of this report.
    pub version: u32,
    /// The first seed.
    pub first_seed: u64,
    /// Runs, with seeds one after the other.
    pub runs: u64,
    /// Steps of all runs, each checked.
    pub events: u64,
    /// Requests that reached a node.
    pub requests: u64,
    /// Units admitted.
    pub admitted_units: u64,
    /// Units admitted, or ready to be, above what was allowed, in all failed runs.
    pub over_admission_units: u64,
    /// The failed runs, by seed.
    pub failed: Vec<FailedSeed>,
    /// How often each fault happened, and each rule was at work.
    pub seen: BTreeMap<&'static str, u64>,
}

/// A run that a checker stopped.
#[derive(Clone, Debug, Serialize)]
pub struct FailedSeed {
    /// Its seed.
    pub seed: u64,
    /// What kind of fault it is.
    pub kind: &'static str,
    /// What was found.
    pub failure: String,
    /// What runs it again.
    pub replay: String,
}

impl SeedsReport {
    /// Sums up a sweep that began with `first_seed`.
    #[must_use]
    pub fn new(first_seed: u64, sweep: &Sweep) -> Self {
        let failed = sweep.failed.iter();
        let over = failed.clone().map(|failed| match &failed.failure {
            Failure::OverAdmission(over) => {
                let account = over.account;
                (account.admitted + account.live).saturating_sub(account.allowance)
            }
            Failure::OverSpan(over) => over.units.saturating_sub(over.allowed),
            Failure::Start(_)
            | Failure::TwoIssuers(_)
            | Failure::Ledger(_)
            | Failure::Unwritable(_)
            | Failure::Unreadable(_)
            | Failure::Waits { .. }
            | Failure::Starved(_) => 0,
        });
        Self {
            version: 1,
            first_seed,
            runs: sweep.runs,
            events: sweep.tally.events,
            requests: sweep.tally.requests,
            admitted_units: sweep.tally.admitted_units,
            over_admission_units: over.sum(),
            failed: failed
                .map(|failed| FailedSeed {
                    seed: failed.seed,
                    kind: kind(&failed.failure),
                    failure: failed.failure.to_string(),
                    replay: format!("leasehold simulate --replay {}", failed.seed),
                })
                .collect(),
            seen: sweep.tally.seen.clone(),
        }
    }

    /// The report as text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let last = self.first_seed.saturating_add(self.runs.saturating_sub(1));
        writeln!(
            out,
            "{} fleets with faults, seeds {} to {last}",
            grouped(self.runs),
            self.first_seed
        )?;
        for (what, count) in [
            ("events, each checked", self.events),
            ("requests", self.requests),
            ("units admitted", self.admitted_units),
            ("units over the limit", self.over_admission_units),
            ("failed runs", self.failed.len() as u64),
        ] {
            writeln!(out, "  {:>18}  {what}", grouped(count))?;
        }
        writeln!(out, "\nwhat happened in them")?;
        for (what, count) in &self.seen {
            writeln!(out, "  {:>18}  {what}", grouped(*count))?;
        }
        for failed in &self.failed {
            writeln!(
                out,
                "\nseed {}: {}: {}\n  again: {}",
                failed.seed, failed.kind, failed.failure, failed.replay
            )?;
        }
        Ok(())
    }
}
