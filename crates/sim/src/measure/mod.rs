//! The decision gate: from the access logs of a fleet's nodes, whether fixed shares of each limit would do, or whether
//! the nodes must lend each other credit.
//!
//! For each key it finds the largest node's share of its requests, times the number of nodes N: 1 if the key is spread
//! evenly, N if it is pinned to one node. At most 1.5 at the 95th percentile of keys means that fixed shares do. Two
//! things are guarded against that would make this wrong: keys with so few requests that chance alone makes them look
//! uneven ([`evenness`]), and keys that move from node to node, which look even over a day and are pinned in every
//! minute of it ([`MeasureSettings::slice_ns`]).
//!
//! Memory is bounded by [`MeasureSettings::most_keys`]; the logs are read once, as streams.

pub mod evenness;
pub mod figure;
pub mod keys;
pub mod merge;
pub mod record;
pub mod report;
pub mod spread;
pub mod text;
pub mod verdict;

mod fixed;
mod slices;

use crate::log::{LogError, LogReader};
use keys::{Keys, TooManyRequests};
use merge::Merge;
use slices::Slices;

/// The largest share times N up to which fixed shares do.
pub const EVEN_ENOUGH: f64 = 1.5;

/// The most nodes that are compared.
pub const MOST_NODES: usize = 1000;

/// The logs of one node.
#[derive(Debug)]
pub struct NodeLogs {
    /// What the node is called.
    pub name: String,
    /// Its logs: several if they were rotated.
    pub logs: Vec<LogReader>,
}

/// A limit to try fixed shares of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriedLimit {
    /// How many requests of a key it admits in a window.
    pub units: u64,
    /// The window, in nanoseconds, at least 1. Windows here begin at multiples of it.
    pub window_ns: u64,
}

/// How to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeasureSettings {
    /// How many keys are kept at most, at least 1. Of more keys, a fair sample is kept.
    pub most_keys: usize,
    /// The fewest requests of a key, in all or in a slice, for its share to be judged. None: as many as
    /// [`evenness::fewest_requests`] says.
    pub fewest_requests: Option<u64>,
    /// The length of the slices of time within which moving keys are found out, in nanoseconds, at least 1.
    pub slice_ns: u64,
    /// A limit to try fixed shares of.
    pub limit: Option<TriedLimit>,
    /// Requests before this time are passed over (nanoseconds since 1970).
    pub since_unix_ns: Option<u64>,
    /// Requests at or after this time are.
    pub until_unix_ns: Option<u64>,
}

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// One node shares with nobody.
    #[error("at least 2 nodes are compared, and there are logs of {0}: name each as NODE=FILE")]
    TooFewNodes(usize),
    /// More than [`MOST_NODES`].
    #[error("logs of {0} nodes: at most {MOST_NODES} can be compared")]
    TooManyNodes(usize),
    /// A log could not be read or believed.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A count overflowed.
    #[error(transparent)]
    TooManyRequests(#[from] TooManyRequests),
}

/// The requests of one node that were looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTotals {
    /// With a key, in the time asked for.
    pub counted: u64,
    /// Without a key.
    pub keyless: u64,
    /// Before or after the time asked for.
    pub outside: u64,
    /// The earliest and latest time of those counted, in nanoseconds since 1970.
    pub span_unix_ns: Option<(u64, u64)>,
}

/// All that was found in the logs.
#[derive(Debug)]
pub struct Measured {
    /// What was asked for.
    pub settings: MeasureSettings,
    /// The names of the nodes, in their order.
    pub names: Vec<String>,
    /// Their totals.
    pub totals: Vec<NodeTotals>,
    /// The logs as they were at their ends, each with the number of its node.
    pub logs: Vec<(usize, String, crate::log::LogStats)>,
    /// The fewest requests of a key that was judged.
    pub fewest_requests: u64,
    /// The keys.
    pub keys: Keys,
    /// Requests whose key was not among those kept.
    pub not_kept: u64,
}

/// Reads all logs to their ends.
///
/// # Errors
/// [`MeasureError`].
pub fn measure(nodes: Vec<NodeLogs>, settings: MeasureSettings) -> Result<Measured, MeasureError> {
    let count = nodes.len();
    if count < 2 {
        return Err(MeasureError::TooFewNodes(count));
    }
    if count > MOST_NODES {
        return Err(MeasureError::TooManyNodes(count));
    }
    let fewest_requests = settings
        .fewest_requests
        .unwrap_or_else(|| evenness::fewest_requests(count, EVEN_ENOUGH));
    let names = nodes.iter().map(|node| node.name.clone()).collect();
    let mut totals = vec![NodeTotals::default(); count];
    let mut keys = Keys::new(count, settings.most_keys);
    let mut busy = Slices::new(settings.slice_ns, count);
    let mut tried = settings
        .limit
        .map(|limit| (limit, Slices::new(limit.window_ns, count)));
    let mut not_kept = 0;

    let logs = nodes.into_iter().enumerate();
    let logs = logs.flat_map(|(node, of)| of.logs.into_iter().map(move |log| (node, log)));
    let mut merge = Merge::new(logs)?;
    while let Some((node, record)) = merge.advance()? {
        let (time, total) = (record.time_unix_ns, &mut totals[node]);
        if settings.since_unix_ns.is_some_and(|since| time < since)
            || settings.until_unix_ns.is_some_and(|until| time >= until)
        {
            total.outside += 1;
            continue;
        }
        let Some(key) = record.key else {
            total.keyless += 1;
            continue;
        };
        total.counted += 1;
        let (first, last) = total.span_unix_ns.unwrap_or((time, time));
        total.span_unix_ns = Some((first.min(time), last.max(time)));
        let key = key.get();
        if !keys.add(key, node)? {
            not_kept += 1;
            continue;
        }
        busy.add(time, key, node, |key, counts| {
            sum_busy(&mut keys, fewest_requests, key, counts);
        });
        if let Some((limit, windows)) = &mut tried {
            windows.add(time, key, node, |key, counts| {
                sum_tried(&mut keys, limit.units, key, counts);
            });
        }
    }
    busy.close(|key, counts| sum_busy(&mut keys, fewest_requests, key, counts));
    if let Some((limit, windows)) = &mut tried {
        windows.close(|key, counts| sum_tried(&mut keys, limit.units, key, counts));
    }
    let logs = merge.logs();
    let logs = logs.map(|(node, log)| (node, log.file().to_owned(), log.stats().clone()));
    Ok(Measured {
        names,
        totals,
        logs: logs.collect(),
        fewest_requests,
        keys,
        not_kept,
        settings,
    })
}

fn sum_busy(keys: &mut Keys, fewest: u64, key: u128, counts: &[u32]) {
    let requests: u64 = counts.iter().map(|&count| u64::from(count)).sum();
    if requests < fewest {
        return;
    }
    if let Some(sums) = keys.sums(key) {
        sums.busy += requests;
        sums.busy_largest += u64::from(counts.iter().copied().max().unwrap_or(0));
    }
}

fn sum_tried(keys: &mut Keys, units: u64, key: u128, counts: &[u32]) {
    let admitted = fixed::admitted(units, key, counts);
    if let Some(sums) = keys.sums(key) {
        sums.limit_admits += admitted.limit;
        sums.fixed_admits += admitted.fixed;
    }
}
