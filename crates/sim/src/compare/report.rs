//! A comparison's figures, as they are told, written and drawn.

use serde::Serialize;

use super::figures::Windows;
use super::{Comparison, Mode, ModeRuns, Window};
use crate::scenario::{SECOND_NS, Scenario};

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The format of this report.
    pub version: u32,
    /// The scenario.
    pub scenario: String,
    /// What asks, one line for each kind of traffic.
    pub traffic: Vec<String>,
    /// Nodes of the fleet.
    pub nodes: usize,
    /// The first seed.
    pub seed: u64,
    /// How many runs, with seeds one after the other.
    pub runs: u64,
    /// Time before the measured time, of each run, in seconds.
    pub warm_up_s: f64,
    /// The measured time of each run, in seconds.
    pub measured_s: f64,
    /// Whether the scenario has faults, which only `lease` is put through.
    pub has_faults: bool,
    /// By mode.
    pub modes: Vec<ModeReport>,
}

/// One mode.
#[derive(Clone, Debug, Serialize)]
pub struct ModeReport {
    /// Which.
    pub mode: Mode,
    /// All windows.
    pub all: Windows,
    /// By limit.
    pub limits: Vec<LimitReport>,
    /// By what was wrong at the time; empty without faults.
    pub phases: Vec<PhaseReport>,
    /// What it took.
    pub cost: Cost,
    /// Runs that broke a rule: seed, and what was found.
    pub failures: Vec<(u64, String)>,
    /// Of all windows by when they began: seconds of the measured time, units due, and of these admitted.
    pub timeline: Vec<(f64, u64, u64)>,
    /// Of each window what was admitted, against what was due, in order, to draw.
    #[serde(skip)]
    pub parts: Vec<f64>,
}

/// The windows of one limit.
#[derive(Clone, Debug, Serialize)]
pub struct LimitReport {
    /// As a policy writes it.
    pub limit: String,
    /// Its figures.
    #[serde(flatten)]
    pub windows: Windows,
}

/// The windows of one stretch of time.
#[derive(Clone, Debug, Serialize)]
pub struct PhaseReport {
    /// Which.
    pub phase: &'static str,
    /// Its figures.
    #[serde(flatten)]
    pub windows: Windows,
}

/// What a mode took, warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Requests that reached a node.
    pub requests: u64,
    /// Requests that found no running node.
    pub unserved: u64,
    /// The part of requests that waited for an answer over the network.
    pub fast_path_share: f64,
    /// The part of requests that waited until the deadline in vain.
    pub missed_share: f64,
    /// The longest wait in microseconds.
    pub longest_wait_us: u64,
    /// Messages sent by a node in a second.
    pub messages_per_node_s: f64,
    /// Their bytes.
    pub bytes_per_node_s: f64,
    /// Steps of the simulation, each checked.
    pub events: u64,
}

/// Points of a timeline, at most.
const MOST_POINTS: u64 = 240;

impl Report {
    /// Sums up a comparison of a scenario.
    #[must_use]
    pub fn new(scenario: &Scenario, compared: &Comparison) -> Self {
        let modes = compared.modes.iter();
        Self {
            version: 1,
            scenario: scenario.name.clone(),
            traffic: scenario.traffic.iter().map(ToString::to_string).collect(),
            nodes: scenario.nodes,
            seed: scenario.seed,
            runs: compared.seeds.len() as u64,
            warm_up_s: scenario.warm_up_ns as f64 / SECOND_NS as f64,
            measured_s: scenario.measured_ns as f64 / SECOND_NS as f64,
            has_faults: !scenario.faults.is_empty(),
            modes: modes
                .map(|runs| mode_report(scenario, compared, runs))
                .collect(),
        }
    }

    /// Whether a rule was broken in some run.
    #[must_use]
    pub fn has_failures(&self) -> bool {
        self.modes.iter().any(|mode| !mode.failures.is_empty())
    }
}

fn mode_report(scenario: &Scenario, compared: &Comparison, runs: &ModeRuns) -> ModeReport {
    let windows = || runs.windows.iter().flatten();
    let limits = compared.limits.iter().enumerate();
    let mut parts: Vec<f64> = windows()
        .filter(|window| window.due > 0)
        .map(|window| window.admitted as f64 / window.due as f64)
        .collect();
    parts.sort_by(f64::total_cmp);
    ModeReport {
        mode: runs.mode,
        all: Windows::of(windows()),
        limits: limits
            .map(|(place, limit)| LimitReport {
                limit: limit.to_string(),
                windows: Windows::of(windows().filter(|window| window.limit == place)),
            })
            .collect(),
        // The others had no faults.
        phases: if runs.mode == Mode::Lease {
            phases(scenario, runs)
        } else {
            Vec::new()
        },
        cost: cost(scenario, runs),
        failures: runs.failures.clone(),
        timeline: timeline(scenario, windows()),
        parts,
    }
}

/// Windows before the first fault, those that meet one, the first whole one of each key afterwards, and later ones.
fn phases(scenario: &Scenario, runs: &ModeRuns) -> Vec<PhaseReport> {
    let Some(first_ns) = scenario.first_fault_ns() else {
        return Vec::new();
    };
    let healed_ns = scenario.healed_ns().unwrap_or(u64::MAX);
    let mut of_phase: [Vec<&Window>; 4] = Default::default();
    for run in &runs.windows {
        // Windows are in order of key, then of time.
        let mut seen = None;
        for window in run {
            let phase = if window.end_ns <= first_ns {
                0
            } else if window.start_ns < healed_ns {
                1
            } else if seen != Some(window.key) {
                seen = Some(window.key);
                2
            } else {
                3
            };
            of_phase[phase].push(window);
        }
    }
    let names = ["before", "during", "first after", "later"];
    names
        .into_iter()
        .zip(of_phase)
        .filter(|(_, windows)| !windows.is_empty())
        .map(|(phase, windows)| PhaseReport {
            phase,
            windows: Windows::of(windows.into_iter()),
        })
        .collect()
}

fn cost(scenario: &Scenario, runs: &ModeRuns) -> Cost {
    let tally = &runs.tally;
    let seconds = (scenario.warm_up_ns + scenario.measured_ns) as f64 / SECOND_NS as f64;
    let node_seconds = seconds * (scenario.nodes * runs.windows.len()) as f64;
    let of_requests = |count: u64| count as f64 / tally.requests.max(1) as f64;
    Cost {
        requests: tally.requests,
        unserved: tally.unserved,
        fast_path_share: of_requests(tally.waited),
        missed_share: of_requests(tally.missed),
        longest_wait_us: tally.longest_wait_ns / 1_000,
        messages_per_node_s: tally.messages as f64 / node_seconds,
        bytes_per_node_s: tally.bytes as f64 / node_seconds,
        events: tally.events,
    }
}

fn timeline<'w>(
    scenario: &Scenario,
    windows: impl Iterator<Item = &'w Window>,
) -> Vec<(f64, u64, u64)> {
    // Whole seconds, so that as many windows of a second begin in each.
    let step_ns = (scenario.measured_ns / MOST_POINTS)
        .next_multiple_of(SECOND_NS)
        .max(SECOND_NS);
    let mut bins = vec![(0, 0); (scenario.measured_ns / step_ns + 1) as usize];
    for window in windows {
        if let Some((due, admitted)) = bins.get_mut((window.start_ns / step_ns) as usize) {
            *due += window.due;
            *admitted += window.admitted.min(window.due);
        }
    }
    let bins = bins.into_iter().enumerate();
    let bins = bins.filter(|(_, (due, _))| *due > 0);
    bins.map(|(place, (due, admitted))| {
        let at_s = place as f64 * step_ns as f64 / SECOND_NS as f64;
        (at_s, due, admitted)
    })
    .collect()
}
