//! The common path allocates nothing: counted, not believed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::num::NonZeroU64;

use gate::bucket::BucketId;
use gate::hash::HashSecret;
use gate::leased::{LeasedTable, subject};
use gate::meter::Meter;
use gate::request::{Hits, Part};
use gate::table::Table;
use gate::{Fleet, Gate};
use lease::credit::Credit;
use lease::terms::{Mode, OnDegraded, Shape, Terms};
use lease::time::Wall;
use policy::model::{KeySource, Sharing};

use crate::fixture::*;

/// Counts this thread's allocations.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

#[allow(unsafe_code)]
// SAFETY: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the ones that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: `pointer` came from `System.alloc` with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: `pointer` came from `System.alloc` with this layout.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(run: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.with(Cell::get);
    run();
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn the_counter_counts() {
    assert!(allocations(|| drop(std::hint::black_box(Box::new(1)))) > 0);
}

/// Admitted, refused, first and later hits, two rules with two limits each, one keyed by two parts.
#[test]
fn a_check_allocates_nothing() {
    let mut by_both = by(KeySource::ApiKey);
    by_both.extend(by(KeySource::ClientAddress));
    let gate = gate(&policy(vec![
        rule(
            "a",
            &["/v1/**"],
            by(KeySource::ClientAddress),
            vec![fixed(20, 1000), fixed(99, 60_000)],
        ),
        rule(
            "b",
            &["/v1/things/{}"],
            by_both,
            vec![fixed(5, 1000), fixed(50, 60_000)],
        ),
    ]));
    let http = get("/v1/./things/17?q=1").header("x-api-key", "a-key-of-common-length-0123456789");
    http.with(|request| {
        // The first load of the policy by a thread sets up that thread's place in arc-swap.
        drop(gate.snapshot());
        let (mut admitted, mut refused) = (0, 0);
        let counted = allocations(|| {
            for _ in 0..10 {
                let policy = gate.snapshot();
                let parts = [Part {
                    request,
                    hits: Hits::Take(1),
                }];
                match gate.check(&policy, &parts, START).verdict {
                    gate::Verdict::Admitted => admitted += 1,
                    gate::Verdict::Refused(_) => refused += 1,
                }
            }
        });
        assert_eq!((admitted, refused), (5, 5));
        assert_eq!(counted, 0);
    });
}

/// Leased credit: spent, refused, undone, of a bucket with a slot and of one without.
#[test]
fn a_spend_allocates_nothing() {
    let table = Table::anonymous(NonZeroU64::new(100).unwrap()).unwrap();
    let terms = Terms {
        units: 10,
        window_ns: SECOND_NS,
        shape: Shape::FixedWindow,
        durable: false,
        on_degraded: OnDegraded::FairShare,
        mode: Mode::Lease,
        revision: 1,
    };
    let meter = Meter::leased(&terms);
    let (held, unknown) = (BucketId(5 << 64), BucketId(6 << 64));
    let window = subject(held)
        .bucket_at(SECOND_NS, Wall(START.nanos()))
        .window;
    let mut answers = (0, 0);
    let counted = allocations(|| {
        assert!(table.install(held, &meter, window.0, 5, START));
        for id in [held, unknown] {
            for _ in 0..10 {
                let level = table.spend(id, &meter, 1, START);
                match level.admitted {
                    true => answers.0 += 1,
                    false => answers.1 += 1,
                }
            }
        }
        let level = table.look_leased(held, &meter, 0, START);
        assert!(level.admitted);
        assert_eq!(table.take_back(held, &meter, window.0, 0), 0);
    });
    assert_eq!(answers, (5, 15));
    assert_eq!(counted, 0);
}

/// The same through the gate, for several shared limits. Only a refusal that asks for credit makes a list.
#[test]
fn a_check_against_credit_allocates_nothing() {
    let by = by(KeySource::ClientAddress);
    let limits = vec![fixed(9, 1000), fixed(99, 60_000)];
    let table = Table::anonymous(NonZeroU64::new(100).unwrap()).unwrap();
    let fleet = Fleet {
        sharing: Sharing::Lease,
        revision: 1,
    };
    let policy = policy(vec![rule("a", &[], by, limits)]);
    let gate = Gate::in_fleet(table, &HashSecret::new(1, [7; 32]), &policy, fleet).unwrap();
    get("/").with(|request| {
        let hits = Hits::Take(1);
        let parts = [Part { request, hits }];
        let policy = gate.snapshot();
        let asks = gate.check(&policy, &parts, START).dry;
        assert_eq!(asks.len(), 2);
        for ask in asks {
            let mut credit = LeasedTable::new(gate.table(), START);
            assert!(credit.install(ask.bucket, &ask.terms, 5));
        }
        let mut admitted = 0;
        let counted = allocations(|| {
            for _ in 0..5 {
                let decision = gate.check(&policy, &parts, START);
                admitted += u32::from(decision.verdict == gate::Verdict::Admitted);
            }
        });
        assert_eq!((admitted, counted), (5, 0));
    });
}
