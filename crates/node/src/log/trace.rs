//! The caller's trace, from W3C Trace Context's `traceparent`, so that log lines can be joined to it.
//!
//! A header that is not exactly of the standard's form is ignored, as the standard says (section 3.2.2).

/// A caller's trace and span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext<'a> {
    /// 32 lower-case hexadecimal digits, not all zero.
    pub trace_id: &'a str,
    /// 16 lower-case hexadecimal digits, not all zero: the caller's span.
    pub span_id: &'a str,
}

impl<'a> TraceContext<'a> {
    /// Reads a `traceparent`. `None` if it is malformed.
    #[must_use]
    pub fn read(header: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(header).ok()?.trim_matches([' ', '\t']);
        let mut parts = text.split('-');
        let (version, trace_id) = (parts.next()?, parts.next()?);
        let (span_id, flags) = (parts.next()?, parts.next()?);
        // Later versions may add parts; version 00 has none, and ff is no version.
        let versioned =
            is_hex(version, 2) && version != "ff" && (version != "00" || parts.next().is_none());
        let fits = versioned
            && is_hex(trace_id, 32)
            && is_hex(span_id, 16)
            && is_hex(flags, 2)
            && trace_id.bytes().any(|b| b != b'0')
            && span_id.bytes().any(|b| b != b'0');
        fits.then_some(Self { trace_id, span_id })
    }
}

fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_examples() {
        let read = TraceContext::read(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
        assert_eq!(
            read,
            Some(TraceContext {
                trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
                span_id: "00f067aa0ba902b7"
            })
        );
        assert!(
            TraceContext::read(b"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x")
                .is_some()
        );
        for wrong in [
            &b""[..],
            b"00",
            b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x",
            b"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            b"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            b"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            b"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            b"00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            b"\xff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::read(wrong), None, "{}", wrong.escape_ascii());
        }
    }
}
