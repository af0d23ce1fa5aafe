//! The simulated fleet: one seed gives one run.

use sim::fault::{Swarm, swarm};
use sim::fleet::run;

#[test]
fn one_seed_gives_the_same_bytes_twice() {
    for seed in 0..20 {
        let setup = swarm(seed, Swarm::default());
        let (first, second) = (run(&setup), run(&setup));
        assert_eq!(first, second, "seed {seed}");
        assert!(first.tally.events > 1_000, "seed {seed}: {first:?}");
    }
}

#[test]
fn other_seeds_give_other_runs() {
    let digests: std::collections::BTreeSet<u64> = (0..50)
        .map(|seed| run(&swarm(seed, Swarm::default())).digest)
        .collect();
    assert_eq!(digests.len(), 50);
}
