//! Serving alone: the share that a node takes when its owner cannot be reached (S9), what it does when that lasts, and
//! the fixed share of the mode that has no owner at all.

use crate::bucket::Bucket;
use crate::config::{PLEDGE_AHEAD, SKEW};
use crate::credit::Credit;
use crate::mutant::Mutant;
use crate::node::FastPath;
use crate::terms::{Mode, OnDegraded, Terms};
use crate::turn::Turn;

use super::Holder;

impl Holder {
    /// S9: takes exactly this node's share, once, if nobody has been promised that it would not.
    pub(super) fn self_grant(
        &mut self,
        bucket: Bucket,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) -> bool {
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return false;
        };
        let (Some(owner), Some(view)) = (
            self.owners.get_mut(&entry.owner),
            turn.views.governing(entry.start),
        ) else {
            return false;
        };
        let anchor = entry.terms.anchor(bucket);
        let alone = !owner.in_contact(turn) || anchor < owner.authority_from;
        if !alone || turn.time.behind || entry.terms.mode == Mode::Fixed {
            return false;
        }
        if owner.degraded {
            match entry.terms.on_degraded {
                OnDegraded::FairShare => {}
                OnDegraded::FailOpen => {
                    let most = entry
                        .terms
                        .units
                        .saturating_mul(turn.config.backstop_multiple.into());
                    let more = most.saturating_sub(entry.opened);
                    if more == 0 || turn.time.held < entry.start {
                        return false;
                    }
                    entry.opened = most;
                    entry.open = true;
                    turn.stats.opened += 1;
                    return entry.install(bucket, more, credit);
                }
                OnDegraded::FailClosed => return false,
            }
        }
        if entry.terms.durable {
            return false;
        }
        let broken = |rule| turn.config.broken(rule);
        let unpledged = anchor >= owner.pledged_until || broken(Mutant::NoPledgeFloor);
        let since_boot = turn.boot.plus(PLEDGE_AHEAD + SKEW);
        let alive = anchor >= since_boot || turn.boot.0 == 0 || broken(Mutant::NoBootFloor);
        let remembered = owner.self_floor.is_none_or(|floor| anchor > floor)
            && (anchor == entry.start || anchor >= view.active_from)
            && self
                .alone
                .get(&bucket.subject)
                .is_none_or(|last| *last < anchor || *last == entry.start);
        let first = entry.self_granted == 0 || broken(Mutant::SelfGrantTwice);
        // Not over by the earlier clock either: what it took before may have been forgotten by the later one.
        let begun = turn.time.sure >= entry.start && turn.time.sure < entry.end;
        let share = view.share_of(bucket, &entry.terms, turn.me.node);
        if !(begun && unpledged && alive && remembered && first) || share == 0 {
            return false;
        }
        entry.self_granted = share;
        if anchor < entry.start {
            self.alone.insert(bucket.subject, entry.start);
        }
        owner.out.touch(bucket);
        turn.stats.self_grants += 1;
        turn.stats.self_granted_units += share;
        entry.install(bucket, share, credit)
    }

    /// The mode `fixed`: the share, once a bucket. Windows that had begun before this process may have been served by
    /// the one before.
    pub(super) fn take_fixed_share(
        &mut self,
        bucket: Bucket,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) -> FastPath {
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return FastPath::Missed;
        };
        let Some(view) = turn.views.governing(entry.start) else {
            return FastPath::Missed;
        };
        if entry.self_granted > 0 {
            return FastPath::Exhausted;
        }
        let remembered = self.fixed_floor.is_none_or(|floor| entry.start > floor);
        if turn.time.behind
            // Also at the very floor: the incarnation before may have taken it in that nanosecond. Before the first there
            // is none.
            || entry.start <= turn.boot && turn.boot.0 != 0
            // By the later clock it may be over, and what was taken of it forgotten.
            || turn.time.sure >= entry.end
            || turn.time.sure < entry.start
            || !remembered
        {
            return FastPath::Missed;
        }
        let share = view.share_of(bucket, &entry.terms, turn.me.node);
        entry.self_granted = share;
        if share == 0 {
            return FastPath::Exhausted;
        }
        if entry.install(bucket, share, credit) {
            FastPath::Credit
        } else {
            FastPath::Missed
        }
    }

    /// The allowance is lower now. The owner would call back what is too much, but may not know yet how much is here. Out
    /// of contact, no more is kept than the limit could have left.
    fn lower(&mut self, bucket: Bucket, turn: &mut Turn<'_>, credit: &mut impl Credit) {
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return;
        };
        let owner = self.owners.get(&entry.owner);
        let spent = entry.spent();
        let keep = match owner {
            Some(owner) if owner.in_contact(turn) => 0,
            Some(_) | None => entry.terms.units.saturating_sub(spent),
        };
        if let Some(ledger) = owner.and_then(|owner| owner.ledger) {
            entry.hand_back(bucket, keep, ledger, credit, turn.stats);
        }
        if entry.self_granted > 0 {
            // A share that was taken alone is nobody's to take back: what exceeds the new one is given up.
            let view = turn.views.governing(entry.start);
            let share = view.map_or(0, |view| view.share_of(bucket, &entry.terms, turn.me.node));
            let keep = keep.max(share.saturating_sub(spent));
            let most = entry.available;
            entry.take(bucket, keep, most, credit, turn.stats);
        }
    }

    /// Takes over newer terms of a bucket.
    pub(super) fn adopt(
        &mut self,
        bucket: Bucket,
        terms: Terms,
        turn: &mut Turn<'_>,
        credit: &mut impl Credit,
    ) {
        let Some(entry) = self.entries.get_mut(&bucket) else {
            return;
        };
        if terms.revision <= entry.terms.revision || terms == entry.terms {
            return;
        }
        if terms.window_ns != entry.terms.window_ns
            || terms.mode != entry.terms.mode
            || !terms.counts_like(&entry.terms)
        {
            // Another limit's: a subject never changes these.
            return;
        }
        let before = entry.terms;
        entry.terms = terms;
        if before.units == terms.units {
            return;
        }
        entry.exhausted = false;
        if terms.mode == Mode::Lease {
            if terms.units < before.units {
                self.lower(bucket, turn, credit);
            }
            self.hurry(bucket);
            return;
        }
        let Some(view) = turn.views.governing(entry.start) else {
            return;
        };
        if entry.self_granted == 0 {
            return;
        }
        let share = view.share_of(bucket, &terms, turn.me.node);
        if share > entry.self_granted {
            let more = share - entry.self_granted;
            entry.self_granted = share;
            entry.install(bucket, more, credit);
        } else {
            let spent = entry.spent();
            let keep = share.saturating_sub(spent);
            let most = entry.available;
            entry.take(bucket, keep, most, credit, turn.stats);
        }
    }
}
