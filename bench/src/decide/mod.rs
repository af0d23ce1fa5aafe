//! In process: nanoseconds per decision, all subjects built first and then run in turn.
//!
//! A group is one number of keys, one spread and one number of threads; its rows are held against the floor of the
//! same group and never against another group's.

pub mod draws;
mod floor;
mod peers;
pub mod subject;

use crate::plan::Plan;
use crate::row::{Goal, Row, median};
use draws::{Draws, Spread};
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

fn group_name(keys: u32, spread: Spread, threads: usize) -> String {
    format!("decide/{keys} keys/{}/{threads}t", spread.word())
}

fn subjects(keys: u32) -> Vec<Box<dyn Subject>> {
    vec![
        Box::new(floor::ClockOnly),
        Box::new(floor::Papaya::new(keys)),
        Box::new(floor::SccIndex::new(keys)),
        Box::new(floor::SccMap::new(keys)),
        Box::new(floor::Dash::new(keys)),
        Box::new(peers::governor_quanta(keys)),
        Box::new(peers::governor_std(keys)),
        Box::new(peers::Limitador::new(keys)),
        Box::new(peers::PingoraLimits::new()),
    ]
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
    let peer = best(Role::Peer);
    let mut rows = Vec::new();
    for (subject, runs) in subjects.iter().zip(&runs) {
        let row = Row::new(format!("{group}/{}", subject.name()), "ns", runs.clone());
        let row = match floor {
            Some((name, ns)) => row.against(format!("floor: {name}"), ns),
            None => row,
        };
        match subject.role() {
            Role::Floor | Role::Peer | Role::Shown => rows.push(row),
            Role::Ours => {
                let bound = if keys >= 1_000_000 { 1.0 } else { 1.3 };
                rows.push(row.goal(Goal::AtMost(bound)));
                if let Some((name, ns)) = peer {
                    let row = Row::new(format!("{group}/{}", subject.name()), "ns", runs.clone());
                    rows.push(
                        row.against(format!("fastest exact peer: {name}"), ns)
                            .goal(Goal::Below(1.0)),
                    );
                }
            }
        }
    }
    rows
}
