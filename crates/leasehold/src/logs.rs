//! How access logs are read, as the command line says it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::ValueEnum;
use gate::hash::{HashSecret, KeyHasher};
use ipnet::IpNet;
use node::config::secret::SecretSource;
use policy::model::ClientAddressReading;
use sim::log::{KeyField, LogFormat, LogReader, ReadSettings, source, time};

use crate::secret;

/// How logs are written, and what of them counts.
#[derive(Debug, clap::Args)]
pub struct LogArguments {
    /// How the logs are written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// What requests are counted by: address, user, header:NAME or field:NAME.
    #[arg(long, default_value = "address")]
    pub key: KeyField,
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
    /// Pass over requests before this time.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub since: Option<u64>,
    /// Pass over requests at or after this time.
    #[arg(long, value_name = "TIME", value_parser = time::parse)]
    pub until: Option<u64>,
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

/// Opens all logs.
pub fn open<'f>(
    files: impl IntoIterator<Item = &'f Path>,
    arguments: &LogArguments,
) -> anyhow::Result<Vec<LogReader>> {
    // Keys are hashed with the node's secret if it is given, so that they can be found again; else with a new one.
    let secret = match secret::read(&arguments.secret)? {
        Some(secret) => secret,
        None => {
            let made = SecretSource::Generate.secret(None)?;
            HashSecret::new(made.version, made.bytes)
        }
    };
    let hasher = Arc::new(KeyHasher::new(&secret));
    let settings = Arc::new(ReadSettings {
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
    });
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut logs = Vec::new();
    for file in files {
        // A log given twice would make its node look twice as large, or two nodes look alike.
        let path = file.canonicalize().unwrap_or_else(|_| file.to_owned());
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
        let (settings, hasher) = (Arc::clone(&settings), Arc::clone(&hasher));
        logs.push(LogReader::new(shown, input, settings, hasher));
    }
    Ok(logs)
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|text| text.parse().ok());
    match number {
        Some(number) if (0.0..=100.0).contains(&number) => Ok(number / 100.0),
        _ => Err("write a percentage from 0% to 100%, such as 0.5%".to_owned()),
    }
}
