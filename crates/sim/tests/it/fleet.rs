//! The simulated fleet: one seed gives one run.

use sim::fault::{Swarm, World, swarm};
use sim::fleet::{Tally, run};
use sim::run::sweep;

const ANY: Swarm = Swarm {
    most_nodes: 7,
    most_faulty_ns: 4_000_000_000,
    world: World::Any,
};

#[test]
fn one_seed_gives_the_same_bytes_twice() {
    for seed in 0..20 {
        let setup = swarm(seed, ANY);
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

/// Of more than 100 requests in line each question once asked for one.
#[test]
fn a_long_line_is_served_within_the_deadline() {
    for seed in [10_701, 17_113, 22_863, 44_111] {
        let outcome = run(&swarm(seed, Swarm::default()));
        assert_eq!(outcome.failure, None, "seed {seed}");
    }
}

/// What was held back for a member whose clock is behind once stayed with the owner for the whole window.
#[test]
fn what_was_held_back_is_issued_once_it_is_pledged() {
    for seed in [4_278, 7_483, 55_120, 203_542] {
        let outcome = run(&swarm(seed, Swarm::default()));
        assert_eq!(outcome.failure, None, "seed {seed}");
    }
}

#[test]
fn no_seed_breaks_the_bound_or_starves_once_healed() {
    let found = sweep(0..60, Swarm::default(), 2, 1, &|_| {}, &|_| {});
    let told: Vec<String> = found
        .failed
        .iter()
        .map(|failed| format!("seed {}: {}", failed.seed, failed.failure))
        .collect();
    assert!(told.is_empty(), "{told:?}");
    assert_eq!(found.runs, 60);
    // What is said to be tried must have been tried.
    for what in [
        "crash",
        "stop",
        "cut",
        "bus out",
        "links change",
        "slow machine",
        "clock step",
        "clock drift",
        "eviction of held credit",
        "policy change",
        "self-grants",
        "recalls",
        "fast path missed",
        "behind floor",
        "degraded",
    ] {
        assert!(found.tally.seen.get(what).is_some_and(|&n| n > 0), "{what}");
    }
}

#[test]
fn limits_in_slots_durable_ones_and_messages_in_pieces_keep_their_bounds() {
    let mut tally = Tally::default();
    for (world, seeds) in [
        (World::Shapes, 16),
        (World::Durable, 30),
        (World::Pieces, 6),
    ] {
        let found = sweep(0..seeds, Swarm { world, ..ANY }, 2, 1, &|_| {}, &|_| {});
        let told: Vec<String> = found
            .failed
            .iter()
            .map(|failed| format!("{world:?}, seed {}: {}", failed.seed, failed.failure))
            .collect();
        assert!(told.is_empty(), "{told:?}");
        tally.add(&found.tally);
    }
    for what in [
        "tranche",
        "ledger question lost",
        "ledger answer lost",
        "ledger change late",
        "ledger write cut short",
        "ledger opening cut short",
        "share alone in a sliding window",
        "share alone in a token bucket",
        "message in pieces",
    ] {
        assert!(tally.seen.get(what).is_some_and(|&n| n > 0), "{what}");
    }
}

/// S11: lists change while windows run, by the store's own machine and bytes. Each run is one to three minutes.
#[test]
fn members_come_and_go_and_each_window_has_one_issuer() {
    let drawn = Swarm {
        most_nodes: 5,
        world: World::Members,
        ..ANY
    };
    let found = sweep(0..6, drawn, 2, 1, &|_| {}, &|_| {});
    let told: Vec<String> = found
        .failed
        .iter()
        .map(|failed| format!("seed {}: {}", failed.seed, failed.failure))
        .collect();
    assert!(told.is_empty(), "{told:?}");
    for what in [
        "new list",
        "member dropped",
        "member left",
        "name taken",
        "list's answer lost",
        "list's writing overtaken",
        "store out",
        "self-grants",
    ] {
        assert!(found.tally.seen.get(what).is_some_and(|&n| n > 0), "{what}");
    }
}
