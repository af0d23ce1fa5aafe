//! What others do, for comparison, on the same traffic: a fixed share of each limit per node, nodes that tell each
//! other their counts now and then, and one counter that every request asks.
//!
//! They run without faults. They are here to be measured, not to be used.

mod central;
mod fixed;
mod gossip;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use lease::bucket::Bucket;

pub use central::Central;
pub use fixed::Fixed;
pub use gossip::Gossip;

use crate::chance::Chance;
use crate::check::Accounts;
use crate::fleet::{At, Limits, Outcome, START, Setup, Tally, flows, shares};
use crate::traffic::{Arrival, Flow};

/// A request, as a baseline sees it.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// When it comes.
    pub at: At,
    /// To which node.
    pub node: usize,
    /// What it counts against.
    pub bucket: Bucket,
    /// The units that the bucket may admit.
    pub allowance: u64,
    /// The units that it asks for.
    pub cost: u64,
}

/// A way to decide.
pub trait Baseline {
    /// Whether the request is admitted.
    fn decide(&mut self, request: &Request, tally: &mut Tally) -> bool;

    /// The run is over: what was sent until then, other than for a request, is counted.
    fn finish(&mut self, end: At, tally: &mut Tally);
}

/// Runs a setup's traffic through a baseline.
#[must_use]
pub fn run(setup: &Setup, baseline: &mut dyn Baseline) -> Outcome {
    let mut chance = Chance::new(setup.seed);
    // A fleet's network draws from a stream of its own; without the same fork here it would be other traffic.
    let _ = chance.fork();
    let mut order = Order::new(flows(setup, &mut chance));
    let limits = Limits::new(&setup.keys, setup.nodes);
    let mut accounts = Accounts::default();
    accounts.lenient = true;
    let mut tally = Tally::default();
    while let Some(arrival) = order.next(setup.end) {
        let key = setup.keys[arrival.key];
        let units = key.terms.units;
        let wall = START.plus(Duration::from_nanos(arrival.at.0));
        let request = Request {
            at: arrival.at,
            node: arrival.node,
            bucket: key.subject.bucket_at(key.terms.window_ns, wall),
            allowance: units,
            cost: arrival.cost,
        };
        tally.requests += 1;
        tally.events += 1;
        accounts.asked(request.bucket, units, request.cost);
        if baseline.decide(&request, &mut tally) {
            tally.admitted_units += request.cost;
            accounts.admitted(request.at, request.bucket, units, request.cost);
        }
    }
    baseline.finish(setup.end, &mut tally);
    Outcome {
        failure: None,
        digest: 0,
        shares: shares(setup, &limits, &accounts),
        tally,
    }
}

/// The streams by when their next requests come; of one instant, the earlier in the setup first.
struct Order {
    flows: Vec<Flow>,
    next: BinaryHeap<Reverse<(At, usize)>>,
}

impl Order {
    fn new(flows: Vec<Flow>) -> Self {
        let first = flows.iter().enumerate();
        let next = first.filter_map(|(place, flow)| Some(Reverse((flow.when()?, place))));
        Self {
            next: next.collect(),
            flows,
        }
    }

    fn next(&mut self, end: At) -> Option<Arrival> {
        let Reverse((at, place)) = self.next.pop()?;
        if at >= end {
            return None;
        }
        let flow = &mut self.flows[place];
        let arrival = flow.take();
        if let Some(at) = flow.when() {
            self.next.push(Reverse((at, place)));
        }
        arrival
    }
}
