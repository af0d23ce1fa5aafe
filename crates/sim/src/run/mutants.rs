//! Mutants: the protocol with one safety rule switched off. A checker that does not notice is no checker.

use lease::mutant::Mutant;

use super::seeds::sweep;
use crate::fault::Swarm;
use crate::fleet::Failure;

/// How one mutant fared.
#[derive(Clone, Debug)]
pub struct Hunt {
    /// Which rule was off.
    pub mutant: Mutant,
    /// Seeds run, from 0.
    pub seeds: u64,
    /// The first seed that caught it, and how; `None` if none did.
    pub caught: Option<(u64, Failure)>,
    /// How many of the seeds caught it.
    pub catches: u64,
}

/// Runs the first `seeds` seeds with a rule off; stops at the first catch, or runs all of them if `all`.
#[must_use]
pub fn hunt(mutant: Mutant, seeds: u64, threads: usize, all: bool) -> Hunt {
    let most = if all { usize::MAX } else { 1 };
    let found = sweep(
        0..seeds,
        Swarm::default(),
        threads,
        most,
        &|setup| {
            setup.config.mutant = Some(mutant);
            // Only what breaks safety counts as caught.
            setup.judged = false;
        },
        &|_| {},
    );
    Hunt {
        mutant,
        seeds: found.runs,
        catches: found.failed.len() as u64,
        caught: found
            .failed
            .into_iter()
            .next()
            .map(|failed| (failed.seed, failed.failure)),
    }
}
