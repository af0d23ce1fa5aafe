//! A sweep: the run of every seed in a range, over threads.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault::{Swarm, swarm};
use crate::fleet::{Failure, Outcome, Setup, Tally, run};

/// A seed whose run a checker stopped.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Which.
    pub seed: u64,
    /// What was found.
    pub failure: Failure,
    /// The run.
    pub setup: Setup,
}

/// What came of a range of seeds.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Runs made.
    pub runs: u64,
    /// All of them added up.
    pub tally: Tally,
    /// The failed ones, by seed.
    pub failed: Vec<Failed>,
}

/// Runs every seed of a range on so many threads. `change` may alter what a seed draws; `each` hears of every run when
/// it is done, in no order. After `most_failed` failures no further run is begun.
pub fn sweep(
    seeds: Range<u64>,
    drawn: Swarm,
    threads: usize,
    most_failed: usize,
    change: &(dyn Fn(&mut Setup) + Sync),
    each: &(dyn Fn(&Outcome) + Sync),
) -> Sweep {
    let next = AtomicU64::new(seeds.start);
    let all = Mutex::new(Sweep::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut own = Sweep::default();
                loop {
                    // Relaxed: the number is all that is shared; results go through the lock.
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let mut setup = swarm(seed, drawn);
                    change(&mut setup);
                    let outcome = run(&setup);
                    own.runs += 1;
                    own.tally.add(&outcome.tally);
                    each(&outcome);
                    if let Some(failure) = outcome.failure {
                        own.failed.push(Failed {
                            seed,
                            failure,
                            setup,
                        });
                        if own.failed.len() >= most_failed {
                            next.store(seeds.end, Ordering::Relaxed);
                        }
                    }
                }
                let mut all = all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                all.runs += own.runs;
                all.tally.add(&own.tally);
                all.failed.append(&mut own.failed);
            });
        }
    });
    let mut all = all
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    all.failed.sort_by_key(|failed| failed.seed);
    all
}
