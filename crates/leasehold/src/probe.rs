//! `leasehold probe`: whether a fleet is well, and if not, which shard and why.
//!
//! It only asks. Exit status: 0 well, 1 not well, 2 wrong usage or no node answered.

pub mod ask;
pub mod judge;
mod show;

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};

use self::ask::NodeUrl;
use self::judge::{Demands, Verdict, judge};
use crate::output::print;

/// The most URLs: as many as a list may have members.
const MOST_URLS: usize = 1000;

/// How long to wait between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Tell whether a fleet is well: each member answers, all act under one list, each owner is in contact with each
/// holder and has heard it lately, and what was spent and issued adds up to no more than the limits allow.
#[derive(Debug, clap::Args)]
#[command(after_help = "Exit status: 0 well; 1 not well; 2 wrong usage, or no node answered.")]
pub struct Arguments {
    /// Where each node's operators' surface is (its `admin.listen`): http://HOST:PORT
    #[arg(required = true, value_name = "URL")]
    urls: Vec<NodeUrl>,
    /// Ask again until the fleet is well, for at most so long.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    wait: Option<u64>,
    /// The oldest that an owner's knowledge of a holder may be, in milliseconds. Without it: three paces, the age at
    /// which the owner itself takes the holder for absent.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    fold_age: Option<u64>,
    /// How long a node may take to answer, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    timeout: u64,
    /// Members without a URL are judged by what the others know of them, and are not missed.
    #[arg(long)]
    partial: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Probes.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    check(&arguments.urls)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the async runtime cannot be started")?;
    let verdict = runtime.block_on(look_until_well(arguments));
    let text = if arguments.json {
        format!("{}\n", serde_json::to_string_pretty(&verdict)?)
    } else {
        show::text(&verdict)
    };
    print(&text)?;
    Ok(match verdict {
        Verdict {
            any_answer: false, ..
        } => ExitCode::from(2),
        Verdict { well: false, .. } => ExitCode::from(1),
        Verdict { well: true, .. } => ExitCode::SUCCESS,
    })
}

/// Refuses lists that cannot be meant.
pub fn check(urls: &[NodeUrl]) -> anyhow::Result<()> {
    ensure!(
        urls.len() <= MOST_URLS,
        "{} URLs: at most {MOST_URLS}",
        urls.len()
    );
    for (index, url) in urls.iter().enumerate() {
        ensure!(
            !urls[..index].contains(url),
            "{url} is given twice: give each node once"
        );
    }
    Ok(())
}

async fn look(arguments: &Arguments) -> Verdict {
    let demands = Demands {
        fold_age_ms: arguments.fold_age,
        partial: arguments.partial,
    };
    let within = Duration::from_millis(arguments.timeout);
    judge(&ask::ask_all(&arguments.urls, within).await, demands)
}

/// The first verdict that is well, or the latest when the time is over.
async fn look_until_well(arguments: &Arguments) -> Verdict {
    let mut verdict = look(arguments).await;
    let Some(seconds) = arguments.wait else {
        return verdict;
    };
    let looking = async {
        while !verdict.well {
            tokio::time::sleep(LOOK_EVERY).await;
            verdict = look(arguments).await;
        }
    };
    // If it is over, the latest verdict stands.
    let _ = tokio::time::timeout(Duration::from_secs(seconds), looking).await;
    verdict
}
