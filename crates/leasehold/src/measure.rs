//! `leasehold measure`: the arguments of the decision gate, and where its answers are written.

use std::path::PathBuf;
use std::process::ExitCode;

use gate::time::Now;
use node::clock::Clock;
use policy::rate::Window;
use policy::rate::text::{self, Written};
use sim::log::LogError;
use sim::measure::figure::figure;
use sim::measure::report::Report;
use sim::measure::{MeasureError, MeasureSettings, NodeLogs, TriedLimit, measure, record};
use sim::plot;

use crate::logs;
use crate::output::{print, write};

/// Tell from a fleet's access logs whether fixed shares of each limit would do, or credit must move (docs/measure.md).
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A node and a log of it, gzip or not, `-` for standard input. Again for each node, and for each of its logs.
    #[arg(long = "node", required = true, value_name = "NODE=FILE", value_parser = node_log)]
    logs: Vec<(String, PathBuf)>,
    #[command(flatten)]
    reading: logs::LogArguments,
    /// How many keys are kept at most; of more, a fair sample.
    #[arg(long, default_value_t = 1_000_000, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..))]
    max_keys: u32,
    /// The fewest requests of a key that is judged, instead of as many as rule out chance.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    min_requests: Option<u64>,
    /// The length of time within which moving keys are found out.
    #[arg(long, default_value = "1m", value_name = "TIME", value_parser = slice_ns)]
    slice: u64,
    /// A limit to try fixed shares of, such as 100/s.
    #[arg(long, value_name = "RATE", value_parser = limit)]
    limit: Option<TriedLimit>,
    /// Write the report as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write every key that was kept, hashed, as CSV.
    #[arg(long, value_name = "FILE")]
    keys_csv: Option<PathBuf>,
    /// Draw how the shares are spread, as .svg or .png. Again for more files.
    #[arg(long = "plot", value_name = "FILE.svg|png", value_parser = crate::output::plot_file)]
    plots: Vec<PathBuf>,
    /// Write a decision record (.md), and beside it its data (.csv) and its plot (.svg).
    #[arg(long, value_name = "FILE.md")]
    record: Option<PathBuf>,
}

/// Measures, prints the report, and writes what else was asked for.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let nodes = open(&arguments.logs, &arguments.reading)?;
    let settings = MeasureSettings {
        most_keys: arguments.max_keys as usize,
        fewest_requests: arguments.min_requests,
        slice_ns: arguments.slice,
        limit: arguments.limit,
        since_unix_ns: arguments.reading.since,
        until_unix_ns: arguments.reading.until,
    };
    let measured = match measure(nodes, settings) {
        Ok(measured) => measured,
        Err(MeasureError::Log(error @ LogError::TooManyBad { .. })) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(error.into()),
    };
    let report = Report::new(&measured, &arguments.reading.key.to_string());
    print(&sim::measure::text::render(&report))?;
    if let Some(file) = &arguments.json {
        write(file, |out| Ok(serde_json::to_writer_pretty(out, &report)?))?;
    }
    if let Some(file) = &arguments.keys_csv {
        write(file, |out| Ok(record::write_keys(&measured, out)?))?;
    }
    for file in &arguments.plots {
        plot::write(file, &figure(&report))?;
    }
    if let Some(file) = &arguments.record {
        let now = Clock::system(Now::from_nanos(0)).now();
        let now_unix_ns = u64::try_from(now.unix_nanos()).unwrap_or(u64::MAX);
        record::write(file, &report, now_unix_ns)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Opens all logs, those of one name as one node's.
fn open(
    files: &[(String, PathBuf)],
    reading: &logs::LogArguments,
) -> anyhow::Result<Vec<NodeLogs>> {
    let logs = logs::open(files.iter().map(|(_, file)| file.as_path()), reading)?;
    let mut nodes: Vec<NodeLogs> = Vec::new();
    for ((name, _), log) in files.iter().zip(logs) {
        match nodes.iter_mut().find(|node| node.name == *name) {
            Some(node) => node.logs.push(log),
            None => nodes.push(NodeLogs {
                name: name.clone(),
                logs: vec![log],
            }),
        }
    }
    Ok(nodes)
}

fn node_log(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((node, file)) if !node.is_empty() && !file.is_empty() => {
            Ok((node.to_owned(), file.into()))
        }
        _ => Err("write NODE=FILE, such as a=access-a.log".to_owned()),
    }
}

fn slice_ns(text: &str) -> Result<u64, String> {
    match text::parse_window(text) {
        Ok(Window::Millis(window)) => Ok(window.nanos()),
        Ok(Window::Forever) => Err("write a length of time, such as 1m".to_owned()),
        Err(error) => Err(format!("{error}: {}", error.help())),
    }
}

fn limit(text: &str) -> Result<TriedLimit, String> {
    match text::parse(text) {
        Ok(Written::Per(rate)) => match rate.window {
            Window::Millis(window) => Ok(TriedLimit {
                units: rate.units,
                window_ns: window.nanos(),
            }),
            Window::Forever => Err("a limit to try needs a window, such as 100/s".to_owned()),
        },
        Ok(Written::Unlimited | Written::Deny) => {
            Err("there is nothing to share: write a rate such as 100/s".to_owned())
        }
        Err(error) => Err(format!("{error}: {}", error.help())),
    }
}
