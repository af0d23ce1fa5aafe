//! Reads a request target as the upstream would route it, so that aliases of a path meet the same rules.
//!
//! The result, the *normal form*, is UTF-8 text that begins with `/` (or is `*`), and normalising it again changes
//! nothing. This module must never decode twice, never panic on any bytes, and never allocate for a path that is
//! already normal or shorter than [`PathBuffer`] holds in place.
//!
//! In order:
//! 1. The query (`?`) and the fragment (`#`) are cut off. An absolute form (`http://host/path`, RFC 9112 section
//!    3.2.2) loses its scheme and authority. An empty path is `/`; a path without a leading slash is given one;
//!    `*` (as in `OPTIONS *`) stays as it is.
//! 2. `%XX` is decoded, once. These bytes stay escaped, with upper-case digits, because decoded they would change
//!    the path's meaning or could not be text: `%` itself (also where it began no valid escape: `%zz` reads
//!    `%25zz`), `?`, `#`, control characters and NUL, and bytes that are not UTF-8 (overlong forms such as `%C0%AF`
//!    among them, which therefore never act as a slash). A raw byte and its escape come to the same.
//! 3. If [`PathReading::decode_slashes`], `%2F`, `\` and `%5C` are separators; otherwise they stay `%2F` and `%5C`.
//! 4. If not [`PathReading::case_sensitive`], letters become lower case: Unicode's mapping, one character at a time
//!    without regard to language or context.
//! 5. If [`PathReading::strip_parameters`], a segment ends at its first `;`, as servlet containers route (an escaped
//!    `%3B` is text to them and stays escaped). Otherwise `;` is text.
//! 6. Doubled slashes are merged if [`PathReading::merge_slashes`], *before* dot segments are resolved, as nginx and
//!    file systems do: `/a//../b` is `/b`. `.` and `..` are then resolved as RFC 3986 section 5.2.4 says, never
//!    above the root, whether they were written plainly or escaped.
//! 7. Trailing slashes are dropped unless [`PathReading::trailing_slash_significant`].

use smallvec::SmallVec;

use crate::model::PathReading;

/// Room for a normalised path; longer ones move to the heap.
pub type PathBuffer = SmallVec<[u8; 256]>;

/// Normalises a request target; see the module for the rules.
///
/// Returns a slice of `target` if that is already normal (without its query), else the text written to `buffer`,
/// whose earlier contents are lost. The result is always valid UTF-8.
#[must_use]
pub fn normalize_into<'a>(
    reading: &PathReading,
    target: &'a [u8],
    buffer: &'a mut PathBuffer,
) -> &'a [u8] {
    if target == b"*" {
        return target;
    }
    let path = path_of(reading, target);
    if is_normal(reading, path) {
        return path;
    }
    decode(reading, path, buffer);
    if !buffer.is_ascii() {
        settle_text(reading, buffer);
    }
    resolve_segments(reading, buffer);
    buffer
}

/// Normalises the path part of a pattern or a message, where allocating is no matter.
#[must_use]
pub fn normalize(reading: &PathReading, target: &str) -> String {
    let mut buffer = PathBuffer::new();
    let normal = normalize_into(reading, target.as_bytes(), &mut buffer);
    String::from_utf8_lossy(normal).into_owned()
}

/// Whether these bytes are a path in normal form, by one scan.
///
/// It may say no of a normal path that holds escapes or characters outside ASCII; it never says yes of one that is
/// not normal.
#[must_use]
pub fn is_normal(reading: &PathReading, path: &[u8]) -> bool {
    if path.first() != Some(&b'/') {
        return false;
    }
    let mut before = 0;
    for (at, &byte) in path.iter().enumerate() {
        match CLASSES[usize::from(byte)] {
            Class::Plain => {}
            Class::Slash => {
                if before == b'/' && reading.merge_slashes {
                    return false;
                }
            }
            Class::Dot => {
                if before == b'/' && begins_dot_segment(&path[at..]) {
                    return false;
                }
            }
            Class::Upper => {
                if !reading.case_sensitive {
                    return false;
                }
            }
            Class::Semicolon => {
                if reading.strip_parameters {
                    return false;
                }
            }
            Class::Special => return false,
        }
        before = byte;
    }
    reading.trailing_slash_significant || path.len() == 1 || before != b'/'
}

#[derive(Clone, Copy)]
enum Class {
    Plain,
    Slash,
    Dot,
    Upper,
    Semicolon,
    Special,
}

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Special; 256];
    let mut byte = 0x20;
    while byte < 0x7f {
        classes[byte] = match byte as u8 {
            b'%' | b'?' | b'#' | b'\\' => Class::Special,
            b'/' => Class::Slash,
            b'.' => Class::Dot,
            b'A'..=b'Z' => Class::Upper,
            b';' => Class::Semicolon,
            _ => Class::Plain,
        };
        byte += 1;
    }
    classes
};

fn begins_dot_segment(rest: &[u8]) -> bool {
    let segment = match rest.iter().position(|&byte| byte == b'/') {
        Some(end) => &rest[..end],
        None => rest,
    };
    segment == b"." || segment == b".."
}

/// Cuts off scheme and authority, query and fragment.
fn path_of<'a>(reading: &PathReading, target: &'a [u8]) -> &'a [u8] {
    let path = after_authority(reading, target).unwrap_or(target);
    match path.iter().position(|&byte| byte == b'?' || byte == b'#') {
        Some(end) => &path[..end],
        None => path,
    }
}

/// What follows `scheme://authority`, if the target is in absolute form.
fn after_authority<'a>(reading: &PathReading, target: &'a [u8]) -> Option<&'a [u8]> {
    if !target.first()?.is_ascii_alphabetic() {
        return None;
    }
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let scheme_end = target.iter().position(|byte| !is_scheme(byte))?;
    let rest = target[scheme_end..].strip_prefix(b"://")?;
    let is_end = |&byte: &u8| {
        matches!(byte, b'/' | b'?' | b'#') || (byte == b'\\' && reading.decode_slashes)
    };
    Some(rest.iter().position(is_end).map_or(&[], |end| &rest[end..]))
}

/// Writes the path, decoded once and with one leading slash, so that every `/` in it is a separator.
fn decode(reading: &PathReading, path: &[u8], out: &mut PathBuffer) {
    out.clear();
    let mut at = 0;
    while at < path.len() {
        let raw = path[at];
        let escaped = if raw == b'%' {
            hex_pair(path, at + 1)
        } else {
            None
        };
        at += if escaped.is_some() { 3 } else { 1 };
        let byte = escaped.unwrap_or(raw);
        match byte {
            b'/' if escaped.is_none() => out.push(b'/'),
            b'/' | b'\\' if reading.decode_slashes => out.push(b'/'),
            b'/' | b'\\' | b'%' | b'?' | b'#' | 0..=0x1f | 0x7f => push_escape(out, byte),
            b';' if escaped.is_some() && reading.strip_parameters => push_escape(out, byte),
            b'A'..=b'Z' if !reading.case_sensitive => out.push(byte.to_ascii_lowercase()),
            text => out.push(text),
        }
    }
    if out.first() != Some(&b'/') {
        out.insert(0, b'/');
    }
}

fn hex_pair(path: &[u8], at: usize) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    let [high, low] = path.get(at..at + 2)? else {
        return None;
    };
    Some(digit(*high)? << 4 | digit(*low)?)
}

fn push_escape(out: &mut PathBuffer, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.push(b'%');
    out.push(DIGITS[usize::from(byte >> 4)]);
    out.push(DIGITS[usize::from(byte & 15)]);
}

/// Escapes what is not UTF-8, and folds the case of characters outside ASCII.
///
/// It works on the decoded bytes, so a character may come half raw and half escaped.
fn settle_text(reading: &PathReading, buffer: &mut PathBuffer) {
    if reading.case_sensitive && std::str::from_utf8(buffer).is_ok() {
        return;
    }
    let mut out = PathBuffer::new();
    for chunk in buffer.utf8_chunks() {
        if reading.case_sensitive {
            out.extend_from_slice(chunk.valid().as_bytes());
        } else {
            for letter in chunk.valid().chars() {
                if letter.is_ascii() {
                    // Letters were folded when they were decoded; the digits of escapes stay upper case.
                    out.push(letter as u8);
                } else {
                    for lower in letter.to_lowercase() {
                        out.extend_from_slice(lower.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                }
            }
        }
        for &byte in chunk.invalid() {
            push_escape(&mut out, byte);
        }
    }
    *buffer = out;
}

/// Resolves parameters, empty segments, dot segments and the trailing slash, in place: what is written never
/// overtakes what is still to be read, because each segment is written with one slash and was read with one.
fn resolve_segments(reading: &PathReading, path: &mut PathBuffer) {
    let mut written = 0;
    let mut slash = 0;
    while slash < path.len() {
        let start = slash + 1;
        let next = path[start..].iter().position(|&byte| byte == b'/');
        let is_last = next.is_none();
        slash = next.map_or(path.len(), |length| start + length);

        let mut end = slash;
        if reading.strip_parameters {
            let cut = path[start..end].iter().position(|&byte| byte == b';');
            end = cut.map_or(end, |length| start + length);
        }
        let is_kept = match &path[start..end] {
            b".." => {
                written = path[..written]
                    .iter()
                    .rposition(|&byte| byte == b'/')
                    .unwrap_or(0);
                false
            }
            b"." => false,
            b"" => !reading.merge_slashes,
            _ => true,
        };
        if is_kept {
            path[written] = b'/';
            path.copy_within(start..end, written + 1);
            written += 1 + end - start;
        } else if is_last {
            path[written] = b'/';
            written += 1;
        }
    }
    if !reading.trailing_slash_significant {
        while written > 1 && path[written - 1] == b'/' {
            written -= 1;
        }
    }
    path.truncate(written);
}

#[cfg(test)]
mod tests;
