//! A table, meters and times for tests.

use std::num::NonZeroU64;

use leasehold_gate::bucket::BucketId;
use leasehold_gate::meter::{Meter, phase};
use leasehold_gate::table::{Level, Table};
use leasehold_gate::time::Now;
use policy::model::Algorithm;
use policy::rate::{Rate, Window, WindowMs};

/// The limit that the tests' buckets belong to.
pub const GROUP: u64 = 0x5eed_0f11_4177;

pub const SECOND: u64 = 1_000_000_000;
pub const MS: u64 = 1_000_000;
pub const DAY_MS: u64 = 24 * 3600 * 1000;

/// Some instant well after the epoch, in nanoseconds.
pub const START: u64 = 60_000_000 * SECOND;

pub fn table(live_buckets: u64) -> Table {
    Table::anonymous(NonZeroU64::new(live_buckets).expect("not 0")).expect("a small table")
}

pub fn rate(units: u64, window_ms: u64) -> Rate {
    let window = Window::Millis(WindowMs::new(window_ms).expect("in range"));
    Rate { units, window }
}

pub fn fixed(units: u64, window_ms: u64) -> Meter {
    Meter::new(rate(units, window_ms), Algorithm::FixedWindow)
}

pub fn sliding(units: u64, window_ms: u64) -> Meter {
    Meter::new(rate(units, window_ms), Algorithm::SlidingWindow)
}

pub fn bucket(units: u64, window_ms: u64, burst: u64) -> Meter {
    Meter::new(rate(units, window_ms), Algorithm::TokenBucket { burst })
}

pub fn forever(units: u64) -> Meter {
    Meter::new(
        Rate {
            units,
            window: Window::Forever,
        },
        Algorithm::FixedWindow,
    )
}

/// A bucket's id as a keyed hash would give it: SplitMix64's finaliser over a counter.
pub fn id(n: u64) -> BucketId {
    let mix = |mut x: u64| {
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    };
    let low = mix(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1));
    BucketId(u128::from(mix(low ^ 0x1234_5678)) << 64 | u128::from(low))
}

/// One bucket in a table of its own, its time told from the start of one of its windows.
pub struct One {
    pub table: Table,
    pub id: BucketId,
    pub meter: Meter,
    pub zero: u64,
}

impl One {
    pub fn new(meter: Meter, window_ms: u64) -> Self {
        let id = id(7);
        let window = window_ms * MS;
        let zero = START / window * window + phase(id, &meter);
        Self {
            table: table(1000),
            id,
            meter,
            zero,
        }
    }

    /// Takes at so many nanoseconds after the window's start.
    pub fn take(&self, at_ns: u64, cost: u64) -> Level {
        self.table
            .take(self.id, GROUP, &self.meter, cost, self.at(at_ns))
    }

    pub fn look(&self, at_ns: u64, cost: u64) -> Level {
        self.table
            .look(self.id, GROUP, &self.meter, cost, self.at(at_ns))
    }

    pub fn at(&self, at_ns: u64) -> Now {
        Now::from_nanos(self.zero + at_ns)
    }

    /// How many of `tries` takes of one unit are admitted.
    pub fn admitted(&self, at_ns: u64, tries: u64) -> u64 {
        (0..tries).filter(|_| self.take(at_ns, 1).admitted).count() as u64
    }
}
