//! Modes side by side on the same traffic: ours, fixed shares, gossip and a central counter.
//!
//! A comparison is a function of its scenario, the modes and the number of runs: neither threads nor their order change
//! a figure. The baselines have no faults in them (see [`crate::baseline`]); a report says so where it matters.

pub mod csv;
pub mod figure;
pub mod figures;
pub mod report;
pub mod text;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use crate::baseline::{self, Central, Fixed, Gossip};
use crate::fleet::{self, Outcome, START, Tally};
use crate::scenario::{Limit, Scenario, limits, setup};

/// A way to share a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Leased credit: this project's protocol, the code that nodes run.
    Lease,
    /// Each node has an even share.
    Fixed,
    /// Each node admits on the last total that it heard, told every 100 ms.
    Gossip,
    /// Each request asks one counter.
    Central,
}

impl Mode {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 4] = [Self::Lease, Self::Fixed, Self::Gossip, Self::Central];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Fixed => "fixed",
            Self::Gossip => "gossip",
            Self::Central => "central",
        }
    }
}

/// One measured window of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The limit's place in [`Comparison::limits`].
    pub limit: usize,
    /// The key, in its run.
    pub key: usize,
    /// When it began, in nanoseconds of the measured time.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// Units asked for, but no more than allowed.
    pub due: u64,
    /// Units admitted.
    pub admitted: u64,
    /// Units allowed.
    pub allowance: u64,
}

/// What one mode did in all runs.
#[derive(Clone, Debug)]
pub struct ModeRuns {
    /// Which.
    pub mode: Mode,
    /// The measured windows of each run.
    pub windows: Vec<Vec<Window>>,
    /// All runs, added up.
    pub tally: Tally,
    /// Runs that a checker stopped: their seeds, and what it found.
    pub failures: Vec<(u64, String)>,
}

/// All modes.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The limits, each once.
    pub limits: Vec<Limit>,
    /// The seeds of the runs.
    pub seeds: Vec<u64>,
    /// By mode, in the order asked for.
    pub modes: Vec<ModeRuns>,
}

/// Runs a scenario, which must have passed [`Scenario::check`], in each of the modes, `runs` times with seeds from the
/// scenario's on. `each` hears of every run that is done.
#[must_use]
pub fn compare(
    scenario: &Scenario,
    modes: &[Mode],
    runs: u64,
    threads: usize,
    each: &(dyn Fn() + Sync),
) -> Comparison {
    let of_keys = limits(scenario);
    let mut known: Vec<Limit> = Vec::new();
    for limit in &of_keys {
        if !known.contains(limit) {
            known.push(*limit);
        }
    }
    let seeds: Vec<u64> = (0..runs)
        .map(|run| scenario.seed.wrapping_add(run))
        .collect();
    let jobs: Vec<(Mode, u64)> = modes
        .iter()
        .flat_map(|mode| seeds.iter().map(|seed| (*mode, *seed)))
        .collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Vec<Window>, Outcome)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                // Relaxed: the number is all that is shared; results go through the lock.
                while let job = next.fetch_add(1, Ordering::Relaxed)
                    && let Some((mode, seed)) = jobs.get(job)
                {
                    let (windows, outcome) = run(scenario, *mode, *seed, &of_keys, &known);
                    let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                    done.push((job, windows, outcome));
                    each();
                }
            });
        }
    });
    let mut done = done
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(job, ..)| *job);
    let mut all: Vec<ModeRuns> = modes
        .iter()
        .map(|mode| ModeRuns {
            mode: *mode,
            windows: Vec::new(),
            tally: Tally::default(),
            failures: Vec::new(),
        })
        .collect();
    for (job, windows, outcome) in done {
        let of_mode = &mut all[job / seeds.len().max(1)];
        of_mode.windows.push(windows);
        of_mode.tally.add(&outcome.tally);
        if let Some(failure) = outcome.failure {
            of_mode.failures.push((jobs[job].1, failure.to_string()));
        }
    }
    Comparison {
        limits: known,
        seeds,
        modes: all,
    }
}

fn run(
    scenario: &Scenario,
    mode: Mode,
    seed: u64,
    of_keys: &[Limit],
    known: &[Limit],
) -> (Vec<Window>, Outcome) {
    let mut setup = setup(scenario);
    setup.seed = seed;
    let mut outcome = match mode {
        Mode::Lease => fleet::run(&setup),
        Mode::Fixed => baseline::run(&setup, &mut Fixed::new(&setup)),
        Mode::Gossip => baseline::run(&setup, &mut Gossip::new(&setup)),
        Mode::Central => baseline::run(&setup, &mut Central::new(&setup)),
    };
    let began = START.0 + setup.measure.0;
    let windows = std::mem::take(&mut outcome.shares)
        .into_iter()
        .map(|share| {
            let limit = of_keys[share.key];
            let start = share.bucket.start(limit.window.nanos());
            let start_ns = start.0.saturating_sub(began);
            Window {
                limit: known.iter().position(|known| *known == limit).unwrap_or(0),
                key: share.key,
                start_ns,
                end_ns: start_ns + limit.window.nanos(),
                due: share.due,
                admitted: share.admitted,
                allowance: share.allowance,
            }
        })
        .collect();
    (windows, outcome)
}
