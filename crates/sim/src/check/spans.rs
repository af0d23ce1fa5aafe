//! The bounds of limits that are counted in slots, from what tables admit and hold alone.
//!
//! *Sliding window*: the slots that any window-long stretch touches, eleven, admit no more than the units. *Token
//! bucket*: slots `a` to `b` admit no more than the burst and what flows in from `a`'s end to `b`'s, so that a stretch of
//! `t` admits at most `burst + rate * (t + slot)`. Shares no code with the protocol: the sums here are made anew from
//! each slot's units whenever one changes.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasherDefault;

use lease::bucket::{Bucket, Subject};
use lease::terms::{Shape, Terms};

use super::accounts::ById;
use crate::fleet::At;

/// A sliding window is cut into so many slots, so that a stretch of it touches one more.
const SLIDING_TOUCHED: u64 = 11;
/// A token bucket's slot: 100 ms.
const TOKEN_SLOT_NS: u128 = 100_000_000;

/// Slots that together have more credit than their limit allows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{:032x}, slots {from} to {}: {units} units admitted or live, but {allowed} allowed, after {} ns",
    bucket.subject.0, bucket.window.0, at.0
)]
pub struct OverSpan {
    /// The last slot.
    pub bucket: Bucket,
    /// The first one's number.
    pub from: u64,
    /// Units admitted in them, or live.
    pub units: u64,
    /// What they may admit.
    pub allowed: u64,
    /// Since when.
    pub at: At,
}

/// How a limit is judged.
#[derive(Clone, Copy, Debug)]
enum Rule {
    Sliding,
    Tokens {
        burst: u64,
        window_ns: u64,
        /// The most that any policy has let flow in a window.
        units: u64,
    },
}

/// One slot's units, and the most that it was allowed when it began or since.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    units: u64,
    allowance: u64,
}

#[derive(Debug)]
struct Limit {
    rule: Rule,
    slots: BTreeMap<u64, Slot>,
}

/// All limits of a run that are counted in slots.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    limits: HashMap<Subject, Limit, BuildHasherDefault<ById>>,
    /// The first fault found.
    pub(crate) over: Option<OverSpan>,
}

impl Spans {
    pub(crate) fn new(limits: impl Iterator<Item = (Subject, Terms)>) -> Self {
        let limits = limits.filter_map(|(subject, terms)| {
            let rule = match terms.shape {
                Shape::FixedWindow => return None,
                Shape::SlidingWindow => Rule::Sliding,
                Shape::TokenBucket { burst } => Rule::Tokens {
                    burst,
                    window_ns: terms.window_ns,
                    units: terms.units,
                },
            };
            let slots = BTreeMap::new();
            Some((subject, Limit { rule, slots }))
        });
        Self {
            limits: limits.collect(),
            over: None,
        }
    }

    /// More units of a slot were admitted or are live. Says whether its limit is counted in slots at all.
    pub(crate) fn more(&mut self, at: At, bucket: Bucket, allowance: u64, units: u64) -> bool {
        let Some(limit) = self.limits.get_mut(&bucket.subject) else {
            return false;
        };
        let slot = limit.slots.entry(bucket.window.0).or_default();
        slot.units += units;
        slot.allowance = slot.allowance.max(allowance);
        if units > 0 && self.over.is_none() {
            self.over = limit
                .over(bucket.window.0)
                .map(|(from, last, units, allowed)| {
                    let bucket = Bucket {
                        window: lease::bucket::WindowId(last),
                        ..bucket
                    };
                    OverSpan {
                        bucket,
                        from,
                        units,
                        allowed,
                        at,
                    }
                });
        }
        true
    }

    /// Units that nobody spent are gone.
    pub(crate) fn gone(&mut self, bucket: Bucket, units: u64) {
        if let Some(limit) = self.limits.get_mut(&bucket.subject)
            && let Some(slot) = limit.slots.get_mut(&bucket.window.0)
        {
            slot.units = slot.units.saturating_sub(units);
        }
    }

    /// Some policy now allows so many units.
    pub(crate) fn raise(&mut self, subject: Subject, allowance: u64) {
        if let Some(limit) = self.limits.get_mut(&subject) {
            for slot in limit.slots.values_mut() {
                slot.allowance = slot.allowance.max(allowance);
            }
            match &mut limit.rule {
                Rule::Sliding => {}
                Rule::Tokens { units, .. } => *units = (*units).max(allowance),
            }
        }
    }
}

impl Limit {
    /// The first stretch with the changed slot in it that has too much: its first and last slot, its units, and what is
    /// allowed.
    fn over(&self, changed: u64) -> Option<(u64, u64, u64, u64)> {
        match self.rule {
            Rule::Sliding => (changed..changed + SLIDING_TOUCHED).find_map(|last| {
                let first = (last + 1).saturating_sub(SLIDING_TOUCHED);
                let (units, allowed) = self
                    .slots
                    .range(first..=last)
                    .fold((0, 0), |(units, most), (_, slot)| {
                        (units + slot.units, slot.allowance.max(most))
                    });
                (units > allowed).then_some((first, last, units, allowed))
            }),
            Rule::Tokens {
                burst,
                window_ns,
                units: rate,
            } => {
                // All in parts of a unit, `1 / window_ns`. What flows in is whole units: one more for the remainder.
                let window = u128::from(window_ns.max(1));
                let inflow = u128::from(rate) * TOKEN_SLOT_NS;
                let most = (u128::from(burst) + 1) * window;
                let (mut level, mut from, mut before) = (0_u128, 0, None);
                let mut sum = 0;
                for (&number, slot) in &self.slots {
                    let passed = before.map_or(0, |before| number - before);
                    let drained = inflow.saturating_mul(u128::from(passed));
                    if level <= drained {
                        (level, from, sum) = (0, number, 0);
                    } else {
                        level -= drained;
                    }
                    level += u128::from(slot.units) * window;
                    sum += slot.units;
                    before = Some(number);
                    if level >= most {
                        let allowed =
                            u128::from(burst) + inflow * u128::from(number - from) / window;
                        return Some((
                            from,
                            number,
                            sum,
                            u64::try_from(allowed).unwrap_or(u64::MAX),
                        ));
                    }
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use lease::bucket::WindowId;
    use lease::terms::{Mode, OnDegraded};

    use super::*;

    const SUBJECT: Subject = Subject(5);

    fn spans(shape: Shape) -> Spans {
        let terms = Terms {
            units: 10,
            window_ns: 1_000_000_000,
            shape,
            durable: false,
            on_degraded: OnDegraded::FairShare,
            mode: Mode::Lease,
            revision: 1,
        };
        Spans::new([(SUBJECT, terms)].into_iter())
    }

    fn slot(window: u64) -> Bucket {
        Bucket {
            subject: SUBJECT,
            window: WindowId(window),
        }
    }

    #[test]
    fn eleven_slots_of_a_sliding_window_admit_its_units_and_the_twelfth_is_free_of_the_first() {
        let mut spans = spans(Shape::SlidingWindow);
        assert!(spans.more(At(1), slot(100), 10, 6));
        spans.more(At(1), slot(110), 10, 4);
        spans.more(At(1), slot(111), 10, 6);
        assert_eq!(spans.over, None);
        spans.gone(slot(111), 2);
        spans.more(At(2), slot(121), 10, 5);
        assert_eq!(spans.over, None, "4 in slot 111 and 5 in slot 121");
        spans.more(At(3), slot(105), 10, 1);
        let over = spans.over.expect("11 of 10 in slots 100 to 110");
        assert_eq!(
            (over.from, over.bucket.window.0, over.units),
            (100, 110, 11)
        );
    }

    #[test]
    fn a_token_bucket_admits_its_burst_and_then_what_flows_in() {
        let mut spans = spans(Shape::TokenBucket { burst: 5 });
        spans.more(At(1), slot(50), 10, 5);
        // One unit a slot.
        for slots in 51..60 {
            spans.more(At(1), slot(slots), 10, 1);
        }
        assert_eq!(spans.over, None);
        // A late unit of an earlier slot counts as much.
        spans.more(At(1), slot(55), 10, 1);
        let over = spans.over.expect("11 of 10 in slots 50 to 55");
        assert_eq!((over.from, over.units, over.allowed), (50, 11, 10));
    }

    #[test]
    fn fixed_windows_are_not_judged_here() {
        let mut spans = spans(Shape::FixedWindow);
        assert!(!spans.more(At(1), slot(1), 10, 99));
        assert_eq!(spans.over, None);
    }
}
