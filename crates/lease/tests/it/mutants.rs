//! Each safety rule switched off in turn is noticed by the random fleets within so many seeds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use leasehold_lease::config::Config;
use leasehold_lease::mutant::Mutant;

use super::random::run;

/// Seeds that a mutant may take to be noticed; the simulator, which has nastier faults, states its own.
const SEEDS: u64 = 400;

/// These need faults that only the simulator has: messages that outlive a process by seconds, owners that come and go
/// while a durable bucket lasts, lists that are heard of at other times.
const SIMULATED: [Mutant; 4] = [
    Mutant::NoEpochCheck,
    Mutant::FirstChunkCounts,
    Mutant::ReturnsOfAnyLedger,
    Mutant::NewestView,
];

#[test]
fn a_rule_that_is_switched_off_is_noticed() {
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for mutant in Mutant::ALL {
        if SIMULATED.contains(&mutant) {
            continue;
        }
        let config = Config {
            mutant: Some(mutant),
            ..Config::default()
        };
        let caught = (0..SEEDS).find(|seed| {
            let config = config.clone();
            catch_unwind(AssertUnwindSafe(|| run(*seed, config))).is_err()
        });
        println!("{mutant:?}: {caught:?}");
        if caught.is_none() {
            missed.push(mutant);
        }
    }
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}
