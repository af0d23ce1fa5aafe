//! The table against the plainest statement of what each algorithm means: maps and exact arithmetic, one thread.

use std::collections::HashMap;

use leasehold_gate::meter::{Meter, phase};
use leasehold_gate::table::{NEVER_NS, Table};
use leasehold_gate::time::Now;
use policy::model::Algorithm;
use policy::rate::{Rate, Window, interval_ticks, ticks_per_nano};
use proptest::prelude::*;

use super::fixture::*;

/// How a model counts one key, in its own terms.
#[derive(Clone)]
enum Model {
    /// Units by window number; the weight of the window before in it.
    Windows {
        counts: HashMap<u128, u64>,
        weighs_previous: bool,
    },
    /// Ticks of debt, and when it was so.
    Leaky { debt: u128, at: u128 },
    /// Units.
    Count(u64),
}

#[derive(Clone)]
struct Key {
    model: Model,
    phase: u128,
}

/// A limit in the model's terms.
#[derive(Clone, Copy)]
struct Limit {
    rate: Rate,
    algorithm: Algorithm,
}

impl Limit {
    fn meter(self) -> Meter {
        Meter::new(self.rate, self.algorithm)
    }

    fn most(self) -> u64 {
        match self.algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingWindow => self.rate.units,
            Algorithm::TokenBucket { burst } => burst,
        }
    }

    fn window_ns(self) -> u128 {
        match self.rate.window {
            Window::Millis(ms) => u128::from(ms.nanos()),
            Window::Forever => 0,
        }
    }

    /// Ticks a nanosecond, ticks a token.
    fn ticks(self) -> (u128, u128) {
        match self.rate.window {
            Window::Millis(ms) => (
                ticks_per_nano(ms.get()).into(),
                interval_ticks(ms, self.rate.units).into(),
            ),
            Window::Forever => (1, 1),
        }
    }

    fn new_key(self, phase: u64) -> Key {
        let model = match (self.algorithm, self.rate.window) {
            (_, Window::Forever) => Model::Count(0),
            (Algorithm::FixedWindow, _) => Model::Windows {
                counts: HashMap::new(),
                weighs_previous: false,
            },
            (Algorithm::SlidingWindow, _) => Model::Windows {
                counts: HashMap::new(),
                weighs_previous: true,
            },
            (Algorithm::TokenBucket { .. }, _) => Model::Leaky { debt: 0, at: 0 },
        };
        Key {
            model,
            phase: phase.into(),
        }
    }
}

impl Key {
    fn window(&self, limit: Limit, now: u128) -> u128 {
        (now + limit.window_ns() - self.phase) / limit.window_ns()
    }

    /// Whether `cost` fits at `now`.
    fn fits(&self, limit: Limit, cost: u64, now: u128) -> bool {
        let (most, cost) = (u128::from(limit.most()), u128::from(cost));
        match &self.model {
            Model::Count(used) => u128::from(*used) + cost <= most,
            Model::Windows {
                counts,
                weighs_previous,
            } => {
                let window_ns = limit.window_ns();
                let window = self.window(limit, now);
                let count = |w| u128::from(counts.get(&w).copied().unwrap_or(0));
                let left = window * window_ns + self.phase - now;
                let before = if *weighs_previous && window > 0 {
                    count(window - 1)
                } else {
                    0
                };
                before * left + (count(window) + cost) * window_ns <= most * window_ns
            }
            Model::Leaky { debt, at } => {
                let (a_nano, a_token) = limit.ticks();
                let full = most * a_token;
                let debt = debt.saturating_sub((now - at) * a_nano).min(full);
                debt + cost * a_token <= full
            }
        }
    }

    fn remaining(&self, limit: Limit, now: u128) -> u64 {
        let (mut low, mut high) = (0, limit.most());
        if !self.fits(limit, 0, now) {
            return 0;
        }
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.fits(limit, middle, now) {
                low = middle
            } else {
                high = middle - 1
            }
        }
        low
    }

    /// What a call that may charge leaves, whether or not it is admitted.
    fn settle(&mut self, limit: Limit, now: u128) {
        if let Model::Leaky { debt, at } = &mut self.model {
            let (a_nano, a_token) = limit.ticks();
            let full = u128::from(limit.most()) * a_token;
            *debt = debt.saturating_sub((now - *at) * a_nano);
            *at = now;
            // More than an empty bucket owes is forgiven, but for what clocks may differ by.
            if *debt > full + u128::from(MS) * a_nano {
                *debt = full;
            }
        }
    }

    fn add(&mut self, limit: Limit, units: i128, now: u128) {
        let window = match &self.model {
            Model::Windows { .. } => self.window(limit, now),
            Model::Leaky { .. } | Model::Count(_) => 0,
        };
        let moved = |from: u64| (i128::from(from) + units).max(0) as u64;
        match &mut self.model {
            Model::Count(used) => *used = moved(*used),
            Model::Windows { counts, .. } => {
                let count = counts.entry(window).or_default();
                *count = moved(*count);
            }
            Model::Leaky { debt, .. } => {
                let (_, a_token) = limit.ticks();
                *debt = (*debt as i128 + units * a_token as i128).max(0) as u128;
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Take { key: u64, cost: u64 },
    Look { key: u64, cost: u64 },
    GiveBack { key: u64, cost: u64 },
    TakeAndUndo { key: u64, cost: u64 },
    Wait { parts: u64 },
    Units { units: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..3u64;
    let cost = prop_oneof![Just(1u64), 0..12u64, 100..300u64];
    prop_oneof![
        6 => (key.clone(), cost.clone()).prop_map(|(key, cost)| Step::Take { key, cost }),
        2 => (key.clone(), cost.clone()).prop_map(|(key, cost)| Step::Look { key, cost }),
        1 => (key.clone(), cost.clone()).prop_map(|(key, cost)| Step::GiveBack { key, cost }),
        1 => (key, cost).prop_map(|(key, cost)| Step::TakeAndUndo { key, cost }),
        // In thousandths of a window.
        4 => prop_oneof![0..200u64, 900..1100u64, 0..5000u64].prop_map(|parts| Step::Wait { parts }),
        1 => (1..200u64).prop_map(|units| Step::Units { units }),
    ]
}

fn follow(
    mut limit: Limit,
    steps: &[Step],
    unit_ns: u64,
    jitter: u64,
) -> Result<(), TestCaseError> {
    let table: Table = table(100);
    let mut meter = limit.meter();
    let mut now = START + jitter;
    let mut keys: Vec<Key> = (0..3)
        .map(|n| limit.new_key(phase(id(n), &meter)))
        .collect();
    for (n, step) in steps.iter().enumerate() {
        let at = Now::from_nanos(now);
        let wide = u128::from(now);
        let (key, cost, takes) = match *step {
            Step::Take { key, cost } => (key, cost, true),
            Step::Look { key, cost } | Step::TakeAndUndo { key, cost } => (key, cost, false),
            Step::GiveBack { key, cost } => {
                let model = &mut keys[key as usize];
                if cost > 0 {
                    let clamped = model.clone();
                    model.settle(limit, wide);
                    match (&clamped.model, &model.model) {
                        // A debt above a lowered burst is left to the next charge.
                        (_, Model::Leaky { debt, .. })
                            if *debt > u128::from(limit.most()) * limit.ticks().1 =>
                        {
                            continue;
                        }
                        (_, _) => {}
                    }
                    model.add(limit, -i128::from(cost), wide);
                }
                table.give_back(id(key), &meter, cost, at);
                continue;
            }
            Step::Wait { parts } => {
                now += parts * (unit_ns / 1000) + parts % 7;
                continue;
            }
            Step::Units { units } => {
                limit.rate.units = units;
                if let Algorithm::TokenBucket { burst } = &mut limit.algorithm {
                    *burst = units.div_ceil(2);
                }
                meter = limit.meter();
                // Both sides settle what a lowered burst forgives at once.
                for (n, key) in keys.iter_mut().enumerate() {
                    key.settle(limit, wide);
                    let charged = table.take(id(n as u64), GROUP, &meter, 1, at);
                    if charged.admitted {
                        key.add(limit, 1, wide);
                    }
                }
                continue;
            }
        };
        let model = &mut keys[key as usize];
        let fits = cost <= limit.most() && model.fits(limit, cost, wide);
        let level = if takes {
            table.take(id(key), GROUP, &meter, cost, at)
        } else if matches!(step, Step::TakeAndUndo { .. }) {
            let before = table.look(id(key), GROUP, &meter, 0, at).remaining(&meter);
            let level = table.take(id(key), GROUP, &meter, cost, at);
            table.undo(id(key), GROUP, &meter, cost, &level, at);
            let after = table.look(id(key), GROUP, &meter, 0, at);
            prop_assert_eq!(before, after.remaining(&meter), "step {}: {:?}", n, step);
            prop_assert_eq!(level.admitted, fits, "step {}: {:?}", n, step);
            model.settle(limit, wide);
            continue;
        } else {
            table.look(id(key), GROUP, &meter, cost, at)
        };
        prop_assert_eq!(level.admitted, fits, "step {}: {:?}", n, step);
        if takes {
            model.settle(limit, wide);
            if fits {
                model.add(limit, cost.into(), wide);
            }
        }
        prop_assert_eq!(
            level.remaining(&meter),
            model.remaining(limit, wide),
            "step {}",
            n
        );

        // Exactly then, not a nanosecond earlier.
        match level.retry_after_ns(&meter, cost) {
            Some(0) => prop_assert!(model.fits(limit, cost, wide)),
            Some(wait) => {
                prop_assert!(
                    model.fits(limit, cost, wide + u128::from(wait)),
                    "step {} {}",
                    n,
                    wait
                );
                let early = wide + u128::from(wait) - 1;
                prop_assert!(!model.fits(limit, cost, early), "step {} {}", n, wait);
            }
            None => prop_assert!(cost > limit.most() || limit.window_ns() == 0),
        }
        match level.reset_after_ns(&meter) {
            NEVER_NS => prop_assert!(matches!(model.model, Model::Count(1..))),
            reset => {
                let whole = |at| model.remaining(limit, at) == limit.most();
                prop_assert!(whole(wide + u128::from(reset)), "step {}", n);
            }
        }
    }
    Ok(())
}

fn windows() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(100),
        Just(1_000),
        Just(7_001),
        Just(60_000),
        Just(DAY_MS),
        Just(DAY_MS + 1),
        Just(30 * DAY_MS),
        100..100_000u64
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn counting_windows_mean_what_they_say(
        steps in prop::collection::vec(step(), 1..120),
        units in 1..200u64,
        window_ms in windows(),
        sliding in any::<bool>(),
        jitter in 0..u64::from(u32::MAX),
    ) {
        let algorithm = if sliding { Algorithm::SlidingWindow } else { Algorithm::FixedWindow };
        let limit = Limit { rate: rate(units, window_ms), algorithm };
        follow(limit, &steps, window_ms * MS, jitter)?;
    }

    #[test]
    fn token_buckets_mean_what_they_say(
        steps in prop::collection::vec(step(), 1..120),
        units in 1..200u64,
        burst in 1..200u64,
        window_ms in windows(),
        jitter in 0..u64::from(u32::MAX),
    ) {
        let algorithm = Algorithm::TokenBucket { burst };
        let limit = Limit { rate: rate(units, window_ms), algorithm };
        follow(limit, &steps, window_ms * MS, jitter)?;
    }

    #[test]
    fn quotas_that_never_renew_mean_what_they_say(
        steps in prop::collection::vec(step(), 1..120),
        units in 1..500u64,
        jitter in 0..u64::from(u32::MAX),
    ) {
        let rate = Rate { units, window: Window::Forever };
        follow(Limit { rate, algorithm: Algorithm::FixedWindow }, &steps, DAY_MS * MS, jitter)?;
    }
}

/// The largest units that each algorithm takes are counted exactly.
#[test]
fn the_largest_limits_are_exact() {
    use policy::rate::{MAX_UNITS_FOREVER, max_units_fixed, max_units_sliding};
    for window_ms in [100, 1000, DAY_MS, 366 * DAY_MS, 36_600 * DAY_MS] {
        for (meter, most) in [
            (
                fixed(max_units_fixed(window_ms), window_ms),
                max_units_fixed(window_ms),
            ),
            (
                sliding(max_units_sliding(window_ms), window_ms),
                max_units_sliding(window_ms),
            ),
            (forever(MAX_UNITS_FOREVER), MAX_UNITS_FOREVER),
        ] {
            let table = table(10);
            let now = Now::from_nanos(START);
            assert_eq!(meter.most(), most);
            assert!(table.take(id(1), GROUP, &meter, most - 1, now).admitted);
            assert!(!table.take(id(1), GROUP, &meter, 2, now).admitted);
            assert!(table.take(id(1), GROUP, &meter, 1, now).admitted);
            assert!(!table.take(id(1), GROUP, &meter, 1, now).admitted);
            assert!(!table.take(id(1), GROUP, &meter, u64::MAX, now).admitted);
        }
    }
}
