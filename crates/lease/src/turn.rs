//! What every step of one input shares: settings, who this is, the time, and where results go.

use std::collections::VecDeque;

use crate::bucket::Bucket;
use crate::clock::Time;
use crate::config::Config;
use crate::node::{Event, FastPath, Identity, Output};
use crate::stats::Stats;
use crate::time::Wall;
use crate::view::Views;

pub(crate) struct Turn<'a> {
    pub config: &'a Config,
    pub me: Identity,
    pub views: &'a Views,
    pub time: Time,
    /// No incarnation before this one has used a later time; time 0 if there was none.
    pub boot: Wall,
    pub stats: &'a mut Stats,
    pub outputs: &'a mut VecDeque<Output>,
}

impl Turn<'_> {
    pub fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    pub fn wake(&mut self, bucket: Bucket, count: usize, outcome: FastPath) {
        if count > 0 {
            self.outputs.push_back(Output::Wake {
                bucket,
                count,
                outcome,
            });
        }
    }

    pub fn round_ns(&self) -> u64 {
        self.config.round.as_nanos() as u64
    }
}
