//! What a run did, counted.

use std::collections::BTreeMap;

use lease::message::Envelope;
use lease::stats::Stats;
use lease::terms::Shape;

/// Counts of one run, or of many added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Events that were taken from the queue or caused by one, each checked.
    pub events: u64,
    /// Requests that reached a running node.
    pub requests: u64,
    /// Units admitted.
    pub admitted_units: u64,
    /// Requests that waited for the fast path.
    pub waited: u64,
    /// Requests that waited until the deadline.
    pub missed: u64,
    /// Requests that found no running node.
    pub unserved: u64,
    /// The longest that a request waited, in nanoseconds.
    pub longest_wait_ns: u64,
    /// Messages sent between machines.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How often each fault happened and each rule of the protocol was at work.
    pub seen: BTreeMap<&'static str, u64>,
}

impl Tally {
    /// One more of something.
    pub(crate) fn saw(&mut self, what: &'static str) {
        self.saw_times(what, 1);
    }

    pub(crate) fn saw_times(&mut self, what: &'static str, times: u64) {
        *self.seen.entry(what).or_default() += times;
    }

    /// Which rules a message shows at work.
    pub(crate) fn said(&mut self, envelope: &Envelope) {
        let Some(report) = &envelope.report else {
            return;
        };
        if report.chunk.count > 1 {
            self.saw("message in pieces");
        }
        for record in &report.records {
            if record.self_granted > 0 {
                self.saw(match record.terms.shape {
                    Shape::FixedWindow => "share alone in a fixed window",
                    Shape::SlidingWindow => "share alone in a sliding window",
                    Shape::TokenBucket { .. } => "share alone in a token bucket",
                });
            }
        }
    }

    /// What a process has done, when it ends.
    pub(crate) fn process(&mut self, stats: &Stats) {
        for (what, times) in [
            ("rejected envelopes", stats.envelopes_rejected),
            ("fast path asked", stats.fast_path_asked),
            ("fast path credit", stats.fast_path_credit),
            ("fast path exhausted", stats.fast_path_exhausted),
            ("fast path missed", stats.fast_path_missed),
            ("fast path refused", stats.fast_path_refused),
            ("issued units", stats.issued_units),
            ("returned units", stats.returned_units),
            ("recalls", stats.recalls),
            ("self-grants", stats.self_grants),
            ("opened buckets", stats.opened),
            ("invariant broken", stats.invariant_broken),
            ("table mismatch", stats.table_mismatch),
        ] {
            self.saw_times(what, times);
        }
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.events += other.events;
        self.requests += other.requests;
        self.admitted_units += other.admitted_units;
        self.waited += other.waited;
        self.missed += other.missed;
        self.unserved += other.unserved;
        self.longest_wait_ns = self.longest_wait_ns.max(other.longest_wait_ns);
        self.messages += other.messages;
        self.bytes += other.bytes;
        for (what, times) in &other.seen {
            self.saw_times(what, *times);
        }
    }
}
