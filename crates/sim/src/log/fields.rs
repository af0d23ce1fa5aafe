//! What both formats give: the parts of one logged request, borrowed from its line where they can be.

use std::borrow::Cow;

use super::bad::BadLine;

/// One line, taken apart. Text that is not there is empty.
#[derive(Debug, Default)]
pub(super) struct Fields<'l> {
    pub time_unix_ns: u64,
    /// The peer as logged, with or without a port.
    pub address: Cow<'l, str>,
    /// The forwarding header, if the format names it.
    pub forwarded: Cow<'l, str>,
    pub user: Cow<'l, str>,
    /// Empty if what came in was no request: a scanner's bytes, a connection closed early.
    pub method: Cow<'l, str>,
    pub path: Cow<'l, str>,
    pub host: Cow<'l, str>,
    pub status: Option<u16>,
    /// The field that the key is read from, if it is neither the address nor the user.
    pub named: Cow<'l, str>,
}

/// Proxies write `-` for what is not there.
pub(super) fn present(text: Cow<'_, str>) -> Cow<'_, str> {
    if text == "-" { Cow::Borrowed("") } else { text }
}

/// A status of three digits; none if the proxy wrote that there was none.
pub(super) fn status(text: &str) -> Result<Option<u16>, BadLine> {
    match text {
        // Envoy writes 0 and nginx 000 for a request that ended without one.
        "" | "-" | "0" | "000" => Ok(None),
        _ => match text.parse() {
            Ok(status @ 100..=999) if text.len() == 3 => Ok(Some(status)),
            _ => Err(BadLine::Status),
        },
    }
}

/// The method, target and host of a request line: `GET /path HTTP/1.1`. All are empty if it is none. The host is
/// there only if the target is a whole URL.
pub(super) fn request_line(line: &str) -> (&str, &str, &str) {
    let Some((method, rest)) = line.split_once(' ') else {
        return ("", "", "");
    };
    if !is_method(method) {
        return ("", "", "");
    }
    let target = match rest.rsplit_once(" HTTP/") {
        Some((target, _)) => target,
        None => rest,
    };
    let (host, path) = target_parts(target);
    (method, path, host)
}

/// The host and the path of a request's target; a target that is no URL is a path.
pub(super) fn target_parts(target: &str) -> (&str, &str) {
    let after = target
        .strip_prefix("http://")
        .or_else(|| target.strip_prefix("https://"));
    match after {
        Some(after) => after.split_at(after.find(['/', '?']).unwrap_or(after.len())),
        None => ("", target),
    }
}

/// Whether text is a method as they are written in practice.
pub(super) fn is_method(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphabetic() || byte == b'-' || byte == b'_';
    !text.is_empty() && text.len() <= 32 && text.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_lines() {
        for (line, expected) in [
            ("GET /a?b=c HTTP/1.1", ("GET", "/a?b=c", "")),
            ("GET /a b HTTP/1.1", ("GET", "/a b", "")),
            ("GET / HTTP/1.1 HTTP/1.1", ("GET", "/ HTTP/1.1", "")),
            ("GET /", ("GET", "/", "")),
            ("OPTIONS * HTTP/1.1", ("OPTIONS", "*", "")),
            ("GET http://h:1/p?q HTTP/1.1", ("GET", "/p?q", "h:1")),
            ("GET https://h HTTP/1.1", ("GET", "", "h")),
            ("\u{16}\u{3}junk", ("", "", "")),
            ("\\x16 /x", ("", "", "")),
            ("", ("", "", "")),
            (" / HTTP/1.1", ("", "", "")),
        ] {
            assert_eq!(request_line(line), expected, "{line}");
        }
    }

    #[test]
    fn statuses() {
        assert_eq!(status("200"), Ok(Some(200)));
        for none in ["", "-", "0", "000"] {
            assert_eq!(status(none), Ok(None));
        }
        for bad in ["99", "1000", "+200", "2xx", "200 "] {
            assert_eq!(status(bad), Err(BadLine::Status), "{bad}");
        }
    }
}
