//! What is told of many windows: how much of what was due was admitted, and how much more than allowed.

use serde::Serialize;

use super::Window;

/// A window is short if it lacks more than so many units
pub const SHORT_UNITS: u64 = 2;
/// and more than this part of what was due, in percent.
pub const SHORT_PERCENT: u64 = 3;

/// Figures of a number of windows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Windows {
    /// How many were asked for anything.
    pub windows: u64,
    /// Units asked for, but in no window more than allowed.
    pub due: u64,
    /// Of these, units admitted.
    pub admitted_of_due: u64,
    /// The mean over windows of the part admitted of what was due, 0 to 1; none without windows.
    pub mean: Option<f64>,
    /// One window of twenty admits this part or less.
    pub p5: Option<f64>,
    /// The worst window.
    pub worst: Option<f64>,
    /// Windows that lack more than [`SHORT_UNITS`] units and [`SHORT_PERCENT`] percent.
    pub short: u64,
    /// The most units that a window lacks.
    pub most_lacking: u64,
    /// Units admitted above the limit.
    pub over_units: u64,
    /// Windows with more than the limit.
    pub over_windows: u64,
    /// The most that a window admitted, against its limit.
    pub most_of_limit: f64,
}

impl Windows {
    /// Sums up windows.
    #[must_use]
    pub fn of<'w>(windows: impl Iterator<Item = &'w Window>) -> Self {
        let mut figures = Self {
            windows: 0,
            due: 0,
            admitted_of_due: 0,
            mean: None,
            p5: None,
            worst: None,
            short: 0,
            most_lacking: 0,
            over_units: 0,
            over_windows: 0,
            most_of_limit: 0.0,
        };
        let mut parts = Vec::new();
        for window in windows.filter(|window| window.due > 0) {
            let of_due = window.admitted.min(window.due);
            let lacking = window.due - of_due;
            let over = window.admitted.saturating_sub(window.allowance);
            figures.windows += 1;
            figures.due += window.due;
            figures.admitted_of_due += of_due;
            figures.short +=
                u64::from(lacking > SHORT_UNITS && lacking * 100 > window.due * SHORT_PERCENT);
            figures.most_lacking = figures.most_lacking.max(lacking);
            figures.over_units += over;
            figures.over_windows += u64::from(over > 0);
            let of_limit = window.admitted as f64 / window.allowance.max(1) as f64;
            figures.most_of_limit = figures.most_of_limit.max(of_limit);
            parts.push(of_due as f64 / window.due as f64);
        }
        // In order, so that the sum is the same to its last bit in whichever order windows come.
        parts.sort_by(f64::total_cmp);
        if !parts.is_empty() {
            figures.mean = Some(parts.iter().sum::<f64>() / parts.len() as f64);
            // Nearest rank: a value that occurred.
            let rank = (parts.len() as f64 * 0.05).ceil() as usize;
            figures.p5 = parts.get(rank.saturating_sub(1)).copied();
            figures.worst = parts.first().copied();
        }
        figures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(due: u64, admitted: u64, allowance: u64) -> Window {
        Window {
            limit: 0,
            key: 0,
            start_ns: 0,
            end_ns: 1,
            due,
            admitted,
            allowance,
        }
    }

    #[test]
    fn what_is_due_and_what_is_too_much_are_told_apart() {
        let windows = [
            window(10, 10, 10),
            window(10, 25, 10),
            window(4, 1, 10),
            window(0, 0, 10),
            window(100, 97, 100),
        ];
        let figures = Windows::of(windows.iter());
        assert_eq!(figures.windows, 4);
        assert_eq!((figures.due, figures.admitted_of_due), (124, 118));
        assert_eq!(figures.mean, Some((0.25 + 0.97 + 1.0 + 1.0) / 4.0));
        assert_eq!((figures.p5, figures.worst), (Some(0.25), Some(0.25)));
        assert_eq!((figures.short, figures.most_lacking), (1, 3));
        assert_eq!((figures.over_units, figures.over_windows), (15, 1));
        assert_eq!(figures.most_of_limit, 2.5);
    }

    #[test]
    fn the_fifth_percentile_is_the_twentieth_part() {
        let windows: Vec<Window> = (1..=100).map(|n| window(100, n, 100)).collect();
        let figures = Windows::of(windows.iter());
        assert_eq!((figures.p5, figures.worst), (Some(0.05), Some(0.01)));
        assert_eq!(Windows::of([].iter()).p5, None);
    }
}
