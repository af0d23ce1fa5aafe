//! What a holder makes of an owner's word: credit as a maximum of totals, everything else as a hint.

use crate::credit::Credit;
use crate::id::{LedgerId, NodeId, Seq};
use crate::message::{Grant, GrantRecord};
use crate::mutant::Mutant;
use crate::node::FastPath;
use crate::turn::Turn;

use super::Holder;
use super::entry::of_mut;

impl Holder {
    /// Applies one piece of a grant that an owner's present incarnation sent to this one.
    pub fn grant(
        &mut self,
        from: NodeId,
        grant: &Grant,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) {
        let owner = self.owner(from, turn.time.instant);
        owner.authority_from = grant.authority_from;
        owner.ledger = Some(grant.ledger);
        owner.out.ack(grant.acked_report);
        for record in &grant.records {
            self.grant_record(from, grant.seq, grant.ledger, record, turn, credit);
        }
        self.owner(from, turn.time.instant)
            .into
            .piece(grant.seq, grant.since, grant.chunk, true);
    }

    fn grant_record(
        &mut self,
        from: NodeId,
        seq: Seq,
        ledger: LedgerId,
        record: &GrantRecord,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) {
        let bucket = record.bucket;
        let Some(entry) = self
            .entries
            .get_mut(&bucket)
            .filter(|entry| entry.generation == record.generation && entry.owner == from)
        else {
            return;
        };
        let granted = of_mut(&mut entry.granted, ledger);
        let more = if turn.config.broken(Mutant::GrantsAsDeltas) {
            record.granted_total
        } else {
            record.granted_total.saturating_sub(*granted)
        };
        *granted = granted.saturating_add(more);
        let mut news = false;
        if turn.time.held >= entry.end || !entry.install(bucket, more, credit) {
            // The table has no place for it: nobody can spend it here.
            *of_mut(&mut entry.returned, ledger) += more;
            news = more > 0;
        }
        if seq > entry.hinted {
            entry.hinted = seq;
            entry.exhausted = record.exhausted;
            entry.fleet_remaining = record.fleet_remaining;
            if let Some(keep) = record.recall_to {
                entry.hand_back(bucket, keep, ledger, credit, turn.stats);
                news = true;
            }
        }
        if !entry.adds_up() {
            debug_assert!(turn.config.any_broken(), "S1: {bucket:?} {entry:?}");
            turn.stats.table_mismatch += 1;
        }
        let outcome = if news && more > 0 && entry.available == 0 {
            // Nothing can be put there, so nothing must be asked for: the owner would send it again at once.
            entry.backoff_until = Some(turn.time.instant + turn.config.fast_path_backoff);
            Some(FastPath::Missed)
        } else if more > 0 && entry.available > 0 {
            Some(FastPath::Credit)
        } else if entry.exhausted {
            Some(FastPath::Exhausted)
        } else {
            None
        };
        if let Some(outcome) = outcome {
            self.land(bucket, outcome, more, turn, credit);
        }
        if news {
            self.hurry(bucket);
        }
    }
}
