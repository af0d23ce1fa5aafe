//! A verdict as text for people: one line a member, and under it what is wrong.

use std::fmt::Write as _;

use super::judge::{Shard, Verdict};

/// The verdict, with a line end.
pub fn text(verdict: &Verdict) -> String {
    let width = verdict.shards.iter().map(|it| it.name.chars().count());
    let width = width.max().unwrap_or(0);
    let mut text = String::new();
    for shard in &verdict.shards {
        let state = if shard.well { "well" } else { "not well" };
        let figures = figures(shard);
        let line = format!("{:width$}  {state:8}  {figures}", shard.name);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
        for fault in &shard.faults {
            let _ = writeln!(text, "{:width$}    {}", "", fault.text);
        }
    }
    let unwell: Vec<&str> = verdict
        .shards
        .iter()
        .filter(|shard| !shard.well)
        .map(|shard| shard.name.as_str())
        .collect();
    let _ = match (verdict.any_answer, verdict.well) {
        (false, _) => writeln!(text, "no node answered"),
        (true, true) => writeln!(text, "the fleet is well: {} nodes", verdict.shards.len()),
        (true, false) => writeln!(text, "the fleet is not well: {}", unwell.join(", ")),
    };
    text
}

fn figures(shard: &Shard) -> String {
    let Some(figures) = &shard.figures else {
        return String::new();
    };
    let oldest = figures
        .oldest_fold_ms
        .map_or_else(|| "never".to_owned(), |age| format!("{age} ms"));
    format!(
        "starts {}, oldest fold {oldest}, owns {} buckets, {} units out, {} held back, holds {} buckets",
        figures.starts,
        figures.owned_buckets,
        figures.credit_outstanding,
        figures.holdback,
        figures.held_buckets
    )
}
