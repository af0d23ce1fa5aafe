//! Each node admits on the last total that it knows: all nodes tell all others their counts every 100 ms.

use std::collections::BTreeMap;

use lease::bucket::Bucket;

use super::{Baseline, Request};
use crate::fleet::{At, Setup, Tally};

/// How often counts are told, in nanoseconds.
const EVERY_NS: u64 = 100_000_000;
/// What telling one count takes on the wire: the bucket and a number.
const BYTES_PER_COUNT: u64 = 32;

/// One bucket's counts.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// By node, as of now.
    now: Vec<u64>,
    /// By node, as last told.
    told: Vec<u64>,
}

/// Counts that are told.
#[derive(Debug)]
pub struct Gossip {
    nodes: usize,
    buckets: BTreeMap<Bucket, Counts>,
    /// Buckets counted in since the last telling.
    changed: Vec<Bucket>,
    tells_at: u64,
}

impl Gossip {
    /// For a setup's fleet.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        Self {
            nodes: setup.nodes,
            buckets: BTreeMap::new(),
            changed: Vec::new(),
            tells_at: EVERY_NS,
        }
    }

    fn tell(&mut self, until: At, tally: &mut Tally) {
        let others = self.nodes.saturating_sub(1) as u64;
        while self.tells_at <= until.0 {
            self.tells_at += EVERY_NS;
            tally.messages += self.nodes as u64 * others;
            self.changed.sort_unstable();
            self.changed.dedup();
            for bucket in self.changed.drain(..) {
                if let Some(counts) = self.buckets.get_mut(&bucket) {
                    let pairs = counts.now.iter().zip(&counts.told);
                    let fresh = pairs.filter(|(now, told)| now != told).count() as u64;
                    tally.bytes += fresh * BYTES_PER_COUNT * others;
                    counts.told.clone_from(&counts.now);
                }
            }
        }
    }
}

impl Baseline for Gossip {
    fn decide(&mut self, request: &Request, tally: &mut Tally) -> bool {
        self.tell(request.at, tally);
        let nodes = self.nodes;
        let counts = self
            .buckets
            .entry(request.bucket)
            .or_insert_with(|| Counts {
                now: vec![0; nodes],
                told: vec![0; nodes],
            });
        let others = counts.told.iter().sum::<u64>() - counts.told[request.node];
        let fits = others + counts.now[request.node] + request.cost <= request.allowance;
        if fits {
            counts.now[request.node] += request.cost;
            self.changed.push(request.bucket);
        }
        fits
    }

    fn finish(&mut self, end: At, tally: &mut Tally) {
        self.tell(end, tally);
    }
}
