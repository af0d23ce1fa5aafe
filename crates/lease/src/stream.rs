//! One direction of one pair's talk: which records are still to be told, which message may be acknowledged.
//!
//! Sending keeps, per record, the first message that carried its last change. A message says since when it is complete;
//! who has stored that one may acknowledge this one, and the sender then forgets what it had carried. An
//! acknowledgement must never cover a record that the receiver has not stored (S4).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::bucket::Bucket;
use crate::id::Seq;
use crate::message::Chunk;
use crate::time::Instant;

/// The most pieces of one message that a receiver puts together.
pub(crate) const MOST_CHUNKS: u32 = 8192;

/// How many sent messages are remembered with their time.
const MOST_TIMES: usize = 64;

/// What goes out.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    seq: u64,
    acked: u64,
    /// Changed, and in no message yet.
    changed: BTreeSet<Bucket>,
    /// In a message that is not acknowledged yet: the first since the last change.
    carried: BTreeMap<Bucket, u64>,
    times: VecDeque<(u64, Instant)>,
    /// When the last acknowledged message was sent.
    pub heard: Option<Instant>,
    /// Since when something has been waiting for an acknowledgement.
    pub waiting_since: Option<Instant>,
}

impl Outgoing {
    /// A record has changed and must be told.
    pub fn touch(&mut self, bucket: Bucket) {
        if self.changed.insert(bucket) {
            self.carried.remove(&bucket);
        }
    }

    /// A record is gone: nothing more is to be told of it.
    pub fn forget(&mut self, bucket: Bucket) {
        self.changed.remove(&bucket);
        self.carried.remove(&bucket);
    }

    pub fn is_told(&self, bucket: Bucket) -> bool {
        !self.changed.contains(&bucket) && !self.carried.contains_key(&bucket)
    }

    pub fn has_news(&self) -> bool {
        !self.changed.is_empty() || !self.carried.is_empty()
    }

    pub fn news_count(&self) -> usize {
        self.changed.len() + self.carried.len()
    }

    /// Numbers a message that carries every record not yet acknowledged, in order of buckets.
    pub fn full(&mut self, now: Instant) -> (Seq, Seq, Vec<Bucket>) {
        let seq = self.number(now);
        for bucket in std::mem::take(&mut self.changed) {
            self.carried.insert(bucket, seq);
        }
        if !self.carried.is_empty() {
            self.waiting_since.get_or_insert(now);
        }
        let buckets = self.carried.keys().copied().collect();
        (Seq(seq), Seq(self.acked), buckets)
    }

    /// Numbers a message about these buckets only.
    pub fn urgent(&mut self, buckets: &[Bucket], now: Instant) -> (Seq, Seq) {
        let seq = self.number(now);
        for bucket in buckets {
            if self.changed.remove(bucket) {
                self.carried.insert(*bucket, seq);
            }
        }
        self.waiting_since.get_or_insert(now);
        (Seq(seq), Seq(seq - 1))
    }

    /// Numbers a message that carries nothing: to see whether anybody is there. What was under way is told again later.
    pub fn probe(&mut self, now: Instant) -> (Seq, Seq) {
        let seq = self.number(now);
        self.changed
            .extend(std::mem::take(&mut self.carried).into_keys());
        (Seq(seq), Seq(self.acked))
    }

    fn number(&mut self, now: Instant) -> u64 {
        self.seq += 1;
        if self.times.len() == MOST_TIMES {
            self.times.pop_front();
        }
        self.times.push_back((self.seq, now));
        self.seq
    }

    pub fn ack(&mut self, seq: Seq) {
        let seq = seq.0;
        if seq <= self.acked || seq > self.seq {
            return;
        }
        self.acked = seq;
        self.carried.retain(|_, first| *first > seq);
        while let Some((sent, at)) = self.times.front().copied()
            && sent <= seq
        {
            self.heard = Some(at);
            self.times.pop_front();
        }
        self.waiting_since = self
            .carried
            .values()
            .min()
            .and_then(|first| self.times.iter().find(|(sent, _)| sent >= first))
            .map(|(_, at)| *at);
    }

    /// The receiver is another incarnation, which has nothing: only messages from here on count, and everything under
    /// way is told again.
    pub fn restart(&mut self) {
        self.acked = 0;
        self.times.clear();
        self.heard = None;
        self.waiting_since = None;
        self.changed
            .extend(std::mem::take(&mut self.carried).into_keys());
    }

    /// The receiver is another incarnation, and nothing that was to be told concerns it.
    pub fn clear(&mut self) {
        self.restart();
        self.changed.clear();
    }
}

/// What comes in.
#[derive(Debug, Default)]
pub(crate) struct Incoming {
    /// The largest message that has been stored whole, with all that it rests on.
    stored: u64,
    partial: Option<Partial>,
}

#[derive(Debug)]
struct Partial {
    seq: u64,
    since: u64,
    count: u32,
    seen: BTreeSet<u32>,
    whole: bool,
}

impl Incoming {
    pub const fn stored(&self) -> Seq {
        Seq(self.stored)
    }

    /// A piece has come; `stored` says whether every record in it has been stored. Says whether the message now counts.
    pub fn piece(&mut self, seq: Seq, since: Seq, chunk: Chunk, stored: bool) -> bool {
        if seq.0 <= self.stored || chunk.index >= chunk.count || chunk.count > MOST_CHUNKS {
            return false;
        }
        let (whole, since) = if chunk.count == 1 {
            (stored, since.0)
        } else {
            let fresh = match &self.partial {
                Some(partial) => partial.seq < seq.0,
                None => true,
            };
            if fresh {
                self.partial = Some(Partial {
                    seq: seq.0,
                    since: since.0,
                    count: chunk.count,
                    seen: BTreeSet::new(),
                    whole: true,
                });
            }
            let Some(partial) = self
                .partial
                .as_mut()
                .filter(|partial| partial.seq == seq.0 && partial.count == chunk.count)
            else {
                return false;
            };
            partial.whole &= stored;
            partial.since = partial.since.max(since.0);
            partial.seen.insert(chunk.index);
            let all = partial.seen.len() == partial.count as usize;
            (all && partial.whole, partial.since)
        };
        if !whole || since > self.stored {
            return false;
        }
        self.stored = seq.0;
        self.partial = None;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Subject, WindowId};

    fn bucket(number: u128) -> Bucket {
        Bucket {
            subject: Subject(number),
            window: WindowId(1),
        }
    }

    const WHOLE: Chunk = Chunk { index: 0, count: 1 };

    #[test]
    fn an_urgent_message_after_a_lost_one_is_not_acknowledged() {
        let (mut out, mut into) = (Outgoing::default(), Incoming::default());
        out.touch(bucket(1));
        out.full(Instant(1)); // lost
        out.touch(bucket(2));
        let (seq, since) = out.urgent(&[bucket(2)], Instant(2));
        assert!(!into.piece(seq, since, WHOLE, true));
        out.ack(into.stored());
        assert!(!out.is_told(bucket(1)) && !out.is_told(bucket(2)));
        let (seq, since, carried) = out.full(Instant(3));
        assert_eq!(carried, [bucket(1), bucket(2)]);
        assert!(into.piece(seq, since, WHOLE, true));
        out.ack(into.stored());
        assert!(out.is_told(bucket(1)) && out.is_told(bucket(2)));
        assert_eq!(out.heard, Some(Instant(3)));
    }

    #[test]
    fn a_change_after_a_message_was_sent_outlives_its_acknowledgement() {
        let mut out = Outgoing::default();
        out.touch(bucket(1));
        let (seq, _, _) = out.full(Instant(1));
        out.touch(bucket(1));
        out.ack(seq);
        assert!(!out.is_told(bucket(1)));
    }

    #[test]
    fn a_message_in_pieces_counts_only_when_every_piece_was_stored() {
        let piece = |index| Chunk { index, count: 3 };
        let mut into = Incoming::default();
        assert!(!into.piece(Seq(4), Seq(0), piece(2), true));
        assert!(!into.piece(Seq(4), Seq(0), piece(0), true));
        assert!(!into.piece(Seq(4), Seq(0), piece(0), true));
        assert!(into.piece(Seq(4), Seq(0), piece(1), true));
        assert_eq!(into.stored(), Seq(4));
        assert!(!into.piece(Seq(5), Seq(4), piece(0), false));
        assert!(!into.piece(Seq(5), Seq(4), piece(1), true));
        assert!(!into.piece(Seq(5), Seq(4), piece(2), true));
        assert_eq!(into.stored(), Seq(4));
    }

    #[test]
    fn an_acknowledgement_from_a_new_incarnation_does_not_cover_what_the_old_one_was_told() {
        let mut out = Outgoing::default();
        out.touch(bucket(1));
        let (seq, _, _) = out.full(Instant(1));
        out.restart();
        out.ack(seq);
        assert!(!out.is_told(bucket(1)));
    }
}
