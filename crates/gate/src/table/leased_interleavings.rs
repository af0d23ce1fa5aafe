//! Leased credit under loom: spends, installs, take-backs, the turn of a window and takeovers, in every interleaving
//! up to a bound on preemptions. Run by `scripts/loom`, like [`super::interleavings`].

use loom::sync::Arc;

use super::Table;
use super::interleavings::{
    GROUP, WINDOW_NS, explore, fixed, id, sliding, table, take, together, window, works,
};
use super::probe::Key;
use crate::algorithm::window_index;
use crate::meter::Meter;
use crate::time::Now;

/// Both parities: windows are counted in one word or the other.
const STARTS: [u64; 2] = [0, 1];

fn meter() -> Meter {
    fixed(100)
}

/// The number of the window that [`window`] lies in.
fn number(n: u64) -> u64 {
    window_index(&meter(), 0, window(n).nanos())
}

fn install(table: &Table, n: u64, units: u64, at: Now) -> u64 {
    u64::from(table.install(id(0), &meter(), number(n), units, at)) * units
}

fn spend(table: &Table, cost: u64, at: Now) -> u64 {
    u64::from(table.spend(id(0), &meter(), cost, at).admitted) * cost
}

fn take_back(table: &Table, n: u64, keep: u64) -> u64 {
    table.take_back(id(0), &meter(), number(n), keep)
}

fn left(table: &Table, n: u64) -> u64 {
    table
        .leased(id(0), &meter(), number(n))
        .map_or(0, |leased| leased.available)
}

/// Confirmed slots of the leased bucket.
fn slots(table: &Table) -> usize {
    let own = Key::leased(id(0), table.own, 0).own;
    (0..table.own.len)
        .filter(|i| table.region.slot(*i).words[0].load().tag == own)
        .count()
}

/// Units move once: what was installed is spent, taken back or left.
#[test]
fn a_spend_meets_an_install_and_a_take_back() {
    for n in STARTS {
        explore(3, move || {
            let table = Arc::new(table(1));
            assert_eq!(install(&table, n, 2, window(n)), 2);
            let moved = together(
                &table,
                works([
                    Box::new(move |t| spend(t, 2, window(n))),
                    Box::new(move |t| install(t, n, 1, window(n))),
                    Box::new(move |t| take_back(t, n, 1)),
                ]),
            );
            assert_eq!(moved[1], 1);
            assert_eq!(2 + 1, moved[0] + moved[2] + left(&table, n), "{moved:?}");
            let asked = table.leased(id(0), &meter(), number(n)).map(|l| l.demand);
            assert_eq!(asked, Some(2), "{moved:?}");
        });
    }
}

/// The next window's credit is installed, and spent by a thread whose clock is there, while the current one is spent.
#[test]
fn a_window_turns() {
    for n in STARTS {
        explore(3, move || {
            let table = Arc::new(table(1));
            assert_eq!(install(&table, n, 1, window(n)), 1);
            let spent = move |t: &Table, at: Now| {
                let level = t.spend(id(0), &meter(), 1, at);
                // By the window that it was decided in: the table's time may be past the thread's.
                let next = level.window_end_ns(&meter()) > number(n) * WINDOW_NS;
                u64::from(level.admitted) << (8 * u32::from(next))
            };
            let moved = together(
                &table,
                works([
                    Box::new(move |t| spent(t, window(n))),
                    Box::new(move |t| install(t, n + 1, 2, window(n))),
                    Box::new(move |t| spent(t, window(n + 1))),
                ]),
            );
            let spent = moved[0] + moved[2];
            assert_eq!(moved[1], 2);
            assert_eq!(2, (spent >> 8) + left(&table, n + 1), "{moved:?}");
            assert_eq!(1, (spent & 0xff) + left(&table, n), "{moved:?}");
        });
    }
}

/// A window's word is put to the use of the one after next while a thread that was stopped spends from it.
#[test]
fn a_word_is_used_again() {
    for n in STARTS {
        explore(3, move || {
            let table = Arc::new(table(1));
            assert_eq!(install(&table, n, 1, window(n)), 1);
            let moved = together(
                &table,
                works([
                    Box::new(move |t| spend(t, 1, window(n))),
                    Box::new(move |t| take_back(t, n, 0)),
                    Box::new(move |t| install(t, n + 2, 3, window(n + 1))),
                ]),
            );
            assert!(moved[0] + moved[1] <= 1, "{moved:?}");
            assert_eq!(moved[2], 3);
            assert_eq!(left(&table, n + 2), 3, "{moved:?}");
        });
    }
}

/// A bucket whose slot is over gets credit while another key takes the slot: it has the credit, or it is told that
/// there was no place.
#[test]
fn an_install_meets_a_takeover() {
    for n in STARTS {
        explore(3, move || {
            let table = Arc::new(table(1));
            assert_eq!(install(&table, n, 1, window(n)), 1);
            let moved = together(
                &table,
                works([
                    Box::new(move |t| install(t, n + 1, 2, window(n + 1))),
                    Box::new(move |t| {
                        let level = take(t, 5, &fixed(1), window(n + 1));
                        u64::from(level.admitted && level.place == super::Place::Own)
                    }),
                ]),
            );
            assert_eq!(left(&table, n + 1), moved[0], "{moved:?}");
            assert!(moved[0] == 0 || moved[1] == 0, "{moved:?}");
            assert_eq!(spend(&table, 2, window(n + 1)), moved[0], "{moved:?}");
        });
    }
}

/// The same for a slot that a sliding limit takes, which uses the second word as well, two windows later.
#[test]
fn stopped_threads_meet_a_sliding_limit() {
    for n in STARTS {
        explore(2, move || {
            let table = Arc::new(table(1));
            assert_eq!(install(&table, n, 2, window(n)), 2);
            let moved = together(
                &table,
                works([
                    Box::new(move |t| spend(t, 1, window(n))),
                    Box::new(move |t| install(t, n, 3, window(n))),
                    Box::new(move |t| {
                        let levels = [3, 3, 4, 4].map(|w| take(t, 5, &sliding(1), window(n + w)));
                        levels.iter().filter(|level| level.admitted).count() as u64
                    }),
                ]),
            );
            assert!(moved[0] + left(&table, n) <= 2 + moved[1], "{moved:?}");
            // One unit a window, and the one before weighs half in the middle of the next.
            assert!(moved[2] <= 2, "{moved:?}");
        });
    }
}

/// Two nodes' grants arrive at once for a bucket that has no slot, while a request asks: one slot, all units in it.
#[test]
fn a_new_bucket_is_installed_twice() {
    for n in STARTS {
        explore(2, move || {
            let table = Arc::new(table(2));
            let moved = together(
                &table,
                works([
                    Box::new(move |t| install(t, n, 1, window(n))),
                    Box::new(move |t| install(t, n + 1, 2, window(n))),
                    Box::new(move |t| spend(t, 1, window(n))),
                ]),
            );
            assert_eq!(&moved[..2], [1, 2]);
            assert_eq!(moved[2] + left(&table, n), 1, "{moved:?}");
            assert_eq!(left(&table, n + 1), 2, "{moved:?}");
            assert_eq!(slots(&table), 1);
        });
    }
}

/// A charge is undone while its window is drained: units come back once, or not at all if the window is over.
#[test]
fn an_undone_spend_meets_a_take_back() {
    for n in STARTS {
        for later in [0, 1] {
            explore(3, move || {
                let table = Arc::new(table(1));
                assert_eq!(install(&table, n, 2, window(n)), 2);
                let moved = together(
                    &table,
                    works([
                        Box::new(move |t| {
                            let level = t.spend(id(0), &meter(), 1, window(n));
                            let back = t.unspend(id(0), &meter(), 1, &level, window(n + later));
                            assert!(later == 0 || !back);
                            u64::from(level.admitted && !back)
                        }),
                        Box::new(move |t| take_back(t, n, 0)),
                    ]),
                );
                assert_eq!(moved[0] + moved[1] + left(&table, n), 2, "{moved:?}");
            });
        }
    }
}

/// Installed ahead, a window's credit outlives the current one's end whoever wants the slot.
#[test]
fn credit_ahead_keeps_its_slot() {
    for n in STARTS {
        explore(3, move || {
            let table = Arc::new(table(1));
            let end = Now::from_nanos(number(n) * WINDOW_NS);
            let moved = together(
                &table,
                works([
                    Box::new(move |t| install(t, n + 1, 2, window(n))),
                    Box::new(move |t| {
                        let level = t.take(id(5), GROUP, &fixed(1), 1, end);
                        u64::from(level.admitted && level.place == super::Place::Own)
                    }),
                ]),
            );
            assert!(moved[0] == 0 || moved[1] == 0, "{moved:?}");
            assert_eq!(left(&table, n + 1), moved[0], "{moved:?}");
        });
    }
}

/// A thread that was stopped before it installed finds that another bucket has the slot now: that one's credit stays.
#[test]
fn a_stopped_install_meets_the_next_owner() {
    for n in STARTS {
        explore(3, move || {
            let table = Arc::new(table(1));
            assert_eq!(install(&table, n, 1, window(n)), 1);
            // A window of the same word, so that both write it.
            let after = n + 2;
            let moved = together(
                &table,
                works([
                    Box::new(move |t| install(t, n, 2, window(n))),
                    Box::new(move |t| {
                        let added = t.install(id(5), &meter(), number(after), 3, window(after));
                        u64::from(added) * 3
                    }),
                ]),
            );
            let other = table
                .leased(id(5), &meter(), number(after))
                .map_or(0, |leased| leased.available);
            assert_eq!(other, moved[1], "{moved:?}");
            assert!(left(&table, n) <= 1 + moved[0], "{moved:?}");
        });
    }
}
