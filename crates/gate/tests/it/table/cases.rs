//! Faults that public rate limiters had, as inputs with the right answer. The numbers are those of the catalogue of
//! cases that the project was given; each test says what its case is.

use leasehold_gate::table::{Cause, NEVER_NS, Place};
use leasehold_gate::time::Now;

use super::fixture::*;

/// W1: a window's end is where the key's phase puts it, for any length.
#[test]
fn a_window_ends_at_the_keys_phase() {
    for window_ms in [500, 7_000, 60_000, DAY_MS] {
        let one = One::new(fixed(10, window_ms), window_ms);
        let window = window_ms * MS;
        assert_eq!(one.admitted(window / 67, 11), 10, "{window_ms}");
        let refused = one.take(window / 60, 1);
        assert!(!refused.admitted);
        assert_eq!(
            refused.retry_after_ns(&one.meter, 1),
            Some(window - window / 60)
        );
        assert!(!one.take(window - 1, 1).admitted);
        assert!(one.take(window, 1).admitted);
    }
}

/// W2: a clock that steps back and forth neither locks out nor refills.
#[test]
fn a_clock_that_steps_back_refills_nothing() {
    let one = One::new(bucket(3, 1000, 3), 1000);
    assert_eq!(one.admitted(100 * SECOND, 5), 3);
    assert_eq!(one.admitted(89 * SECOND, 5), 0);
    assert_eq!(one.admitted(100 * SECOND, 5), 0);
    assert_eq!(one.admitted(101 * SECOND + 1, 5), 3);

    for meter in [fixed(3, 1000), sliding(3, 1000)] {
        let one = One::new(meter, 1000);
        assert_eq!(one.admitted(100 * SECOND, 5), 3);
        assert_eq!(one.admitted(89 * SECOND, 5), 0);
        assert_eq!(one.admitted(100 * SECOND, 5), 0);
        assert_eq!(one.admitted(102 * SECOND, 5), 3);
    }
}

/// W4: a slightly earlier time after a later one is a decision.
#[test]
fn an_earlier_time_is_decided() {
    for meter in [
        fixed(2, 1000),
        sliding(2, 1000),
        bucket(2, 1000, 2),
        forever(2),
    ] {
        let one = One::new(meter, 1000);
        assert!(one.take(SECOND, 1).admitted);
        assert!(one.take(SECOND - MS / 10, 1).admitted);
        assert!(!one.take(SECOND - MS / 5, 1).admitted);
    }
}

/// W5: a fixed window admits twice the units around a boundary, a sliding window does not.
#[test]
fn a_boundary_doubles_only_the_fixed_window() {
    let around = |meter| {
        let one = One::new(meter, 60_000);
        one.admitted(59_900 * MS, 10) + one.admitted(60_100 * MS, 10)
    };
    assert_eq!(around(fixed(10, 60_000)), 20);
    assert_eq!(around(sliding(10, 60_000)), 10);
}

/// W6: an idle token bucket fills up to its burst and no further.
#[test]
fn a_bucket_fills_to_its_burst() {
    let one = One::new(bucket(5, 1000, 5), 1000);
    assert_eq!(one.admitted(0, 5), 5);
    assert_eq!(one.admitted(2 * SECOND, 6), 5);
}

/// W7: a bucket's state lives until it would be full.
#[test]
fn a_bucket_is_not_forgotten_while_it_fills() {
    let one = One::new(bucket(3, 1000, 3), 1000);
    let admitted = (0..=100)
        .filter(|i| one.take(i * 100 * MS, 1).admitted)
        .count();
    assert!(admitted <= 33, "{admitted}");
    assert!(admitted >= 32, "{admitted}");
}

/// W8: idle time inside a window forgets nothing.
#[test]
fn idle_time_forgets_nothing() {
    let hour = 3600 * 1000;
    for meter in [fixed(5, hour), sliding(5, hour), bucket(5, hour, 5)] {
        let one = One::new(meter, hour);
        assert_eq!(one.admitted(MS, 5), 5);
        assert!(!one.take(360 * SECOND, 1).admitted);
    }
}

/// W10: long windows.
#[test]
fn long_windows_hold() {
    for days in [25, 50, 366, 36_600] {
        let window_ms = days * DAY_MS;
        for meter in [
            fixed(3, window_ms),
            sliding(3, window_ms),
            bucket(3, window_ms, 3),
        ] {
            let one = One::new(meter, window_ms);
            // The longest window's start lies beyond what the table's clock holds.
            let at = if days == 36_600 { 0 } else { 10 };
            assert_eq!(one.admitted(at, 4), 3, "{days}");
            let later = one.take(at + SECOND, 1);
            assert!(!later.admitted, "{days}");
        }
    }
}

/// W11: refused attempts do not push the window's end back.
#[test]
fn attempts_do_not_move_the_end() {
    for meter in [fixed(1, 3_600_000), bucket(1, 3_600_000, 1)] {
        let one = One::new(meter, 3_600_000);
        assert!(one.take(0, 1).admitted);
        for minute in 1..60 {
            assert!(!one.take(minute * 60 * SECOND, 1).admitted);
        }
        assert!(one.take(3600 * SECOND, 1).admitted);
    }
}

/// A1: a long idle time fills a bucket and overflows nothing.
#[test]
fn a_long_idle_time_fills_the_bucket() {
    let half_day = DAY_MS / 2;
    let one = One::new(bucket(1_000_000, half_day, 1_000_000), half_day);
    assert!(one.take(0, 1_000_000).admitted);
    let level = one.look(30 * DAY_MS * MS, 1_000_000);
    assert!(level.admitted);
    assert_eq!(level.remaining(&one.meter), 1_000_000);
}

/// A2: a cost above what the limit can hold is refused and changes nothing.
#[test]
fn a_cost_above_the_limit_changes_nothing() {
    for meter in [
        fixed(1, DAY_MS),
        sliding(1, DAY_MS),
        bucket(1, DAY_MS, 1),
        forever(1),
    ] {
        let one = One::new(meter, DAY_MS);
        for cost in [2, 300_000, u64::MAX] {
            let level = one.take(0, cost);
            assert!(!level.admitted);
            assert_eq!(level.cause, Cause::TooCostly);
            assert_eq!(level.remaining(&one.meter), 1);
            assert_eq!(level.retry_after_ns(&one.meter, cost), None);
        }
        assert!(one.take(0, 1).admitted);
    }
}

/// A3: high rates are exact.
#[test]
fn high_rates_are_exact() {
    for units in [6_000, 2_000_000_000] {
        let one = One::new(bucket(units, 1000, units), 1000);
        assert!(one.take(0, units).admitted);
        assert!(!one.take(0, 1).admitted);
        let half = one.look(SECOND / 2, 0).remaining(&one.meter);
        assert!(
            half <= units / 2 && half >= units / 2 - 1,
            "{half} of {units}"
        );
        assert_eq!(one.look(SECOND + 1000, 0).remaining(&one.meter), units);
    }
}

/// A8: units lowered below what is used.
#[test]
fn lowered_units_leave_nothing() {
    for (before, after) in [
        (fixed(100, 60_000), fixed(10, 60_000)),
        (sliding(100, 60_000), sliding(10, 60_000)),
        // The rate as before, the burst lowered: what is owed is time, and at most the time to fill.
        (bucket(100, 60_000, 100), bucket(100, 60_000, 10)),
        (forever(100), forever(10)),
    ] {
        let mut one = One::new(before, 60_000);
        assert!(one.take(SECOND, 80).admitted);
        one.meter = after;
        let level = one.take(2 * SECOND, 1);
        assert!(!level.admitted);
        assert_eq!(level.remaining(&after), 0);
        one.meter = before;
        assert!(one.look(2 * SECOND, 0).remaining(&before) <= 100);
    }
}

/// A bucket whose burst was lowered below what it owes begins to fill at once.
#[test]
fn a_lowered_burst_does_not_lock_out() {
    let mut one = One::new(bucket(100, 60_000, 100), 60_000);
    assert!(one.take(0, 100).admitted);
    one.meter = bucket(100, 60_000, 10);
    assert!(!one.take(SECOND, 1).admitted);
    assert!(one.take(SECOND + 601 * MS, 1).admitted);
    assert!(!one.take(SECOND + 601 * MS, 1).admitted);
}

/// A13, A14: the sliding window's arithmetic.
#[test]
fn the_sliding_window_weighs_the_window_before() {
    let one = One::new(sliding(1, 10_000), 10_000);
    assert!(one.take(0, 1).admitted);
    assert!(!one.take(5 * SECOND, 1).admitted);
    assert!(one.take(21 * SECOND, 1).admitted);

    let one = One::new(sliding(100, 10_000), 10_000);
    assert!(one.take(SECOND, 50).admitted);
    assert!(one.take(11 * SECOND, 10).admitted);
    assert_eq!(one.look(11 * SECOND, 0).remaining(&one.meter), 45);
}

/// A18: a quota that never renews counts every call.
#[test]
fn a_quota_that_never_renews_counts_every_call() {
    let one = One::new(forever(3), DAY_MS);
    assert_eq!(one.admitted(0, 2), 2);
    assert_eq!(one.admitted(20 * 366 * DAY_MS * MS, 2), 1);
    let level = one.take(90 * 366 * DAY_MS * MS, 1);
    assert!(!level.admitted);
    assert_eq!(level.retry_after_ns(&one.meter, 1), None);
    assert_eq!(level.reset_after_ns(&one.meter), NEVER_NS);
}

/// C7: costs above 1 in a sliding window.
#[test]
fn a_second_large_cost_is_refused() {
    let one = One::new(sliding(10, 60_000), 60_000);
    assert!(one.take(0, 6).admitted);
    assert!(!one.take(1, 6).admitted);
    assert_eq!(one.look(1, 0).remaining(&one.meter), 4);
}

/// C8: so many a window, cycle after cycle.
#[test]
fn each_cycle_admits_its_units() {
    for meter in [fixed(3, 10_000), bucket(3, 10_000, 3)] {
        let one = One::new(meter, 10_000);
        for cycle in 0..5 {
            // A bucket's interval is rounded up to its tick.
            assert_eq!(one.admitted(cycle * (10 * SECOND + 1), 9), 3);
        }
    }
}

/// C17: a first hit that costs the whole limit still ends with its window.
#[test]
fn a_first_large_cost_ends_with_its_window() {
    for meter in [fixed(5, 1000), bucket(5, 1000, 5)] {
        let one = One::new(meter, 1000);
        assert!(one.take(0, 5).admitted);
        assert!(!one.take(SECOND - 1, 5).admitted);
        assert!(one.take(SECOND, 5).admitted);
    }
}

/// C13 and M1: more keys than the table holds; none is forgotten, none refilled.
#[test]
fn no_key_is_forgotten_when_the_table_is_full() {
    for meter in [
        fixed(2, DAY_MS),
        sliding(2, DAY_MS),
        bucket(2, DAY_MS, 2),
        forever(2),
    ] {
        let table = table(10);
        let now = Now::from_nanos(START);
        assert!(table.take(id(0), GROUP, &meter, 2, now).admitted);
        let mut shared = 0;
        for n in 1..10_000 {
            let level = table.take(id(n), GROUP, &meter, 1, now);
            shared += u64::from(level.place == Place::Shared);
        }
        assert!(shared > 9_000, "{shared} were counted in shared cells");
        assert!(!table.take(id(0), GROUP, &meter, 1, now).admitted);
        for n in 0..10_000 {
            let more = (0..3).filter(|_| table.take(id(n), GROUP, &meter, 1, now).admitted);
            assert!(more.count() <= 1, "{n} was refilled");
        }
        assert!(table.stats(now).overflow_takes >= shared);
    }
}

/// A full table is told of for as long as what was counted in shared cells may matter, and no longer.
#[test]
fn sharing_is_told_of_while_it_matters() {
    let meter = fixed(2, 60_000);
    let table = table(10);
    let at = |seconds: u64| Now::from_nanos(START + seconds * SECOND);
    let mut n = 0;
    let mut placed = |now| {
        n += 1;
        table.take(id(n), GROUP, &meter, 1, now).place
    };
    assert!(!table.shares_cells(at(0)), "of an empty table");
    while placed(at(0)) == Place::Own {
        assert!(!table.shares_cells(at(0)), "while keys have their own");
    }
    assert!(table.shares_cells(at(0)));
    // A cell counts under twice the window, so that it never forgets early.
    assert!(table.shares_cells(at(120)));
    assert!(!table.shares_cells(at(242)));
    assert_eq!(placed(at(242)), Place::Own);
    assert!(!table.shares_cells(at(242)));
}

/// A table holds the live buckets that it was made for, each in a slot of its own, within 100 bytes a bucket; and
/// still when all slots have been used by others before.
#[test]
fn a_table_holds_what_it_was_made_for() {
    const LIVE: u64 = 50_000;
    let meter = fixed(2, 60_000);
    let table = table(LIVE);
    assert!(table.stats(Now::from_nanos(0)).bytes <= 100 * LIVE + 4096);
    for round in 0..3 {
        let now = Now::from_nanos(START + round * 120 * SECOND);
        for n in 0..LIVE {
            assert!(
                table
                    .take(id(round * LIVE + n), GROUP, &meter, 2, now)
                    .admitted
            );
        }
        for n in 0..LIVE {
            assert!(
                !table
                    .take(id(round * LIVE + n), GROUP, &meter, 1, now)
                    .admitted
            );
        }
        let stats = table.stats(now);
        assert_eq!(stats.overflow_takes, 0, "round {round}");
        let off = stats.live_estimate.abs_diff(LIVE);
        assert!(off < LIVE / 10, "estimated {}", stats.live_estimate);
    }
}

/// A look changes nothing; a refund gives back at most what was charged; an undo takes back one charge.
#[test]
fn looks_refunds_and_undone_charges() {
    for meter in [
        fixed(5, 60_000),
        sliding(5, 60_000),
        bucket(5, 60_000, 5),
        forever(5),
    ] {
        let one = One::new(meter, 60_000);
        assert_eq!(one.look(0, 5).place, Place::Nowhere);
        assert!(one.look(0, 5).admitted);
        assert!(!one.look(0, 6).admitted);
        let level = one.take(0, 3);
        assert_eq!(level.remaining(&meter), 2);
        assert!(!one.look(0, 3).admitted);
        one.table.undo(one.id, GROUP, &meter, 3, &level, one.at(0));
        assert_eq!(one.look(0, 0).remaining(&meter), 5);
        assert!(one.take(0, 2).admitted);
        one.table.give_back(one.id, &meter, 100, one.at(0));
        assert_eq!(one.look(0, 0).remaining(&meter), 5);
        assert!(one.take(0, 5).admitted);
        assert!(!one.take(0, 1).admitted);
        let refused = one.take(0, 1);
        one.table
            .undo(one.id, GROUP, &meter, 1, &refused, one.at(0));
        assert!(!one.take(0, 1).admitted);
    }
}

/// A charge undone after its window has ended gives nothing back.
#[test]
fn a_charge_of_an_ended_window_stays() {
    for meter in [fixed(5, 1000), sliding(5, 1000), bucket(5, 1000, 5)] {
        let one = One::new(meter, 1000);
        let first = one.take(0, 5);
        assert!(first.admitted);
        assert!(one.take(4 * SECOND, 5).admitted);
        one.table
            .undo(one.id, GROUP, &meter, 5, &first, one.at(4 * SECOND));
        assert!(!one.take(4 * SECOND, 1).admitted);
    }
}

/// Times at the edges of what a clock can say.
#[test]
fn extreme_times_are_decided() {
    for meter in [
        fixed(2, 100),
        sliding(2, 100),
        bucket(2, 100, 2),
        forever(2),
    ] {
        let table = table(10);
        for now in [0, 1, u64::MAX, u64::MAX - 1, 0] {
            let _ = table.take(id(1), GROUP, &meter, 1, Now::from_nanos(now));
        }
        let at_the_end = Now::from_nanos(u64::MAX);
        assert!(
            table
                .look(id(1), GROUP, &meter, 0, at_the_end)
                .remaining(&meter)
                <= 2
        );
    }
}
