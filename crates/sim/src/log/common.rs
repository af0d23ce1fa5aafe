//! The common log format and what is built on it: combined, nginx's `main`, a virtual host before it.
//!
//! The time is looked for just before the first quote, not by counting fields: a user name may hold spaces and
//! brackets, and must not be able to shift what follows it. nginx and Apache escape quotes inside fields.

use std::borrow::Cow;
use std::net::IpAddr;

use super::bad::BadLine;
use super::fields::{Fields, present, request_line, status};
use super::key::KeyField;
use super::time;

/// How many fields stand before those that this format leaves open; `field:8` is the referrer.
const FIRST_EXTRA: usize = 8;

/// Takes a line apart.
pub(super) fn read<'l>(line: &'l str, key: &KeyField) -> Result<Fields<'l>, BadLine> {
    let quote = line.find('"').ok_or(BadLine::NotCommon("quoted request"))?;
    let (before, timed) = line[..quote]
        .trim_end()
        .strip_suffix(']')
        .and_then(|text| text.rsplit_once('['))
        .ok_or(BadLine::NotCommon("time in brackets"))?;
    let time_unix_ns = time::parse(timed)?;
    let (host, address, identity, user) = callers(before)?;

    let (request, rest) = quoted(&line[quote..]).ok_or(BadLine::NotCommon("end of the request"))?;
    let mut rest = Rest(rest);
    let status_text = rest.advance().ok_or(BadLine::NotCommon("status"))?;
    let bytes = rest.advance().unwrap_or("");
    let named = match key {
        KeyField::Address | KeyField::User => "",
        KeyField::Header(name) => match name.as_str() {
            "referer" => rest.nth(0),
            "user-agent" => rest.nth(1),
            _ => return Err(BadLine::Unnamed),
        },
        KeyField::Field(number) => match number.parse::<usize>() {
            Ok(1) => address,
            Ok(2) => identity,
            Ok(3) => user,
            Ok(4) => timed,
            Ok(5) => request,
            Ok(6) => status_text,
            Ok(7) => bytes,
            Ok(number @ FIRST_EXTRA..) => rest.nth(number - FIRST_EXTRA),
            Ok(0) | Err(_) => return Err(BadLine::Unnamed),
        },
    };
    // Escapes stay in the request while it is split: a byte that was escaped is never part of a method.
    let (method, path, target_host) = request_line(request);
    Ok(Fields {
        time_unix_ns,
        address: present(Cow::Borrowed(address)),
        forwarded: Cow::Borrowed(""),
        user: present(unescaped(user)),
        method: Cow::Borrowed(method),
        path: unescaped(path),
        host: unescaped(if target_host.is_empty() {
            host
        } else {
            target_host
        }),
        status: status(status_text)?,
        named: present(unescaped(named)),
    })
}

/// Virtual host, address, identity and user, from what stands before the time.
fn callers(before: &str) -> Result<(&str, &str, &str, &str), BadLine> {
    let before = before.trim_end();
    let (first, rest) = before.split_once(' ').ok_or(BadLine::NotCommon("user"))?;
    let (second, rest) = rest.split_once(' ').ok_or(BadLine::NotCommon("user"))?;
    if first.is_empty() {
        return Err(BadLine::NotCommon("address"));
    }
    // Apache's `vhost_combined`. Nobody's identity (RFC 1413) is an address.
    if let Some((identity, user)) = rest.split_once(' ')
        && second.parse::<IpAddr>().is_ok()
    {
        return Ok((first, second, identity, user));
    }
    Ok(("", first, second, rest))
}

/// The inside of the quotes that the text begins with, and what follows them. A backslash escapes the next byte.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut bytes = inside.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((&inside[..at], &inside[at + 1..])),
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
    None
}

/// The fields after the request, quoted or not.
struct Rest<'l>(&'l str);

impl<'l> Rest<'l> {
    fn advance(&mut self) -> Option<&'l str> {
        let text = self.0.trim_start_matches(' ');
        if text.is_empty() {
            return None;
        }
        let (field, rest) = match quoted(text) {
            Some(split) => split,
            None => text.split_at(text.find(' ').unwrap_or(text.len())),
        };
        self.0 = rest;
        Some(field)
    }

    /// The field after so many others; empty if the line has fewer.
    fn nth(&mut self, skipped: usize) -> &'l str {
        for _ in 0..skipped {
            if self.advance().is_none() {
                break;
            }
        }
        self.advance().unwrap_or("")
    }
}

/// Undoes `\xHH`, `\"`, `\\` and the letters that Apache escapes. Bytes that are then not UTF-8 are replaced.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let (byte, used) = match (bytes[at], bytes.get(at + 1)) {
            (b'\\', Some(b'x')) => match bytes.get(at + 2..at + 4).and_then(hex) {
                Some(byte) => (byte, 4),
                None => (b'\\', 1),
            },
            (b'\\', Some(b'n')) => (b'\n', 2),
            (b'\\', Some(b't')) => (b'\t', 2),
            (b'\\', Some(b'r')) => (b'\r', 2),
            (b'\\', Some(&escaped @ (b'"' | b'\\'))) => (escaped, 2),
            (byte, _) => (byte, 1),
        };
        out.push(byte);
        at += used;
    }
    Cow::Owned(match String::from_utf8(out) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

fn hex(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |byte, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(byte << 4 | u8::try_from(digit).ok()?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"192.0.2.7 - alice [30/Nov/2026:22:39:53 +0000] "GET /v1?x=\x221\x22 HTTP/1.1" 200 3 "http://r.example/a b" "curl \x22q\x22" "198.51.100.7, 203.0.113.9""#;

    fn named(key: &str) -> String {
        let key = key.parse().unwrap();
        read(LINE, &key).unwrap().named.into_owned()
    }

    #[test]
    fn each_field_can_be_the_key() {
        let fields = read(LINE, &KeyField::Address).unwrap();
        assert_eq!(fields.time_unix_ns, 1_796_078_393_000_000_000);
        assert_eq!(fields.path, "/v1?x=\"1\"");
        assert_eq!((&*fields.address, &*fields.user), ("192.0.2.7", "alice"));
        assert_eq!(named("header:Referer"), "http://r.example/a b");
        assert_eq!(named("header:User-Agent"), "curl \"q\"");
        for (field, expected) in [
            (1, "192.0.2.7"),
            (2, ""),
            (3, "alice"),
            (4, "30/Nov/2026:22:39:53 +0000"),
            (6, "200"),
            (7, "3"),
            (8, "http://r.example/a b"),
            (10, "198.51.100.7, 203.0.113.9"),
            (11, ""),
        ] {
            assert_eq!(named(&format!("field:{field}")), expected, "{field}");
        }
        for key in ["header:X-Api-Key", "field:0", "field:api_key"] {
            let key = key.parse().unwrap();
            assert_eq!(read(LINE, &key).unwrap_err(), BadLine::Unnamed);
        }
    }

    #[test]
    fn a_user_name_cannot_shift_the_other_fields() {
        let line = r#"192.0.2.7 - a [01/Jan/2000:00:00:00 +0000] b [30/Nov/2026:22:39:53 +0000] "GET / HTTP/1.1" 200 3"#;
        let fields = read(line, &KeyField::User).unwrap();
        assert_eq!(fields.time_unix_ns, 1_796_078_393_000_000_000);
        assert_eq!(fields.address, "192.0.2.7");
        assert_eq!(fields.user, "a [01/Jan/2000:00:00:00 +0000] b");
    }

    #[test]
    fn a_virtual_host_may_come_first() {
        let line = r#"api.example:443 2001:db8::1 - - [30/Nov/2026:22:39:53 +0000] "GET / HTTP/1.1" 200 3"#;
        let fields = read(line, &KeyField::User).unwrap();
        assert_eq!(fields.host, "api.example:443");
        assert_eq!(fields.address, "2001:db8::1");
        assert_eq!(fields.user, "");
    }

    #[test]
    fn broken_lines_say_what_is_missing() {
        for (line, missing) in [
            ("", "quoted request"),
            ("192.0.2.7 - -", "quoted request"),
            (
                r#"192.0.2.7 - - "GET / HTTP/1.1" 200 3"#,
                "time in brackets",
            ),
            (
                r#"[30/Nov/2026:22:39:53 +0000] "GET / HTTP/1.1" 200"#,
                "user",
            ),
            (
                r#"a - - [30/Nov/2026:22:39:53 +0000] "GET / HTTP/1.1"#,
                "end of the request",
            ),
            (
                r#"a - - [30/Nov/2026:22:39:53 +0000] "GET / HTTP/1.1\""#,
                "end of the request",
            ),
            (
                r#"a - - [30/Nov/2026:22:39:53 +0000] "GET / HTTP/1.1""#,
                "status",
            ),
        ] {
            assert_eq!(
                read(line, &KeyField::Address).unwrap_err(),
                BadLine::NotCommon(missing),
                "{line}"
            );
        }
    }

    #[test]
    fn escapes_are_undone_once() {
        assert_eq!(unescaped(r"caf\xC3\xA9"), "café");
        assert_eq!(unescaped(r#"a\"b\\x41\n"#), "a\"b\\x41\n");
        assert_eq!(unescaped(r"\xFF\x4"), "\u{FFFD}\\x4");
        assert_eq!(unescaped("\\"), "\\");
    }
}
