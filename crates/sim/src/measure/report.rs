//! The figures of a measurement, as they are told, written and drawn. Keys are in it only as numbers of keys.

use std::collections::BTreeMap;

use serde::Serialize;

use super::keys::{Key, ratio};
use super::spread::{Quantiles, Spread};
use super::verdict::{Verdict, decide};
use super::{EVEN_ENOUGH, Measured};
use crate::log::{Cause, LogStats};

/// How far a key may fall short under fixed shares, of what the limit admits, before it counts as cut short.
pub const MOST_SHORT: f64 = 0.01;

/// The whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The format of this report.
    pub version: u32,
    /// Which field is the key.
    pub key: String,
    /// The nodes.
    pub nodes: Vec<NodeReport>,
    /// Requests with a key, of all nodes.
    pub requests: u64,
    /// The span that all nodes' logs cover.
    pub common_span: Option<Span>,
    /// That span's share of the whole one.
    pub common_share: f64,
    /// How many keys there were.
    pub keys: KeyCounts,
    /// The largest node's share times N over all time; none if no key was judged.
    pub whole: Option<Shares>,
    /// The same within slices.
    pub busy: Option<Shares>,
    /// The slices' length in milliseconds.
    pub slice_ms: u64,
    /// What fixed shares of a limit would have done.
    pub limit: Option<LimitTried>,
    /// The outcome.
    pub verdict: Verdict,
    /// What makes the outcome less sure.
    pub warnings: Vec<String>,
}

/// One node.
#[derive(Clone, Debug, Serialize)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// Requests with a key.
    pub requests: u64,
    /// Its share of all requests times N.
    pub share_times_nodes: f64,
    /// Requests without a key.
    pub keyless: u64,
    /// Requests before or after the time asked for.
    pub outside: u64,
    /// From its first to its last request.
    pub span: Option<Span>,
    /// Its logs.
    pub logs: Vec<LogReport>,
}

/// A span of time, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Its beginning.
    pub first_unix_ns: u64,
    /// Its end.
    pub last_unix_ns: u64,
}

/// One log.
#[derive(Clone, Debug, Serialize)]
pub struct LogReport {
    /// Its file.
    pub file: String,
    /// Lines that are not blank.
    pub lines: u64,
    /// Requests.
    pub records: u64,
    /// Lines of connections without a request.
    pub not_requests: u64,
    /// Lines with bytes that are not UTF-8.
    pub not_utf8: u64,
    /// Bad lines by cause.
    pub bad: BTreeMap<Cause, u64>,
    /// The first bad lines.
    pub bad_shown: Vec<String>,
    /// How often the time went back.
    pub backward_steps: u64,
    /// How far, at most, in milliseconds.
    pub most_backward_ms: u64,
}

/// How many keys there were.
#[derive(Clone, Debug, Serialize)]
pub struct KeyCounts {
    /// All keys; estimated if only a sample was kept.
    pub all: u64,
    /// One key of so many was kept.
    pub kept_one_in: u64,
    /// Keys kept that had requests enough.
    pub judged: u64,
    /// The share of the requests of keys kept that theirs are.
    pub judged_request_share: f64,
    /// The fewest requests of a key that was judged.
    pub fewest_requests: u64,
    /// The keys that had fewer, by how many.
    pub not_judged: Vec<Band>,
}

/// Keys with about as many requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Band {
    /// The fewest requests.
    pub from: u64,
    /// The most.
    pub to: u64,
    /// How many keys.
    pub keys: u64,
    /// Their requests.
    pub requests: u64,
}

/// How the largest node's share times N is spread.
#[derive(Clone, Debug, Serialize)]
pub struct Shares {
    /// How many keys.
    pub keys: u64,
    /// Their requests.
    pub requests: u64,
    /// Each key counting once. The verdict goes by this.
    pub by_key: Quantiles,
    /// Each key counting as often as it has requests.
    pub by_request: Quantiles,
    /// The share of keys up to the threshold.
    pub keys_even_share: f64,
    /// Keys and requests by value.
    pub histogram: Vec<Bin>,
    /// The values themselves, to draw.
    #[serde(skip)]
    pub key_spread: Spread,
    /// The same by request.
    #[serde(skip)]
    pub request_spread: Spread,
}

/// One bar of a histogram: values above `above`, up to `to`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bin {
    /// The lower bound, itself not within.
    pub above: f64,
    /// The upper bound, itself within.
    pub to: f64,
    /// How many keys.
    pub keys: u64,
    /// Their requests.
    pub requests: u64,
}

/// What fixed shares of a limit would have done with the logged requests.
#[derive(Clone, Debug, Serialize)]
pub struct LimitTried {
    /// Requests admitted in a window.
    pub units: u64,
    /// The window in milliseconds.
    pub window_ms: u64,
    /// Requests that the limit admits.
    pub limit_admits: u64,
    /// Requests that fixed shares admit.
    pub fixed_admits: u64,
    /// The share of keys whose fixed shares refuse more than [`MOST_SHORT`] of what the limit admits.
    pub share_of_keys_short: f64,
}

impl Report {
    /// Sums up a measurement. `key` is which field was the key.
    #[must_use]
    pub fn new(measured: &Measured, key: &str) -> Self {
        let settings = &measured.settings;
        let nodes = node_reports(measured);
        let requests = nodes.iter().map(|node| node.requests).sum();
        let (common_span, common_share) = common(&nodes);
        let fewest = measured.fewest_requests;
        let count = measured.names.len() as f64;
        let judged = || {
            measured
                .keys
                .iter()
                .filter(move |key| key.requests() >= fewest)
        };
        let whole = shares(
            judged().map(|key| (key.share_times_nodes(), key.requests())),
            count,
        );
        let busy = measured.keys.iter();
        let busy = busy.filter_map(|key| Some((key.busy_share_times_nodes()?, key.sums.busy)));
        let busy = shares(busy, count);
        let limit = settings.limit.map(|limit| LimitTried {
            units: limit.units,
            window_ms: limit.window_ns / 1_000_000,
            limit_admits: measured.keys.iter().map(|key| key.sums.limit_admits).sum(),
            fixed_admits: measured.keys.iter().map(|key| key.sums.fixed_admits).sum(),
            share_of_keys_short: ratio(
                measured.keys.iter().filter(is_short).count() as u64,
                measured.keys.len() as u64,
            ),
        });
        let keys = key_counts(measured, whole.as_ref());
        let slice_ms = settings.slice_ns / 1_000_000;
        let slice = super::text::length(slice_ms);
        let verdict = decide(whole.as_ref(), busy.as_ref(), limit.as_ref(), &slice);
        let mut report = Self {
            version: 1,
            key: key.to_owned(),
            nodes,
            requests,
            common_span,
            common_share,
            keys,
            whole,
            busy,
            slice_ms,
            limit,
            verdict,
            warnings: Vec::new(),
        };
        report.warnings = super::text::warnings(&report);
        report
    }
}

fn is_short(key: &Key<'_>) -> bool {
    let sums = key.sums;
    let lost = sums.limit_admits.saturating_sub(sums.fixed_admits);
    ratio(lost, sums.limit_admits) > MOST_SHORT
}

fn node_reports(measured: &Measured) -> Vec<NodeReport> {
    let all: u64 = measured.totals.iter().map(|total| total.counted).sum();
    let nodes = measured.names.iter().zip(&measured.totals).enumerate();
    nodes
        .map(|(number, (name, total))| NodeReport {
            name: name.clone(),
            requests: total.counted,
            share_times_nodes: ratio(total.counted, all) * measured.names.len() as f64,
            keyless: total.keyless,
            outside: total.outside,
            span: total
                .span_unix_ns
                .map(|(first_unix_ns, last_unix_ns)| Span {
                    first_unix_ns,
                    last_unix_ns,
                }),
            logs: measured
                .logs
                .iter()
                .filter(|(node, ..)| *node == number)
                .map(|(_, file, stats)| log_report(file, stats))
                .collect(),
        })
        .collect()
}

fn log_report(file: &str, stats: &LogStats) -> LogReport {
    let bad = Cause::ALL.into_iter().zip(stats.bad);
    LogReport {
        file: file.to_owned(),
        lines: stats.lines,
        records: stats.records,
        not_requests: stats.not_requests,
        not_utf8: stats.not_utf8,
        bad: bad.filter(|(_, count)| *count > 0).collect(),
        bad_shown: stats.shown.clone(),
        backward_steps: stats.backward_steps,
        most_backward_ms: stats.most_backward_ns / 1_000_000,
    }
}

/// The span that all nodes with requests cover, and its share of that from the first to the last of any.
fn common(nodes: &[NodeReport]) -> (Option<Span>, f64) {
    let spans = || nodes.iter().filter_map(|node| node.span);
    let bounds = (
        spans().map(|span| span.first_unix_ns).max(),
        spans().map(|span| span.last_unix_ns).min(),
        spans().map(|span| span.first_unix_ns).min(),
        spans().map(|span| span.last_unix_ns).max(),
    );
    let (Some(first_unix_ns), Some(last_unix_ns), Some(earliest), Some(latest)) = bounds else {
        return (None, 0.0);
    };
    if first_unix_ns > last_unix_ns {
        return (None, 0.0);
    }
    let share = if latest == earliest {
        1.0
    } else {
        ratio(last_unix_ns - first_unix_ns, latest - earliest)
    };
    (
        Some(Span {
            first_unix_ns,
            last_unix_ns,
        }),
        share,
    )
}

fn key_counts(measured: &Measured, judged: Option<&Shares>) -> KeyCounts {
    let fewest = measured.fewest_requests;
    // 1, 2, 3 to 9, 10 to 99 and so on, up to what is judged.
    let mut bounds = vec![0, 1, 2];
    let mut bound = 9;
    while bound < fewest.saturating_sub(1) {
        bounds.push(bound);
        bound = bound.saturating_mul(10).saturating_add(9);
    }
    bounds.push(fewest.saturating_sub(1));
    bounds.retain(|bound| *bound < fewest);
    bounds.dedup();
    let mut bands: Vec<Band> = bounds
        .windows(2)
        .map(|pair| Band {
            from: pair[0] + 1,
            to: pair[1],
            keys: 0,
            requests: 0,
        })
        .collect();
    let mut all_requests = 0;
    for key in measured.keys.iter() {
        let requests = key.requests();
        all_requests += requests;
        if let Some(band) = bands
            .iter_mut()
            .find(|band| (band.from..=band.to).contains(&requests))
        {
            band.keys += 1;
            band.requests += requests;
        }
    }
    bands.retain(|band| band.keys > 0);
    KeyCounts {
        all: measured.keys.len() as u64 * measured.keys.one_in(),
        kept_one_in: measured.keys.one_in(),
        judged: judged.map_or(0, |shares| shares.keys),
        judged_request_share: ratio(judged.map_or(0, |shares| shares.requests), all_requests),
        fewest_requests: fewest,
        not_judged: bands,
    }
}

/// The spread of shares, each with its key's requests; none of none.
fn shares(values: impl Iterator<Item = (f64, u64)>, nodes: f64) -> Option<Shares> {
    let values: Vec<(f64, u64)> = values.collect();
    let key_spread = Spread::new(values.iter().map(|(value, _)| (*value, 1)));
    let request_spread = Spread::new(values);
    let mut edges = vec![
        0.0,
        1.05,
        1.1,
        1.25,
        EVEN_ENOUGH,
        2.0,
        3.0,
        5.0,
        10.0,
        20.0,
        50.0,
        100.0,
        500.0,
    ];
    edges.retain(|edge| *edge < nodes);
    edges.push(nodes);
    let histogram = edges
        .windows(2)
        .map(|pair| Bin {
            above: pair[0],
            to: pair[1],
            keys: key_spread.weight_to(pair[1]) - key_spread.weight_to(pair[0]),
            requests: request_spread.weight_to(pair[1]) - request_spread.weight_to(pair[0]),
        })
        .collect();
    Some(Shares {
        keys: key_spread.weight(),
        requests: request_spread.weight(),
        by_key: Quantiles::of(&key_spread)?,
        by_request: Quantiles::of(&request_spread)?,
        keys_even_share: ratio(key_spread.weight_to(EVEN_ENOUGH), key_spread.weight()),
        histogram,
        key_spread,
        request_spread,
    })
}
