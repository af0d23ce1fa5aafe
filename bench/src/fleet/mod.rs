//! Five real nodes on this machine: what a decision costs where there is credit, how much of a limit is admitted, and
//! what the nodes say to each other.
//!
//! All share the machine's cores with each other and with the load: latency is that of such a machine, not of five.

mod nodes;

use std::thread;
use std::time::{Duration, Instant};

use nodes::{HOT_PER_SECOND, NODES, Node, Nodes, Reading};

use crate::Failure;
use crate::load::http2::{Grpc, judge_rls};
use crate::load::message::{Message, Order};
use crate::load::{self, Dialect, Load, LoadError, Pace, Report, Until};
use crate::plan::Plan;
use crate::rls::RLS_PATH;
use crate::row::{Goal, Row, median};

/// Until credit is out where it is needed.
const WARM_UP: Duration = Duration::from_secs(2);

/// Active buckets of each node.
const MANY_KEYS: u64 = 10_000;

/// Measures what the plan wants of this part.
///
/// # Errors
/// If a node or the load on it fails.
pub fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    if plan.wants(CREDIT) {
        rows.extend(with_credit(plan)?);
    }
    if plan.wants(SHARE) {
        rows.extend(admitted_share(plan)?);
    }
    if plan.wants(CHATTER) {
        rows.extend(chatter(plan)?);
    }
    Ok(rows)
}

const CREDIT: &str = "fleet/with credit, 5000 a second on 100 keys at one node";
const SHARE: &str = "fleet/1.5 times a limit of 1000/s";
const CHATTER: &str = "fleet/chatter of a node";

/// Asks one node.
struct Ask<'a> {
    node: &'a Node,
    domain: &'static str,
    order: Order,
    per_second: f64,
    warm_up: Duration,
    time: Duration,
}

impl Ask<'_> {
    fn run(&self, on_start: &mut dyn FnMut()) -> Result<Report, LoadError> {
        let message = Message::rls(self.domain, "key", self.order);
        load::run(Load {
            address: self.node.server.address,
            connections: 4,
            pace: Pace::Open {
                per_second: self.per_second,
            },
            warm_up: self.warm_up,
            until: Until::Time(self.time),
            dialect: &|| -> Box<dyn Dialect> {
                Box::new(Grpc::new(RLS_PATH, message.clone(), judge_rls))
            },
            on_start,
        })
    }
}

/// One run at the node that is loaded.
struct Loaded {
    p50_ms: f64,
    p99_ms: f64,
    cpu_us: f64,
    /// Of 100 requests, those that found too little credit.
    dry_percent: f64,
    refused: f64,
}

fn loaded(nodes: &Nodes, plan: &Plan) -> Result<Loaded, Failure> {
    let node = &nodes.all[0];
    let mut before = Ok(Reading::default());
    let ask = Ask {
        node,
        domain: "key",
        order: Order::Scattered(100),
        per_second: 5000.0,
        warm_up: WARM_UP,
        time: plan.load_time(),
    };
    let report = ask.run(&mut || before = node.read())?;
    let (before, after) = (before?, node.read()?);
    let total = report.total().max(1) as f64;
    Ok(Loaded {
        p50_ms: report.latency_ms(0.5),
        p99_ms: report.latency_ms(0.99),
        cpu_us: after.cpu.saturating_sub(before.cpu).as_secs_f64() * 1e6 / total,
        dry_percent: (after.dry - before.dry) * 100.0 / total,
        refused: (report.refused + report.failed) as f64,
    })
}

/// One node of five against one node alone, which runs while no fleet does: so the ratio has all that four idle nodes
/// take of this machine.
fn with_credit(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let (mut alone, mut fleet) = (Vec::new(), Vec::new());
    for round in 1..=plan.rounds() {
        plan.say(&format!("{CREDIT}, round {round}"));
        alone.push(loaded(&Nodes::alone()?, plan)?);
        fleet.push(loaded(&Nodes::fleet()?, plan)?);
    }
    type Figure = (&'static str, &'static str, fn(&Loaded) -> f64, bool);
    let figures: [Figure; 3] = [
        ("p50", "ms", |run| run.p50_ms, false),
        ("p99", "ms", |run| run.p99_ms, true),
        ("CPU per request", "us", |run| run.cpu_us, false),
    ];
    let of = |runs: &[Loaded], figure: fn(&Loaded) -> f64| runs.iter().map(figure).collect();
    let mut rows = Vec::new();
    for (name, unit, figure, has_goal) in figures {
        let one: Vec<f64> = of(&alone, figure);
        let five = Row::new(
            format!("{CREDIT}/of five, four idle/{name}"),
            unit,
            of(&fleet, figure),
        )
        .against("one node alone", median(&one));
        rows.push(Row::new(
            format!("{CREDIT}/one node alone/{name}"),
            unit,
            one,
        ));
        rows.push(if has_goal {
            five.goal(Goal::AtMost(1.1))
        } else {
            five
        });
    }
    for (name, unit, figure) in [
        (
            "requests that found no credit",
            "%",
            (|run| run.dry_percent) as fn(&Loaded) -> f64,
        ),
        ("refused", "requests", |run| run.refused),
    ] {
        let name = format!("{CREDIT}/of five, four idle/{name}");
        rows.push(Row::new(name, unit, of(&fleet, figure)));
    }
    Ok(rows)
}

/// The reports of loads on several nodes at once.
fn at_once(asks: &[Ask<'_>]) -> Result<Vec<Report>, Failure> {
    let reports: Vec<Result<Report, LoadError>> = thread::scope(|scope| {
        let loads: Vec<_> = asks
            .iter()
            .map(|ask| scope.spawn(|| ask.run(&mut || {})))
            .collect();
        loads
            .into_iter()
            .map(|load| load.join().expect("a load panics only by a fault in it"))
            .collect()
    });
    Ok(reports.into_iter().collect::<Result<_, _>>()?)
}

/// One key at one node, and at all of them.
fn admitted_share(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let nodes = Nodes::fleet()?;
    let mut rows = Vec::new();
    for (name, at, goal) in [
        ("pinned to a node", 1, 0.9995),
        ("over all nodes", NODES, 0.985),
    ] {
        let mut runs = Vec::new();
        for round in 1..=plan.rounds() {
            plan.say(&format!("{SHARE}, {name}, round {round}"));
            let asks: Vec<Ask<'_>> = nodes.all[..at]
                .iter()
                .map(|node| Ask {
                    node,
                    domain: "hot",
                    order: Order::InTurn(1),
                    per_second: 1.5 * HOT_PER_SECOND / at as f64,
                    warm_up: WARM_UP,
                    time: plan.burst_time(),
                })
                .collect();
            let reports = at_once(&asks)?;
            let admitted = reports
                .iter()
                .map(|report| report.admitted as f64 / report.spent.as_secs_f64());
            runs.push(admitted.sum());
        }
        rows.push(
            Row::new(format!("{SHARE}/{name}/admitted"), "1/s", runs)
                .against("the limit", HOT_PER_SECOND)
                .goal(Goal::AtLeast(goal)),
        );
    }
    Ok(rows)
}

/// What nodes send and compute: idle, and with many active buckets each.
fn chatter(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let nodes = Nodes::fleet()?;
    let time = plan.load_time() * 2;
    let mut rows = Vec::new();
    plan.say(&format!("{CHATTER}, idle"));
    let idle = between(&nodes, || {
        thread::sleep(time);
        Ok(())
    })?;
    rows.extend(rates("idle", &idle));

    plan.say(&format!("{CHATTER}, {MANY_KEYS} active buckets"));
    let asks = |warm_up, time| -> Vec<Ask<'_>> {
        nodes
            .all
            .iter()
            .zip(0..)
            .map(|(node, index)| Ask {
                node,
                domain: "many",
                order: Order::Slice {
                    first: index * MANY_KEYS,
                    keys: MANY_KEYS,
                },
                per_second: 1000.0,
                warm_up,
                time,
            })
            .collect()
    };
    // Each key once in 10 s, its window. Twice round, so that no window is its key's first.
    at_once(&asks(Duration::ZERO, Duration::from_secs(20)))?;
    let mut requests = 0;
    let busy = between(&nodes, || {
        let reports = at_once(&asks(Duration::ZERO, Duration::from_secs(10)))?;
        requests = reports.iter().map(Report::total).sum();
        Ok(())
    })?;
    let name = format!("{MANY_KEYS} active buckets, 1000 requests a second at each node");
    rows.extend(rates(&name, &busy));
    let dry: f64 = busy.iter().map(|(_, change)| change.dry).sum();
    for (what, unit, values) in [
        (
            "requests that found no credit",
            "%",
            vec![dry * 100.0 / (requests.max(1) as f64)],
        ),
        (
            "buckets that it holds credit of",
            "buckets",
            busy.iter().map(|(_, change)| change.held).collect(),
        ),
    ] {
        rows.push(Row::new(format!("{CHATTER}/{name}/{what}"), unit, values));
    }
    Ok(rows)
}

/// How each node's readings change while something goes on, and how long that took. Levels are as at the end.
fn between(
    nodes: &Nodes,
    going_on: impl FnOnce() -> Result<(), Failure>,
) -> Result<Vec<(Duration, Reading)>, Failure> {
    let read = || -> Result<Vec<Reading>, Failure> { nodes.all.iter().map(Node::read).collect() };
    let start = Instant::now();
    let before = read()?;
    going_on()?;
    let after = read()?;
    let took = start.elapsed();
    let changes = before.into_iter().zip(after);
    Ok(changes
        .map(|(before, after)| {
            let change = Reading {
                frames: after.frames - before.frames,
                bytes: after.bytes - before.bytes,
                dry: after.dry - before.dry,
                held: after.held,
                cpu: after.cpu.saturating_sub(before.cpu),
            };
            (took, change)
        })
        .collect())
}

/// Of each node a run.
fn rates(what: &str, changes: &[(Duration, Reading)]) -> Vec<Row> {
    type Figure = (&'static str, &'static str, fn(&Reading) -> f64);
    let figures: [Figure; 3] = [
        ("messages sent", "1/s", |change| change.frames),
        ("bytes sent", "kB/s", |change| change.bytes / 1000.0),
        ("CPU", "% of a core", |change| {
            change.cpu.as_secs_f64() * 100.0
        }),
    ];
    figures
        .into_iter()
        .map(|(name, unit, figure)| {
            let runs = changes
                .iter()
                .map(|(took, change)| figure(change) / took.as_secs_f64());
            Row::new(format!("{CHATTER}/{what}/{name}"), unit, runs.collect())
        })
        .collect()
}
