//! Each safety rule of the protocol switched off in turn, and disks that lie: a checker that does not notice is no checker.

use lease::mutant::Mutant;
use sim::fault::{Swarm, World, swarm};
use sim::fleet::{Failure, Ledger, Setup, run};

use super::schedules;

/// When a known seed no longer catches a mutant, since the protocol has changed, so many are tried.
const SEEDS: u64 = 400;

/// What is known to catch a mutant.
enum By {
    /// A seed of a swarm.
    Seed(World, u64),
    /// A schedule made for it.
    Schedule(fn() -> Setup),
    /// Nothing: another rule gives the same safety, and one mutant switches off one rule. A report to the incarnation
    /// before says since which report it is complete; a new incarnation has not stored that one, so the report counts
    /// for nothing, whichever owner it names. Where it rests on none, all that was taken alone is listed in it.
    AnotherRule,
}

const fn known(mutant: Mutant) -> By {
    match mutant {
        Mutant::NoHoldback => By::Seed(World::Windows, 4),
        Mutant::NoEpochSum => By::Seed(World::Windows, 12),
        Mutant::NoPledgeFloor => By::Seed(World::Windows, 3),
        Mutant::NoBootFloor => By::Seed(World::Windows, 65),
        Mutant::SelfGrantTwice => By::Seed(World::Windows, 1),
        Mutant::NoAuthority => By::Seed(World::Windows, 136),
        Mutant::GrantsAsDeltas | Mutant::ReturnsAsDeltas | Mutant::SendBeforeCharge => {
            By::Seed(World::Windows, 0)
        }
        Mutant::NoGenerations => By::Seed(World::Durable, 36),
        Mutant::NoFloor => By::Seed(World::Windows, 605),
        Mutant::DropEarly => By::Seed(World::Windows, 0),
        Mutant::ReturnsOfAnyLedger => By::Seed(World::Durable, 181),
        Mutant::NoBase => By::Seed(World::Durable, 4),
        Mutant::FirstChunkCounts => By::Schedule(schedules::report_in_pieces),
        Mutant::NoEpochCheck => By::AnotherRule,
        Mutant::NewestView => By::Schedule(schedules::windows_of_two_lists),
    }
}

/// Too much credit: nothing else counts as noticed.
fn caught(mut setup: Setup, mutant: Mutant) -> bool {
    setup.config.mutant = Some(mutant);
    setup.judged = false;
    over(&setup)
}

fn over(setup: &Setup) -> bool {
    match run(setup).failure {
        Some(Failure::OverAdmission(_) | Failure::OverSpan(_)) => true,
        Some(other) => panic!("{other}"),
        None => false,
    }
}

fn of(world: World, seed: u64) -> Setup {
    let drawn = Swarm {
        world,
        ..Swarm::default()
    };
    swarm(seed, drawn)
}

#[test]
fn a_rule_that_is_switched_off_is_noticed() {
    let missed: Vec<String> = Mutant::ALL
        .into_iter()
        .filter_map(|mutant| match known(mutant) {
            By::Seed(world, seed) => {
                let noticed = caught(of(world, seed), mutant)
                    || (0..SEEDS).any(|seed| caught(of(world, seed), mutant));
                (!noticed).then(|| format!("{mutant:?}: seed {seed}, nor any below {SEEDS}"))
            }
            By::AnotherRule => None,
            By::Schedule(schedule) => {
                (!caught(schedule(), mutant)).then(|| format!("{mutant:?}: its schedule"))
            }
        })
        .collect();
    assert!(missed.is_empty(), "not noticed: {missed:?}");
}

#[test]
fn the_schedules_break_nothing_while_the_rules_hold() {
    for schedule in [schedules::report_in_pieces, schedules::windows_of_two_lists] {
        let outcome = run(&schedule());
        assert_eq!(outcome.failure, None);
        assert!(outcome.tally.admitted_units > 0);
    }
}

/// An owner's own ledger rests on a disk that keeps what it says it has synced.
#[test]
fn a_disk_that_lies_is_noticed() {
    let noticed = (0..SEEDS).find(|&seed| {
        let mut setup = of(World::Durable, seed);
        setup.judged = false;
        setup.stores.ledger = Ledger::OwnOnLyingDisks;
        over(&setup)
    });
    assert!(noticed.is_some());
}
