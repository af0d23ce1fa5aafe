//! The floor: what any limiter must at least do. Read the clock, find the key's counter, subtract one from it.
//!
//! Nothing here limits anything. Each map is given its fastest form of read, keys that are hashed already, a fast
//! hasher and its full size at the start.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use foldhash::fast::FixedState;

use super::draws::{Draws, key_id};
use super::subject::{Role, Subject};

/// Reading the clock and nothing else: the part of every row that no table can better.
pub struct ClockOnly;

impl Subject for ClockOnly {
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

/// papaya: pinned for each decision, as a surface that serves one request at a time would.
pub struct Papaya(papaya::HashMap<u128, AtomicU64, FixedState>);

impl Papaya {
    /// Holds `keys` counters.
    pub fn new(keys: u32) -> Self {
        let map = papaya::HashMap::with_capacity_and_hasher(keys as usize, FixedState::default());
        let pinned = map.pin();
        for index in 0..keys {
            pinned.insert(key_id(index), AtomicU64::new(u64::MAX));
        }
        drop(pinned);
        Self(map)
    }
}

impl Subject for Papaya {
    fn name(&self) -> &'static str {
        "papaya look-up and subtraction"
    }

    fn role(&self) -> Role {
        Role::Floor
    }

    fn run(&self, _thread: usize, draws: &Draws, from: usize, to: usize) {
        for id in &draws.ids[from..to] {
            black_box(Instant::now());
            let pinned = self.0.pin();
            // Relaxed: the counter guards nothing; its own total is all that is read of it.
            black_box(
                pinned
                    .get(id)
                    .map(|left| left.fetch_sub(1, Ordering::Relaxed)),
            );
        }
    }
}

/// scc's lock-free index, by `peek_with`.
pub struct SccIndex(scc::HashIndex<u128, AtomicU64, FixedState>);

impl SccIndex {
    /// Holds `keys` counters.
    pub fn new(keys: u32) -> Self {
        let map = scc::HashIndex::with_capacity_and_hasher(keys as usize, FixedState::default());
        for index in 0..keys {
            // Only a duplicate is refused, and ids do not repeat.
            let _ = map.insert_sync(key_id(index), AtomicU64::new(u64::MAX));
        }
        Self(map)
    }
}

impl Subject for SccIndex {
    fn name(&self) -> &'static str {
        "scc index look-up and subtraction"
    }

    fn role(&self) -> Role {
        Role::Floor
    }

    fn run(&self, _thread: usize, draws: &Draws, from: usize, to: usize) {
        for id in &draws.ids[from..to] {
            black_box(Instant::now());
            // Relaxed: as above.
            black_box(
                self.0
                    .peek_with(id, |_, left| left.fetch_sub(1, Ordering::Relaxed)),
            );
        }
    }
}

/// scc's map, by `read_sync` (a shared lock on the bucket).
pub struct SccMap(scc::HashMap<u128, AtomicU64, FixedState>);

impl SccMap {
    /// Holds `keys` counters.
    pub fn new(keys: u32) -> Self {
        let map = scc::HashMap::with_capacity_and_hasher(keys as usize, FixedState::default());
        for index in 0..keys {
            // Only a duplicate is refused, and ids do not repeat.
            let _ = map.insert_sync(key_id(index), AtomicU64::new(u64::MAX));
        }
        Self(map)
    }
}

impl Subject for SccMap {
    fn name(&self) -> &'static str {
        "scc map look-up and subtraction"
    }

    fn role(&self) -> Role {
        Role::Floor
    }

    fn run(&self, _thread: usize, draws: &Draws, from: usize, to: usize) {
        for id in &draws.ids[from..to] {
            black_box(Instant::now());
            // Relaxed: as above.
            black_box(
                self.0
                    .read_sync(id, |_, left| left.fetch_sub(1, Ordering::Relaxed)),
            );
        }
    }
}

/// dashmap, by `get` (a shared lock on the shard).
pub struct Dash(dashmap::DashMap<u128, AtomicU64, FixedState>);

impl Dash {
    /// Holds `keys` counters.
    pub fn new(keys: u32) -> Self {
        let map = dashmap::DashMap::with_capacity_and_hasher(keys as usize, FixedState::default());
        for index in 0..keys {
            map.insert(key_id(index), AtomicU64::new(u64::MAX));
        }
        Self(map)
    }
}

impl Subject for Dash {
    fn name(&self) -> &'static str {
        "dashmap look-up and subtraction"
    }

    fn role(&self) -> Role {
        Role::Floor
    }

    fn run(&self, _thread: usize, draws: &Draws, from: usize, to: usize) {
        for id in &draws.ids[from..to] {
            black_box(Instant::now());
            // Relaxed: as above.
            black_box(
                self.0
                    .get(id)
                    .map(|left| left.fetch_sub(1, Ordering::Relaxed)),
            );
        }
    }
}
