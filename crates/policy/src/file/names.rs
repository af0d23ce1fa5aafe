//! Reads names and the small words of HTTP, each within its grammar and its bound.

use std::sync::Arc;

use crate::fault::{FaultKind, Faults, Quoted, Read};
use crate::fields::Place;

/// The longest name, in bytes.
pub const MAX_NAME: usize = 128;

/// Whether text is a name: 1 to [`MAX_NAME`] of `[A-Za-z0-9_.:/-]`.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '/' | '-');
    !text.is_empty() && text.len() <= MAX_NAME && text.chars().all(fits)
}

/// Reads the name of a rule, a plan or a limit.
pub fn read_name<'a>(faults: &mut Faults, place: Place<'a>, wanted: &str) -> Read<&'a str> {
    let text = place.text(faults, wanted)?;
    check_name(faults, place, text)
}

/// Checks a name that stands as a key or a value.
pub fn check_name<'t>(faults: &mut Faults, place: Place<'_>, text: &'t str) -> Read<&'t str> {
    if is_name(text) {
        return Ok(text);
    }
    let problem = format!("{} is not a name", Quoted(text));
    let help = format!("write 1 to {MAX_NAME} letters, digits or any of `_.:/-`");
    Err(place.fault(faults, FaultKind::Malformed, problem, help))
}

/// A token of RFC 9110, section 5.6.2.
fn is_token(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.len() <= MAX_NAME && text.bytes().all(fits)
}

/// Reads a header's name; the result is in lower case.
pub fn read_header_name(faults: &mut Faults, place: Place<'_>) -> Read<Arc<str>> {
    let text = place.text(faults, "a header's name such as `x-tenant`")?;
    check_header_name(faults, place, text)
}

/// Checks a header's name that stands as a key or a value; the result is in lower case.
pub fn check_header_name(faults: &mut Faults, place: Place<'_>, text: &str) -> Read<Arc<str>> {
    if is_token(text) {
        return Ok(text.to_ascii_lowercase().into());
    }
    let problem = format!("{} is not a header's name", Quoted(text));
    let help = if text.starts_with(':') {
        "write `path`, `method` or `host` in place of HTTP/2's pseudo-headers".to_owned()
    } else {
        format!("write 1 to {MAX_NAME} letters, digits or any of `!#$%&'*+-.^_`|~`")
    };
    Err(place.fault(faults, FaultKind::Malformed, problem, help))
}

/// Reads a method; the result is in upper case, as methods are sent.
pub fn read_method(faults: &mut Faults, place: Place<'_>) -> Read<Arc<str>> {
    let text = place.text(faults, "a method such as `POST`")?;
    if is_token(text) {
        return Ok(text.to_ascii_uppercase().into());
    }
    let problem = format!("{} is not a method", Quoted(text));
    let help = "write for example `POST`, or a list such as `[POST, PUT]`".to_owned();
    Err(place.fault(faults, FaultKind::Malformed, problem, help))
}

/// Reads a host pattern: a name or an address without port, `*.` in front for all subdomains.
pub fn read_host(faults: &mut Faults, place: Place<'_>) -> Read<Arc<str>> {
    let text = place.text(
        faults,
        "a host such as `api.example.com` or `*.example.com`",
    )?;
    let lower = text.to_ascii_lowercase();
    let name = lower.strip_prefix("*.").unwrap_or(&lower);
    let help = if text.contains("://") || text.contains('/') {
        "write the host alone, without scheme or path"
    } else if !text.is_ascii() {
        "write the name as it is sent, in its ASCII form (`xn--...`)"
    } else if name.contains('*') {
        "`*` may stand in front only, as in `*.example.com`"
    } else if lower.starts_with('[') {
        match lower
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(inner) => match inner.parse::<std::net::Ipv6Addr>() {
                Ok(address) => return Ok(format!("[{address}]").into()),
                Err(_) => "write an IPv6 address as `[2001:db8::1]`",
            },
            None => "write an IPv6 address as `[2001:db8::1]`, without a port",
        }
    } else if name.contains(':') {
        "write the host without its port, an IPv6 address in brackets"
    } else if name.ends_with('.') || name.starts_with('.') || name.contains("..") {
        "write it without dots at its ends"
    } else if name.is_empty() || !name.bytes().all(is_host_byte) {
        "write for example `api.example.com`"
    } else {
        return Ok(lower.into());
    };
    let problem = format!("{} is not a host", Quoted(text));
    Err(place.fault(faults, FaultKind::Malformed, problem, help.to_owned()))
}

const fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}
