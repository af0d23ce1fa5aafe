//! Taking a report into the ledger: totals as maxima, hints from the newest message, the pledge only when all of the
//! report has been stored (S2, S4). Limits on issuing never stop recording.

use crate::bucket::Bucket;
use crate::id::{Epoch, NodeId, Seq};
use crate::message::{Report, ReportRecord};
use crate::mutant::Mutant;
use crate::terms::{Mode, Terms};
use crate::turn::Turn;

use super::{Owner, keep_until};

impl Owner {
    /// Takes one piece of a report. `current` says whether the sender's incarnation is the newest known; of an older one
    /// only the totals are taken.
    pub fn report(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        current: bool,
        report: &Report,
        turn: &mut Turn<'_>,
    ) {
        let mut stored = true;
        for record in &report.records {
            stored &= self.record(from, epoch, report.seq, record, current, turn);
        }
        if !current {
            return;
        }
        let meant =
            report.owner_epoch == Some(turn.me.epoch) || turn.config.broken(Mutant::NoEpochCheck);
        let first_piece = turn.config.broken(Mutant::FirstChunkCounts);
        let now = turn.time.instant;
        let absent = self.holder(from).is_absent(turn);
        let mut pledged = None;
        let holder = self.holder(from);
        let counts = holder
            .into
            .piece(report.seq, report.since, report.chunk, stored);
        if meant {
            holder.out.ack(report.acked_grant);
            if let Some(pledge) = report.pledge
                && (counts || first_piece)
            {
                holder.pledges.add(pledge);
                pledged = Some(pledge);
            }
        }
        if counts {
            if absent && holder.heard.is_some() {
                holder.back_since = Some(now);
            }
            holder.heard = Some(now);
        }
        if let Some(pledge) = pledged {
            self.freed_by(from, pledge, turn);
        }
        for record in &report.records {
            if report.urgent {
                self.answer(record.bucket, turn);
            }
            self.stirred.insert(record.bucket);
        }
    }

    /// Takes one record. Says whether it is stored, or can never matter again.
    fn record(
        &mut self,
        from: NodeId,
        epoch: Epoch,
        seq: Seq,
        record: &ReportRecord,
        current: bool,
        turn: &mut Turn<'_>,
    ) -> bool {
        let (bucket, terms) = (record.bucket, record.terms);
        if terms.window_ns < Terms::LEAST_WINDOW_NS || terms.mode == Mode::Fixed {
            return false;
        }
        if keep_until(bucket, &terms, turn) <= turn.time.sure {
            // Over: this owner will never issue for it again. But what a token bucket has left rests on what was spent.
            if record.self_granted > 0 {
                self.empty(bucket, &terms, turn);
            }
            return true;
        }
        let start = bucket.start(terms.slot_ns());
        // A durable bucket follows the present owner, fenced by the store.
        let when = if terms.durable { turn.time.sure } else { start };
        let ours = turn
            .views
            .governing(when)
            .is_some_and(|view| view.issuer(bucket, &terms) == turn.me.node && view.contains(from));
        if !ours || self.open(bucket, terms, turn).is_none() {
            return false;
        }
        self.adopt(bucket, terms, turn);
        let ledger = self.ledger_id;
        let mut freed = Vec::new();
        let stored = self.with(bucket, turn, |entry, _, turn| {
            if terms.window_ns != entry.terms.window_ns || !terms.counts_like(&entry.terms) {
                return false;
            }
            if record.self_granted > 0
                && let Some(view) = turn.views.governing(start)
                && record.self_granted > view.share_of(bucket, &entry.terms, from)
            {
                // It took its share of a larger allowance, under a policy that this owner never saw or that is past.
                let members = view.members.len() as u64;
                entry.most = entry.most.max(record.self_granted.saturating_mul(members));
            }
            let account = entry.account(from);
            if !account.has_room(epoch, record.generation) {
                return false;
            }
            let life = account.life(epoch, record.generation, turn.config);
            life.spent = life.spent.max(record.spent);
            life.self_granted = life.self_granted.max(record.self_granted);
            let any = turn.config.broken(Mutant::ReturnsOfAnyLedger);
            let returned: u64 = record
                .returned
                .iter()
                .filter(|(id, _)| *id == ledger || any)
                .fold(0, |sum, (_, units)| units.saturating_add(sum));
            let before = life.returned;
            life.returned = if turn.config.broken(Mutant::ReturnsAsDeltas) {
                life.returned.saturating_add(returned)
            } else {
                life.returned.max(returned)
            };
            life.returned = life.returned.min(life.granted);
            let back = life.returned - before;
            turn.stats.returned_units += back;
            life.uncharged = 0;
            if current && seq >= account.seq {
                account.seq = seq;
                account.demand = record.demand;
                account.available = record.available;
                account.pending = record.pending;
                account.quantum = record.quantum.max(1);
                let old = account
                    .recalled_at
                    .is_some_and(|at| turn.time.instant.since(at) >= turn.config.round);
                if account
                    .recall_to
                    .is_some_and(|to| record.available <= to || old)
                {
                    account.recall_to = None;
                    account.recalled_at = None;
                }
            }
            if back > 0 {
                // Who was told that nothing is left may ask again.
                for account in entry.accounts.iter_mut().filter(|it| it.exhausted) {
                    account.exhausted = false;
                    freed.push(account.node);
                }
            }
            true
        });
        for node in freed {
            self.holder(node).out.touch(bucket);
        }
        if turn.config.broken(Mutant::DropEarly)
            && self.ledger.get(&bucket).is_some_and(|entry| {
                let spent: u64 = entry.accounts.iter().map(|it| it.spent()).sum();
                entry.charged() == spent
            })
            && record.pending == 0
        {
            self.ends.retain(|(_, known)| *known != bucket);
            self.drop_entry(bucket);
        }
        stored.unwrap_or(false)
    }

    /// Takes over newer terms: a later revision's, or of one revision the smaller.
    pub fn adopt(&mut self, bucket: Bucket, terms: Terms, turn: &mut Turn<'_>) {
        let adopted = self.with(bucket, turn, |entry, _, turn| {
            let known = entry.terms;
            let newer = terms.revision > known.revision
                || (terms.revision == known.revision && terms.units < known.units);
            if !newer
                || terms.window_ns != known.window_ns
                || terms.mode != known.mode
                || !terms.counts_like(&known)
            {
                return None;
            }
            entry.terms = terms;
            entry.most = entry.most.max(terms.most());
            // A member that has not pledged may count by the old terms or by the new: the larger share is held back.
            if let Some(view) = turn.views.governing(entry.start) {
                for (node, share) in &mut entry.unpledged {
                    *share = (*share).max(view.share_of(bucket, &terms, *node));
                }
            }
            (terms.units != known.units).then_some(terms.units < known.units)
        });
        if let Some(lowered) = adopted.flatten() {
            self.units_changed(bucket, lowered, turn);
        }
    }
}
