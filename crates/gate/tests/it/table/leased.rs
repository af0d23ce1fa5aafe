//! Leased credit against a model, and under threads: what is installed for a window is spent, taken back or left.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lease::bucket::{Bucket, WindowId};
use lease::credit::Credit;
use lease::terms::{Mode, OnDegraded, Shape, Terms};
use leasehold_gate::bucket::BucketId;
use leasehold_gate::leased::{LeasedTable, subject};
use leasehold_gate::meter::{Meter, phase};
use leasehold_gate::table::{Cause, Leased, Table};
use leasehold_gate::time::Now;
use proptest::prelude::*;

use super::fixture::*;
use super::threads::together;

const WINDOW_NS: u64 = 100 * MS;

fn terms(units: u64) -> Terms {
    Terms {
        units,
        window_ns: WINDOW_NS,
        shape: Shape::FixedWindow,
        durable: false,
        on_degraded: OnDegraded::FairShare,
        mode: Mode::Lease,
        revision: 1,
    }
}

fn meter() -> Meter {
    Meter::leased(&terms(1_000_000))
}

/// The window that a time lies in, as the protocol numbers it.
fn window_at(id: BucketId, at: u64) -> u64 {
    subject(id)
        .bucket_at(WINDOW_NS, lease::time::Wall(at))
        .window
        .0
}

fn end_of(id: BucketId, window: u64) -> u64 {
    Bucket {
        subject: subject(id),
        window: WindowId(window),
    }
    .end(WINDOW_NS)
    .0
}

#[test]
fn a_bucket_that_nobody_installed_is_dry() {
    let table = table(100);
    let level = table.spend(id(1), &meter(), 1, Now::from_nanos(START));
    assert!(!level.admitted);
    assert_eq!(level.cause, Cause::Used);
    assert_eq!(level.remaining(&meter()), 0);
    let end = end_of(id(1), window_at(id(1), START));
    assert_eq!(level.retry_after_ns(&meter(), 1), Some(end - START));
    assert_eq!(table.leased(id(1), &meter(), window_at(id(1), START)), None);
    assert_eq!(table.stats(Now::from_nanos(START)).live_estimate, 0);
}

#[test]
fn what_is_installed_is_spent_and_no_more() {
    let table = table(100);
    let (now, window) = (Now::from_nanos(START), window_at(id(1), START));
    assert!(table.install(id(1), &meter(), window, 5, now));
    assert!(table.spend(id(1), &meter(), 3, now).admitted);
    let short = table.spend(id(1), &meter(), 3, now);
    assert!(!short.admitted);
    assert_eq!(short.remaining(&meter()), 2);
    assert!(table.look_leased(id(1), &meter(), 2, now).admitted);
    assert!(table.spend(id(1), &meter(), 0, now).admitted);
    let stands = table.leased(id(1), &meter(), window);
    // A look asks for nothing.
    assert_eq!(
        stands,
        Some(Leased {
            available: 2,
            demand: 6
        })
    );
    assert_eq!(table.take_back(id(1), &meter(), window, 1), 1);
    assert_eq!(table.take_back(id(1), &meter(), window, 1), 0);
    assert!(table.spend(id(1), &meter(), 1, now).admitted);
    assert!(!table.spend(id(1), &meter(), 1, now).admitted);
}

/// Only the current window and the next take credit, and each keeps its own.
#[test]
fn credit_lies_in_its_window() {
    for from in [START, START + WINDOW_NS] {
        let table = table(100);
        let (now, window) = (Now::from_nanos(from), window_at(id(1), from));
        for (far, stored) in [(0, true), (1, true), (2, false), (u64::MAX - window, false)] {
            assert_eq!(
                table.install(id(1), &meter(), window + far, 10 + far, now),
                stored,
                "{far}"
            );
        }
        assert!(!table.install(id(1), &meter(), window - 1, 1, now));
        assert_eq!(table.spend(id(1), &meter(), 1, now).remaining(&meter()), 9);
        let next = Now::from_nanos(end_of(id(1), window));
        assert_eq!(
            table.spend(id(1), &meter(), 1, next).remaining(&meter()),
            10
        );
        let over = Now::from_nanos(end_of(id(1), window + 1));
        assert!(!table.spend(id(1), &meter(), 1, over).admitted);
    }
}

#[test]
fn an_undone_spend_comes_back_in_its_window_only() {
    let table = table(100);
    let (now, window) = (Now::from_nanos(START), window_at(id(1), START));
    assert!(table.install(id(1), &meter(), window, 5, now));
    assert!(table.install(id(1), &meter(), window + 1, 5, now));
    let level = table.spend(id(1), &meter(), 3, now);
    assert!(table.unspend(id(1), &meter(), 3, &level, now));
    assert!(table.look_leased(id(1), &meter(), 5, now).admitted);
    let level = table.spend(id(1), &meter(), 3, now);
    let next = Now::from_nanos(end_of(id(1), window));
    assert!(!table.unspend(id(1), &meter(), 3, &level, next));
    assert_eq!(
        table
            .look_leased(id(1), &meter(), 0, next)
            .remaining(&meter()),
        5
    );
    let refused = table.spend(id(1), &meter(), 6, next);
    assert!(!table.unspend(id(1), &meter(), 6, &refused, next));
}

/// More units than a window's word can hold are refused whole, never cut or wrapped.
#[test]
fn huge_units_are_refused_whole() {
    let table = table(100);
    let (now, window) = (Now::from_nanos(START), window_at(id(1), START));
    assert!(!table.install(id(1), &meter(), window, u64::MAX, now));
    assert!(table.install(id(1), &meter(), window, 7, now));
    assert!(!table.install(id(1), &meter(), window, u64::MAX, now));
    assert!(!table.install(id(1), &meter(), window, (1 << 28) - 7, now));
    assert!(table.install(id(1), &meter(), window, (1 << 28) - 8, now));
    let huge = table.spend(id(1), &meter(), u64::MAX, now);
    assert_eq!(huge.cause, Cause::TooCostly);
    let stands = table.leased(id(1), &meter(), window).expect("installed");
    assert_eq!(stands.available, (1 << 28) - 1);
}

/// Whatever lengths come in terms, nothing panics and nothing is admitted that was not installed.
#[test]
fn terms_of_any_length_do_no_harm() {
    for window_ns in [0, 1, 9, 1000, u64::MAX / 2, u64::MAX] {
        for shape in [
            Shape::FixedWindow,
            Shape::SlidingWindow,
            Shape::TokenBucket { burst: 3 },
        ] {
            let terms = Terms {
                window_ns,
                shape,
                units: 1,
                ..terms(1)
            };
            let meter = Meter::leased(&terms);
            let table = table(10);
            let mut credit = LeasedTable::new(&table, Now::from_nanos(START));
            let bucket = subject(id(1)).bucket_at(terms.slot_ns(), lease::time::Wall(START));
            let installed = credit.install(bucket, &terms, 1);
            let now = Now::from_nanos(START);
            let admitted = (0..3).filter(|_| table.spend(id(1), &meter, 1, now).admitted);
            assert!(admitted.count() <= usize::from(installed));
        }
    }
}

/// A bucket that counts and one that holds credit are two, even with one id: no count is ever read as credit.
#[test]
fn counts_are_no_credit() {
    let table = table(100);
    let (now, window) = (Now::from_nanos(START), window_at(id(1), START));
    let counting = fixed(1_000_000, 100);
    assert!(table.take(id(1), GROUP, &counting, 500, now).admitted);
    assert!(!table.spend(id(1), &meter(), 1, now).admitted);
    assert!(table.install(id(1), &meter(), window, 3, now));
    assert_eq!(
        table
            .look(id(1), GROUP, &counting, 0, now)
            .remaining(&counting),
        999_500
    );
    assert_eq!(table.spend(id(1), &meter(), 1, now).remaining(&meter()), 2);
}

#[test]
fn forgotten_credit_is_gone_for_good() {
    let table = table(100);
    let (now, window) = (Now::from_nanos(START), window_at(id(1), START));
    assert!(table.install(id(1), &meter(), window, 3, now));
    table.forget_leased();
    assert!(!table.spend(id(1), &meter(), 1, now).admitted);
    assert_eq!(table.leased(id(1), &meter(), window), None);
    assert_eq!(table.take_back(id(1), &meter(), window, 0), 0);
    assert!(table.install(id(1), &meter(), window, 1, now));
    assert_eq!(table.spend(id(1), &meter(), 1, now).remaining(&meter()), 0);
}

/// A table full of live credit refuses to hold more, and lets nobody through for it.
#[test]
fn a_full_table_says_so() {
    let table = table(1);
    let now = Now::from_nanos(START);
    let stored: Vec<u64> = (0..1000)
        .filter(|n| table.install(id(*n), &meter(), window_at(id(*n), START), 2, now))
        .collect();
    assert!((60..200).contains(&stored.len()), "{}", stored.len());
    for n in 0..1000 {
        let first = table.spend(id(n), &meter(), 2, now);
        assert_eq!(first.admitted, stored.contains(&n), "{n}");
        assert!(!table.spend(id(n), &meter(), 1, now).admitted);
    }
}

#[test]
fn the_protocol_reads_what_lies_there() {
    let table = table(100);
    let terms = terms(10);
    let bucket = subject(id(1)).bucket_at(WINDOW_NS, lease::time::Wall(START));
    let at = |ns| LeasedTable::new(&table, Now::from_nanos(ns));
    assert_eq!(at(START).read(bucket, &terms), None);
    assert!(at(START).install(bucket, &terms, 4));
    assert!(at(START).install(bucket.next(), &terms, 6));
    let meter = Meter::leased(&terms);
    let _ = table.spend(id(1), &meter, 1, Now::from_nanos(START));
    let read = at(START).read(bucket, &terms).expect("installed");
    assert_eq!((read.available, read.demand), (3, 1));
    assert_eq!(at(START).take_back(bucket, &terms, 1), 2);
    let over = bucket.end(WINDOW_NS).0;
    assert_eq!(at(over).read(bucket, &terms), None);
    let next = at(over).read(bucket.next(), &terms).expect("ahead");
    assert_eq!((next.available, next.demand), (6, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Install { key: u64, ahead: i64, units: u64 },
    Spend { key: u64, cost: u64 },
    Unspend,
    TakeBack { key: u64, ahead: i64, keep: u64 },
    Pass { ns: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..4u64;
    prop_oneof![
        3 => (key.clone(), -1..=2i64, 0..20u64)
            .prop_map(|(key, ahead, units)| Step::Install { key, ahead, units }),
        6 => (key.clone(), 0..7u64).prop_map(|(key, cost)| Step::Spend { key, cost }),
        1 => Just(Step::Unspend),
        2 => (key, -1..=1i64, 0..10u64)
            .prop_map(|(key, ahead, keep)| Step::TakeBack { key, ahead, keep }),
        2 => (0..WINDOW_NS).prop_map(|ns| Step::Pass { ns }),
    ]
}

proptest! {
    /// Step by step as a map of windows would do it.
    #[test]
    fn as_a_map_would(steps in prop::collection::vec(step(), 1..200)) {
        let table = table(1000);
        let meter = meter();
        let mut windows: HashMap<(u64, u64), Leased> = HashMap::new();
        let mut known = HashSet::new();
        let mut last = None;
        let mut now = START;
        for step in steps {
            let at = Now::from_nanos(now);
            let numbered =
                |key, ahead: i64| window_at(id(key), now).saturating_add_signed(ahead);
            match step {
                Step::Install { key, ahead, units } => {
                    let window = numbered(key, ahead);
                    let stored = table.install(id(key), &meter, window, units, at);
                    prop_assert_eq!(stored, (0..=1).contains(&ahead));
                    if stored {
                        known.insert(key);
                        windows.entry((key, window)).or_default().available += units;
                    }
                }
                Step::Spend { key, cost } => {
                    let window = numbered(key, 0);
                    let level = table.spend(id(key), &meter, cost, at);
                    let lies = windows.get(&(key, window)).copied().unwrap_or_default();
                    prop_assert_eq!(level.admitted, cost <= lies.available);
                    prop_assert_eq!(level.window_end_ns(&meter), end_of(id(key), window));
                    let taken = if level.admitted { cost } else { 0 };
                    prop_assert_eq!(level.remaining(&meter), lies.available - taken);
                    if known.contains(&key) && cost > 0 && windows.contains_key(&(key, window)) {
                        let lies = windows.entry((key, window)).or_default();
                        lies.available -= taken;
                        lies.demand += cost;
                    }
                    last = Some((key, window, cost, level));
                }
                Step::Unspend => {
                    let Some((key, window, cost, level)) = last.take().filter(|last| last.2 > 0) else {
                        continue;
                    };
                    let back = table.unspend(id(key), &meter, cost, &level, at);
                    let mine = windows.get_mut(&(key, window));
                    let current = window == numbered(key, 0);
                    prop_assert_eq!(back, level.admitted && current && mine.is_some());
                    if let Some(lies) = mine.filter(|_| back) {
                        lies.available += cost;
                        lies.demand -= cost;
                    }
                }
                Step::TakeBack { key, ahead, keep } => {
                    let window = numbered(key, ahead);
                    let taken = table.take_back(id(key), &meter, window, keep);
                    let lies = windows.get_mut(&(key, window));
                    // A window that is over may have made place for the one after next.
                    if let Some(lies) = lies.filter(|_| ahead >= 0) {
                        prop_assert_eq!(taken, lies.available.saturating_sub(keep));
                        lies.available -= taken;
                    }
                }
                Step::Pass { ns } => now += ns,
            }
            for key in 0..4 {
                for ahead in 0..=1 {
                    let window = window_at(id(key), now) + ahead;
                    let lies = table.leased(id(key), &meter, window);
                    let expected = windows.get(&(key, window)).copied();
                    // What was refused before anything was installed counts as demand too.
                    prop_assert!(lies.is_some() || expected.is_none());
                    prop_assert_eq!(
                        lies.map_or(0, |l| l.available),
                        expected.map_or(0, |l| l.available)
                    );
                    prop_assert!(lies.map_or(0, |l| l.demand) >= expected.map_or(0, |l| l.demand));
                }
            }
        }
    }
}

/// Spenders, an installer that also takes back, and time that moves on over many windows: for each window what was
/// installed is what was admitted and what was taken back in the end, to the unit.
#[test]
fn every_unit_is_accounted_for_across_windows() {
    const KEYS: u64 = 5;
    const WINDOWS: u64 = 16;
    let table = table(100);
    let meter = meter();
    let time = AtomicU64::new(START);
    let done = AtomicBool::new(false);
    // So that time does not run away from the spenders.
    let tries = AtomicU64::new(0);
    // By key and window: installed less taken back, and admitted less given back.
    let books = together(4, |thread| {
        let mut book: HashMap<(u64, u64), i64> = HashMap::new();
        let mut random = 0x1234_5678_9abc_def0 ^ thread as u64;
        let mut draw = || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        if thread > 0 {
            while !done.load(Ordering::SeqCst) {
                let (key, cost) = (draw() % KEYS, 1 + draw() % 3);
                let at = Now::from_nanos(time.load(Ordering::SeqCst));
                let level = table.spend(id(key), &meter, cost, at);
                tries.fetch_add(1, Ordering::SeqCst);
                if !level.admitted {
                    continue;
                }
                let window = window_at(id(key), level.window_end_ns(&meter) - 1);
                *book.entry((key, window)).or_default() -= cost as i64;
                let at = Now::from_nanos(time.load(Ordering::SeqCst));
                if draw() % 4 == 0 && table.unspend(id(key), &meter, cost, &level, at) {
                    *book.entry((key, window)).or_default() += cost as i64;
                }
            }
            return book;
        }
        for _ in 0..WINDOWS * 25 {
            let now = time.load(Ordering::SeqCst);
            let at = Now::from_nanos(now);
            for key in 0..KEYS {
                let current = window_at(id(key), now);
                // A tick and a time step of the table after its end nothing comes back to a window: what is left is taken
                // for good, before the window after next is put in its place.
                let drained = now > end_of(id(key), current - 1) + 10 * MS;
                if drained {
                    let rest = table.take_back(id(key), &meter, current - 1, 0);
                    *book.entry((key, current - 1)).or_default() -= rest as i64;
                }
                let window = current + if drained { draw() % 2 } else { 0 };
                let units = draw() % 40;
                assert!(table.install(id(key), &meter, window, units, at));
                *book.entry((key, window)).or_default() += units as i64;
                let taken = table.take_back(id(key), &meter, current, draw() % 30);
                *book.entry((key, current)).or_default() -= taken as i64;
            }
            let before = tries.load(Ordering::SeqCst);
            while tries.load(Ordering::SeqCst) < before + 10 {
                std::thread::yield_now();
            }
            time.fetch_add(WINDOW_NS / 25, Ordering::SeqCst);
        }
        // Past the last window that has anything.
        time.fetch_add(3 * WINDOW_NS, Ordering::SeqCst);
        let last = time.load(Ordering::SeqCst);
        for key in 0..KEYS {
            // Moves the table's time on, so that nothing comes back any more.
            let _ = table.spend(id(key), &meter, 1, Now::from_nanos(last));
            let current = window_at(id(key), last);
            for window in current - 5..current {
                let rest = table.take_back(id(key), &meter, window, 0);
                *book.entry((key, window)).or_default() -= rest as i64;
            }
        }
        done.store(true, Ordering::SeqCst);
        book
    });
    let mut sums: HashMap<(u64, u64), i64> = HashMap::new();
    let mut admitted = 0;
    for (thread, book) in books.into_iter().enumerate() {
        for (bucket, units) in book {
            *sums.entry(bucket).or_default() += units;
            admitted += if thread > 0 { -units } else { 0 };
        }
    }
    assert!(admitted > 300, "{admitted}");
    assert!(sums.len() as u64 >= KEYS * WINDOWS);
    let wrong: Vec<_> = sums.iter().filter(|(_, sum)| **sum != 0).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!(table.stats(Now::from_nanos(START)).damaged, 0);
}

/// One thread's part in the churn of slots: per (key, window) what it installed less took back, and what it spent.
#[derive(Default)]
struct Part {
    installed: HashMap<(u64, u64), u64>,
    spent: HashMap<(u64, u64), u64>,
    /// Times that a window was followed from its first unit to its last.
    followed: u64,
}

/// Far more keys than slots, some that count and some that hold credit, while time moves on: no window of any key
/// spends more than was installed for it, and none loses a unit while it lasts.
fn churn(table: &Table, thread: usize, time: &AtomicU64) -> Part {
    let meter = meter();
    let counting = [fixed(3, 100), sliding(3, 100)];
    let mut part = Part::default();
    let mut random = 0x9e37_79b9_7f4a_7c15 ^ thread as u64;
    let mut draw = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random >> 16
    };
    for i in 0..40_000u64 {
        let now = match i % 64 {
            0 => time.fetch_add(WINDOW_NS / 40, Ordering::SeqCst),
            _ => time.load(Ordering::SeqCst),
        };
        let at = Now::from_nanos(now);
        let key = draw() % 300;
        let window = window_at(id(key), now) + draw() % 2;
        match draw() % 4 {
            0 => {
                let meter = &counting[(key & 1) as usize];
                let _ = table.take(id(1000 + key), GROUP, meter, 1, at);
            }
            1 => {
                let units = 1 + draw() % 5;
                if table.install(id(key), &meter, window, units, at) {
                    *part.installed.entry((key, window)).or_default() += units;
                }
            }
            2 => {
                let level = table.spend(id(key), &meter, 1, at);
                if level.admitted {
                    let window = window_at(id(key), level.window_end_ns(&meter) - 1);
                    *part.spent.entry((key, window)).or_default() += 1;
                }
            }
            _ => {
                // A key that no other thread uses, followed through.
                let own = id(10_000 + 1000 * thread as u64 + key);
                let window = window_at(own, now) + draw() % 2;
                let before = table.take_back(own, &meter, window, 0);
                if !table.install(own, &meter, window, 9, at) {
                    continue;
                }
                let level = table.spend(own, &meter, 2, at);
                let spent = u64::from(level.admitted) * 2;
                let here = level.window_end_ns(&meter) == end_of(own, window);
                let rest = table.take_back(own, &meter, window, 0);
                let lost = 9 - rest - if here { spent } else { 0 };
                if table.latest().nanos() < end_of(own, window) {
                    assert_eq!(lost, 0, "{before}");
                    part.followed += 1;
                }
            }
        }
    }
    part
}

#[test]
fn churn_neither_makes_nor_loses_credit() {
    let table = table(40);
    let time = AtomicU64::new(START);
    let parts = together(4, |thread| churn(&table, thread, &time));
    let mut left: HashMap<(u64, u64), i64> = HashMap::new();
    let (mut followed, mut spent_in_all) = (0, 0);
    for part in &parts {
        followed += part.followed;
        for (bucket, units) in &part.installed {
            *left.entry(*bucket).or_default() += *units as i64;
        }
        for (bucket, units) in &part.spent {
            *left.entry(*bucket).or_default() -= *units as i64;
            spent_in_all += units;
        }
    }
    let over: Vec<_> = left.iter().filter(|(_, left)| **left < 0).collect();
    assert!(over.is_empty(), "{over:?}");
    assert!(
        followed > 200 && spent_in_all > 1000,
        "{followed} {spent_in_all}"
    );
    let stats = table.stats(Now::from_nanos(START));
    assert!(stats.reclaimed > 500, "{stats:?}");
    assert_eq!(stats.damaged, 0);
}

proptest! {
    /// The table and the protocol cut time alike: see also the table's own numbers in the unit test beside the code.
    #[test]
    fn the_phase_is_the_protocols(n: u128, window_ns in 1..=u64::MAX / 4) {
        let meter = Meter::leased(&Terms { window_ns, ..terms(1) });
        let longest = policy::rate::LONGEST_WINDOW_MS * 1_000_000;
        prop_assume!(window_ns <= longest);
        prop_assert_eq!(
            phase(BucketId(n), &meter),
            subject(BucketId(n)).phase_ns(window_ns)
        );
    }
}
