//! Memory: of each server with 0, 100,000 and 1,000,000 live keys, and of a bucket in process.
//!
//! Every figure is of a process of its own, read from `/proc` after the keys were made.

use std::process::Command;
use std::time::Duration;

use crate::load::http2::{Grpc, Judge, judge_rls, judge_throttlecrab};
use crate::load::message::{Message, Order};
use crate::load::{self, Dialect, Load, Pace, Until};
use crate::plan::Plan;
use crate::redis::Redis;
use crate::rls::{RLS_PATH, THROTTLECRAB_PATH, start_throttlecrab};
use crate::row::{Row, median};
use crate::server::{Server, free_address};
use crate::{Failure, leasehold};

const SIZES: [u64; 3] = [0, 100_000, 1_000_000];
const MIB: f64 = 1024.0 * 1024.0;
const OURS: &str = "leasehold";

/// Measures what the plan wants of this part.
///
/// # Errors
/// If a server or the load on it fails.
pub fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let group = "memory";
    if !plan.wants(group) {
        return Ok(Vec::new());
    }
    type Subject = (&'static str, fn() -> Result<[f64; 3], Failure>);
    let subjects: [Subject; 3] = [
        (OURS, || {
            let address = free_address()?;
            let server = leasehold::start(OURS, address)?;
            filled(
                &server,
                RLS_PATH,
                |order| Message::rls("bench", "key", order),
                judge_rls,
            )
        }),
        ("throttlecrab-server", || {
            let server = start_throttlecrab(free_address()?)?;
            let message = |order| Message::throttlecrab(None, order);
            filled(&server, THROTTLECRAB_PATH, message, judge_throttlecrab)
        }),
        ("redis 7", || {
            let redis = Redis::start()?;
            let mut resident = [0.0; 3];
            for (size, resident) in SIZES.into_iter().zip(&mut resident) {
                redis.fill(size)?;
                *resident = redis.server.resident();
            }
            Ok(resident)
        }),
    ];
    let mut runs = subjects.map(|(name, _)| (name, Vec::new()));
    for round in 1..=plan.memory_rounds() {
        plan.say(&format!("{group}, round {round}"));
        for ((_, measure), (_, runs)) in subjects.iter().zip(&mut runs) {
            runs.push(measure()?);
        }
    }
    let of = |runs: &[[f64; 3]], figure: &dyn Fn(&[f64; 3]) -> f64| -> Vec<f64> {
        runs.iter().map(figure).collect()
    };
    let mut rows = Vec::new();
    for (at, size) in SIZES.into_iter().enumerate() {
        for (name, resident) in &runs {
            let row_name = format!("{group}/{size} live keys/{name}");
            let row = Row::new(row_name, "MiB", of(resident, &|run| run[at] / MIB));
            if *name != OURS {
                rows.push(row);
                continue;
            }
            for (other, resident) in runs.iter().filter(|(other, _)| *other != OURS) {
                let theirs = median(&of(resident, &|run| run[at] / MIB));
                rows.push(row.clone().against(*other, theirs));
            }
        }
    }
    for (name, resident) in &runs {
        let each = of(resident, &|run| (run[2] - run[0]) / SIZES[2] as f64);
        rows.push(Row::new(
            format!("{group}/a key of 1000000, resident/{name}"),
            "bytes",
            each,
        ));
    }
    Ok(rows)
}

fn filled(
    server: &Server,
    path: &'static str,
    message: impl Fn(Order) -> Message,
    judge: Judge,
) -> Result<[f64; 3], Failure> {
    let mut resident = [0.0; 3];
    for (size, resident) in SIZES.into_iter().zip(&mut resident) {
        if size > 0 {
            let message = message(Order::InTurn(size));
            let report = load::run(Load {
                address: server.address,
                connections: 4,
                pace: Pace::Closed { in_flight: 100 },
                warm_up: Duration::ZERO,
                until: Until::Count(size),
                dialect: &|| -> Box<dyn Dialect> {
                    Box::new(Grpc::new(path, message.clone(), judge))
                },
                on_start: &mut || {},
            })?;
            if report.admitted < size {
                let said = format!("admitted only {} of {size} new keys", report.admitted);
                return Err(Failure::Said {
                    program: server.name,
                    said,
                });
            }
        }
        *resident = server.resident();
    }
    Ok(resident)
}

/// What [`alone`] can measure.
pub const BYTES_PER_BUCKET: &str = "bytes-per-bucket";

/// Runs this program again to measure one thing alone; it prints a number.
///
/// # Errors
/// If it cannot be run or says something else.
pub fn alone(argument: &str) -> Result<f64, Failure> {
    let program = "leasehold-bench";
    let this = std::env::current_exe()?;
    let output = Command::new(this)
        .args(["--alone", argument])
        .output()
        .map_err(|error| Failure::Run { program, error })?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    said.trim()
        .parse()
        .map_err(|_| Failure::Said { program, said })
}
