//! Limits and lengths of time as text, written as policies write them.

use std::fmt;
use std::str::FromStr;

use policy::rate::text::{self, Written};
use policy::rate::{Window, WindowMs, max_units_fixed};

use super::Limit;

/// Reads a length of time such as `30s`, `250ms` or `0s`, in nanoseconds.
///
/// # Errors
/// Says what would be right.
pub fn time_ns(written: &str) -> Result<u64, String> {
    if matches!(written, "0" | "0s" | "0ms") {
        return Ok(0);
    }
    match text::parse_window(written) {
        Ok(Window::Millis(window)) => Ok(window.nanos()),
        Ok(Window::Forever) => Err(format!("\"{written}\" has no end: write one such as 30s")),
        Err(error) => Err(format!("\"{written}\": {error}: {}", error.help())),
    }
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(written: &str) -> Result<Self, String> {
        match text::parse(written) {
            Ok(Written::Per(rate)) => match rate.window {
                Window::Millis(window) => {
                    let most = max_units_fixed(window.get());
                    if rate.units > most {
                        return Err(format!(
                            "\"{written}\": at most {most} units in that window"
                        ));
                    }
                    Ok(Self {
                        units: rate.units,
                        window,
                    })
                }
                Window::Forever => Err(format!("\"{written}\" has no window: write 100/s")),
            },
            Ok(Written::Unlimited | Written::Deny) => {
                Err(format!("\"{written}\" is no rate to compare: write 100/s"))
            }
            Err(error) => Err(format!("\"{written}\": {error}: {}", error.help())),
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.units, window_text(self.window))
    }
}

/// A window as a rate writes it.
fn window_text(window: WindowMs) -> String {
    let ms = window.get();
    for (unit_ms, name) in [
        (86_400_000, "day"),
        (3_600_000, "h"),
        (60_000, "min"),
        (1_000, "s"),
    ] {
        if ms == unit_ms {
            return name.to_owned();
        }
        if ms.is_multiple_of(unit_ms) {
            let short = if name == "day" { "d" } else { name };
            return format!("{}{short}", ms / unit_ms);
        }
    }
    format!("{ms}ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_written_as_they_are_read() {
        for (written, shown) in [
            ("10/s", "10/s"),
            ("1000/min", "1000/min"),
            ("1_000/60s", "1000/min"),
            ("5/2s", "5/2s"),
            ("7/250ms", "7/250ms"),
            ("9/2h", "9/2h"),
            ("9/day", "9/day"),
            ("9/7d", "9/7d"),
        ] {
            let limit: Limit = written.parse().unwrap();
            assert_eq!(limit.to_string(), shown);
            assert_eq!(limit.to_string().parse(), Ok(limit));
        }
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        for written in [
            "",
            "10",
            "deny",
            "unlimited",
            "0/s",
            "10/forever",
            "10/50ms",
            "-1/s",
            "x",
        ] {
            assert!(Limit::from_str(written).is_err(), "{written}");
        }
        assert_eq!(time_ns("0s"), Ok(0));
        assert_eq!(time_ns("250ms"), Ok(250_000_000));
        assert!(time_ns("forever").is_err());
        assert!(time_ns("").is_err());
    }
}
