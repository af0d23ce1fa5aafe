//! `leasehold measure`: the arguments of the decision gate, and where its answers are written.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use gate::hash::{HashSecret, KeyHasher};
use gate::time::Now;
use ipnet::IpNet;
use node::clock::Clock;
use node::config::secret::SecretSource;
use policy::model::ClientAddressReading;
use policy::rate::Window;
use policy::rate::text::{self, Written};
use sim::log::{KeyField, LogError, LogFormat, LogReader, ReadSettings, source, time};
use sim::measure::figure::figure;
use sim::measure::report::Report;
use sim::measure::{MeasureError, MeasureSettings, NodeLogs, TriedLimit, measure, record};
use sim::plot;

use crate::output::{print, write};
use crate::secret;

/// Tell from a fleet's access logs whether fixed shares of each limit would do, or credit must move (docs/measure.md).
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A node and a log of it, gzip or not, `-` for standard input. Again for each node, and for each of its logs.
    #[arg(long = "node", required = true, value_name = "NODE=FILE", value_parser = node_log)]
    logs: Vec<(String, PathBuf)>,
    /// How the logs are written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// What requests are counted by: address, user, header:NAME or field:NAME.
    #[arg(long, default_value = "address")]
    key: KeyField,
    /// A range of proxies whose forwarding headers are believed, if the logs hold them. Again for more.
    #[arg(long, value_name = "CIDR")]
    trusted: Vec<IpNet>,
    /// How many bits of an IPv6 address are a key.
    #[arg(long, default_value_t = 64, value_name = "BITS",
          value_parser = clap::value_parser!(u8).range(1..=128))]
    ipv6_prefix: u8,
    /// The share of a log's lines that may be unreadable.
    #[arg(long, default_value = "1%", value_name = "PERCENT", value_parser = percent)]
    max_bad: f64,
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
    /// Pass over requests before this time.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    since: Option<u64>,
    /// Pass over requests at or after this time.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    until: Option<u64>,
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
    #[command(flatten)]
    secret: secret::SecretArguments,
}

/// How a log is written.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Format {
    /// told by each line
    #[default]
    Auto,
    /// the common or the combined log format
    Common,
    /// one JSON object a line
    Json,
}

/// Measures, prints the report, and writes what else was asked for.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    // Keys are hashed with the node's secret if it is given, so that they can be found again; else with a new one.
    let secret = match secret::read(&arguments.secret)? {
        Some(secret) => secret,
        None => {
            let made = SecretSource::Generate.secret(None)?;
            HashSecret::new(made.version, made.bytes)
        }
    };
    let read = ReadSettings {
        format: match arguments.format {
            Format::Auto => LogFormat::Auto,
            Format::Common => LogFormat::Common,
            Format::Json => LogFormat::Json,
        },
        key: arguments.key.clone(),
        client_address: ClientAddressReading {
            trusted: arguments.trusted.clone(),
            ipv6_prefix: arguments.ipv6_prefix,
            ..ClientAddressReading::default()
        },
        most_bad_share: arguments.max_bad,
    };
    let nodes = open(
        &arguments.logs,
        &Arc::new(read),
        &Arc::new(KeyHasher::new(&secret)),
    )?;
    let settings = MeasureSettings {
        most_keys: arguments.max_keys as usize,
        fewest_requests: arguments.min_requests,
        slice_ns: arguments.slice,
        limit: arguments.limit,
        since_unix_ns: arguments.since,
        until_unix_ns: arguments.until,
    };
    let measured = match measure(nodes, settings) {
        Ok(measured) => measured,
        Err(MeasureError::Log(error @ LogError::TooManyBad { .. })) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(1));
        }
        Err(error) => return Err(error.into()),
    };
    let report = Report::new(&measured, &arguments.key.to_string());
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
    logs: &[(String, PathBuf)],
    settings: &Arc<ReadSettings>,
    hasher: &Arc<KeyHasher>,
) -> anyhow::Result<Vec<NodeLogs>> {
    let mut nodes: Vec<NodeLogs> = Vec::new();
    let mut seen: Vec<PathBuf> = Vec::new();
    for (name, file) in logs {
        // A log given twice would make its node look twice as large, or two nodes look alike.
        let path = file.canonicalize().unwrap_or_else(|_| file.clone());
        if seen.contains(&path) {
            bail!("{}: is given twice", file.display());
        }
        seen.push(path);
        let input = source::open(file).with_context(|| file.display().to_string())?;
        let shown = if file.as_os_str() == "-" {
            "standard input".to_owned()
        } else {
            file.display().to_string()
        };
        let log = LogReader::new(shown, input, Arc::clone(settings), Arc::clone(hasher));
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

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|text| text.parse().ok());
    match number {
        Some(number) if (0.0..=100.0).contains(&number) => Ok(number / 100.0),
        _ => Err("write a percentage from 0% to 100%, such as 0.5%".to_owned()),
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
