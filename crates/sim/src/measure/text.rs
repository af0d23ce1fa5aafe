//! A report for a person, as plain text no wider than a terminal.

use std::fmt::Write as _;

use super::EVEN_ENOUGH;
use super::report::{Report, Shares, Span};
use super::verdict::Mode;
use crate::log::time::Utc;
pub(super) use crate::text::grouped;

/// How wide the longest bar of a histogram is.
const BAR: f64 = 30.0;

/// The report as text.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_report(&mut out, report);
    out
}

fn write_report(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(
        out,
        "{} requests at {} nodes, by {}",
        grouped(report.requests),
        report.nodes.len(),
        report.key
    )?;
    write_nodes(out, report)?;
    write_keys(out, report)?;
    if let Some(whole) = &report.whole {
        writeln!(
            out,
            "\nThe largest node's share of a key times {}, over all time",
            report.nodes.len()
        )?;
        write_shares(out, whole)?;
    }
    let slice = length(report.slice_ms);
    match &report.busy {
        Some(busy) => {
            writeln!(
                out,
                "\nThe same within {slice} at a time, for keys with {} requests or more in some",
                grouped(report.keys.fewest_requests)
            )?;
            write_shares(out, busy)?;
        }
        None => writeln!(
            out,
            "\nNo key had {} requests within {slice}: whether keys move from node to node is not known",
            grouped(report.keys.fewest_requests)
        )?,
    }
    if let Some(limit) = &report.limit {
        writeln!(
            out,
            "\nWith a limit of {} per {}: of {} requests that it admits, fixed shares refuse {} ({}).\n\
             {} of keys are cut short by more than 1%.",
            grouped(limit.units),
            length(limit.window_ms),
            grouped(limit.limit_admits),
            grouped(limit.limit_admits.saturating_sub(limit.fixed_admits)),
            percent(
                limit.limit_admits.saturating_sub(limit.fixed_admits),
                limit.limit_admits
            ),
            percent_of(limit.share_of_keys_short)
        )?;
    }
    writeln!(out)?;
    for warning in &report.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    let verdict = &report.verdict;
    match verdict.p95 {
        Some(p95) => writeln!(
            out,
            "verdict: {} (p95 {p95:.2}, threshold {EVEN_ENOUGH})",
            verdict.mode.name()
        )?,
        None => writeln!(out, "verdict: {}", verdict.mode.name())?,
    }
    for reason in &verdict.reasons {
        writeln!(out, "  {reason}")?;
    }
    Ok(())
}

fn write_nodes(out: &mut String, report: &Report) -> std::fmt::Result {
    let width = report
        .nodes
        .iter()
        .map(|node| node.name.chars().count())
        .max();
    let width = width.unwrap_or(0).clamp(4, 30);
    writeln!(
        out,
        "\n{:<width$}  {:>14}  {:>9}  {:>12}  first to last request",
        "node", "requests", "share x N", "without key"
    )?;
    for node in &report.nodes {
        writeln!(
            out,
            "{:<width$}  {:>14}  {:>9.2}  {:>12}  {}",
            node.name,
            grouped(node.requests),
            node.share_times_nodes,
            grouped(node.keyless),
            node.span.map_or_else(|| "-".to_owned(), span)
        )?;
    }
    Ok(())
}

fn write_keys(out: &mut String, report: &Report) -> std::fmt::Result {
    let keys = &report.keys;
    let about = if keys.kept_one_in > 1 {
        format!(
            "about {} keys, 1 of {} kept as a sample",
            grouped(keys.all),
            keys.kept_one_in
        )
    } else {
        format!("{} keys", grouped(keys.all))
    };
    writeln!(
        out,
        "\n{about}; {} of them with {} requests or more, which is {} of requests",
        grouped(keys.judged),
        grouped(keys.fewest_requests),
        percent_of(keys.judged_request_share)
    )?;
    for band in &keys.not_judged {
        let range = if band.from == band.to {
            grouped(band.from)
        } else {
            format!("{} to {}", grouped(band.from), grouped(band.to))
        };
        writeln!(
            out,
            "  {:>14} keys with {range} request{}, not judged",
            grouped(band.keys),
            if band.to == 1 { "" } else { "s" }
        )?;
    }
    Ok(())
}

fn write_shares(out: &mut String, shares: &Shares) -> std::fmt::Result {
    writeln!(
        out,
        "{:<12}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}",
        "", "p50", "p90", "p95", "p99", "max"
    )?;
    for (name, quantiles) in [("by key", shares.by_key), ("by request", shares.by_request)] {
        let values = [
            quantiles.p50,
            quantiles.p90,
            quantiles.p95,
            quantiles.p99,
            quantiles.max,
        ];
        let values = values.map(|value| format!("{value:>7.2}")).join("  ");
        writeln!(out, "{name:<12}  {values}")?;
    }
    let most = shares
        .histogram
        .iter()
        .map(|bin| bin.keys)
        .max()
        .unwrap_or(0);
    for bin in &shares.histogram {
        let bar = (bin.keys as f64 / most.max(1) as f64 * BAR).ceil() as usize;
        writeln!(
            out,
            "  {:>6} to {:<6}  {:>12} keys  {:>6} of requests  {}",
            if bin.above < 1.0 {
                "1".to_owned()
            } else {
                bin.above.to_string()
            },
            bin.to,
            grouped(bin.keys),
            percent(bin.requests, shares.requests),
            "#".repeat(bar)
        )?;
    }
    Ok(())
}

/// What makes a report less sure.
pub(super) fn warnings(report: &Report) -> Vec<String> {
    let mut warnings = Vec::new();
    for node in &report.nodes {
        if node.requests == 0 {
            warnings.push(format!(
                "node {} has no requests with a key: is its log the right one, and the key's field in it?",
                node.name
            ));
        }
        if node.keyless > node.requests {
            warnings.push(format!(
                "most requests of node {} have no key: does its log hold {}?",
                node.name, report.key
            ));
        }
        for log in &node.logs {
            let bad: u64 = log.bad.values().sum();
            if bad > 0 {
                let causes = log.bad.iter();
                let causes =
                    causes.map(|(cause, count)| format!("{}: {}", cause.text(), grouped(*count)));
                let mut warning = format!(
                    "{}: {} of {} lines were passed over ({})",
                    log.file,
                    grouped(bad),
                    grouped(log.lines),
                    causes.collect::<Vec<_>>().join(", ")
                );
                for shown in &log.bad_shown {
                    warning.push_str("\n  ");
                    warning.push_str(shown);
                }
                warnings.push(warning);
            }
        }
    }
    let slice_ms = report.slice_ms;
    let longest_back = report.nodes.iter().flat_map(|node| &node.logs);
    let longest_back = longest_back
        .map(|log| log.most_backward_ms)
        .max()
        .unwrap_or(0);
    if longest_back > slice_ms {
        warnings.push(format!(
            "a log goes back in time by up to {}: its slices are cut up, and moving keys may be missed",
            length(longest_back)
        ));
    }
    match report.common_span {
        None if report.requests > 0 => warnings.push(
            "the logs have no time in common: shares say nothing".to_owned(),
        ),
        Some(common) if report.common_share < 0.9 => warnings.push(format!(
            "all nodes' logs cover only {} of the time that any does: cut them to it with --since {} --until {}",
            percent_of(report.common_share),
            Utc(common.first_unix_ns),
            Utc(common.last_unix_ns)
        )),
        None | Some(_) => {}
    }
    if report.verdict.mode != Mode::Undecided {
        if report.keys.judged < 20 {
            warnings.push(format!(
                "only {} key{} had requests enough, so that the p95 is the largest of them",
                report.keys.judged,
                if report.keys.judged == 1 { "" } else { "s" }
            ));
        }
        if report.keys.judged_request_share < 0.5 {
            warnings.push(format!(
                "the keys judged have only {} of the requests: longer logs would judge more",
                percent_of(report.keys.judged_request_share)
            ));
        }
    }
    warnings
}

fn span(span: Span) -> String {
    format!("{} to {}", Utc(span.first_unix_ns), Utc(span.last_unix_ns))
}

/// A length of time in its largest whole unit.
pub(super) fn length(ms: u64) -> String {
    let units = [
        (86_400_000, "day"),
        (3_600_000, "hour"),
        (60_000, "minute"),
        (1000, "second"),
    ];
    for (unit_ms, name) in units {
        if ms >= unit_ms && ms.is_multiple_of(unit_ms) {
            let count = ms / unit_ms;
            return format!("{count} {name}{}", if count == 1 { "" } else { "s" });
        }
    }
    format!("{ms} ms")
}

pub(super) fn percent(part: u64, whole: u64) -> String {
    percent_of(super::keys::ratio(part, whole))
}

fn percent_of(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_readable() {
        for (ms, text) in [
            (0, "0 ms"),
            (1, "1 ms"),
            (1000, "1 second"),
            (90_000, "90 seconds"),
            (60_000, "1 minute"),
            (7_200_000, "2 hours"),
            (86_400_000, "1 day"),
        ] {
            assert_eq!(length(ms), text);
        }
    }
}
