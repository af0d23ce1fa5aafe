//! What a swarm's fleets may have besides fixed windows of memory alone: limits counted in slots, durable limits and their
//! ledgers, reports in pieces.
//!
//! A world draws from a stream of its own, so that what it adds does not change what else a seed draws.

use lease::terms::{Shape, Terms};

use super::{Fault, Planned};
use crate::chance::Chance;
use crate::fleet::{At, Key, Ledger, Setup, Stores};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A family of worlds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum World {
    /// Fixed windows only.
    #[default]
    Windows,
    /// Sliding windows and token buckets too.
    Shapes,
    /// Durable limits, and a ledger for them.
    Durable,
    /// Messages of one or two records, so that most go in pieces.
    Pieces,
    /// A list of members in a store: they join, leave, die and come back. Runs last minutes, as leases do.
    Members,
    /// Any of the above, but for lists in a store, by the seed.
    Any,
}

impl World {
    /// The world of a seed.
    pub(super) fn drawn(self, chance: &mut Chance) -> Self {
        match self {
            Self::Windows | Self::Shapes | Self::Durable | Self::Pieces | Self::Members => self,
            Self::Any => {
                [Self::Windows, Self::Shapes, Self::Durable, Self::Pieces][chance.index(4)]
            }
        }
    }

    /// How long faults go on at most, where others last so many nanoseconds.
    pub(super) const fn lasts(self, most_ns: u64) -> u64 {
        match self {
            // A lease is two minutes.
            Self::Members => most_ns * 45,
            Self::Windows | Self::Shapes | Self::Durable | Self::Pieces | Self::Any => most_ns,
        }
    }

    pub(super) fn limits(self, keys: &mut [Key], chance: &mut Chance) {
        for key in keys {
            match self {
                Self::Windows | Self::Pieces | Self::Any => {}
                Self::Members => {
                    key.terms.units = key.terms.units.min(12);
                    key.terms.window_ns = chance.between(500, 2_000) * MS;
                }
                Self::Shapes => shape(&mut key.terms, chance),
                Self::Durable => {
                    key.terms.durable = chance.happens(0.7);
                    if key.terms.durable {
                        // Long enough for owners to come and go.
                        key.terms.window_ns *= chance.between(1, 4);
                    }
                }
            }
        }
    }

    pub(super) fn surround(self, setup: &mut Setup, chance: &mut Chance) {
        match self {
            Self::Windows | Self::Shapes | Self::Any => {}
            Self::Pieces => setup.config.most_records = chance.between(1, 2) as usize,
            Self::Members => members(setup, chance),
            Self::Durable => {
                let own = chance.happens(0.4);
                let least = if own { 0.0 } else { 0.01 };
                setup.stores = Stores {
                    ledger: if own { Ledger::Own } else { Ledger::Shared },
                    faults: least + 0.2 * chance.fraction() * chance.fraction(),
                    ..Stores::default()
                };
                setup.config.tranche_percent = chance.between(1, 50) as u32;
                // A tranche is lost with each owner, and a ledger that fails keeps units back.
                setup.judged = false;
            }
        }
    }
}

fn shape(terms: &mut Terms, chance: &mut Chance) {
    terms.shape = match chance.index(3) {
        0 => Shape::FixedWindow,
        1 => Shape::SlidingWindow,
        _ => {
            let slots = terms.window_ns / Terms::TOKEN_BUCKET_SLOT_NS;
            let least = terms.units / slots.max(1) + 1;
            Shape::TokenBucket {
                burst: chance.between(least, least.max(2 * terms.units)),
            }
        }
    };
}

fn clocks_agree(setup: &Setup) -> bool {
    let stepped = setup
        .plan
        .iter()
        .any(|planned| matches!(planned.fault, Fault::Step(..)));
    let most = SECOND / 10;
    !stepped
        && setup
            .clock_errors_ns
            .iter()
            .all(|error| error.unsigned_abs() < most)
}

/// A minute to three, in which the list changes.
fn members(setup: &mut Setup, chance: &mut Chance) {
    setup.stores = Stores {
        members: true,
        // A name is only safe on two machines if clocks, which say whose lease is over, differ by little.
        twin: setup.nodes > 2 && chance.happens(0.2) && clocks_agree(setup),
        faults: 0.1 * chance.fraction(),
        ..Stores::default()
    };
    setup.judged = false;
    let until = setup.heal.map_or(setup.end.0, |heal| heal.0);
    let mut put = |at: u64, fault| {
        if at < until {
            let at = At(at);
            setup.plan.push(Planned { at, fault });
        }
    };
    for node in 0..setup.nodes {
        match chance.index(5) {
            // It joins late.
            0 => {
                put(0, Fault::Crash(node));
                put(chance.below(until), Fault::Start(node));
            }
            // It leaves, and perhaps comes back. Whose name is on two machines does not.
            1 if !setup.stores.twin => {
                let at = chance.below(until);
                put(at, Fault::Leave(node));
                put(at + chance.between(10, 60) * SECOND, Fault::Start(node));
            }
            // It dies for good, or for longer than its lease.
            2 => {
                let at = chance.below(until);
                put(at, Fault::Crash(node));
                put(at + chance.between(20, 200) * SECOND, Fault::Start(node));
            }
            _ => {}
        }
    }
    if chance.happens(0.3) {
        let at = chance.below(until);
        put(at, Fault::StoreOut);
        put(at + chance.between(1, 150) * SECOND, Fault::StoreBack);
    }
    setup.plan.sort_by_key(|planned| planned.at);
}
