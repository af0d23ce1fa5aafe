//! Instants as text: RFC 3339 in UTC with milliseconds. It formats what it is given and never reads a clock.

use std::fmt;

use gate::time::Now;

/// Displays an instant as RFC 3339 in UTC, to the millisecond: `2026-11-30T19:34:15.250Z`.
#[derive(Clone, Copy, Debug)]
pub struct Rfc3339(pub Now);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = self.0.unix_nanos() / 1_000_000;
        let (seconds, millis) = (millis / 1000, millis % 1000);
        let (days, of_day) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        )
    }
}

/// The civil date of a day counted from 1970-01-01 (Howard Hinnant, "chrono-compatible low-level date algorithms",
/// `civil_from_days`, for days that are not negative).
const fn civil_from_days(days: u128) -> (u128, u128, u128) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 {
        from_march + 3
    } else {
        from_march - 9
    };
    let year = year_of_era + era * 400 + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(unix_seconds: u128, millis: u128) -> String {
        Rfc3339(Now::from_unix_nanos(
            (unix_seconds * 1000 + millis) * 1_000_000,
        ))
        .to_string()
    }

    #[test]
    fn known_instants() {
        // As `date -u -d @N` prints them.
        assert_eq!(at(1_735_689_600, 0), "2025-01-01T00:00:00.000Z");
        assert_eq!(at(1_796_067_255, 7), "2026-11-30T19:34:15.007Z");
        assert_eq!(at(1_835_395_199, 999), "2028-02-28T23:59:59.999Z");
        assert_eq!(at(1_835_395_200, 0), "2028-02-29T00:00:00.000Z");
        assert_eq!(at(1_835_481_600, 0), "2028-03-01T00:00:00.000Z");
        assert_eq!(at(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn the_last_instant_is_text_too() {
        assert!(
            Rfc3339(Now::from_nanos(u64::MAX))
                .to_string()
                .starts_with("2609-")
        );
    }
}
