//! A scenario as a run: streams for its traffic, and a plan for its faults.

use lease::bucket::Subject;
use lease::terms::{Mode, OnDegraded, Shape, Terms};

use super::{Demand, Limit, Outage, Scenario, Traffic, What};
use crate::chance::Chance;
use crate::fault::{Fault, Planned};
use crate::fleet::{At, Key, Setup, Stores};
use crate::traffic::{Arrivals, Choice, Stream, Zipf};

/// How far a healthy fleet's clocks may be off, in nanoseconds.
const CLOCK_ERROR_NS: u64 = 2_000_000;
/// How long a write to the disk takes at most, in nanoseconds.
const DISK_NS: u64 = 5_000_000;

/// The run of a scenario, which must have passed [`Scenario::check`].
#[must_use]
pub fn setup(scenario: &Scenario) -> Setup {
    let mut chance = Chance::new(scenario.seed ^ 0x7363_656e_6172);
    let measure = At(scenario.warm_up_ns);
    let end = measure.plus(scenario.measured_ns);
    let mut built = Setup {
        seed: scenario.seed,
        nodes: scenario.nodes,
        config: scenario.config.clone(),
        keys: Vec::new(),
        streams: Vec::new(),
        link: scenario.link,
        clock_errors_ns: (0..scenario.nodes)
            .map(|_| chance.below(CLOCK_ERROR_NS) as i64)
            .collect(),
        disk_ns: DISK_NS,
        stores: Stores::default(),
        plan: plan(scenario),
        heal: None,
        judged: false,
        measure,
        end,
    };
    for traffic in &scenario.traffic {
        for limit in &traffic.limits {
            add(&mut built, traffic, *limit, &mut chance);
        }
    }
    built
}

/// The limit of each key of a run, by its place.
pub(crate) fn limits(scenario: &Scenario) -> Vec<Limit> {
    let each = scenario.traffic.iter().flat_map(|traffic| {
        let limits = traffic.limits.iter();
        limits.flat_map(|limit| std::iter::repeat_n(*limit, traffic.keys))
    });
    each.collect()
}

fn add(built: &mut Setup, traffic: &Traffic, limit: Limit, chance: &mut Chance) {
    let first = built.keys.len();
    for _ in 0..traffic.keys {
        let (high, low) = (chance.bits(), chance.bits());
        built.keys.push(Key {
            subject: Subject(u128::from(high) << 64 | u128::from(low)),
            terms: Terms {
                units: limit.units,
                window_ns: limit.window.nanos(),
                shape: Shape::FixedWindow,
                durable: false,
                on_degraded: OnDegraded::FairShare,
                mode: Mode::Lease,
                revision: 1,
            },
        });
    }
    let stream = |keys: Choice, arrivals: Arrivals, from: At| Stream {
        keys,
        place: traffic.place,
        arrivals,
        cost: traffic.cost,
        from,
        until: built.end,
    };
    let mean_cost = (traffic.cost.0 + traffic.cost.1) as f64 / 2.0;
    let per_s = limit.per_s() / mean_cost;
    let each = |arrivals: &Arrivals| -> Vec<Stream> {
        (first..first + traffic.keys)
            .map(|key| stream(Choice::One(key), arrivals.clone(), At(0)))
            .collect()
    };
    let streams = match &traffic.demand {
        Demand::Steady { load } => each(&Arrivals::Steady {
            per_s: per_s * load,
        }),
        Demand::Burst { load, within_ns } => each(&Arrivals::Bursts {
            count: (limit.units as f64 * load / mean_cost).ceil() as u64,
            span_ns: *within_ns,
            every_ns: limit.window.nanos(),
        }),
        Demand::Crowd {
            load,
            times,
            from_ns,
            for_ns,
        } => {
            let from = built.measure.plus(*from_ns);
            each(&Arrivals::Crowd {
                per_s: per_s * load,
                times: *times,
                from,
                until: from.plus(*for_ns),
            })
        }
        Demand::Zipf { per_s, exponent } => {
            let keys = Choice::Zipf(Zipf::new(first, traffic.keys, *exponent));
            vec![stream(keys, Arrivals::Steady { per_s: *per_s }, At(0))]
        }
        Demand::Logged(log) => {
            let arrivals = Arrivals::Logged {
                log: log.clone(),
                first_key: first,
            };
            vec![stream(Choice::One(first), arrivals, built.measure)]
        }
    };
    built.streams.extend(streams);
}

fn plan(scenario: &Scenario) -> Vec<Planned> {
    let mut plan = Vec::new();
    for outage in &scenario.faults {
        add_outage(&mut plan, scenario, outage);
    }
    plan.sort_by_key(|planned| planned.at);
    plan
}

fn add_outage(plan: &mut Vec<Planned>, scenario: &Scenario, outage: &Outage) {
    let at = At(scenario.warm_up_ns).plus(outage.at_ns);
    let mut put = |at: At, fault: Fault| plan.push(Planned { at, fault });
    let mut both = |at: At, begins: Fault, ends: Fault| {
        put(at, begins);
        if let Some(for_ns) = outage.for_ns {
            put(at.plus(for_ns), ends);
        }
    };
    match outage.what {
        What::Down { node } => both(at, Fault::Crash(node), Fault::Start(node)),
        What::Stopped { node } => both(at, Fault::Stop(node), Fault::Continue(node)),
        What::CutOff { node } => {
            for other in (0..scenario.nodes).filter(|other| *other != node) {
                both(at, Fault::Cut(node, other), Fault::Mend(node, other));
                both(at, Fault::Cut(other, node), Fault::Mend(other, node));
            }
        }
        What::BusOut => both(at, Fault::BusOut, Fault::BusBack),
        What::Rolling { every_ns } => {
            for node in 0..scenario.nodes {
                let at = at.plus(every_ns.saturating_mul(node as u64));
                both(at, Fault::Crash(node), Fault::Start(node));
            }
        }
    }
}
