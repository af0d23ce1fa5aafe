//! Over gRPC: Leasehold, an empty service on the same stack, and throttlecrab, each under the same load; and Redis
//! with a script, under its own benchmark.
//!
//! All servers run throughout; the load goes to one after the other, round after round.

use std::time::Duration;

use crate::leasehold;
use crate::load::http2::{Grpc, Judge, judge_rls, judge_throttlecrab};
use crate::load::message::{Message, Order};
use crate::load::resp::Resp;
use crate::load::{self, Dialect, Load, Pace, Report, Until};
use crate::plan::Plan;
use crate::redis::{Benchmark, Redis};
use crate::row::{Goal, Row, median};
use crate::server::{Server, free_address};
use crate::{Failure, tools};

/// Keys that requests are spread over.
const KEYS: u64 = 100_000;

/// Requests a second that each node of a fleet must be able to take.
const FLEET_NODE_PER_SECOND: f64 = 100_000.0;

/// The limit in the burst group, units a second; five times as much is offered.
const BURST_LIMIT_PER_SECOND: u32 = 2_000;

pub const RLS_PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
pub const THROTTLECRAB_PATH: &str = "/throttlecrab.RateLimiter/Throttle";

/// Makes the dialect of a connection.
type Speak = Box<dyn Fn() -> Box<dyn Dialect>>;

/// A server with the words to speak to it.
struct Target {
    name: &'static str,
    server: Server,
    /// Asks for many keys, under a limit that is out of reach.
    speak: Speak,
    /// Asks for one key, under the burst group's limit.
    burst: Option<Speak>,
}

impl Target {
    /// Puts a load on it; the processor time that it used per request comes with the report.
    fn load(
        &self,
        speak: &Speak,
        connections: usize,
        pace: Pace,
        warm_up: Duration,
        until: Until,
    ) -> Result<Measured, Failure> {
        let mut before = Duration::ZERO;
        let report = load::run(Load {
            address: self.server.address,
            connections,
            pace,
            warm_up,
            until,
            dialect: speak,
            on_start: &mut || before = self.server.cpu(),
        })?;
        let cpu = self.server.cpu().saturating_sub(before);
        Ok(Measured::new(&report, cpu))
    }
}

fn grpc(path: &'static str, message: Message, judge: Judge) -> Speak {
    Box::new(move || Box::new(Grpc::new(path, message.clone(), judge)))
}

/// The figures of one run.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub per_second: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub cpu_us: f64,
    pub admitted_per_second: f64,
    pub failed: f64,
}

impl Measured {
    fn new(report: &Report, cpu: Duration) -> Self {
        Self {
            per_second: report.per_second(),
            p50_ms: report.latency_ms(0.5),
            p99_ms: report.latency_ms(0.99),
            p999_ms: report.latency_ms(0.999),
            cpu_us: cpu.as_secs_f64() * 1e6 / report.total().max(1) as f64,
            admitted_per_second: report.admitted as f64 / report.spent.as_secs_f64(),
            failed: report.failed as f64,
        }
    }
}

/// A figure of a run: its name, its unit, and whether more is better.
type Figure = (&'static str, &'static str, bool, fn(&Measured) -> f64);

const FIGURES: [Figure; 5] = [
    ("requests", "1/s", true, |m| m.per_second),
    ("p50", "ms", false, |m| m.p50_ms),
    ("p99", "ms", false, |m| m.p99_ms),
    ("p99.9", "ms", false, |m| m.p999_ms),
    ("CPU per request", "us", false, |m| m.cpu_us),
];

const OURS: &str = "leasehold";
const EMPTY: &str = "empty tonic service";
const CRAB: &str = "throttlecrab-server";
const REDIS: &str = "redis 7, window in Lua";
const REDIS_BENCHMARK: &str = "redis 7, window in Lua, by redis-benchmark";

/// Measures what the plan wants of this part.
///
/// # Errors
/// If a server or the load on it fails.
pub fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let closed = "rls/64 in flight on 4 connections";
    let open = "rls/5000 a second on 4 connections";
    let many = "rls/1000 connections";
    let burst = "rls/burst of five times the limit";
    if ![closed, open, many, burst]
        .into_iter()
        .any(|group| plan.wants(group))
    {
        return Ok(Vec::new());
    }
    plan.say("rls: starting the servers");
    let redis = Redis::start()?;
    let benchmark = redis.benchmark();
    let targets = targets(redis)?;
    let mut rows = Vec::new();
    if plan.wants(closed) {
        plan.say(closed);
        rows.extend(closed_rows(closed, &targets, &benchmark, plan)?);
    }
    if plan.wants(open) {
        plan.say(open);
        let runs = alternate(&targets, plan, |target| {
            let pace = Pace::Open { per_second: 5000.0 };
            target.load(
                &target.speak,
                4,
                pace,
                WARM_UP,
                Until::Time(plan.load_time()),
            )
        })?;
        rows.extend(compared(open, &runs, &FIGURES[1..]));
    }
    if plan.wants(many) {
        plan.say(many);
        let runs = alternate(&targets, plan, |target| {
            let pace = Pace::Closed { in_flight: 1 };
            let until = Until::Time(plan.load_time());
            target.load(&target.speak, 1000, pace, WARM_UP, until)
        })?;
        rows.extend(compared(many, &runs, &FIGURES));
        rows.extend(failed_rows(many, &runs));
    }
    if plan.wants(burst) {
        plan.say(burst);
        rows.extend(burst_rows(burst, &targets, plan)?);
    }
    Ok(rows)
}

const WARM_UP: Duration = Duration::from_millis(300);

fn targets(redis: Redis) -> Result<Vec<Target>, Failure> {
    let (empty, ours, crab) = (free_address()?, free_address()?, free_address()?);
    let (many, one) = (Order::Scattered(KEYS), Order::InTurn(1));
    let sha = redis.sha.clone();
    let limit = BURST_LIMIT_PER_SECOND;
    Ok(vec![
        Target {
            name: EMPTY,
            server: Server::start(
                EMPTY,
                empty,
                &tools::sibling("empty-rls"),
                &[&empty.to_string()],
            )?,
            speak: grpc(RLS_PATH, Message::rls("bench", "key", many), judge_rls),
            burst: None,
        },
        Target {
            name: OURS,
            server: leasehold::start(OURS, ours)?,
            speak: grpc(RLS_PATH, Message::rls("bench", "key", many), judge_rls),
            burst: Some(grpc(
                RLS_PATH,
                Message::rls("bench", "burst", one),
                judge_rls,
            )),
        },
        Target {
            name: CRAB,
            server: start_throttlecrab(crab)?,
            speak: grpc(
                THROTTLECRAB_PATH,
                Message::throttlecrab(None, many),
                judge_throttlecrab,
            ),
            burst: Some(grpc(
                THROTTLECRAB_PATH,
                Message::throttlecrab(Some(limit), one),
                judge_throttlecrab,
            )),
        },
        Target {
            name: REDIS,
            server: redis.server,
            speak: Box::new(move || Box::new(Resp::evalsha(&sha, 1_000_000_000, 3_600_000, many))),
            burst: None,
        },
    ])
}

/// throttlecrab listens on every address unless it is told not to.
pub fn start_throttlecrab(address: std::net::SocketAddr) -> Result<Server, Failure> {
    let port = address.port().to_string();
    let arguments = [
        "--grpc",
        "--grpc-host",
        "127.0.0.1",
        "--grpc-port",
        &port,
        "--log-level",
        "error",
    ];
    Ok(Server::start(
        CRAB,
        address,
        &tools::throttlecrab(),
        &arguments,
    )?)
}

/// Runs `measure` on each target in turn, round after round: for each target its name and its runs.
fn alternate<'t>(
    targets: impl IntoIterator<Item = &'t Target> + Clone,
    plan: &Plan,
    measure: impl Fn(&Target) -> Result<Measured, Failure>,
) -> Result<Vec<(&'static str, Vec<Measured>)>, Failure> {
    let mut all: Vec<(&'static str, Vec<Measured>)> = targets
        .clone()
        .into_iter()
        .map(|target| (target.name, Vec::new()))
        .collect();
    for _ in 0..plan.rounds() {
        for (target, (_, runs)) in targets.clone().into_iter().zip(&mut all) {
            runs.push(measure(target)?);
        }
    }
    Ok(all)
}

fn closed_rows(
    group: &str,
    targets: &[Target],
    benchmark: &Benchmark,
    plan: &Plan,
) -> Result<Vec<Row>, Failure> {
    let mut all: Vec<(&'static str, Vec<Measured>)> = targets
        .iter()
        .map(|target| (target.name, Vec::new()))
        .collect();
    let mut redis_runs = Vec::new();
    for _ in 0..plan.rounds() {
        for (target, (_, runs)) in targets.iter().zip(&mut all) {
            let pace = Pace::Closed { in_flight: 16 };
            let until = Until::Time(plan.load_time());
            runs.push(target.load(&target.speak, 4, pace, WARM_UP, until)?);
        }
        let redis = targets.iter().find(|target| target.name == REDIS);
        if let Some(redis) = redis {
            redis_runs.push(benchmark.run(&redis.server, plan.load_time(), KEYS)?);
        }
    }
    all.push((REDIS_BENCHMARK, redis_runs));
    let mut rows = compared(group, &all, &FIGURES);
    for (name, runs) in all.iter().filter(|(name, _)| *name == OURS) {
        let share = of(runs, |m| m.per_second);
        rows.push(
            Row::new(format!("{group}/{name}/requests"), "1/s", share)
                .against(
                    "100,000/s, what a fleet's node must take",
                    FLEET_NODE_PER_SECOND,
                )
                .goal(Goal::AtLeast(1.0)),
        );
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let whole = of(runs, |m| cores * 1e6 / m.cpu_us);
        let figure = format!("{group}/{name}/requests if it had all {cores} cores, by CPU");
        rows.push(Row::new(figure, "1/s", whole).against(
            "100,000/s, what a fleet's node must take",
            FLEET_NODE_PER_SECOND,
        ));
    }
    rows.extend(failed_rows(group, &all));
    Ok(rows)
}

fn burst_rows(group: &str, targets: &[Target], plan: &Plan) -> Result<Vec<Row>, Failure> {
    let limited = targets.iter().filter(|target| target.burst.is_some());
    let runs = alternate(limited, plan, |target| {
        let speak = target.burst.as_ref().unwrap_or(&target.speak);
        let pace = Pace::Open {
            per_second: 5.0 * f64::from(BURST_LIMIT_PER_SECOND),
        };
        // No warm-up: the first second of a burst is part of it.
        target.load(
            speak,
            8,
            pace,
            Duration::ZERO,
            Until::Time(plan.burst_time()),
        )
    })?;
    let mut rows = Vec::new();
    for (name, runs) in &runs {
        let admitted = of(runs, |m| m.admitted_per_second);
        rows.push(
            Row::new(format!("{group}/{name}/admitted"), "1/s", admitted)
                .against("the limit", BURST_LIMIT_PER_SECOND.into()),
        );
    }
    // All are offered the same, so requests a second compare nothing.
    rows.extend(compared(group, &runs, &FIGURES[1..]));
    rows.extend(failed_rows(group, &runs));
    Ok(rows)
}

fn of(runs: &[Measured], figure: impl Fn(&Measured) -> f64) -> Vec<f64> {
    runs.iter().map(figure).collect()
}

/// Every figure of every subject; ours against the empty service and against throttlecrab.
fn compared(group: &str, all: &[(&'static str, Vec<Measured>)], figures: &[Figure]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (figure, unit, more_is_better, value) in figures {
        let median_of = |wanted: &str| {
            let (_, runs) = all.iter().find(|(name, _)| *name == wanted)?;
            Some(median(&of(runs, value)))
        };
        for (name, runs) in all {
            let row = Row::new(format!("{group}/{name}/{figure}"), unit, of(runs, value));
            if *name != OURS {
                rows.push(row);
                continue;
            }
            if let Some(empty) = median_of(EMPTY) {
                let goal = if *more_is_better {
                    Goal::AtLeast(0.9)
                } else {
                    Goal::AtMost(1.1)
                };
                rows.push(row.clone().against(EMPTY, empty).goal(goal));
            }
            if let Some(crab) = median_of(CRAB) {
                let goal = if *more_is_better {
                    Goal::Above(1.0)
                } else {
                    Goal::Below(1.0)
                };
                rows.push(row.against(CRAB, crab).goal(goal));
            }
        }
    }
    rows
}

/// Answers that were no decision: any of ours is a fault.
fn failed_rows(group: &str, all: &[(&'static str, Vec<Measured>)]) -> Vec<Row> {
    all.iter()
        .filter(|(name, runs)| *name == OURS || runs.iter().any(|run| run.failed > 0.0))
        .map(|(name, runs)| {
            let row = Row::new(
                format!("{group}/{name}/failed"),
                "requests",
                of(runs, |m| m.failed),
            );
            if *name == OURS {
                row.goal(Goal::AtMost(0.0))
            } else {
                row
            }
        })
        .collect()
}
