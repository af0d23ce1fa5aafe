//! Numbers as people read them.

/// A number with its thousands set apart.
#[must_use]
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A part, 0 to 1, in percent to its hundredth. What is not all is never shown as all, nor some as none.
#[must_use]
pub(crate) fn part(part: f64) -> String {
    let shown = (part * 1e4).round() / 1e2;
    let shown = if shown >= 100.0 && part < 1.0 {
        99.99
    } else {
        shown
    };
    if shown == 0.0 && part > 0.0 {
        return "<0.01%".to_owned();
    }
    format!("{shown:.2}%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn nearly_all_is_not_all() {
        for (number, text) in [
            (0.0, "0.00%"),
            (0.000_001, "<0.01%"),
            (0.5, "50.00%"),
            (0.999_99, "99.99%"),
            (1.0, "100.00%"),
        ] {
            assert_eq!(part(number), text);
        }
    }
}
