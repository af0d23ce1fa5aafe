//! What a holder says: which buckets are worth telling of (L), the pledge (S8), and the report itself.

use crate::bucket::Bucket;
use crate::config::{PLEDGE_AHEAD, SKEW};
use crate::credit::Credit;
use crate::id::NodeId;
use crate::message::{Chunk, Pledge, Report, ReportRecord};
use crate::stream::MOST_CHUNKS;
use crate::terms::Mode;
use crate::turn::Turn;

use super::{Holder, Owner, rounds_until};

/// What was spent is told this often at least, in rounds, while it changes.
const TELL_ROUNDS: u64 = 8;

/// How much a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Say<'a> {
    /// Everything that is not acknowledged.
    All,
    /// These buckets only, at once.
    Urgent(&'a [Bucket]),
    /// Nothing: is anybody there?
    Probe,
}

impl Holder {
    /// Decides whether a bucket that was just looked at has news for its owner.
    pub(super) fn tell(&mut self, bucket: Bucket, round_ns: u64, turn: &Turn<'_>) {
        let round = self.round;
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return;
        };
        let from = turn.time.held.max(entry.start);
        let demand = entry
            .demand
            .expected(rounds_until(from, entry.end, round_ns))
            .min(entry.terms.units);
        let told = entry.told;
        let since = round.saturating_sub(told.round);
        let appeared = (demand == 0) != (told.demand == 0);
        let changed = demand > told.demand.saturating_mul(2) || demand < told.demand / 4;
        let low =
            entry.available < told.available / 2 && demand > entry.available && !entry.exhausted;
        let spent = entry.spent() != told.spent;
        let worth = appeared
            || (low && since > 0)
            || (changed && since >= 4)
            || (spent && since >= TELL_ROUNDS);
        if worth && let Some(owner) = self.owners.get_mut(&entry.owner) {
            owner.out.touch(bucket);
        }
    }

    /// Whether there is anything to tell an owner.
    pub fn has_news(&self, node: NodeId) -> bool {
        self.owners
            .get(&node)
            .is_some_and(|owner| owner.out.has_news())
    }

    pub fn news_count(&self, node: NodeId) -> usize {
        self.owners
            .get(&node)
            .map_or(0, |owner| owner.out.news_count())
    }

    /// Whether it has acknowledged anything lately.
    pub fn in_contact(&self, node: NodeId, turn: &Turn<'_>) -> bool {
        self.owners
            .get(&node)
            .is_some_and(|owner| owner.in_contact(turn))
    }

    /// Makes a report, in as many pieces as it needs. Only a report that says all may pledge: a pledge stands for
    /// "except those listed here".
    pub fn report(
        &mut self,
        node: NodeId,
        say: Say<'_>,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) -> Vec<Report> {
        let now = turn.time.instant;
        let owner = self.owner(node, now);
        let (seq, since, buckets) = match say {
            Say::All => owner.out.full(now),
            Say::Urgent(buckets) => {
                let (seq, since) = owner.out.urgent(buckets, now);
                (seq, since, buckets.to_vec())
            }
            Say::Probe => {
                let (seq, since) = owner.out.probe(now);
                (seq, since, Vec::new())
            }
        };
        // What does not fit is told in the next, and until then nothing is pledged: it would be of all.
        let most = turn
            .config
            .most_records
            .saturating_mul(MOST_CHUNKS as usize);
        let fits = buckets.len() <= most;
        let pledge = match say {
            Say::All if !fits => None,
            Say::All => pledge(owner, turn),
            Say::Urgent(_) | Say::Probe => None,
        };
        for bucket in buckets.iter().skip(most) {
            owner.out.touch(*bucket);
        }
        let (owner_epoch, acked_grant) = (owner.epoch, owner.into.stored());
        let records = self.records(&buckets, turn, credit);
        turn.stats.report_records_sent += records.len() as u64;
        let header = Report {
            seq,
            chunk: Chunk { index: 0, count: 1 },
            since,
            owner_epoch,
            pledge,
            acked_grant,
            urgent: matches!(say, Say::Urgent(_)),
            records: Vec::new(),
        };
        in_pieces(records, turn.config.most_records)
            .into_iter()
            .map(|(chunk, records)| Report {
                chunk,
                records,
                ..header.clone()
            })
            .collect()
    }

    /// Reads the table once more for each bucket before anything is said about it.
    fn records(
        &mut self,
        buckets: &[Bucket],
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) -> Vec<ReportRecord> {
        let round = self.round;
        let round_ns = turn.round_ns();
        let mut records = Vec::with_capacity(buckets.len());
        for bucket in buckets {
            let Some(entry) = self.entries.get_mut(bucket) else {
                continue;
            };
            if turn.time.held < entry.end && entry.terms.mode == Mode::Lease {
                let asked = entry.look(*bucket, credit, turn.stats);
                // The next round's look must not lose what this one has seen.
                entry.counted = entry.counted.saturating_sub(asked);
            }
            let from = turn.time.held.max(entry.start);
            entry.told.demand = entry
                .demand
                .expected(rounds_until(from, entry.end, round_ns))
                .max(entry.pending)
                .min(entry.terms.units);
            entry.told.available = entry.available;
            entry.told.spent = entry.spent();
            entry.told.round = round;
            records.push(entry.record(*bucket));
        }
        records
    }
}

/// S8: what this incarnation promises an owner that it is in contact with, and remembers to have promised.
fn pledge(owner: &mut Owner, turn: &Turn<'_>) -> Option<Pledge> {
    if turn.time.behind || owner.epoch.is_none() || !owner.in_contact(turn) {
        return None;
    }
    let alive = if turn.boot.0 == 0 {
        turn.boot
    } else {
        turn.boot.plus(SKEW)
    };
    let above = owner
        .self_floor
        .map_or(alive, |floor| alive.max(floor.just_after()));
    let pledge = Pledge {
        from: above.max(owner.authority_from),
        until: turn.time.sure.plus(PLEDGE_AHEAD),
    };
    if pledge.from >= pledge.until {
        return None;
    }
    owner.pledged_until = owner.pledged_until.max(pledge.until);
    Some(pledge)
}

/// Cuts records into the pieces of one message; at least one piece.
pub(crate) fn in_pieces<R>(mut records: Vec<R>, most: usize) -> Vec<(Chunk, Vec<R>)> {
    records.truncate(most * MOST_CHUNKS as usize);
    let count = records.len().div_ceil(most).max(1);
    let mut pieces = Vec::with_capacity(count);
    for index in 0..count {
        let rest = records.split_off(records.len().min(most));
        let chunk = Chunk {
            index: index as u32,
            count: count as u32,
        };
        pieces.push((chunk, std::mem::replace(&mut records, rest)));
    }
    pieces
}
