//! Finding a bucket's slot, and claiming one.
//!
//! # Why a bucket never has two slots
//!
//! After Purcell and Harris, "Non-blocking hashtables with open addressing" (2005). Who finds the bucket absent
//! publishes a *claim* in a free slot (the bucket's tag with the claim bit, and a number used once as state), and then
//! looks through all of the bucket's places again. Nobody charges a claim. It is confirmed (its tag replaced by the
//! bucket's own) only after such a look, begun after the claim was published, has seen no other claim and no confirmed
//! slot of the bucket:
//!
//! - a confirmed slot elsewhere: the claim is withdrawn;
//! - another claim at an earlier place: this one is withdrawn; at a later place: that one is.
//!
//! Of any two claims of one bucket the later published one is looked about for after both were published. So whoever
//! would confirm it sees the earlier one, or its confirmed slot, or that it was withdrawn, and never confirms beside
//! it. It takes no more than that all accesses are in one order. Anybody who meets a claim may carry it through (the
//! number used once makes sure that it is still the same claim), so a claimer that dies or sleeps holds up nobody. A
//! claim left behind is free again a moment after it was made.
//!
//! # Why a search may stop
//!
//! A claim goes to the earliest free place, and a slot once tagged never returns to 0; so no place before a bucket's
//! own ever has tag 0. A bucket lies in a further window only if the home slot's `reach` says so, and `reach` is
//! raised before the claim is published. A claimer reads `reach` when it looks again, after its own claim: so it
//! searches that window, or the other claimer, who looked again later still, saw this claim in the first.

use super::Table;
use super::held::Held;
use super::level::Level;
use super::probe::{Key, WIDTH, WINDOWS};
use super::slot::{NEVER, Sight, Slot, WITHDRAWN};
use super::sync::{Word, bump, raise, read};
use crate::algorithm::{fixed, sliding, token_bucket, window_end, window_index};
use crate::meter::{Kind, Meter, phase};

/// How long a claim, or a slot claimed and not yet charged, is safe from being taken over.
const GRACE_NS: u64 = 100_000_000;

/// What a search found.
pub(super) enum Found<'t> {
    /// The bucket's slot, and its first word.
    Own(&'t Slot, Word),
    /// A claim of the bucket, not confirmed yet.
    Claim(&'t Slot, Word),
    /// Nothing, and the earliest place that the bucket could have.
    Absent(Option<Vacancy<'t>>),
}

/// What a bucket begins with when it gets a slot.
#[derive(Clone, Copy)]
pub(super) enum Opening<'m> {
    /// What it may have used in a shared cell of the limit `group`.
    Counted {
        /// The same for all buckets of a limit.
        group: u64,
        /// How it counts.
        meter: &'m Meter,
    },
    /// No credit.
    Leased(&'m Meter),
}

/// A place that is free.
#[derive(Clone, Copy)]
pub(super) struct Vacancy<'t> {
    slot: &'t Slot,
    window: usize,
    sight: Sight,
}

impl Table {
    /// Looks for the bucket and, on the way, for the earliest place that is free at `now`.
    pub(super) fn find(&self, key: &Key, now: u64) -> Found<'_> {
        let mut vacancy = None;
        let home = self.region.slot(key.home());
        for window in 0..WINDOWS {
            // Read after the earlier windows were: see the module's text.
            if window > 0 && vacancy.is_some() && read(&home.reach) < window as u64 {
                break;
            }
            for k in 0..WIDTH {
                let slot = self.region.slot(key.place(window, k));
                let word = slot.words[0].load();
                if word.tag == key.own {
                    return Found::Own(slot, word);
                }
                if word.tag == key.claim {
                    return Found::Claim(slot, word);
                }
                if vacancy.is_none() {
                    let sight = slot.sight(word);
                    if sight.is_free(now) {
                        vacancy = Some(Vacancy {
                            slot,
                            window,
                            sight,
                        });
                    }
                }
                if word.tag == NEVER {
                    return Found::Absent(vacancy);
                }
            }
        }
        Found::Absent(vacancy)
    }

    /// Publishes a claim to a free place and carries it through as far as it goes. Whether it came to be the bucket's
    /// slot shows the next search.
    pub(super) fn claim(&self, key: &Key, opening: Opening<'_>, vacancy: Vacancy<'_>, now: u64) {
        let Vacancy {
            slot,
            window,
            sight,
        } = vacancy;
        let header = self.region.header();
        // Before anything is taken over: no later claim of the bucket that was here is decided at an earlier time.
        raise(&header.floor.0, now);
        if window > 0 {
            raise(&self.region.slot(key.home()).reach, window as u64);
        }
        raise(&slot.live_until, now.saturating_add(GRACE_NS));
        let first = sight.word;
        let claim = Word {
            tag: key.claim,
            state: bump(&header.nonce.0),
        };
        if !slot.words[0].replace(first, claim) {
            return;
        }
        // Relaxed: a count that stands alone, read by `stats` some time later.
        self.claimed
            .0
            .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if first.tag != NEVER && first.tag != WITHDRAWN {
            bump(&header.reclaimed.0);
        }
        self.settle(key, opening, slot, claim, now);
    }

    /// Confirms or withdraws a claim, one's own or another's.
    pub(super) fn settle(
        &self,
        key: &Key,
        opening: Opening<'_>,
        slot: &Slot,
        claim: Word,
        now: u64,
    ) {
        let withdrawn = || Word {
            tag: WITHDRAWN,
            state: bump(&self.region.header().nonce.0),
        };
        let home = self.region.slot(key.home());
        let mut passed = false;
        'search: for window in 0..WINDOWS {
            if window > 0 && read(&home.reach) < window as u64 {
                break;
            }
            for k in 0..WIDTH {
                let other = self.region.slot(key.place(window, k));
                if std::ptr::eq(other, slot) {
                    passed = true;
                    continue;
                }
                loop {
                    let word = other.words[0].load();
                    if word.tag == key.own || word.tag == key.claim && !passed {
                        slot.words[0].replace(claim, withdrawn());
                        return;
                    }
                    if word.tag == NEVER && passed {
                        break 'search;
                    }
                    if word.tag != key.claim || other.words[0].replace(word, withdrawn()) {
                        break;
                    }
                }
            }
        }
        let state = match opening {
            Opening::Counted { group, meter } => self.first_state(key, group, meter, slot, now),
            Opening::Leased(meter) => {
                Held::first(key, meter, self.later(now))
                    .word(meter, key)
                    .state
            }
        };
        let confirmed = Word {
            tag: key.own,
            state,
        };
        slot.words[0].replace(claim, confirmed);
    }

    /// The state that a new bucket begins with: the current window, and what it may have used in a shared cell.
    fn first_state(&self, key: &Key, group: u64, meter: &Meter, slot: &Slot, now: u64) -> u64 {
        // After the search, so that whatever was taken over since is over at this time.
        let now = self.later(now);
        let cell = self.cell_level(key, group, meter, now);
        let used = cell.map_or(0, |level| level.current.saturating_add(level.previous));
        let phase = phase(key.id, meter);
        match meter.kind {
            Kind::Fixed => {
                let index = window_index(meter, phase, now);
                fixed::state(meter, index, used.min(meter.count_mask()))
            }
            Kind::Forever => used,
            Kind::TokenBucket => {
                let now = token_bucket::ticks(meter, now);
                cell.map_or(now, |level: Level| level.end.max(now))
            }
            Kind::Sliding | Kind::TwoWindow => {
                let index = window_index(meter, phase, now);
                let count = used.min(meter.count_mask());
                // Who puts a seal into the first word raises this before: see `charge`.
                let forgotten = window_end(meter, phase, index).saturating_add(meter.window_ns);
                raise(&slot.live_until, forgotten);
                let open = |index| {
                    sliding::pack(
                        meter,
                        sliding::Counted {
                            index,
                            sealed: false,
                            count,
                        },
                    )
                };
                if index & 1 == 0 {
                    return open(index);
                }
                if count > 0 {
                    // The second word could not be written in one step with this one. So what was used goes to the
                    // next window, which then begins early.
                    return open(index + 1);
                }
                let before = sliding::Counted {
                    index: index - 1,
                    sealed: true,
                    count: 0,
                };
                sliding::pack(meter, before)
            }
        }
    }
}
