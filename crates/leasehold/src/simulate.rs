//! `leasehold simulate`: the arguments of a simulation, and where its answers are written.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use sim::compare::report::Report;
use sim::compare::{Mode, compare, csv, figure, text};
use sim::fault::{Swarm, swarm};
use sim::log::LogError;
use sim::plot;
use sim::report::replay::Replay;
use sim::report::seeds::SeedsReport;
use sim::run::sweep;
use sim::scenario::{
    Changes, Limit, LoggedError, NodeLog, PRESETS, Place, Scenario, logged, place, time_ns,
};

use crate::logs;
use crate::output::{print, write};

/// Nodes of a log that names none, unless told.
const NODES: usize = 20;

/// Compare ways to share a limit on the same traffic, or try the protocol under faults (docs/simulate.md).
#[derive(Debug, clap::Args)]
#[command(after_help = presets())]
pub struct Arguments {
    /// A preset (below), or a scenario file ending in .toml.
    #[arg(default_value = "pinned", conflicts_with_all = ["logs", "seeds", "replay"])]
    scenario: String,
    /// Print the scenario file of a preset and do nothing else.
    #[arg(long, conflicts_with_all = ["logs", "seeds", "replay"])]
    print_scenario: bool,
    /// An access log for traffic, gzip or not, of the node that is named, or of any. Again for more.
    #[arg(long = "log", value_name = "[NODE=]FILE", conflicts_with_all = ["seeds", "replay"],
          requires = "limits")]
    logs: Vec<String>,
    /// Run so many fleets with faults drawn from seeds, and check every step of each.
    #[arg(long, value_name = "COUNT", conflicts_with = "replay",
          value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    seeds: Option<u64>,
    /// Run the fleet of one such seed, and tell what happens in it.
    #[arg(long, value_name = "SEED")]
    replay: Option<u64>,
    /// The first seed.
    #[arg(long, value_name = "NUMBER", conflicts_with = "replay")]
    seed: Option<u64>,
    /// Which ways are compared; all, unless told. Again for more.
    #[arg(long = "mode", value_enum, value_name = "MODE")]
    modes: Vec<ModeName>,
    /// Run the scenario so often, with one seed after the other.
    #[arg(long, default_value_t = 1, value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(1..=100_000))]
    runs: u64,
    /// How many nodes the fleet has.
    #[arg(long, value_name = "COUNT")]
    nodes: Option<usize>,
    /// A limit in place of the scenario's, such as 100/s. Again for more: each is tried by itself.
    #[arg(long = "limit", value_name = "RATE")]
    limits: Vec<Limit>,
    /// How many keys each limit has.
    #[arg(long, value_name = "COUNT")]
    keys: Option<usize>,
    /// How many times its limit each key asks for.
    #[arg(long, value_name = "TIMES")]
    load: Option<f64>,
    /// Where requests come to: pinned, random, moving:30s, connections:20 or node:0.
    #[arg(long, value_parser = place)]
    place: Option<Place>,
    /// How long is measured, in simulated time.
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    measured: Option<u64>,
    /// How long is run before that.
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    warm_up: Option<u64>,
    /// How many threads work; as many as there are processors, unless told. Figures do not depend on it.
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    /// Write all figures as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the table as CSV.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "replay"])]
    csv: Option<PathBuf>,
    /// Draw what is admitted, as .svg or .png. Again for more files.
    #[arg(long = "plot", value_name = "FILE.svg|png", value_parser = crate::output::plot_file,
          conflicts_with_all = ["seeds", "replay"])]
    plots: Vec<PathBuf>,
    #[command(flatten, next_help_heading = "Access logs")]
    reading: logs::LogArguments,
}

/// A way to share a limit.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeName {
    /// credit that the key's owner leases to nodes
    Lease,
    /// an even share for each node
    Fixed,
    /// the last total that a node heard, told every 100 ms
    Gossip,
    /// one counter that each request asks
    Central,
}

impl From<ModeName> for Mode {
    fn from(name: ModeName) -> Self {
        match name {
            ModeName::Lease => Self::Lease,
            ModeName::Fixed => Self::Fixed,
            ModeName::Gossip => Self::Gossip,
            ModeName::Central => Self::Central,
        }
    }
}

/// Simulates what is asked for, prints it, and writes what else was asked for.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let threads = arguments
        .threads
        .or_else(|| std::thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get);
    if let Some(seeds) = arguments.seeds {
        return run_seeds(arguments, seeds, threads);
    }
    if let Some(seed) = arguments.replay {
        return run_again(arguments, seed);
    }
    if arguments.print_scenario {
        return print_scenario(&arguments.scenario);
    }
    let scenario = if arguments.logs.is_empty() {
        named(arguments)
    } else {
        match of_logs(arguments) {
            Err(error) if is_bad_log(&error) => {
                eprintln!("{error}");
                return Ok(ExitCode::from(1));
            }
            other => other,
        }
    }?;
    let modes = modes(&arguments.modes);
    let bar = bar(arguments.runs.saturating_mul(modes.len() as u64));
    let compared = compare(&scenario, &modes, arguments.runs, threads, &|| bar.inc(1));
    bar.finish_and_clear();
    let report = Report::new(&scenario, &compared);
    print(&text::render(&report))?;
    if let Some(file) = &arguments.json {
        write(file, |out| Ok(serde_json::to_writer_pretty(out, &report)?))?;
    }
    if let Some(file) = &arguments.csv {
        write(file, |out| {
            Ok(std::io::Write::write_all(
                out,
                csv::render(&report).as_bytes(),
            )?)
        })?;
    }
    for file in &arguments.plots {
        plot::write(file, &figure::figure(&report))?;
    }
    Ok(status(report.has_failures()))
}

fn run_seeds(arguments: &Arguments, seeds: u64, threads: usize) -> anyhow::Result<ExitCode> {
    let first = arguments.seed.unwrap_or(0);
    let Some(end) = first.checked_add(seeds) else {
        bail!(
            "--seed is {first}: with {seeds} seeds it must be at most {}",
            u64::MAX - seeds
        );
    };
    let bar = bar(seeds);
    let swept = sweep(
        first..end,
        Swarm::default(),
        threads,
        usize::MAX,
        &|_| {},
        &|_| bar.inc(1),
    );
    bar.finish_and_clear();
    let report = SeedsReport::new(first, &swept);
    print(&report.render())?;
    if let Some(file) = &arguments.json {
        write(file, |out| Ok(serde_json::to_writer_pretty(out, &report)?))?;
    }
    Ok(status(!report.failed.is_empty()))
}

fn run_again(arguments: &Arguments, seed: u64) -> anyhow::Result<ExitCode> {
    let replay = Replay::of(&swarm(seed, Swarm::default()));
    print(&replay.render())?;
    if let Some(file) = &arguments.json {
        write(file, |out| Ok(serde_json::to_writer_pretty(out, &replay)?))?;
    }
    Ok(status(replay.failed.is_some()))
}

fn print_scenario(name: &str) -> anyhow::Result<ExitCode> {
    let Some((_, text)) = PRESETS.iter().find(|(known, _)| *known == name) else {
        bail!("\"{name}\" is no preset: {}", preset_names());
    };
    print(text)?;
    Ok(ExitCode::SUCCESS)
}

/// The preset or the file that is named, with the changes that the command line makes.
fn named(arguments: &Arguments) -> anyhow::Result<Scenario> {
    let name = &arguments.scenario;
    let mut scenario = match Scenario::preset(name) {
        Some(preset) => preset?,
        None if name.ends_with(".toml") => {
            let bytes = std::fs::read(name).with_context(|| name.clone())?;
            sim::scenario::read(name, &bytes)?
        }
        None => bail!(
            "\"{name}\" is neither a scenario file (.toml) nor a preset: {}",
            preset_names()
        ),
    };
    let changes = Changes {
        nodes: arguments.nodes,
        limits: arguments.limits.clone(),
        place: arguments.place,
        ..changes(arguments)
    };
    changes.make(&mut scenario)?;
    Ok(scenario)
}

fn of_logs(arguments: &Arguments) -> anyhow::Result<Scenario> {
    let files: Vec<(Option<String>, PathBuf)> = arguments
        .logs
        .iter()
        .map(|written| match written.split_once('=') {
            Some((node, file)) if !node.is_empty() => (Some(node.to_owned()), file.into()),
            _ => (None, written.into()),
        })
        .collect();
    let opened = logs::open(
        files.iter().map(|(_, file)| file.as_path()),
        &arguments.reading,
    )?;
    let has_nodes = files.iter().any(|(node, _)| node.is_some());
    if has_nodes && (arguments.nodes.is_some() || arguments.place.is_some()) {
        bail!("--nodes and --place are for logs that do not name their node");
    }
    let reading = &arguments.reading;
    let names = files.into_iter().map(|(node, _)| node);
    let of_nodes = names.zip(opened).map(|(node, log)| NodeLog { node, log });
    let seed = arguments.seed.unwrap_or(1);
    let fleet = logged(of_nodes.collect(), reading.since, reading.until, seed)?;
    for (count, why) in [
        (fleet.keyless, "have no key"),
        (fleet.outside, "are outside of the time asked for"),
    ] {
        if count > 0 {
            eprintln!("{count} requests {why} and are passed over");
        }
    }
    if fleet.whole_seconds {
        eprintln!("the logs tell whole seconds: each request is put at a random moment of its own");
    }
    let nodes = arguments.nodes.unwrap_or(NODES);
    let place = arguments.place.unwrap_or(Place::PerKey);
    let mut scenario = Scenario::of_log(&fleet, arguments.limits.clone(), nodes, place)?;
    changes(arguments).make(&mut scenario)?;
    Ok(scenario)
}

/// What changes a scenario of any kind.
fn changes(arguments: &Arguments) -> Changes {
    Changes {
        seed: arguments.seed,
        warm_up_ns: arguments.warm_up,
        measured_ns: arguments.measured,
        keys: arguments.keys,
        load: arguments.load,
        ..Changes::default()
    }
}

/// Whether a log could be read but has faults, rather than not be read.
fn is_bad_log(error: &anyhow::Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(LoggedError::Log(LogError::TooManyBad { .. }) | LoggedError::Empty { .. })
    )
}

/// Each once, in the order in which they are told.
fn modes(asked: &[ModeName]) -> Vec<Mode> {
    let asked: Vec<Mode> = asked.iter().map(|name| Mode::from(*name)).collect();
    let all = Mode::ALL.into_iter();
    all.filter(|mode| asked.is_empty() || asked.contains(mode))
        .collect()
}

/// On standard error, and only if that is a terminal.
fn bar(steps: u64) -> ProgressBar {
    let style =
        ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} runs, {eta} left");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn status(failed: bool) -> ExitCode {
    ExitCode::from(u8::from(failed))
}

fn preset_names() -> String {
    PRESETS.map(|(name, _)| name).join(", ")
}

fn presets() -> String {
    let mut text = "Presets:\n".to_owned();
    for (name, scenario) in PRESETS {
        let about = scenario.lines().next().unwrap_or_default();
        text.push_str(&format!("  {name:<17}{}\n", about.trim_start_matches("# ")));
    }
    text
}
