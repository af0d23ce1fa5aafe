//! A comparison, to be drawn: what was admitted of what was due over time, and how windows fared one by one, those that
//! admitted more than their limit included.

use super::report::{ModeReport, Report};
use crate::plot::{Axis, Corner, Figure, Line, Numbers, Panel};

/// How far windows with more than their limit are drawn, in times of what was due; further ones lie at the edge.
const FURTHEST: f64 = 3.0;

/// Points of a line, about, at most.
const MOST_POINTS: usize = 800;

/// The figure.
#[must_use]
pub fn figure(report: &Report) -> Figure {
    let line = |mode: &ModeReport, points| Line {
        name: mode.mode.name().to_owned(),
        points,
    };
    let most = report.modes.iter().filter_map(|mode| mode.parts.last());
    let most = most.fold(1.0, |most: f64, part| most.max(*part));
    let percent = |name: &str, to: f64| Axis {
        name: name.to_owned(),
        from: 0.0,
        to: to * 1.02,
        numbers: Numbers::Percent,
    };
    let over_time = report.modes.iter().map(|mode| {
        let points = mode.timeline.iter();
        let points = points.map(|(at_s, due, admitted)| (*at_s, *admitted as f64 / *due as f64));
        line(mode, points.collect())
    });
    let spread = report
        .modes
        .iter()
        .map(|mode| line(mode, stairs(&mode.parts)));
    Figure {
        title: format!("{}, {} nodes", report.scenario, report.nodes),
        panels: vec![
            Panel {
                x: Axis {
                    name: "when windows began, in seconds".to_owned(),
                    from: 0.0,
                    to: report.measured_s,
                    numbers: Numbers::Plain,
                },
                y: percent("admitted of what was due", 1.0),
                lines: over_time.collect(),
                marks: Vec::new(),
                legend: Corner::LowerRight,
            },
            Panel {
                x: percent(
                    "admitted by a window, against what was due",
                    most.min(FURTHEST),
                ),
                y: percent("windows with at most so much", 1.0),
                lines: spread.collect(),
                marks: Vec::new(),
                legend: Corner::UpperLeft,
            },
        ],
    }
}

/// The share of values up to each; values are in order.
fn stairs(values: &[f64]) -> Vec<(f64, f64)> {
    let mut points = vec![(0.0, 0.0)];
    let step = (values.len() / MOST_POINTS).max(1);
    let mut before = 0.0;
    for (place, value) in values.iter().enumerate() {
        let count = place + 1;
        let is_last_of_its_value = values.get(count).is_none_or(|next| next > value);
        if !is_last_of_its_value || (count % step != 0 && count != values.len() && *value != 1.0) {
            continue;
        }
        let share = count as f64 / values.len() as f64;
        let value = value.min(FURTHEST);
        points.push((value, before));
        points.push((value, share));
        before = share;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stairs_go_up_at_each_value_once() {
        assert_eq!(
            stairs(&[0.5, 0.5, 1.0, 1.0]),
            [(0.0, 0.0), (0.5, 0.0), (0.5, 0.5), (1.0, 0.5), (1.0, 1.0)]
        );
        assert_eq!(stairs(&[12.0])[1..], [(FURTHEST, 0.0), (FURTHEST, 1.0)]);
        assert_eq!(stairs(&[]), [(0.0, 0.0)]);
    }
}
