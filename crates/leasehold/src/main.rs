//! The `leasehold` command: it reads its arguments, calls the crates that do the work, and says how it went.
//!
//! Exit status: 0 all well; 1 the input has faults; 2 wrong usage, or something could not be read or started.

mod format;
mod logs;
mod measure;
mod output;
mod policy;
mod probe;
mod secret;
mod serve;
mod simulate;
mod top;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The gate allocates nothing; gRPC does, a dozen times a call. See docs/decisions/2026-11-30-allocator.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A rate limiter for public APIs that never admits more than the limit.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node.
    Serve(serve::Arguments),
    /// Tell from a fleet's access logs whether fixed shares of each limit would do.
    Measure(Box<measure::Arguments>),
    /// Compare ways to share a limit on the same traffic, or try the protocol under faults.
    Simulate(Box<simulate::Arguments>),
    /// Check, show, compare and explain policies.
    #[command(subcommand)]
    Policy(policy::Command),
    /// Tell whether a fleet is well, and if not, which shard and why.
    Probe(probe::Arguments),
    /// Show how a fleet stands, live in a terminal.
    Top(top::Arguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Measure(arguments) => measure::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Policy(command) => policy::run(&command),
        Command::Probe(arguments) => probe::run(&arguments),
        Command::Top(arguments) => top::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            // Our errors tell their causes themselves; what is context here has a cause that does not.
            eprintln!("leasehold: {}", told_once(&error));
            ExitCode::from(2)
        }
    }
}

/// An error and its causes, without those whose text the one before already holds.
fn told_once(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn every_command_s_arguments_fit_together() {
        super::Arguments::command().debug_assert();
    }
}
