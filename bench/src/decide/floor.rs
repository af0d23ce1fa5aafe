//! The floor: what any limiter must at least do. Read the clock, find the key's counter, subtract one from it.
//!
//! Nothing here limits anything. Each map is given its fastest form of read, keys that are hashed already, a fast
//! hasher and its full size at the start. Each is shown with the standard library's clock, which waits for what the
//! processor does, and with Leasehold's, which does not.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use foldhash::fast::FixedState;
use gate::time::Now;
use node::clock::Clock;

use super::draws::{Draws, key_id};
use super::subject::{Role, Subject};

/// Reading the standard library's clock and nothing else.
pub struct StdClock;

impl Subject for StdClock {
    fn name(&self) -> &'static str {
        "std clock read alone"
    }

    fn role(&self) -> Role {
        Role::Shown
    }

    fn run(&self, _thread: usize, draws: &Draws, from: usize, to: usize) {
        for id in &draws.ids[from..to] {
            black_box(id);
            black_box(Instant::now());
        }
    }
}

/// Reading Leasehold's clock and nothing else: the part of most rows that no table can better.
pub struct NodeClock(Clock);

impl NodeClock {
    /// Reads a clock of its own.
    pub fn new() -> Self {
        Self(Clock::system(Now::default()))
    }
}

impl Subject for NodeClock {
    fn name(&self) -> &'static str {
        "leasehold's clock read alone"
    }

    fn role(&self) -> Role {
        Role::Shown
    }

    fn run(&self, _thread: usize, draws: &Draws, from: usize, to: usize) {
        for id in &draws.ids[from..to] {
            black_box(id);
            black_box(self.0.now());
        }
    }
}

/// A map from a key's hash to its counter.
pub trait Counters: Send + Sync + Sized + 'static {
    /// The row's name with the standard library's clock.
    const WITH_STD: &'static str;
    /// The row's name with Leasehold's clock.
    const WITH_OURS: &'static str;

    /// An empty map with room for so many.
    fn sized(keys: usize) -> Self;

    /// Adds a counter.
    fn insert(&self, id: u128, counter: AtomicU64);

    /// Hands a key's counter to `subtract`, in the fastest way that the map has.
    fn with(&self, id: u128, subtract: impl Fn(&AtomicU64) -> u64) -> Option<u64>;

    /// One with `keys` counters, to be run with either clock.
    fn floors(keys: u32) -> [Box<dyn Subject>; 2] {
        let map = Self::sized(keys as usize);
        for index in 0..keys {
            map.insert(key_id(index), AtomicU64::new(u64::MAX));
        }
        let map = Arc::new(map);
        let clock = Clock::system(Now::default());
        let std = Floor {
            name: Self::WITH_STD,
            role: Role::Floor,
            map: Arc::clone(&map),
            now: Instant::now,
        };
        let ours = Floor {
            name: Self::WITH_OURS,
            role: Role::FloorOnOurClock,
            map,
            now: move || clock.now(),
        };
        [Box::new(std), Box::new(ours)]
    }
}

/// One floor.
struct Floor<M, C> {
    name: &'static str,
    role: Role,
    map: Arc<M>,
    now: C,
}

impl<M: Counters, T, C: Fn() -> T + Sync> Subject for Floor<M, C> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn role(&self) -> Role {
        self.role
    }

    fn run(&self, _thread: usize, draws: &Draws, from: usize, to: usize) {
        for id in &draws.ids[from..to] {
            black_box((self.now)());
            // Relaxed: the counter guards nothing; its own total is all that is read of it.
            let subtract = |left: &AtomicU64| left.fetch_sub(1, Ordering::Relaxed);
            black_box(self.map.with(*id, subtract));
        }
    }
}

/// papaya: pinned for each decision, as a surface that serves one request at a time would.
pub type Papaya = papaya::HashMap<u128, AtomicU64, FixedState>;

impl Counters for Papaya {
    const WITH_STD: &'static str = "papaya look-up and subtraction, std clock";
    const WITH_OURS: &'static str = "papaya look-up and subtraction, leasehold's clock";

    fn sized(keys: usize) -> Self {
        Self::with_capacity_and_hasher(keys, FixedState::default())
    }

    fn insert(&self, id: u128, counter: AtomicU64) {
        self.pin().insert(id, counter);
    }

    fn with(&self, id: u128, subtract: impl Fn(&AtomicU64) -> u64) -> Option<u64> {
        self.pin().get(&id).map(subtract)
    }
}

/// scc's lock-free index, by `peek_with`.
pub type SccIndex = scc::HashIndex<u128, AtomicU64, FixedState>;

impl Counters for SccIndex {
    const WITH_STD: &'static str = "scc index look-up and subtraction, std clock";
    const WITH_OURS: &'static str = "scc index look-up and subtraction, leasehold's clock";

    fn sized(keys: usize) -> Self {
        Self::with_capacity_and_hasher(keys, FixedState::default())
    }

    fn insert(&self, id: u128, counter: AtomicU64) {
        // Only a duplicate is refused, and ids do not repeat.
        let _ = self.insert_sync(id, counter);
    }

    fn with(&self, id: u128, subtract: impl Fn(&AtomicU64) -> u64) -> Option<u64> {
        self.peek_with(&id, |_, left| subtract(left))
    }
}

/// scc's map, by `read_sync` (a shared lock on the bucket).
pub type SccMap = scc::HashMap<u128, AtomicU64, FixedState>;

impl Counters for SccMap {
    const WITH_STD: &'static str = "scc map look-up and subtraction, std clock";
    const WITH_OURS: &'static str = "scc map look-up and subtraction, leasehold's clock";

    fn sized(keys: usize) -> Self {
        Self::with_capacity_and_hasher(keys, FixedState::default())
    }

    fn insert(&self, id: u128, counter: AtomicU64) {
        // Only a duplicate is refused, and ids do not repeat.
        let _ = self.insert_sync(id, counter);
    }

    fn with(&self, id: u128, subtract: impl Fn(&AtomicU64) -> u64) -> Option<u64> {
        self.read_sync(&id, |_, left| subtract(left))
    }
}

/// dashmap, by `get` (a shared lock on the shard).
pub type Dash = dashmap::DashMap<u128, AtomicU64, FixedState>;

impl Counters for Dash {
    const WITH_STD: &'static str = "dashmap look-up and subtraction, std clock";
    const WITH_OURS: &'static str = "dashmap look-up and subtraction, leasehold's clock";

    fn sized(keys: usize) -> Self {
        Self::with_capacity_and_hasher(keys, FixedState::default())
    }

    fn insert(&self, id: u128, counter: AtomicU64) {
        self.insert(id, counter);
    }

    fn with(&self, id: u128, subtract: impl Fn(&AtomicU64) -> u64) -> Option<u64> {
        self.get(&id).map(|left| subtract(&left))
    }
}
