//! In process: nanoseconds per decision, all subjects built first and then run in turn.
//!
//! A group is one number of keys, one spread and one number of threads; its rows are held against the floor of the
//! same group and never against another group's.

pub mod draws;
mod floor;
mod ours;
mod peers;
pub mod subject;

use crate::Failure;
use crate::plan::Plan;
use crate::row::{Goal, Row, median};
use draws::{Draws, Spread};
use floor::Counters;
use subject::{Role, Subject};

const SIZES: [u32; 3] = [1, 10_000, 1_000_000];
const THREADS: [usize; 2] = [1, 2];

/// Measures what the plan wants of this part.
pub fn measure(plan: &Plan) -> Vec<Row> {
    let mut rows = Vec::new();
    for keys in SIZES {
        let wanted: Vec<(Spread, usize)> = [Spread::Uniform, Spread::Zipf]
            .into_iter()
            // One key is asked for alike by every spread.
            .filter(|spread| keys > 1 || *spread == Spread::Uniform)
            .flat_map(|spread| THREADS.map(|threads| (spread, threads)))
            .filter(|(spread, threads)| plan.wants(&group_name(keys, *spread, *threads)))
            .collect();
        if wanted.is_empty() {
            continue;
        }
        plan.say(&format!("decide: building every subject with {keys} keys"));
        let mut subjects = subjects(keys);
        for (spread, threads) in wanted {
            let group = group_name(keys, spread, threads);
            plan.say(&group);
            let length = if keys > 10_000 { 1 << 21 } else { 1 << 18 };
            let draws: Vec<Draws> = (0..threads)
                .map(|n| Draws::new(spread, keys, length, n as u64 + 1))
                .collect();
            for subject in &mut subjects {
                subject.prepare(&draws);
            }
            rows.extend(group_rows(&group, keys, &subjects, &draws, plan));
        }
    }
    rows
}

/// Memory of a bucket in a table of a million live ones: each run in a process of its own.
pub fn measure_bucket(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let group = "decide/bytes a live bucket of 1000000";
    if !plan.wants(group) {
        return Ok(Vec::new());
    }
    plan.say(group);
    let runs: Result<Vec<f64>, Failure> = (0..plan.rounds())
        .map(|_| crate::memory::alone(crate::memory::BYTES_PER_BUCKET))
        .collect();
    Ok(vec![
        Row::new(format!("{group}/leasehold"), "bytes", runs?).goal(Goal::AtMost(100.0)),
    ])
}

/// What a process that was started for it measures.
pub fn bytes_per_bucket() -> f64 {
    ours::bytes_per_bucket(1_000_000)
}

fn group_name(keys: u32, spread: Spread, threads: usize) -> String {
    format!("decide/{keys} keys/{}/{threads}t", spread.word())
}

fn subjects(keys: u32) -> Vec<Box<dyn Subject>> {
    let mut subjects: Vec<Box<dyn Subject>> = vec![
        Box::new(ours::fixed_window(keys)),
        Box::new(ours::token_bucket(keys)),
        Box::new(ours::sliding_window(keys)),
        Box::new(ours::two_limits(keys)),
        Box::new(floor::StdClock),
        Box::new(floor::NodeClock::new()),
        Box::new(peers::governor_quanta(keys)),
        Box::new(peers::governor_std(keys)),
        Box::new(peers::Limitador::new(keys)),
        Box::new(peers::PingoraLimits::new()),
    ];
    subjects.extend(floor::Papaya::floors(keys));
    subjects.extend(floor::SccIndex::floors(keys));
    subjects.extend(floor::SccMap::floors(keys));
    subjects.extend(floor::Dash::floors(keys));
    for matching in ours::Matching::all(keys) {
        subjects.push(Box::new(matching));
    }
    subjects
}

fn group_rows(
    group: &str,
    keys: u32,
    subjects: &[Box<dyn Subject>],
    draws: &[Draws],
    plan: &Plan,
) -> Vec<Row> {
    let decisions = plan.decisions();
    let mut runs = vec![Vec::new(); subjects.len()];
    // The first round warms caches and is not counted.
    for round in 0..=plan.rounds() {
        for (subject, runs) in subjects.iter().zip(&mut runs) {
            let ns = subject::time(subject.as_ref(), draws, decisions, round);
            if round > 0 {
                runs.push(ns);
            }
        }
    }
    let best = |role: Role| {
        subjects
            .iter()
            .zip(&runs)
            .filter(|(subject, _)| subject.role() == role)
            .map(|(subject, runs)| (subject.name(), median(runs)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
    };
    let floor = best(Role::Floor);
    let bound = Goal::AtMost(if keys >= 1_000_000 { 1.0 } else { 1.3 });
    // What our rows are raced against, and what the ratio is meant to be.
    let rivals = [
        ("floor", floor, bound),
        ("floor on our clock", best(Role::FloorOnOurClock), bound),
        ("fastest exact peer", best(Role::Peer), Goal::Below(1.0)),
    ];
    let mut rows = Vec::new();
    for (subject, runs) in subjects.iter().zip(&runs) {
        let row = Row::new(format!("{group}/{}", subject.name()), "ns", runs.clone());
        match subject.role() {
            Role::Floor | Role::FloorOnOurClock | Role::Peer | Role::Shown => {
                rows.push(match floor {
                    Some((name, ns)) => row.against(format!("floor: {name}"), ns),
                    None => row,
                });
            }
            Role::Ours => {
                for (what, rival, goal) in rivals {
                    if let Some((name, ns)) = rival {
                        let row = row.clone().against(format!("{what}: {name}"), ns);
                        rows.push(row.goal(goal));
                    }
                }
            }
        }
    }
    let matching = |name: &str| {
        let at = subjects.iter().position(|subject| subject.name() == name)?;
        Some(median(&runs[at]))
    };
    if let (Some(one), Some(thousand)) = (
        matching(ours::MATCHING_1),
        subjects
            .iter()
            .position(|s| s.name() == ours::MATCHING_1000),
    ) {
        let name = format!("{group}/{}", ours::MATCHING_1000);
        let row = Row::new(name, "ns", runs[thousand].clone());
        rows.push(row.against(ours::MATCHING_1, one).goal(Goal::AtMost(2.0)));
    }
    rows
}
