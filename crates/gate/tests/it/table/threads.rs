//! Many threads on one table: what is admitted is counted by the test itself, apart from the table.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use leasehold_gate::meter::{Meter, phase};
use leasehold_gate::table::{Place, Table};
use leasehold_gate::time::Now;

use super::fixture::*;

/// Runs `work` on so many threads that start together, and collects what they return.
pub fn together<T: Send>(threads: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(threads);
    std::thread::scope(|scope| {
        let start = |n| {
            let (barrier, work) = (&barrier, &work);
            scope.spawn(move || {
                barrier.wait();
                work(n)
            })
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        running
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}

fn every_meter(units: u64, window_ms: u64) -> [(Meter, &'static str); 4] {
    [
        (fixed(units, window_ms), "fixed"),
        (sliding(units, window_ms), "sliding"),
        (bucket(units, window_ms, units), "token bucket"),
        (forever(units), "forever"),
    ]
}

/// C1: 64 threads behind a barrier, limit 5.
#[test]
fn sixty_four_at_once_get_five() {
    for (meter, name) in every_meter(5, 60_000) {
        for round in 0..20 {
            let table = table(100);
            let now = Now::from_nanos(START);
            let admitted = together(64, |_| {
                table.take(id(round), GROUP, &meter, 1, now).admitted
            });
            assert_eq!(admitted.into_iter().filter(|a| *a).count(), 5, "{name}");
        }
    }
}

/// Every key gets its units, no more and no less, while all threads take from all keys.
#[test]
fn many_keys_get_exactly_their_units() {
    const KEYS: u64 = 300;
    for (meter, name) in every_meter(7, 60_000) {
        let table = table(KEYS);
        let now = Now::from_nanos(START);
        let counts = together(4, |thread| {
            let mut counts = vec![0; KEYS as usize];
            for i in 0..KEYS * 10 {
                let key = (i * (2 * thread as u64 + 1) + thread as u64) % KEYS;
                counts[key as usize] +=
                    u64::from(table.take(id(key), GROUP, &meter, 1, now).admitted);
            }
            counts
        });
        for key in 0..KEYS as usize {
            assert_eq!(
                counts.iter().map(|c| c[key]).sum::<u64>(),
                7,
                "{name} {key}"
            );
        }
        assert_eq!(table.stats(now).overflow_takes, 0);
        assert_eq!(table.stats(now).live_estimate, KEYS);
    }
}

/// What one thread saw admitted: the key, the window's end, the time.
struct Admitted {
    key: u64,
    window_end: u64,
    at: u64,
}

/// Threads take from far more keys than there are slots while time moves on, so that slots are claimed, taken over
/// and shared all the time.
fn churn(table: &Table, meter: &Meter, window_ns: u64, keys: u64) -> Vec<Admitted> {
    let time = AtomicU64::new(START);
    together(4, |thread| {
        let mut admitted = Vec::new();
        let mut random = 0x9e37_79b9_7f4a_7c15 ^ thread as u64;
        for i in 0..60_000u64 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Half of the takes go to a handful of keys.
            let key = if random & 1 == 0 {
                (random >> 32) % 8
            } else {
                (random >> 32) % keys
            };
            let now = match i % 64 {
                0 => time.fetch_add(window_ns / 40, Ordering::SeqCst),
                _ => time.load(Ordering::SeqCst),
            };
            let level = table.take(id(key), GROUP, meter, 1, Now::from_nanos(now));
            if level.admitted {
                let at = level.decided_at_ns();
                let window_end = match level.place {
                    Place::Own => level.window_end_ns(meter),
                    Place::Shared | Place::Nowhere => {
                        let phase = phase(id(key), meter);
                        (at - phase) / window_ns * window_ns + phase + window_ns
                    }
                };
                admitted.push(Admitted {
                    key,
                    window_end,
                    at,
                });
            }
        }
        admitted
    })
    .into_iter()
    .flatten()
    .collect()
}

/// Counting windows: in no window of any key more than the units, however slots come and go.
#[test]
fn churn_never_admits_more_than_a_window_holds() {
    const UNITS: u64 = 3;
    const WINDOW_MS: u64 = 100;
    for meter in [fixed(UNITS, WINDOW_MS), sliding(UNITS, WINDOW_MS)] {
        let table = table(40);
        let admitted = churn(&table, &meter, WINDOW_MS * MS, 600);
        let mut windows: HashMap<(u64, u64), u64> = HashMap::new();
        for one in &admitted {
            *windows.entry((one.key, one.window_end)).or_default() += 1;
        }
        for ((key, end), count) in &windows {
            assert!(
                *count <= UNITS,
                "{count} of key {key} in the window up to {end}: {meter:?}"
            );
        }
        let stats = table.stats(Now::from_nanos(START));
        assert!(
            stats.reclaimed > 500 && stats.overflow_takes > 500,
            "{stats:?}"
        );
        assert!(admitted.len() > 1000, "{}", admitted.len());
        assert_eq!(stats.damaged, 0);
    }
}

/// Token bucket: in no interval more than the burst and what refills in it.
#[test]
fn churn_never_admits_more_than_a_bucket_holds() {
    const BURST: u64 = 3;
    const WINDOW_MS: u64 = 100;
    let meter = bucket(10, WINDOW_MS, BURST);
    let interval_ns = WINDOW_MS * MS / 10;
    let table = table(40);
    let mut admitted = churn(&table, &meter, WINDOW_MS * MS, 600);
    admitted.sort_by_key(|one| (one.key, one.at));
    // A leaky bucket over the sorted times: its level never exceeds the burst iff the bound holds in every interval.
    let mut last = (u64::MAX, 0);
    let mut level_ns = 0u64;
    for one in &admitted {
        level_ns = if one.key == last.0 {
            level_ns.saturating_sub(one.at - last.1)
        } else {
            0
        };
        level_ns += interval_ns;
        assert!(
            level_ns <= BURST * interval_ns,
            "key {} at {}",
            one.key,
            one.at
        );
        last = (one.key, one.at);
    }
    let stats = table.stats(Now::from_nanos(START));
    assert!(stats.reclaimed > 500, "{stats:?}");
    assert_eq!(stats.damaged, 0);
}

/// Charges taken back while others charge: the sum stays right.
#[test]
fn undone_charges_leave_the_rest() {
    for (meter, name) in every_meter(1_000_000, 60_000) {
        let table = table(100);
        let now = Now::from_nanos(START);
        let kept: u64 = together(4, |thread| {
            let mut kept = 0;
            for i in 0..5_000u64 {
                let cost = 1 + (i + thread as u64) % 5;
                let level = table.take(id(1), GROUP, &meter, cost, now);
                assert!(level.admitted);
                if i % 3 == 0 {
                    table.undo(id(1), GROUP, &meter, cost, &level, now);
                } else {
                    kept += cost;
                }
            }
            kept
        })
        .into_iter()
        .sum();
        let left = table.look(id(1), GROUP, &meter, 0, now).remaining(&meter);
        assert_eq!(left, 1_000_000 - kept, "{name}");
    }
}
