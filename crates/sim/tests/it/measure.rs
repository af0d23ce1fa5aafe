//! Fleets whose spread is known beforehand are measured as what they are.

use std::fmt::Write as _;
use std::sync::Arc;

use sim::log::{LogReader, source};
use sim::measure::report::Report;
use sim::measure::verdict::Mode;
use sim::measure::{
    MeasureError, MeasureSettings, Measured, NodeLogs, TriedLimit, measure, record, text,
};

use crate::log::{hasher, settings};

const SECOND: u64 = 1_000_000_000;
/// 2026-11-30T22:40:00Z, a whole minute.
const START_S: u64 = 1_796_078_400;

fn defaults() -> MeasureSettings {
    MeasureSettings {
        most_keys: 1000,
        fewest_requests: None,
        slice_ns: 60 * SECOND,
        limit: None,
        since_unix_ns: None,
        until_unix_ns: None,
    }
}

/// Requests as (milliseconds from the start, key, node), written as the nodes' logs.
fn logs(nodes: usize, requests: impl IntoIterator<Item = (u64, u32, usize)>) -> Vec<NodeLogs> {
    let mut texts = vec![String::new(); nodes];
    for (at_ms, key, node) in requests {
        let (seconds, ms) = (START_S + at_ms / 1000, at_ms % 1000);
        writeln!(
            texts[node],
            r#"{{"msec":{seconds}.{ms:03},"http_x_api_key":"k{key}","request":"GET / HTTP/1.1","status":200}}"#
        )
        .unwrap();
    }
    let settings = Arc::new(settings("header:x-api-key"));
    let texts = texts.into_iter().enumerate();
    texts
        .map(|(node, text)| {
            let input = source::decompressed(std::io::Cursor::new(text.into_bytes())).unwrap();
            let name = format!("node-{node}");
            let reader = LogReader::new(
                format!("{name}.log"),
                input,
                Arc::clone(&settings),
                hasher(),
            );
            NodeLogs {
                name,
                logs: vec![reader],
            }
        })
        .collect()
}

fn run(
    nodes: usize,
    settings: MeasureSettings,
    requests: impl IntoIterator<Item = (u64, u32, usize)>,
) -> (Measured, Report) {
    let measured = measure(logs(nodes, requests), settings).unwrap();
    let report = Report::new(&measured, "header:x-api-key");
    (measured, report)
}

/// Each of 40 keys has 300 requests within 4 minutes; `node` says where its n-th goes.
fn fleet(node: impl Fn(u32, u64) -> usize) -> Vec<(u64, u32, usize)> {
    let requests = (0..300).flat_map(|n| (0..40).map(move |key| (n, key)));
    requests
        .map(|(n, key)| (n * 800, key, node(key, n)))
        .collect()
}

#[test]
fn an_even_fleet_needs_no_protocol() {
    let (_, report) = run(
        5,
        defaults(),
        fleet(|key, n| (u64::from(key) + n) as usize % 5),
    );
    assert_eq!(report.verdict.mode, Mode::Fixed);
    let whole = report.whole.unwrap();
    assert_eq!((whole.keys, whole.requests), (40, 12_000));
    assert_eq!((whole.by_key.p95, whole.by_request.max), (1.0, 1.0));
    assert_eq!(report.keys.judged_request_share, 1.0);
}

#[test]
fn pinned_keys_ask_for_leases() {
    let (_, report) = run(5, defaults(), fleet(|key, _| key as usize % 5));
    assert_eq!(
        (report.verdict.mode, report.verdict.p95),
        (Mode::Lease, Some(5.0))
    );
    // All nodes have as much to do, all the same.
    assert!(
        report
            .nodes
            .iter()
            .all(|node| node.share_times_nodes == 1.0)
    );
}

#[test]
fn one_pinned_key_in_twenty_is_borne_and_two_are_not() {
    for (pinned, mode) in [(2, Mode::Fixed), (3, Mode::Lease)] {
        let (_, report) = run(
            5,
            defaults(),
            fleet(|key, n| if key < pinned { 0 } else { n as usize % 5 }),
        );
        assert_eq!(report.verdict.mode, mode, "{pinned} of 40 pinned");
    }
}

/// Even over all time, pinned within every minute: the whole alone would say `fixed`.
#[test]
fn moving_keys_are_found_out_by_slices() {
    let moving = || fleet(|key, n| (u64::from(key) + n / 75) as usize % 4);
    let settings = MeasureSettings {
        fewest_requests: Some(50),
        ..defaults()
    };
    let (_, report) = run(4, settings.clone(), moving());
    assert_eq!(report.whole.as_ref().unwrap().by_key.max, 1.0);
    assert_eq!(report.busy.as_ref().unwrap().by_key.p50, 4.0);
    assert_eq!(report.verdict.mode, Mode::Lease);
    assert!(report.verdict.reasons[0].contains("not within 1 minute"));

    let long = MeasureSettings {
        slice_ns: 3600 * SECOND,
        ..settings
    };
    assert_eq!(run(4, long, moving()).1.verdict.mode, Mode::Fixed);
}

#[test]
fn keys_with_few_requests_are_told_apart_and_not_judged() {
    // 1,000 keys that were seen once or twice, which is to say on one node or two.
    let few =
        (0..1000).flat_map(|key| (0..1 + u64::from(key % 2)).map(move |n| (n, 1000 + key, 0)));
    let even = fleet(|_, n| n as usize % 5);
    let settings = MeasureSettings {
        most_keys: 10_000,
        ..defaults()
    };
    let (_, report) = run(5, settings, few.chain(even));
    assert_eq!(report.verdict.mode, Mode::Fixed);
    assert_eq!((report.keys.all, report.keys.judged), (1040, 40));
    let bands: Vec<_> = report
        .keys
        .not_judged
        .iter()
        .map(|band| (band.from, band.keys))
        .collect();
    assert_eq!(bands, [(1, 500), (2, 500)]);
}

#[test]
fn nothing_to_judge_is_no_verdict() {
    for requests in [vec![], vec![(0, 1, 0)]] {
        let (_, report) = run(2, defaults(), requests);
        assert_eq!(report.verdict.mode, Mode::Undecided);
        assert_eq!(report.verdict.p95, None);
        let text = text::render(&report);
        assert!(text.contains("verdict: undecided"), "{text}");
        assert!(text.contains("node-1 has no requests with a key"), "{text}");
    }
}

/// A limit of 10 over 5 nodes is 2 a node. Bursts that land on one node are cut short, spread ones are not.
#[test]
fn a_limit_too_low_for_fixed_shares_is_told() {
    let limit = Some(TriedLimit {
        units: 10,
        window_ns: SECOND,
    });
    let settings = MeasureSettings {
        limit,
        ..defaults()
    };
    // Every second a burst of 5 goes to one node; which one changes, so that the whole is even.
    let bursts = (0..300_u64).flat_map(|second| {
        (0..40)
            .flat_map(move |key| (0..5).map(move |n| (second * 1000 + n, key, second as usize % 5)))
    });
    // The slices are made long, so that the limit alone decides.
    let settings = MeasureSettings {
        slice_ns: 86_400 * SECOND,
        ..settings
    };
    let (_, report) = run(5, settings.clone(), bursts);
    let limit = report.limit.unwrap();
    assert_eq!((limit.limit_admits, limit.fixed_admits), (60_000, 24_000));
    assert_eq!(limit.share_of_keys_short, 1.0);
    assert_eq!(report.verdict.mode, Mode::Lease);
    assert!(report.verdict.reasons[1].contains("too low for fixed shares"));

    let (_, report) = run(5, settings, fleet(|_, n| n as usize % 5));
    let limit = report.limit.unwrap();
    assert_eq!((limit.limit_admits, limit.fixed_admits), (12_000, 12_000));
    assert_eq!(report.verdict.mode, Mode::Fixed);
}

#[test]
fn more_keys_than_the_bound_are_sampled() {
    let requests =
        (0..300).flat_map(|n| (0..400_u32).map(move |key| (n * 10, key, key as usize % 2)));
    let settings = MeasureSettings {
        most_keys: 50,
        ..defaults()
    };
    let (measured, report) = run(2, settings, requests);
    assert!(
        measured.keys.len() <= 50 && measured.keys.len() > 10,
        "{}",
        measured.keys.len()
    );
    assert!(measured.keys.iter().all(|key| key.requests() == 300));
    assert!(report.keys.kept_one_in >= 8);
    // 120,000 requests in all; an estimate from at least 10 of 400 keys.
    assert!(
        (100..=1600).contains(&report.keys.all),
        "{}",
        report.keys.all
    );
    assert_eq!(report.requests, 120_000);
    assert_eq!(report.verdict.p95, Some(2.0));
}

#[test]
fn only_the_time_asked_for_is_counted_and_a_gap_is_warned_of() {
    let early = (0..100).map(|n| (n * 1000, 1, 0));
    let late = (50..200).map(|n| (n * 1000, 1, 1));
    let requests = || early.clone().chain(late.clone());
    let (_, report) = run(2, defaults(), requests());
    let cut = report
        .warnings
        .iter()
        .find(|warning| warning.contains("--since"))
        .unwrap();
    assert!(
        cut.contains("--since 2026-11-30T22:40:50Z --until 2026-11-30T22:41:39Z"),
        "{cut}"
    );
    let settings = MeasureSettings {
        since_unix_ns: Some((START_S + 50) * SECOND),
        until_unix_ns: Some((START_S + 100) * SECOND),
        ..defaults()
    };
    let (measured, report) = run(2, settings, requests());
    assert_eq!(
        measured
            .totals
            .iter()
            .map(|t| (t.counted, t.outside))
            .collect::<Vec<_>>(),
        [(50, 50), (50, 100)]
    );
    assert!(
        !report
            .warnings
            .iter()
            .any(|warning| warning.contains("--since"))
    );

    let apart = (0..10)
        .map(|n| (n, 1, 0))
        .chain((0..10).map(|n| (99_000 + n, 1, 1)));
    let (_, report) = run(2, defaults(), apart);
    assert!(
        report
            .warnings
            .iter()
            .any(|warning| warning.contains("no time in common"))
    );
}

#[test]
fn one_node_is_refused() {
    let error = measure(logs(1, [(0, 1, 0)]), defaults()).unwrap_err();
    assert!(matches!(error, MeasureError::TooFewNodes(1)), "{error}");
    assert!(measure(Vec::new(), defaults()).is_err());
}

/// The order of the logs, and into how many files a node's log was rotated, change nothing.
#[test]
fn rotated_logs_are_one_node_s() {
    let requests = fleet(|key, n| (u64::from(key) * 7 + n * n) as usize % 3);
    let (whole, _) = run(3, defaults(), requests.clone());
    let (first, second): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|(at, ..)| *at < 100_000);
    let (first, second) = (logs(3, first), logs(3, second));
    let both = second
        .into_iter()
        .zip(first)
        .map(|(second, first)| NodeLogs {
            name: second.name,
            logs: second.logs.into_iter().chain(first.logs).collect(),
        });
    let rotated = measure(both.collect(), defaults()).unwrap();
    let rows = |measured: &Measured| {
        let rows = measured
            .keys
            .iter()
            .map(|key| (key.hash, key.counts.to_vec(), key.sums));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|row| row.0);
        rows
    };
    assert_eq!(rows(&whole), rows(&rotated));
}

#[test]
fn a_record_has_its_data_beside_it_and_no_key_and_is_not_overwritten() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = folder.path().join("2026-11-30-mode.md");
    let limit = Some(TriedLimit {
        units: 10,
        window_ns: SECOND,
    });
    let (measured, report) = run(
        5,
        MeasureSettings {
            limit,
            ..defaults()
        },
        fleet(|key, _| key as usize % 5),
    );
    let data = record::write(&file, &report, START_S * SECOND).unwrap();
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(
        page.starts_with(
            "# Mode for 5 nodes by header:x-api-key: lease\n\nMeasured 2026-11-30T22:40:00Z"
        ),
        "{page}"
    );
    assert!(page.contains("(2026-11-30-mode.csv)"), "{page}");
    assert!(page.ends_with("](2026-11-30-mode.svg)\n"), "{page}");
    let plot = std::fs::read_to_string(file.with_extension("svg")).unwrap();
    assert!(plot.contains("keys, over all time"), "{plot}");
    let rows = std::fs::read_to_string(&data).unwrap();
    assert_eq!(rows.lines().count(), 1002);
    assert_eq!(rows.lines().nth(951), Some("950,5.0000,5.0000,,"));
    for key in measured.keys.iter() {
        let key = format!("{:032x}", key.hash);
        assert!(!page.contains(&key) && !rows.contains(&key));
    }
    let again = record::write(&file, &report, 0).unwrap_err().to_string();
    assert!(again.contains("exists"), "{again}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), page);
    assert!(record::write(&folder.path().join("a.txt"), &report, 0).is_err());

    let mut keys = Vec::new();
    record::write_keys(&measured, &mut keys).unwrap();
    let keys = String::from_utf8(keys).unwrap();
    assert_eq!(keys.lines().count(), 41);
    assert!(
        keys.lines().skip(1).all(|row| row.split(',').count() == 7),
        "{keys}"
    );
    assert!(!keys.contains("k1"));
}
