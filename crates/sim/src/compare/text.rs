//! A comparison for a person, as plain text no wider than a terminal.

use std::fmt::Write as _;

use super::figures::{SHORT_PERCENT, SHORT_UNITS, Windows};
use super::report::Report;
use crate::text::{grouped, part};

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
        "{}: {} node{}, {} s after {} s of warm-up, seed {}{}",
        report.scenario,
        report.nodes,
        if report.nodes == 1 { "" } else { "s" },
        report.measured_s,
        report.warm_up_s,
        report.seed,
        if report.runs == 1 {
            String::new()
        } else {
            format!(" and the {} after it", report.runs - 1)
        }
    )?;
    for traffic in &report.traffic {
        writeln!(out, "  {traffic}")?;
    }
    writeln!(
        out,
        "\nadmitted of what was due, by window; short: lacking more than {SHORT_UNITS} units and {SHORT_PERCENT}%"
    )?;
    write_head(out, "mode", "limit")?;
    for mode in &report.modes {
        let several = mode.limits.len() > 1;
        let all = several.then_some(("all", &mode.all));
        let each = mode.limits.iter();
        let each = each.map(|limit| (limit.limit.as_str(), &limit.windows));
        for (limit, windows) in all.into_iter().chain(each) {
            write_windows(out, mode.mode.name(), limit, windows)?;
        }
    }
    for mode in &report.modes {
        if !mode.phases.is_empty() {
            writeln!(out, "\nlease, before, during and after the faults")?;
            write_head(out, "", "windows")?;
            for phase in &mode.phases {
                write_windows(out, "", phase.phase, &phase.windows)?;
            }
        }
    }
    writeln!(out, "\nwhat it took, warm-up included")?;
    writeln!(
        out,
        "{:<8}  {:>13}  {:>9}  {:>8}  {:>12}  {:>13}  {:>14}",
        "mode", "requests", "fast path", "missed", "longest wait", "messages/node", "bytes/node"
    )?;
    for mode in &report.modes {
        let cost = &mode.cost;
        writeln!(
            out,
            "{:<8}  {:>13}  {:>9}  {:>8}  {:>9} ms  {:>11}/s  {:>12}/s",
            mode.mode.name(),
            grouped(cost.requests),
            part(cost.fast_path_share),
            part(cost.missed_share),
            format!("{:.2}", cost.longest_wait_us as f64 / 1e3),
            grouped(cost.messages_per_node_s.round() as u64),
            grouped(cost.bytes_per_node_s.round() as u64)
        )?;
    }
    if report.has_faults && report.modes.iter().any(|mode| mode.phases.is_empty()) {
        writeln!(
            out,
            "\nOnly lease had the faults; the others ran without them."
        )?;
    }
    for mode in &report.modes {
        for (seed, failure) in &mode.failures {
            writeln!(out, "\n{}, seed {seed}: {failure}", mode.mode.name())?;
        }
    }
    Ok(())
}

fn write_head(out: &mut String, first: &str, second: &str) -> std::fmt::Result {
    writeln!(
        out,
        "{first:<8}  {second:<11}  {:>9}  {:>8}  {:>8}  {:>8}  {:>7}  {:>12}  {:>9}",
        "windows", "mean", "p5", "worst", "short", "over, units", "most"
    )
}

fn write_windows(
    out: &mut String,
    first: &str,
    second: &str,
    windows: &Windows,
) -> std::fmt::Result {
    let shown = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), part);
    writeln!(
        out,
        "{first:<8}  {second:<11}  {:>9}  {:>8}  {:>8}  {:>8}  {:>7}  {:>12}  {:>9}",
        grouped(windows.windows),
        shown(windows.mean),
        shown(windows.p5),
        shown(windows.worst),
        grouped(windows.short),
        grouped(windows.over_units),
        format!("{:.2} x", windows.most_of_limit)
    )
}
