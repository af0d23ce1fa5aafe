//! The table under loom: small tables, two or three threads, every interleaving of their accesses up to a bound on
//! preemptions. Run by `scripts/loom`.
//!
//! Probe windows are two slots wide here, two to a bucket. See [`super::sync`] for what a step is.

use loom::sync::Arc;
use loom::thread;
use policy::model::Algorithm;
use policy::rate::{Rate, Window, WindowMs};

use super::charge::Ask;
use super::claim::Found;
use super::probe::Key;
use super::sync::raise;
use super::{Level, Place, Table};
use crate::bucket::BucketId;
use crate::meter::Meter;
use crate::time::Now;

pub(super) const GROUP: u64 = 99;
pub(super) const WINDOW_NS: u64 = 1_000_000_000;

/// A time in the middle of window `n` of the buckets below, whose phase is 0.
pub(super) fn window(n: u64) -> Now {
    Now::from_nanos(1000 * WINDOW_NS + n * WINDOW_NS + WINDOW_NS / 2)
}

fn meter(units: u64, algorithm: Algorithm) -> Meter {
    let window = Window::Millis(WindowMs::new(1000).expect("in range"));
    Meter::new(Rate { units, window }, algorithm)
}

pub(super) fn fixed(units: u64) -> Meter {
    meter(units, Algorithm::FixedWindow)
}

pub(super) fn sliding(units: u64) -> Meter {
    meter(units, Algorithm::SlidingWindow)
}

fn bucket(units: u64) -> Meter {
    meter(units, Algorithm::TokenBucket { burst: units })
}

/// Bucket `n`, whose home is the first slot of a table of few and whose windows begin at phase 0.
pub(super) fn id(n: u64) -> BucketId {
    BucketId(u128::from(n + 1) << 65)
}

/// A table of `slots` slots and two cells.
pub(super) fn table(slots: u64) -> Table {
    let region = super::region::Region::anonymous(slots + 2).expect("loom's memory");
    Table::over(region, slots, 2)
}

pub(super) fn take(table: &Table, n: u64, meter: &Meter, now: Now) -> Level {
    table.take(id(n), GROUP, meter, 1, now)
}

/// How many confirmed slots a bucket has; claims must be gone once all is quiet and it was looked for.
pub(super) fn slots_of(table: &Table, n: u64) -> usize {
    let key = Key::new(id(n), table.own);
    (0..table.own.len)
        .filter(|i| table.region.slot(*i).words[0].load().tag == key.own)
        .count()
}

pub(super) fn explore(preemptions: usize, run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(run);
}

/// Runs one closure a thread, the last on the calling one, and gives what they return.
pub(super) fn together<T: 'static>(
    table: &Arc<Table>,
    mut works: Vec<Box<dyn FnOnce(&Table) -> T + Send>>,
) -> Vec<T> {
    let last = works.pop().expect("at least one");
    let others: Vec<_> = works
        .into_iter()
        .map(|work| {
            let table = Arc::clone(table);
            thread::spawn(move || work(&table))
        })
        .collect();
    let last = last(table);
    let mut results: Vec<T> = others
        .into_iter()
        .map(|thread| thread.join().expect("no panic"))
        .collect();
    results.push(last);
    results
}

pub(super) fn works<T, const N: usize>(
    works: [Box<dyn FnOnce(&Table) -> T + Send>; N],
) -> Vec<Box<dyn FnOnce(&Table) -> T + Send>> {
    works.into()
}

fn admitted(levels: &[Level]) -> usize {
    levels.iter().filter(|level| level.admitted).count()
}

/// Two threads meet a new key at once: one slot, one unit.
fn a_new_key_met_twice(meter: Meter, preemptions: usize) {
    explore(preemptions, move || {
        let table = Arc::new(table(2));
        let levels = together(
            &table,
            works([
                Box::new(move |t| take(t, 0, &meter, window(0))),
                Box::new(move |t| take(t, 0, &meter, window(0))),
            ]),
        );
        assert_eq!(admitted(&levels), 1);
        assert_eq!(slots_of(&table, 0), 1);
    });
}

#[test]
fn a_new_key_met_twice_is_charged_once() {
    a_new_key_met_twice(fixed(1), 3);
}

#[test]
fn a_new_key_met_twice_is_charged_once_sliding() {
    a_new_key_met_twice(sliding(1), 2);
}

#[test]
fn a_new_key_met_twice_is_charged_once_by_a_token_bucket() {
    a_new_key_met_twice(bucket(1), 2);
}

#[test]
fn a_new_key_met_three_times_is_charged_once() {
    let meter = fixed(1);
    explore(2, move || {
        let table = Arc::new(table(3));
        let work = move |t: &Table| take(t, 0, &meter, window(0));
        let levels = together(
            &table,
            works([Box::new(work), Box::new(work), Box::new(work)]),
        );
        assert_eq!(admitted(&levels), 1);
        assert_eq!(slots_of(&table, 0), 1);
    });
}

/// Two meet a new key while a bucket that lies before its place is given up for a third key: the new key's two claims
/// may go to different places.
#[test]
fn claims_at_different_places_leave_one_slot() {
    let meter = fixed(1);
    explore(3, move || {
        let table = Arc::new(table(2));
        assert!(take(&table, 5, &meter, window(0)).admitted);
        // In window 1 the old bucket is over; for the thread that is still in window 0 it is live.
        let levels = together(
            &table,
            works([
                Box::new(move |t| take(t, 0, &meter, window(0))),
                Box::new(move |t| take(t, 0, &meter, window(1))),
            ]),
        );
        assert!(slots_of(&table, 0) == 1, "{levels:?}");
        let of_window = |end: u64| {
            let same = |level: &&Level| level.admitted && level.window_end_ns(&meter) == end;
            levels.iter().filter(same).count()
        };
        for level in &levels {
            assert!(of_window(level.window_end_ns(&meter)) <= 1, "{levels:?}");
        }
    });
}

/// A key goes on while its slot, over by another thread's time, is taken for another key. Whatever it is admitted in
/// one window stays within its units.
fn a_charge_meets_a_takeover(meter: Meter, first: u64, late: u64, taker: u64) {
    explore(3, move || {
        let table = Arc::new(table(1));
        let before = take(&table, 0, &meter, window(first));
        assert!(before.admitted);
        let mut levels = together(
            &table,
            works([
                Box::new(move |t| take(t, 0, &meter, window(late))),
                Box::new(move |t| take(t, 5, &meter, window(taker))),
            ]),
        );
        let other = levels.pop().expect("two");
        assert!(other.admitted || other.place != Place::Own, "{other:?}");
        levels.push(before);
        levels.push(take(&table, 0, &meter, window(late)));
        levels.push(take(&table, 0, &meter, window(late)));
        for level in &levels {
            let end = level.window_end_ns(&meter);
            let same =
                |l: &&Level| l.admitted && l.place == Place::Own && l.window_end_ns(&meter) == end;
            let count = levels.iter().filter(same).count() as u64;
            assert!(count <= meter.most(), "{levels:?}");
        }
    });
}

#[test]
fn a_late_charge_meets_a_takeover() {
    a_charge_meets_a_takeover(fixed(2), 0, 0, 1);
}

#[test]
fn a_new_windows_charge_meets_a_takeover() {
    a_charge_meets_a_takeover(fixed(1), 0, 1, 1);
}

#[test]
fn sliding_charges_meet_a_takeover() {
    // From an even window to an odd one and back: 1000 + n is even for even n.
    for (first, late, taker) in [(0, 0, 2), (0, 3, 3), (1, 1, 3), (1, 4, 4)] {
        a_charge_meets_a_takeover(sliding(2), first, late, taker);
    }
}

/// The window that a decision counts in, wherever it was counted: the bucket's own, whose phase is 0.
fn own_window(level: &Level, meter: &Meter) -> u64 {
    match level.place {
        Place::Own => level.window_end_ns(meter) / WINDOW_NS,
        Place::Shared | Place::Nowhere => level.decided_at_ns() / WINDOW_NS + 1,
    }
}

/// Takes at times before and after a boundary, less than the table's time step apart, while the slot is taken over:
/// a thread that finds its key absent is not decided in the window that the slot had counted.
#[test]
fn a_takeover_moves_the_tables_time() {
    // With one slot the key must share a cell afterwards, with two it claims the other.
    for (meter, slots) in [
        (fixed(2), 1),
        (fixed(2), 2),
        (sliding(2), 1),
        (sliding(2), 2),
    ] {
        explore(3, move || {
            let boundary = 1001 * WINDOW_NS;
            let over = if meter == sliding(2) { WINDOW_NS } else { 0 };
            let (before, after) = (boundary - 200_000, boundary + 500_000);
            let (before, after) = (Now::from_nanos(before), Now::from_nanos(after + over));
            let table = Arc::new(table(slots));
            // Claimed long enough ago that the claim's own grace is over.
            let first = take(&table, 0, &meter, Now::from_nanos(boundary - 300_000_000));
            let second = take(&table, 0, &meter, before);
            assert!(first.admitted && second.admitted);
            let mut levels = together(
                &table,
                works([
                    Box::new(move |t| take(t, 0, &meter, before)),
                    Box::new(move |t| take(t, 5, &meter, after)),
                ]),
            );
            // The other key has the slot now, unless this one went on in its next window before.
            let _ = levels.pop();
            levels.extend([first, second, take(&table, 0, &meter, before)]);
            for level in levels.iter().filter(|level| level.admitted) {
                let window = own_window(level, &meter);
                let same = |l: &&Level| l.admitted && own_window(l, &meter) == window;
                assert!(levels.iter().filter(same).count() <= 2, "{levels:?}");
            }
        });
    }
}

/// A used-up bucket is live to its window's end, however short the claim's own grace was: no taker gets it.
#[test]
fn a_used_up_bucket_is_not_taken_over() {
    for meter in [fixed(1), sliding(1), bucket(1)] {
        explore(3, move || {
            let table = Arc::new(table(1));
            let later = Now::from_nanos(window(0).nanos() + 200_000_000);
            let mut levels = together(
                &table,
                works([
                    Box::new(move |t| take(t, 0, &meter, window(0))),
                    Box::new(move |t| take(t, 5, &meter, later)),
                ]),
            );
            let other = levels.pop().expect("two");
            levels.push(take(&table, 0, &meter, later));
            // If the other took the slot, it did so before the first charge.
            assert!(admitted(&levels) <= 1, "{levels:?} {other:?}");
            assert!(
                !take(&table, 0, &meter, later).admitted,
                "{levels:?} {other:?}"
            );
        });
    }
}

/// A window's full weight holds for a late thread while its slot is being taken over.
#[test]
fn a_takeover_does_not_hide_the_window_before() {
    let meter = sliding(1);
    for first in [1001, 1002] {
        explore(3, move || {
            let table = Arc::new(table(1));
            let used = Now::from_nanos(first * WINDOW_NS + WINDOW_NS / 2);
            // The start of the next window, where the one before weighs whole; and when both are over.
            let (late, over) = ((first + 1) * WINDOW_NS, (first + 2) * WINDOW_NS + 1);
            assert!(take(&table, 0, &meter, used).admitted);
            let levels = together(
                &table,
                works([
                    Box::new(move |t| take(t, 0, &meter, Now::from_nanos(late))),
                    Box::new(move |t| take(t, 5, &meter, Now::from_nanos(over))),
                ]),
            );
            let level = &levels[0];
            if level.admitted {
                assert!(level.decided_at_ns() >= over, "{levels:?}");
            }
        });
    }
}

/// Charges at both sides of a boundary: the sealed window and the open one never add up to more than the units.
#[test]
fn a_boundary_seals_the_window_before() {
    for boundary in [1001, 1002] {
        let meter = sliding(2);
        explore(3, move || {
            let at = boundary * WINDOW_NS;
            let table = Arc::new(table(1));
            let (before, after) = (Now::from_nanos(at - 1), Now::from_nanos(at));
            assert!(take(&table, 0, &meter, before).admitted);
            let levels = together(
                &table,
                works([
                    Box::new(move |t| take(t, 0, &meter, before)),
                    Box::new(move |t| take(t, 0, &meter, after)),
                ]),
            );
            // Just after the boundary the window before weighs whole.
            assert_eq!(admitted(&levels), 1, "{levels:?}");
            assert!(!take(&table, 0, &meter, after).admitted);
        });
    }
}

/// A refund races a charge: the sum is right.
#[test]
fn an_undone_charge_meets_a_charge() {
    for meter in [fixed(2), sliding(2), bucket(2)] {
        explore(3, move || {
            let table = Arc::new(table(1));
            let first = take(&table, 0, &meter, window(0));
            assert!(first.admitted);
            let levels = together(
                &table,
                works([
                    Box::new(move |t| {
                        t.undo(id(0), GROUP, &meter, 1, &first, window(0));
                        first
                    }),
                    Box::new(move |t| take(t, 0, &meter, window(0))),
                ]),
            );
            assert_eq!(admitted(&levels), 2);
            let left = table
                .look(id(0), GROUP, &meter, 0, window(0))
                .remaining(&meter);
            assert_eq!(left, 1);
        });
    }
}

/// A key is counted in a cell by one thread while another finds it a slot: together within the units.
#[test]
fn a_cells_charge_meets_a_claim() {
    for meter in [fixed(1), sliding(1), bucket(1)] {
        explore(2, move || {
            let table = Arc::new(table(1));
            // The only slot is live in window 0. A thread whose clock is in a later window takes it over.
            assert!(take(&table, 5, &meter, window(0)).admitted);
            let over = if meter == sliding(1) { 2 } else { 1 };
            let levels = together(
                &table,
                works([
                    Box::new(move |t| take(t, 0, &meter, window(0))),
                    Box::new(move |t| take(t, 0, &meter, window(over))),
                ]),
            );
            // The windows differ, so both may pass; but what the cell holds when the slot begins is in the slot.
            let after = take(&table, 0, &meter, window(over));
            if levels[1].admitted {
                assert!(!after.admitted, "{levels:?} {after:?}");
            }
        });
    }
}

/// The same with one clock: the slot's bucket withdraws nothing, but a claim left behind gives the place free.
#[test]
fn a_cells_charge_meets_a_claim_in_one_window() {
    let forever = Meter::new(
        Rate {
            units: 1,
            window: Window::Forever,
        },
        Algorithm::FixedWindow,
    );
    explore(2, move || {
        let table = Arc::new(table(1));
        // A claim that a dead process left: free once its time is over.
        let dead = Key::new(id(5), table.own);
        let slot = table.region.slot(0);
        let before = slot.words[0].load();
        assert!(slot.words[0].replace(
            before,
            super::sync::Word {
                tag: dead.claim,
                state: 1
            }
        ));
        raise(&slot.live_until, window(0).nanos());
        let just_after = Now::from_nanos(window(0).nanos() + 1);
        let levels = together(
            &table,
            works([
                Box::new(move |t| take(t, 0, &forever, window(0))),
                Box::new(move |t| take(t, 0, &forever, just_after)),
            ]),
        );
        assert!(admitted(&levels) <= 1, "{levels:?}");
        assert!(
            !take(&table, 0, &forever, just_after).admitted,
            "{levels:?}"
        );
    });
}

/// Who meets a claim carries it through: a claimer that stops after publishing holds up nobody.
#[test]
fn a_claim_left_behind_is_carried_through() {
    let meter = fixed(1);
    explore(3, move || {
        let table = Arc::new(table(2));
        let key = Key::new(id(0), table.own);
        let slot = table.region.slot(1);
        let before = slot.words[0].load();
        // At the second place, as if the first had been taken at the time.
        let first = table.region.slot(0);
        let nothing = first.words[0].load();
        assert!(first.words[0].replace(
            nothing,
            super::sync::Word {
                tag: super::slot::WITHDRAWN,
                state: 7
            }
        ));
        assert!(slot.words[0].replace(
            before,
            super::sync::Word {
                tag: key.claim,
                state: 8
            }
        ));
        let levels = together(
            &table,
            works([
                Box::new(move |t| take(t, 0, &meter, window(0))),
                Box::new(move |t| take(t, 0, &meter, window(0))),
            ]),
        );
        assert_eq!(admitted(&levels), 1);
        assert_eq!(slots_of(&table, 0), 1);
        match table.find(&key, window(0).nanos()) {
            Found::Own(slot, word) => {
                let level = table.decide(slot, word, &key, &meter, Ask::Look(0), window(0).nanos());
                assert_eq!(level.map(|level| level.remaining(&meter)), Some(0));
            }
            Found::Claim(..) | Found::Absent(_) => panic!("the key has a slot"),
        }
    });
}

/// Different keys that want one free place: each ends up counted once.
#[test]
fn two_keys_want_one_place() {
    let meter = fixed(1);
    explore(3, move || {
        let table = Arc::new(table(1));
        let levels = together(
            &table,
            works([
                Box::new(move |t| take(t, 0, &meter, window(0))),
                Box::new(move |t| take(t, 1, &meter, window(0))),
            ]),
        );
        assert!(
            levels
                .iter()
                .filter(|l| l.admitted && l.place == Place::Own)
                .count()
                == 1
        );
        assert!(!take(&table, 0, &meter, window(0)).admitted, "{levels:?}");
        assert!(!take(&table, 1, &meter, window(0)).admitted, "{levels:?}");
    });
}
