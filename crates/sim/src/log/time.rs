//! Times as access logs write them, to nanoseconds since 1970-01-01 UTC. A time without a zone is refused: read as
//! UTC it could be half a day off, and nodes would not line up.

/// Why text is no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Not in a form that is read here.
    #[error(
        "is none of `30/Nov/2026:22:39:53 +0000`, `2026-11-30T22:39:53.615Z` or a number of \
         seconds since 1970"
    )]
    Form,
    /// A month 13, a February 30, an hour 25.
    #[error("names no day or time of day that exists")]
    NoSuchInstant,
    /// Nothing says how far from UTC it is.
    #[error("has no time zone: log `$time_iso8601`, `$msec` or `%START_TIME%`")]
    NoZone,
    /// Before 1970 or after 2554.
    #[error("is before 1970 or after 2554")]
    OutOfRange,
}

const NANOS: i128 = 1_000_000_000;
const MONTHS: [&[u8; 3]; 12] = [
    b"jan", b"feb", b"mar", b"apr", b"may", b"jun", b"jul", b"aug", b"sep", b"oct", b"nov", b"dec",
];

/// Reads a time in any of the three forms: the common log format's, RFC 3339's (ISO 8601 with a zone), or a decimal
/// number since 1970, in seconds, or if it is too large for that, in milli-, micro- or nanoseconds.
///
/// # Errors
/// [`TimeError`].
pub fn parse(text: &str) -> Result<u64, TimeError> {
    let bytes = text.as_bytes();
    match (bytes.get(2), bytes.get(4)) {
        (Some(b'/'), _) => common(bytes),
        (_, Some(b'-')) if bytes.first().is_some_and(u8::is_ascii_digit) => rfc3339(bytes),
        _ => epoch(bytes),
    }
}

/// `30/Nov/2026:22:39:53 +0000`.
fn common(text: &[u8]) -> Result<u64, TimeError> {
    let mut text = Cursor(text);
    let day = text.digits(2)?;
    text.expect(b"/")?;
    let name = text.take(3)?.to_ascii_lowercase();
    let month = MONTHS
        .iter()
        .position(|month| month[..] == name[..])
        .ok_or(TimeError::NoSuchInstant)? as i64
        + 1;
    text.expect(b"/")?;
    let year = text.digits(4)?;
    text.expect(b":")?;
    let of_day = text.time_of_day()?;
    if text.0.is_empty() {
        return Err(TimeError::NoZone);
    }
    text.expect(b" ")?;
    let offset = text.offset()?;
    instant(year, month, day, of_day, 0, offset)
}

/// `2026-11-30T22:39:53.615Z`, `2026-11-30 22:39:53,615+01:00`.
fn rfc3339(text: &[u8]) -> Result<u64, TimeError> {
    let mut text = Cursor(text);
    let year = text.digits(4)?;
    text.expect(b"-")?;
    let month = text.digits(2)?;
    text.expect(b"-")?;
    let day = text.digits(2)?;
    text.expect(b"Tt ")?;
    let of_day = text.time_of_day()?;
    let fraction = if text.expect(b".,").is_ok() {
        text.fraction()?
    } else {
        0
    };
    let _ = text.expect(b" ");
    if text.0.is_empty() {
        return Err(TimeError::NoZone);
    }
    let offset = text.offset()?;
    instant(year, month, day, of_day, fraction, offset)
}

/// `1796078393`, `1796078393.502`, `1796078393502`.
fn epoch(text: &[u8]) -> Result<u64, TimeError> {
    let whole = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if whole == 0 || whole > 20 {
        return Err(TimeError::Form);
    }
    let (digits, rest) = text.split_at(whole);
    let number = digits.iter().fold(0_i128, |number, digit| {
        number * 10 + i128::from(digit - b'0')
    });
    // Seconds have 10 digits until 2286, milliseconds had 12 from 1973 on.
    let unit = match whole {
        0..=11 => NANOS,
        12..=14 => 1_000_000,
        15..=17 => 1000,
        _ => 1,
    };
    let fraction = match rest.split_first() {
        None => 0,
        Some((b'.', rest)) => {
            let mut rest = Cursor(rest);
            let fraction = rest.fraction()?;
            if !rest.0.is_empty() {
                return Err(TimeError::Form);
            }
            i128::from(fraction) * unit / NANOS
        }
        Some(_) => return Err(TimeError::Form),
    };
    u64::try_from(number * unit + fraction).map_err(|_| TimeError::OutOfRange)
}

/// Displays nanoseconds since 1970 as RFC 3339 in UTC, to the second: `2026-11-30T22:39:53Z`.
#[derive(Clone, Copy, Debug)]
pub struct Utc(pub u64);

impl std::fmt::Display for Utc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.0 / NANOS as u64;
        let (days, of_day) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// What is left of a text.
struct Cursor<'t>(&'t [u8]);

impl<'t> Cursor<'t> {
    fn take(&mut self, count: usize) -> Result<&'t [u8], TimeError> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(TimeError::Form)?;
        self.0 = rest;
        Ok(taken)
    }

    fn expect(&mut self, one_of: &[u8]) -> Result<(), TimeError> {
        match self.0.split_first() {
            Some((first, rest)) if one_of.contains(first) => {
                self.0 = rest;
                Ok(())
            }
            _ => Err(TimeError::Form),
        }
    }

    fn digits(&mut self, count: usize) -> Result<i64, TimeError> {
        self.take(count)?.iter().try_fold(0, |number, byte| {
            byte.is_ascii_digit()
                .then(|| number * 10 + i64::from(byte - b'0'))
                .ok_or(TimeError::Form)
        })
    }

    /// `22:39:53`, in seconds. A leap second is the first of the next minute.
    fn time_of_day(&mut self) -> Result<i64, TimeError> {
        let hour = self.digits(2)?;
        self.expect(b":")?;
        let minute = self.digits(2)?;
        self.expect(b":")?;
        let second = self.digits(2)?;
        if hour > 23 || minute > 59 || second > 60 {
            return Err(TimeError::NoSuchInstant);
        }
        Ok(hour * 3600 + minute * 60 + second)
    }

    /// The digits after a decimal point, in nanoseconds; those after the ninth are dropped.
    fn fraction(&mut self) -> Result<i64, TimeError> {
        let count = self
            .0
            .iter()
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        if count == 0 {
            return Err(TimeError::Form);
        }
        let digits = self.take(count)?;
        Ok((0..9).fold(0, |nanos, place| {
            nanos * 10 + digits.get(place).map_or(0, |digit| i64::from(digit - b'0'))
        }))
    }

    /// `Z`, `+0000` or `+00:00`, at the end; in seconds east of UTC.
    fn offset(&mut self) -> Result<i64, TimeError> {
        let sign = match self.take(1)? {
            b"Z" | b"z" if self.0.is_empty() => return Ok(0),
            b"+" => 1,
            b"-" => -1,
            _ => return Err(TimeError::Form),
        };
        let hours = self.digits(2)?;
        let _ = self.expect(b":");
        let minutes = self.digits(2)?;
        if !self.0.is_empty() {
            return Err(TimeError::Form);
        }
        if hours > 23 || minutes > 59 {
            return Err(TimeError::NoSuchInstant);
        }
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

fn instant(
    year: i64,
    month: i64,
    day: i64,
    of_day_s: i64,
    fraction_ns: i64,
    offset_s: i64,
) -> Result<u64, TimeError> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let most_days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(is_leap),
        _ => return Err(TimeError::NoSuchInstant),
    };
    if day < 1 || day > most_days {
        return Err(TimeError::NoSuchInstant);
    }
    let seconds = days_from_civil(year, month, day) * 86_400 + of_day_s - offset_s;
    u64::try_from(i128::from(seconds) * NANOS + i128::from(fraction_ns))
        .map_err(|_| TimeError::OutOfRange)
}

/// The days from 1970-01-01 to a civil date (Howard Hinnant, "chrono-compatible low-level date algorithms",
/// `days_from_civil`, for years that are not negative).
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year - era * 400;
    let from_march = (month + 9) % 12;
    let day_of_year = (153 * from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The way back: `civil_from_days`, for days that are not negative.
const fn civil_from_days(days: u64) -> (u64, u64, u64) {
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
    use proptest::prelude::*;

    #[test]
    fn one_instant_in_every_form() {
        // As `date -u -d @1796078393` prints it.
        for (text, nanos) in [
            ("30/Nov/2026:22:39:53 +0000", 0),
            ("30/Nov/2026:23:39:53 +0100", 0),
            ("01/Dec/2026:08:09:53 +0930", 0),
            ("30/nov/2026:17:39:53 -0500", 0),
            ("2026-11-30T22:39:53Z", 0),
            ("2026-11-30T22:39:53+00:00", 0),
            ("2026-11-30t15:39:53-0700", 0),
            ("2026-11-30 22:39:53,615 +0000", 615_000_000),
            ("2026-11-30T22:39:53.615Z", 615_000_000),
            ("2026-11-30T22:39:53.1234567899Z", 123_456_789),
            ("1796078393", 0),
            ("1796078393.502", 502_000_000),
            ("1796078393.5648274", 564_827_400),
            ("1796078393502", 502_000_000),
            ("1796078393502.25", 502_250_000),
            ("1796078393502999", 502_999_000),
            ("1796078393502999001", 502_999_001),
        ] {
            assert_eq!(parse(text), Ok(1_796_078_393_000_000_000 + nanos), "{text}");
        }
    }

    #[test]
    fn days_that_exist_and_days_that_do_not() {
        assert!(parse("2028-02-29T00:00:00Z").is_ok());
        assert_eq!(parse("2016-12-31T23:59:60Z"), parse("2017-01-01T00:00:00Z"));
        assert_eq!(parse("1970-01-01T00:00:00Z"), Ok(0));
        for text in [
            "2026-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-04-31T00:00:00Z",
            "2026-04-00T00:00:00Z",
            "2026-04-01T24:00:00Z",
            "30/Nob/2026:22:39:53 +0000",
            "2026-04-01T00:00:00+99:00",
        ] {
            assert_eq!(parse(text), Err(TimeError::NoSuchInstant), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_told_apart() {
        for text in [
            "",
            "-",
            "now",
            "30/Nov/2026",
            "1796078393.",
            "1796078393s",
            "2026-11-30",
        ] {
            assert_eq!(parse(text), Err(TimeError::Form), "{text}");
        }
        for text in [
            "2026-11-30T22:39:53",
            "2026-11-30 22:39:53.5",
            "30/Nov/2026:22:39:53",
        ] {
            assert_eq!(parse(text), Err(TimeError::NoZone), "{text}");
        }
        for text in [
            "1969-12-31T23:59:59Z",
            "2600-01-01T00:00:00Z",
            "18446744073709551616",
        ] {
            assert_eq!(parse(text), Err(TimeError::OutOfRange), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_displayed_is_read_back(seconds in 0_u64..=u64::MAX / 1_000_000_000) {
            let instant = seconds * 1_000_000_000;
            prop_assert_eq!(parse(&Utc(instant).to_string()), Ok(instant));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}", form in "[0-9/:T +Z.,-]{0,40}") {
            let _ = parse(&text);
            let _ = parse(&form);
        }

        /// Days counted one by one are the days of the calendar.
        #[test]
        fn the_day_after_is_one_day_later(year in 1970_i64..2500, month in 1_i64..=12, day in 1_i64..=31) {
            let at = |y: i64, m: i64, d: i64| parse(&format!("{y:04}-{m:02}-{d:02}T00:00:00Z"));
            if let Ok(today) = at(year, month, day) {
                let tomorrow = at(year, month, day + 1)
                    .or_else(|_| at(year, month + 1, 1))
                    .or_else(|_| at(year + 1, 1, 1))
                    .unwrap();
                prop_assert_eq!(tomorrow - today, 86_400_000_000_000);
            }
        }
    }
}
