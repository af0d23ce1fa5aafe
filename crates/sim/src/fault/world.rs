//! What a swarm's fleets may have besides fixed windows of memory alone: limits counted in slots, durable limits and their
//! ledgers, reports in pieces.
//!
//! A world draws from a stream of its own, so that what it adds does not change what else a seed draws.

use lease::terms::{Shape, Terms};

use crate::chance::Chance;
use crate::fleet::{Key, Ledger, Setup, Stores};

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
    /// Any of the above, by the seed.
    Any,
}

impl World {
    /// The world of a seed.
    pub(super) fn drawn(self, chance: &mut Chance) -> Self {
        match self {
            Self::Windows | Self::Shapes | Self::Durable | Self::Pieces => self,
            Self::Any => {
                [Self::Windows, Self::Shapes, Self::Durable, Self::Pieces][chance.index(4)]
            }
        }
    }

    pub(super) fn limits(self, keys: &mut [Key], chance: &mut Chance) {
        for key in keys {
            match self {
                Self::Windows | Self::Pieces | Self::Any => {}
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
            Self::Durable => {
                let own = chance.happens(0.4);
                let least = if own { 0.0 } else { 0.01 };
                setup.stores = Stores {
                    ledger: if own { Ledger::Own } else { Ledger::Shared },
                    faults: least + 0.2 * chance.fraction() * chance.fraction(),
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
