//! Each node admits its share of each limit and asks nobody.

use std::collections::BTreeMap;

use lease::bucket::Bucket;
use lease::id::ViewId;
use lease::view::View;

use super::{Baseline, Request};
use crate::fleet::{At, Setup, Tally, node_id};

/// Shares that add up to exactly the limit.
#[derive(Debug)]
pub struct Fixed {
    view: View,
    admitted: BTreeMap<(Bucket, usize), u64>,
}

impl Fixed {
    /// For a setup's fleet.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        Self {
            view: View::fixed(ViewId(1), (0..setup.nodes).map(node_id).collect()),
            admitted: BTreeMap::new(),
        }
    }
}

impl Baseline for Fixed {
    fn decide(&mut self, request: &Request, _: &mut Tally) -> bool {
        let node = self.view.members[request.node];
        let share = self.view.share(request.bucket, node, request.allowance);
        let admitted = self
            .admitted
            .entry((request.bucket, request.node))
            .or_default();
        let fits = *admitted + request.cost <= share;
        if fits {
            *admitted += request.cost;
        }
        fits
    }

    fn finish(&mut self, _: At, _: &mut Tally) {}
}
