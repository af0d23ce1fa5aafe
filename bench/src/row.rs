//! One measured figure, and the table of them. It never computes a figure: see [`crate::rounds`].

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// A line of the table and an object of the JSON file.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured: group, then subject, then figure.
    pub name: String,
    /// The value's unit.
    pub unit: &'static str,
    /// The median of the runs.
    pub value: f64,
    /// The runs, in order.
    pub runs: Vec<f64>,
    /// The floor or peer it is held against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub against: Option<String>,
    /// The value over the other's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
    /// What the ratio is meant to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<Goal>,
    /// Whether it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}

/// A bound on a row's ratio or, with nothing to hold it against, on its value.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Goal {
    /// No more than this.
    AtMost(f64),
    /// Less than this.
    Below(f64),
    /// More than this.
    Above(f64),
    /// No less than this.
    AtLeast(f64),
}

impl Goal {
    fn met_by(self, figure: f64) -> bool {
        match self {
            Self::AtMost(bound) => figure <= bound,
            Self::Below(bound) => figure < bound,
            Self::Above(bound) => figure > bound,
            Self::AtLeast(bound) => figure >= bound,
        }
    }
}

impl std::fmt::Display for Goal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "<= {bound}"),
            Self::Below(bound) => write!(f, "< {bound}"),
            Self::Above(bound) => write!(f, "> {bound}"),
            Self::AtLeast(bound) => write!(f, ">= {bound}"),
        }
    }
}

impl Row {
    /// The median of `runs`, held against nothing.
    pub fn new(name: impl Into<String>, unit: &'static str, runs: Vec<f64>) -> Self {
        Self {
            name: name.into(),
            unit,
            value: median(&runs),
            runs,
            against: None,
            ratio: None,
            goal: None,
            met: None,
        }
    }

    /// Holds it against another value.
    #[must_use]
    pub fn against(mut self, name: impl Into<String>, value: f64) -> Self {
        self.against = Some(name.into());
        self.ratio = (value != 0.0).then(|| self.value / value);
        self
    }

    /// Sets a goal for the ratio or, if there is none, for the value.
    #[must_use]
    pub fn goal(mut self, goal: Goal) -> Self {
        self.met = Some(goal.met_by(self.ratio.unwrap_or(self.value)));
        self.goal = Some(goal);
        self
    }
}

/// The middle value; of an even number the mean of the two in the middle. Zero of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match (sorted.len(), sorted.len() % 2) {
        (0, _) => 0.0,
        (_, 1) => sorted[middle],
        (_, _) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Prints all rows as one table.
///
/// # Errors
/// If the output cannot be written.
pub fn print(rows: &[Row], out: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header([
        "name",
        "value",
        "unit",
        "spread",
        "runs",
        "held against",
        "ratio",
        "goal",
        "",
    ]);
    for column in [1, 3, 4, 6] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for row in rows {
        table.add_row([
            row.name.clone(),
            figure(row.value),
            row.unit.to_owned(),
            spread(&row.runs),
            row.runs.len().to_string(),
            row.against.clone().unwrap_or_default(),
            row.ratio
                .map(|ratio| format!("{ratio:.2}"))
                .unwrap_or_default(),
            row.goal.map(|goal| goal.to_string()).unwrap_or_default(),
            match row.met {
                Some(true) => "met".to_owned(),
                Some(false) => "MISSED".to_owned(),
                None => String::new(),
            },
        ]);
    }
    writeln!(out, "{table}")
}

fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Lowest and highest run.
fn spread(runs: &[f64]) -> String {
    let low = runs.iter().copied().fold(f64::INFINITY, f64::min);
    let high = runs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if runs.len() < 2 {
        String::new()
    } else {
        format!("{}..{}", figure(low), figure(high))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one() {
        assert_eq!(median(&[5.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[]), 0.0);
    }

    #[test]
    fn a_goal_is_held_to_the_ratio_where_there_is_one() {
        let row = Row::new("x", "ns", vec![10.0])
            .against("y", 8.0)
            .goal(Goal::AtMost(1.2));
        assert_eq!((row.ratio, row.met), (Some(1.25), Some(false)));
        let row = Row::new("x", "bytes", vec![80.0]).goal(Goal::AtMost(100.0));
        assert_eq!((row.ratio, row.met), (None, Some(true)));
    }
}
