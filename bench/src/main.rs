//! Leasehold beside its peers and its floor: one run, one table. `scripts/bench` installs what it needs and calls it.

mod decide;
mod envoy;
mod fleet;
mod leasehold;
mod load;
mod memory;
mod plan;
mod redis;
mod rls;
mod row;
mod server;
mod tools;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;

use row::Row;

/// Measures Leasehold side by side with what it is held against, and prints one table.
#[derive(Parser)]
struct Arguments {
    /// Shorter runs: everything in under ten minutes.
    #[arg(long)]
    quick: bool,
    /// Write the rows to this file as a JSON array.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure only the groups whose name contains this.
    #[arg(long, value_name = "PATTERN")]
    only: Option<String>,
    /// Measure five real nodes on this machine, and nothing else.
    #[arg(long)]
    fleet: bool,
    /// Measure one thing in this process alone and print the number: how the program calls itself.
    #[arg(long, hide = true)]
    alone: Option<String>,
}

/// Why nothing, or not all, was measured.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A server is not there.
    #[error(transparent)]
    Server(#[from] server::ServerError),
    /// A load could not be put on.
    #[error(transparent)]
    Load(#[from] load::LoadError),
    /// A program could not be run.
    #[error("cannot run {program}: {error}")]
    Run {
        /// Which.
        program: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// A program said something else than expected.
    #[error("{program}: {said}")]
    Said {
        /// Which.
        program: &'static str,
        /// What it said.
        said: String,
    },
    /// The system refused something.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(alone) = arguments.alone {
        return match alone.as_str() {
            memory::BYTES_PER_BUCKET => {
                println!("{}", decide::bytes_per_bucket());
                ExitCode::SUCCESS
            }
            _ => ExitCode::FAILURE,
        };
    }
    let plan = plan::Plan {
        quick: arguments.quick,
        only: arguments.only,
    };
    let mut rows = Vec::new();
    let measured = if arguments.fleet {
        fleet::measure(&plan).map(|measured| rows.extend(measured))
    } else {
        measure(&plan, &mut rows)
    };
    // What was measured is shown even if something failed later.
    let reported = report(&rows, arguments.json.as_deref());
    let failures = [measured.err(), reported.err().map(Failure::Io)];
    for failure in failures.iter().flatten() {
        eprintln!("bench: {failure}");
    }
    if failures.iter().any(Option::is_some) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn measure(plan: &plan::Plan, rows: &mut Vec<Row>) -> Result<(), Failure> {
    rows.extend(decide::measure(plan));
    rows.extend(decide::measure_bucket(plan)?);
    rows.extend(rls::measure(plan)?);
    rows.extend(envoy::measure(plan)?);
    rows.extend(memory::measure(plan)?);
    Ok(())
}

fn report(rows: &[Row], json: Option<&Path>) -> io::Result<()> {
    row::print(rows, &mut io::stdout().lock())?;
    if let Some(path) = json {
        fs::write(path, serde_json::to_string_pretty(rows)? + "\n")?;
    }
    Ok(())
}
