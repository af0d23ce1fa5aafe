//! What happened to one bucket, told for a person, and a digest of everything that happened, told for a machine.

use lease::bucket::Bucket;
use lease::message::Envelope;

use super::queue::At;

/// Lines kept: what led to a fault is near its end.
const MOST_LINES: usize = 4_000;

/// The story of one bucket, or of none.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    bucket: Option<Bucket>,
    lines: std::collections::VecDeque<String>,
}

impl Trace {
    pub(crate) fn of(bucket: Option<Bucket>) -> Self {
        Self {
            bucket,
            lines: std::collections::VecDeque::new(),
        }
    }

    pub(crate) fn lines(self) -> Vec<String> {
        self.lines.into()
    }

    fn tells(&self, bucket: Bucket) -> bool {
        self.bucket == Some(bucket)
    }

    fn say(&mut self, at: At, what: &str) {
        if self.lines.len() == MOST_LINES {
            self.lines.pop_front();
        }
        self.lines
            .push_back(format!("{:>12.6} s  {what}", at.0 as f64 / 1e9));
    }

    /// Something that concerns every bucket.
    pub(crate) fn all(&mut self, at: At, what: impl FnOnce() -> String) {
        if self.bucket.is_some() {
            self.say(at, &what());
        }
    }

    pub(crate) fn admit(&mut self, at: At, machine: usize, bucket: Bucket, units: u64) {
        if self.tells(bucket) {
            self.say(at, &format!("node {machine} admits {units}"));
        }
    }

    pub(crate) fn install(&mut self, at: At, machine: usize, bucket: Bucket, units: u64) {
        if self.tells(bucket) {
            self.say(at, &format!("node {machine} installs {units}"));
        }
    }

    pub(crate) fn take_back(&mut self, at: At, machine: usize, bucket: Bucket, units: u64) {
        if units > 0 && self.tells(bucket) {
            self.say(at, &format!("node {machine} takes back {units}"));
        }
    }

    pub(crate) fn lost(&mut self, at: At, machine: usize, bucket: Bucket, units: u64) {
        if self.tells(bucket) {
            self.say(
                at,
                &format!("node {machine} forgets the bucket, {units} unspent"),
            );
        }
    }

    /// What a message says of the bucket, and the pledge and authority that it carries.
    pub(crate) fn message(&mut self, at: At, verb: &str, from: u16, to: u16, envelope: &Envelope) {
        let Some(bucket) = self.bucket else { return };
        if let Some(report) = &envelope.report {
            let about = report.records.iter().find(|r| r.bucket == bucket);
            if about.is_some() || report.pledge.is_some() {
                let text = format!(
                    "{verb} report {from}->{to} {:?} for {:?} pledge {:?} acks {:?}: {about:?}",
                    report.seq, report.owner_epoch, report.pledge, report.acked_grant
                );
                self.say(at, &text);
            }
        }
        if let Some(grant) = &envelope.grant {
            let about = grant.records.iter().find(|r| r.bucket == bucket);
            if about.is_some() {
                let text = format!(
                    "{verb} grant {from}->{to} {:?} {:?} authority {:?} acks {:?}: {about:?}",
                    grant.seq, grant.ledger, grant.authority_from, grant.acked_report
                );
                self.say(at, &text);
            }
        }
    }
}

/// A running digest of a run. Two runs with one digest did the same, bit for bit, as far as 64 bits can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    pub(crate) const fn number(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for chunk in &mut words {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.number(u64::from_le_bytes(word));
        }
        for &byte in words.remainder() {
            self.number(u64::from(byte));
        }
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}
