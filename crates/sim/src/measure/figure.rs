//! The distribution of a measurement, to be drawn.

use super::EVEN_ENOUGH;
use super::report::{Report, Shares};
use super::spread::Spread;
use super::text::length;
use crate::plot::{Axis, Corner, Figure, Line, Mark, Numbers, Panel, Place};

/// Points of a line, about, at most.
const MOST_POINTS: usize = 800;

/// How the largest node's share times N is spread; no lines if no key was judged.
#[must_use]
pub fn figure(report: &Report) -> Figure {
    let nodes = report.nodes.len();
    let within = format!("within {}", length(report.slice_ms));
    let mut lines = Vec::new();
    for (when, shares) in [
        ("over all time", &report.whole),
        (within.as_str(), &report.busy),
    ] {
        if let Some(Shares {
            key_spread,
            request_spread,
            ..
        }) = shares
        {
            for (what, spread) in [("keys", key_spread), ("requests", request_spread)] {
                lines.push(Line {
                    name: format!("{what}, {when}"),
                    points: steps(spread, nodes as f64),
                });
            }
        }
    }
    Figure {
        title: format!(
            "How keys by {} are spread over {nodes} nodes: {}",
            report.key,
            report.verdict.mode.name()
        ),
        panels: vec![Panel {
            x: Axis {
                name: format!("largest node's share of a key \u{d7} {nodes} (1 is even)"),
                from: 1.0,
                to: nodes as f64,
                numbers: Numbers::Plain,
            },
            y: Axis {
                name: "at most so much".to_owned(),
                from: 0.0,
                to: 1.0,
                numbers: Numbers::Percent,
            },
            lines,
            marks: vec![
                Mark {
                    name: format!("even enough for fixed shares, {EVEN_ENOUGH}"),
                    at: Place::X(EVEN_ENOUGH),
                },
                Mark {
                    name: "p95".to_owned(),
                    at: Place::Y(0.95),
                },
            ],
            legend: Corner::LowerRight,
        }],
    }
}

/// A spread as the stairs it is, from nothing at 1 to all at the number of nodes.
fn steps(spread: &Spread, nodes: f64) -> Vec<(f64, f64)> {
    let mut points = vec![(1.0, 0.0)];
    let mut before = 0.0;
    for (value, share) in spread.points(MOST_POINTS) {
        points.push((value, before));
        points.push((value, share));
        before = share;
    }
    points.push((nodes, before));
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stairs_go_from_none_to_all() {
        let spread = Spread::new([(1.5, 1), (3.0, 1)]);
        assert_eq!(
            steps(&spread, 4.0),
            [
                (1.0, 0.0),
                (1.5, 0.0),
                (1.5, 0.5),
                (3.0, 0.5),
                (3.0, 1.0),
                (4.0, 1.0)
            ]
        );
    }
}
