//! A comparison as CSV: a line for each mode and limit, with what the mode took beside it.

use std::fmt::Write as _;

use super::report::Report;

/// The names of the columns.
const COLUMNS: &str = "scenario,nodes,seed,runs,mode,limit,windows,due,admitted_of_due,mean,p5,worst,short,most_lacking,\
over_units,over_windows,most_of_limit,requests,fast_path_share,missed_share,longest_wait_us,messages_per_node_s,\
bytes_per_node_s";

/// The lines. The limit `all` is all limits together.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut out = format!("{COLUMNS}\n");
    let value = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.6}"));
    for mode in &report.modes {
        let each = mode.limits.iter();
        let each = each.map(|limit| (limit.limit.as_str(), &limit.windows));
        for (limit, windows) in std::iter::once(("all", &mode.all)).chain(each) {
            let cost = &mode.cost;
            // Writing to a string cannot fail.
            let _ = writeln!(
                out,
                "{},{},{},{},{},{limit},{},{},{},{},{},{},{},{},{},{},{:.4},{},{:.6},{:.6},{},{:.1},{:.1}",
                quoted(&report.scenario),
                report.nodes,
                report.seed,
                report.runs,
                mode.mode.name(),
                windows.windows,
                windows.due,
                windows.admitted_of_due,
                value(windows.mean),
                value(windows.p5),
                value(windows.worst),
                windows.short,
                windows.most_lacking,
                windows.over_units,
                windows.over_windows,
                windows.most_of_limit,
                cost.requests,
                cost.fast_path_share,
                cost.missed_share,
                cost.longest_wait_us,
                cost.messages_per_node_s,
                cost.bytes_per_node_s
            );
        }
    }
    out
}

/// A text as one cell (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_cell() {
        assert_eq!(quoted("a b"), "a b");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }
}
