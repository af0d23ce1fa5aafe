//! Other limiters, each with its hash map filled in advance and in the fastest form that its interface offers.
//!
//! Their limits are too high to be reached, so that each does the work of admitting. None is patched.

use std::collections::HashMap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::fast::FixedState;
use governor::clock::{Clock, DefaultClock, MonotonicClock};
use governor::middleware::NoOpMiddleware;
use governor::state::InMemoryState;
use governor::{Quota, RateLimiter};
use limitador::counter::Counter;
use limitador::limit::{Context, Expression, Limit};
use limitador::storage::Storage;
use limitador::storage::in_memory::InMemoryStorage;

use super::draws::{Draws, key_id};
use super::subject::{Role, Subject};

type GovernorOf<C> = RateLimiter<
    u128,
    dashmap::DashMap<u128, InMemoryState, FixedState>,
    C,
    NoOpMiddleware<<C as Clock>::Instant>,
>;

/// governor: GCRA over dashmap, with our hasher instead of SipHash.
pub struct Governor<C: Clock> {
    name: &'static str,
    limiter: GovernorOf<C>,
}

/// governor with the clock that it picks itself: quanta, which reads the processor's counter unfenced.
pub fn governor_quanta(keys: u32) -> Governor<DefaultClock> {
    Governor::new(
        "governor keyed, quanta clock",
        keys,
        DefaultClock::default(),
    )
}

/// governor with the standard library's clock, as the floor and most services read it.
pub fn governor_std(keys: u32) -> Governor<MonotonicClock> {
    Governor::new("governor keyed, std clock", keys, MonotonicClock)
}

impl<C: Clock> Governor<C> {
    /// Has seen `keys` keys.
    fn new(name: &'static str, keys: u32, clock: C) -> Self {
        let quota = Quota::per_second(NonZeroU32::MAX);
        let limiter =
            RateLimiter::dashmap_with_clock_and_hasher(quota, clock, FixedState::default());
        for index in 0..keys {
            let _ = limiter.check_key(&key_id(index));
        }
        Self { name, limiter }
    }
}

impl<C: Clock + Sync> Subject for Governor<C>
where
    C::Instant: Sync,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn run(&self, _thread: usize, draws: &Draws, from: usize, to: usize) {
        for id in &draws.ids[from..to] {
            let _ = black_box(self.limiter.check_key(id));
        }
    }
}

/// How many of a thread's draws limitador gets its counters made for: it wants each by `&mut`, and one takes about a
/// kilobyte. Still far more than any cache holds.
const PREPARED: usize = 1 << 18;

/// limitador's in-memory storage, asked with a counter that is resolved already: no CEL in the loop.
pub struct Limitador {
    storage: Storage,
    counters: Vec<Counter>,
    prepared: Vec<Mutex<Vec<Vec<Counter>>>>,
}

impl Limitador {
    /// Has seen `keys` keys.
    pub fn new(keys: u32) -> Self {
        let variable = Expression::parse("key").expect("a name is an expression");
        let limit = Arc::new(Limit::new(
            "bench",
            u64::MAX / 2,
            3600,
            vec![],
            vec![variable],
        ));
        let counters: Vec<Counter> = (0..keys)
            .map(|index| {
                let values = HashMap::from([("key".to_owned(), format!("k{index:07}"))]);
                Counter::new(Arc::clone(&limit), &Context::from(values))
                    .expect("the variable is set")
                    .expect("the variable is set")
            })
            .collect();
        let room = u64::from(keys) * 2 + 1000;
        let storage = Storage::with_counter_storage(Box::new(InMemoryStorage::new(room)));
        for counter in &counters {
            storage
                .check_and_update(&mut vec![counter.clone()], 1)
                .expect("memory cannot fail");
        }
        Self {
            storage,
            counters,
            prepared: Vec::new(),
        }
    }
}

impl Subject for Limitador {
    fn name(&self) -> &'static str {
        "limitador in memory"
    }

    fn role(&self) -> Role {
        Role::Peer
    }

    fn slower_by(&self) -> usize {
        32
    }

    fn prepare(&mut self, draws: &[Draws]) {
        let counters = &self.counters;
        self.prepared = draws
            .iter()
            .map(|draws| {
                let some = draws.indexes.iter().take(PREPARED);
                Mutex::new(some.map(|i| vec![counters[*i as usize].clone()]).collect())
            })
            .collect();
    }

    fn run(&self, thread: usize, _draws: &Draws, from: usize, to: usize) {
        let mut prepared = self.prepared[thread].lock().expect("no run panicked");
        let length = prepared.len();
        for at in from..to {
            let _ = black_box(self.storage.check_and_update(&mut prepared[at % length], 1));
        }
    }
}

/// pingora-limits' rate estimator: four counters of 1,024 in a count-min sketch, whatever the number of keys.
pub struct PingoraLimits(pingora_limits::rate::Rate);

impl PingoraLimits {
    /// Its size does not depend on the keys.
    pub fn new() -> Self {
        Self(pingora_limits::rate::Rate::new(Duration::from_secs(3600)))
    }
}

impl Subject for PingoraLimits {
    fn name(&self) -> &'static str {
        "pingora-limits (sketch)"
    }

    fn role(&self) -> Role {
        Role::Shown
    }

    fn run(&self, _thread: usize, draws: &Draws, from: usize, to: usize) {
        for id in &draws.ids[from..to] {
            black_box(self.0.observe(id, 1) <= isize::MAX / 2);
        }
    }
}
