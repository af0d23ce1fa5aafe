//! Leasehold beside its peers and its floor: one run, one table. `scripts/bench` installs what it needs and calls it.

mod decide;
mod plan;
mod row;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

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
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let plan = plan::Plan {
        quick: arguments.quick,
        only: arguments.only,
    };
    let rows = decide::measure(&plan);
    if let Err(error) = report(&rows, arguments.json) {
        eprintln!("bench: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn report(rows: &[row::Row], json: Option<PathBuf>) -> io::Result<()> {
    row::print(rows, &mut io::stdout().lock())?;
    if let Some(path) = json {
        fs::write(path, serde_json::to_string_pretty(rows)? + "\n")?;
    }
    Ok(())
}
