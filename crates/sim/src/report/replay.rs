//! One run with faults, told at length: what was drawn, what came of it, and if it failed, the smallest part of it that
//! still fails and the story of the bucket concerned.

use std::fmt::Write as _;

use lease::bucket::Bucket;
use serde::Serialize;

use super::kind;
use crate::fault::Planned;
use crate::fleet::{At, Failure, Outcome, Setup, run, trace};
use crate::run::shrink;
use crate::text::grouped;

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Replay {
    /// The format of this report.
    pub version: u32,
    /// Its seed.
    pub seed: u64,
    /// Nodes of its fleet.
    pub nodes: usize,
    /// Its keys' limits: units, and the window in nanoseconds.
    pub limits: Vec<(u64, u64)>,
    /// How long it was, in seconds.
    pub length_s: f64,
    /// When all was well again, in seconds.
    pub healed_s: Option<f64>,
    /// What went wrong, in order: seconds, and what.
    pub faults: Vec<(f64, String)>,
    /// Two runs with the same digest did the same.
    pub digest: String,
    /// Steps, each checked.
    pub events: u64,
    /// Requests that reached a node.
    pub requests: u64,
    /// Units admitted.
    pub admitted_units: u64,
    /// If a checker stopped it.
    pub failed: Option<Failed>,
}

/// A run that a checker stopped.
#[derive(Clone, Debug, Serialize)]
pub struct Failed {
    /// What kind of fault it is.
    pub kind: &'static str,
    /// What was found.
    pub failure: String,
    /// The faults without which it does not fail.
    pub needed_faults: Vec<(f64, String)>,
    /// What is found with these alone.
    pub failure_with_these: String,
    /// What happened to the bucket concerned, with these alone.
    pub story: Vec<String>,
}

impl Replay {
    /// Runs a setup and looks into it.
    #[must_use]
    pub fn of(setup: &Setup) -> Self {
        let outcome = run(setup);
        let keys = setup.keys.iter();
        Self {
            version: 1,
            seed: setup.seed,
            nodes: setup.nodes,
            limits: keys
                .map(|key| (key.terms.units, key.terms.window_ns))
                .collect(),
            length_s: seconds(setup.end),
            healed_s: setup.heal.map(seconds),
            faults: told(&setup.plan),
            digest: format!("{:016x}", outcome.digest),
            events: outcome.tally.events,
            requests: outcome.tally.requests,
            admitted_units: outcome.tally.admitted_units,
            failed: outcome
                .failure
                .as_ref()
                .map(|failure| look_into(setup, failure)),
        }
    }

    /// The run as text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "seed {}: {} nodes for {:.3} s",
            self.seed, self.nodes, self.length_s
        )?;
        for (key, (units, window_ns)) in self.limits.iter().enumerate() {
            let window_ms = *window_ns as f64 / 1e6;
            writeln!(out, "  key {key}: {units} units in {window_ms} ms")?;
        }
        writeln!(out, "\nwhat goes wrong")?;
        write_faults(out, &self.faults)?;
        if let Some(healed_s) = self.healed_s {
            writeln!(out, "{healed_s:>12.6} s  all is well from here on")?;
        }
        writeln!(
            out,
            "\n{} events, {} requests, {} units admitted, digest {}",
            grouped(self.events),
            grouped(self.requests),
            grouped(self.admitted_units),
            self.digest
        )?;
        let Some(failed) = &self.failed else {
            return writeln!(out, "no fault found");
        };
        writeln!(out, "{}: {}", failed.kind, failed.failure)?;
        writeln!(
            out,
            "\nit needs {} of {} faults",
            failed.needed_faults.len(),
            self.faults.len()
        )?;
        write_faults(out, &failed.needed_faults)?;
        writeln!(out, "{}", failed.failure_with_these)?;
        if !failed.story.is_empty() {
            writeln!(out, "\nthe bucket's story, with these")?;
        }
        for line in &failed.story {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}

fn look_into(setup: &Setup, failure: &Failure) -> Failed {
    let (small, found) = shrink(setup, failure);
    let bucket = match &found {
        Failure::OverAdmission(over) => Some(over.bucket),
        Failure::OverSpan(over) => Some(over.bucket),
        Failure::TwoIssuers(two) => Some(two.bucket),
        Failure::Waits { bucket, .. } => Some(*bucket),
        Failure::Starved(starved) => first_short(&run(&small), starved.key),
        Failure::Start(_)
        | Failure::Ledger(_)
        | Failure::Unwritable(_)
        | Failure::Unreadable(_) => None,
    };
    Failed {
        kind: kind(failure),
        failure: failure.to_string(),
        needed_faults: told(&small.plan),
        failure_with_these: found.to_string(),
        story: bucket.map_or_else(Vec::new, |bucket| trace(&small, bucket)),
    }
}

/// The first measured window of a key that lacks something.
fn first_short(outcome: &Outcome, key: usize) -> Option<Bucket> {
    let mut shares = outcome.shares.iter();
    shares
        .find(|share| share.key == key && share.admitted < share.due)
        .map(|share| share.bucket)
}

fn told(plan: &[Planned]) -> Vec<(f64, String)> {
    plan.iter()
        .map(|planned| (seconds(planned.at), format!("{:?}", planned.fault)))
        .collect()
}

fn write_faults(out: &mut String, faults: &[(f64, String)]) -> std::fmt::Result {
    for (at_s, fault) in faults {
        writeln!(out, "{at_s:>12.6} s  {fault}")?;
    }
    Ok(())
}

fn seconds(at: At) -> f64 {
    at.0 as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{Fault, Swarm, swarm};

    /// A fleet whose bus goes out for good starves; what else goes wrong does not matter to that.
    #[test]
    fn a_failure_is_made_small_and_its_bucket_is_told_of() {
        let mut setup = swarm(3, Swarm::default());
        setup.judged = true;
        setup.plan.retain(|planned| !planned.fault.blurs());
        setup.heal = None;
        setup.clock_errors_ns.clear();
        setup.plan.push(Planned {
            at: At(1),
            fault: Fault::BusOut,
        });
        setup.plan.sort_by_key(|planned| planned.at);
        let replay = Replay::of(&setup);
        let failed = replay.failed.as_ref().unwrap();
        assert_eq!(failed.kind, "starvation", "{}", failed.failure);
        assert!(failed.needed_faults.len() < replay.faults.len());
        assert!(!failed.story.is_empty());
        let text = replay.render();
        for part in ["BusOut", "starves", "the bucket's story"] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(Replay::of(&setup).render(), text);
    }

    #[test]
    fn a_run_without_a_failure_says_so() {
        let replay = Replay::of(&swarm(1, Swarm::default()));
        assert!(replay.failed.is_none());
        assert!(replay.render().ends_with("no fault found\n"));
    }
}
