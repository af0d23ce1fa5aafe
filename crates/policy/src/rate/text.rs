//! Rates as people write them: `100/s`, `1000 per 15m`, `5 per hour`, `unlimited`, `deny`.
//!
//! Text that could mean two things is refused with an example, never guessed at.

use super::{Rate, RateError, Window, WindowMs};

/// What a rate's text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// `unlimited`: no bound.
    Unlimited,
    /// `deny`, or 0 units in any window: nothing is admitted.
    Deny,
    /// So many units per window, at least 1.
    Per(Rate),
}

/// Why text is no rate or no window.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RateTextError {
    /// Neither a word nor units and a window.
    #[error("is not a rate")]
    NotARate,
    /// The units are not a whole number.
    #[error("has units that are not a whole number")]
    NotWhole,
    /// The units are more than 64 bits hold.
    #[error(
        "has more units than any limit can count: at most {}",
        super::MAX_UNITS_FOREVER
    )]
    UnitsTooMany,
    /// The window is not a length of time.
    #[error("has a window that is not a length of time")]
    NotAWindow,
    /// The window is out of range.
    #[error(transparent)]
    Window(#[from] RateError),
}

impl RateTextError {
    /// What would be right.
    #[must_use]
    pub const fn help(&self) -> &'static str {
        match self {
            Self::NotARate => {
                "write for example `100/s`, `1000 per 15m`, `5 per hour`, `1000/forever`, \
                 `unlimited` or `deny`"
            }
            Self::NotWhole => "write digits, which `_` may part: `5_000_000/day`",
            Self::UnitsTooMany => "write `unlimited` if there is to be no bound",
            Self::NotAWindow => {
                "write `100ms`, `s`, `15m`, `2 hours`, `day`, `week`, `month` (30 days), `year` \
                 (365 days) or `forever`"
            }
            Self::Window(_) => "write a window from 100ms to 100 years, or `forever`",
        }
    }
}

const SECOND: u64 = 1000;
const DAY: u64 = 24 * 3600 * SECOND;

const UNITS_OF_TIME: [(&[&str], u64); 8] = [
    (&["ms", "millisecond", "milliseconds"], 1),
    (&["s", "sec", "second", "seconds"], SECOND),
    (&["m", "min", "minute", "minutes"], 60 * SECOND),
    (&["h", "hr", "hour", "hours"], 3600 * SECOND),
    (&["d", "day", "days"], DAY),
    (&["w", "week", "weeks"], 7 * DAY),
    (&["month", "months"], 30 * DAY),
    (&["y", "year", "years"], 365 * DAY),
];

/// Reads a rate: `<units>/<window>`, `<units> per <window>`, `unlimited` or `deny`.
///
/// # Errors
/// [`RateTextError`]; whether an algorithm can count the rate is [`super::check`]'s to say.
pub fn parse(text: &str) -> Result<Written, RateTextError> {
    match text {
        "unlimited" => return Ok(Written::Unlimited),
        "deny" => return Ok(Written::Deny),
        _ => {}
    }
    let (units, window) = text
        .split_once('/')
        .or_else(|| text.split_once(" per "))
        .ok_or(RateTextError::NotARate)?;
    let units = parse_units(units.trim())?;
    let window = parse_window(window.trim())?;
    if units == 0 {
        return Ok(Written::Deny);
    }
    Ok(Written::Per(Rate { units, window }))
}

/// Reads a whole number whose digits `_` may part.
///
/// # Errors
/// [`RateTextError::NotWhole`] or [`RateTextError::UnitsTooMany`].
pub fn parse_units(text: &str) -> Result<u64, RateTextError> {
    let digits = text.replace('_', "");
    let begins_with_digit = text.starts_with(|c: char| c.is_ascii_digit());
    if !begins_with_digit || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(RateTextError::NotWhole);
    }
    digits.parse().map_err(|_| RateTextError::UnitsTooMany)
}

/// Reads a window: an optional whole number and a unit of time, or `forever`.
///
/// # Errors
/// [`RateTextError::NotAWindow`], or [`RateTextError::Window`] if it is out of range.
pub fn parse_window(text: &str) -> Result<Window, RateTextError> {
    if text == "forever" {
        return Ok(Window::Forever);
    }
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '_')
        .unwrap_or(text.len());
    let (count, unit) = text.split_at(unit_at);
    let count = if count.is_empty() {
        1
    } else {
        parse_units(count).map_err(|_| RateTextError::NotAWindow)?
    };
    let unit = unit.trim_start();
    let unit_ms = UNITS_OF_TIME
        .iter()
        .find(|(names, _)| names.contains(&unit))
        .map(|(_, ms)| *ms)
        .ok_or(RateTextError::NotAWindow)?;
    Ok(Window::Millis(WindowMs::new(
        count.saturating_mul(unit_ms),
    )?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn per(units: u64, ms: u64) -> Result<Written, RateTextError> {
        Ok(Written::Per(Rate {
            units,
            window: Window::Millis(WindowMs::new(ms)?),
        }))
    }

    #[test]
    fn rates_read_as_people_write_them() {
        for (text, units, ms) in [
            ("100/s", 100, SECOND),
            ("1000 per 15m", 1000, 15 * 60 * SECOND),
            ("5000000/day", 5_000_000, DAY),
            ("5_000_000 / day", 5_000_000, DAY),
            ("10/100ms", 10, 100),
            ("5 per hour", 5, 3600 * SECOND),
            ("100 per 2 days", 100, 2 * DAY),
            ("1/week", 1, 7 * DAY),
            ("1 per month", 1, 30 * DAY),
            ("1/y", 1, 365 * DAY),
            ("7/100 years", 7, 36_500 * DAY),
        ] {
            assert_eq!(parse(text), per(units, ms), "{text}");
        }
        assert_eq!(
            parse("1000/forever"),
            Ok(Written::Per(Rate {
                units: 1000,
                window: Window::Forever
            }))
        );
    }

    #[test]
    fn nothing_is_one_thing_and_no_bound_another() {
        for text in ["deny", "0/s", "0 per day", "0/forever"] {
            assert_eq!(parse(text), Ok(Written::Deny), "{text}");
        }
        assert_eq!(parse("unlimited"), Ok(Written::Unlimited));
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for (text, error) in [
            ("", RateTextError::NotARate),
            ("100", RateTextError::NotARate),
            ("Unlimited", RateTextError::NotARate),
            ("ten/s", RateTextError::NotWhole),
            ("/s", RateTextError::NotWhole),
            ("_1/s", RateTextError::NotWhole),
            ("-1/s", RateTextError::NotWhole),
            ("1.5/s", RateTextError::NotWhole),
            ("1e3/s", RateTextError::NotWhole),
            ("18446744073709551616/s", RateTextError::UnitsTooMany),
            ("5/", RateTextError::NotAWindow),
            ("5/fortnight", RateTextError::NotAWindow),
            ("5/M", RateTextError::NotAWindow),
            ("5/-1s", RateTextError::NotAWindow),
            ("5/s/s", RateTextError::NotAWindow),
            (
                "5/0s",
                RateTextError::Window(RateError::WindowTooShort { ms: 0 }),
            ),
            (
                "5/99ms",
                RateTextError::Window(RateError::WindowTooShort { ms: 99 }),
            ),
        ] {
            assert_eq!(parse(text), Err(error), "{text}");
        }
        for text in ["5/101 years", "5/18446744073709551615d"] {
            let error = parse(text).unwrap_err();
            assert!(
                matches!(
                    error,
                    RateTextError::Window(RateError::WindowTooLong { .. })
                ),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
            let _ = parse(&text);
        }

        #[test]
        fn a_window_reads_back_from_how_it_is_shown(
            ms in super::super::SHORTEST_WINDOW_MS..=super::super::LONGEST_WINDOW_MS,
        ) {
            let window = Window::Millis(WindowMs::new(ms).expect("in range"));
            prop_assert_eq!(parse_window(&window.to_string()), Ok(window));
        }
    }
}
