//! One counter for all: each request asks it and waits for the answer.

use std::collections::BTreeMap;

use lease::bucket::Bucket;

use super::{Baseline, Request};
use crate::chance::Chance;
use crate::fleet::{At, Setup, Tally};
use crate::net::Delay;

/// What a question and an answer take on the wire: the bucket, the cost, what is left.
const BYTES_PER_MESSAGE: u64 = 32;

/// The counter.
#[derive(Debug)]
pub struct Central {
    delay: Delay,
    chance: Chance,
    admitted: BTreeMap<Bucket, u64>,
}

impl Central {
    /// For a setup's fleet and network.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        Self {
            delay: setup.link.delay,
            chance: Chance::new(setup.seed ^ 0x0063_656e_7472_616c),
            admitted: BTreeMap::new(),
        }
    }
}

impl Baseline for Central {
    /// Counted in the order in which requests come. The counter may see two that overtake each other the other way
    /// round; it admits as many of them.
    fn decide(&mut self, request: &Request, tally: &mut Tally) -> bool {
        let wait = self.delay.draw(&mut self.chance) + self.delay.draw(&mut self.chance);
        tally.waited += 1;
        tally.longest_wait_ns = tally.longest_wait_ns.max(wait);
        tally.messages += 2;
        tally.bytes += 2 * BYTES_PER_MESSAGE;
        let admitted = self.admitted.entry(request.bucket).or_default();
        let fits = *admitted + request.cost <= request.allowance;
        if fits {
            *admitted += request.cost;
        }
        fits
    }

    fn finish(&mut self, _: At, _: &mut Tally) {}
}
