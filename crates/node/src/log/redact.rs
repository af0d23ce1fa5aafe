//! What of a person's data may stand in a log: addresses of networks, cut texts, keyed hashes.
//!
//! What is redacted here cannot be got back from the log without the node's secret.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most characters of a user agent.
pub const USER_AGENT_CHARACTERS: usize = 50;
/// The most characters of a name.
pub const NAME_CHARACTERS: usize = 3;
/// The most characters of any other text in a log line.
pub const TEXT_CHARACTERS: usize = 1024;

/// Redacts, with a key of its own.
#[derive(Clone)]
pub struct Redactor {
    key: [u8; 32],
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor(..)")
    }
}

impl Redactor {
    /// Derives a key from the node's secret. Nodes with the same secret hash alike, so an id can be followed across
    /// their logs; the hash tells nothing of bucket ids or stored API keys, whose keys are derived otherwise.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self {
            key: blake3::derive_key("leasehold 2026-11-30 ids in logs", secret),
        }
    }

    /// An id's keyed hash: `h:` and 16 hexadecimal digits.
    #[must_use]
    pub fn id(&self, raw: &[u8]) -> String {
        let hash = blake3::keyed_hash(&self.key, raw);
        hash.as_bytes()[..8]
            .iter()
            .fold(String::from("h:"), |mut text, byte| {
                write!(text, "{byte:02x}").expect("a String takes all that is written to it");
                text
            })
    }
}

/// An address's network: /24 of IPv4 (also if mapped into IPv6), /48 of IPv6.
#[must_use]
pub fn network(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            format!("{}/24", Ipv4Addr::new(a, b, c, 0))
        }
        IpAddr::V6(v6) => {
            let [a, b, c, ..] = v6.segments();
            format!("{}/48", Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
    }
}

/// The first characters of a text, and three dots if there are more.
#[must_use]
pub fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// A request target without its query, in which secrets are common, and cut to a sensible length.
#[must_use]
pub fn path(target: &[u8]) -> String {
    let end = target
        .iter()
        .position(|byte| matches!(byte, b'?' | b'#'))
        .unwrap_or(target.len());
    // Enough bytes for all the characters that are kept.
    let end = end.min(4 * TEXT_CHARACTERS);
    cut(
        &String::from_utf8_lossy(&target[..end]),
        TEXT_CHARACTERS / 4,
    )
}

/// A text in which no character acts on a terminal or a log reader: controls, separators and direction marks become
/// `\u{..}`.
#[must_use]
pub fn printable(text: &str) -> String {
    let acts = |c: char| {
        c.is_control()
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
            || matches!(c, '\u{2066}'..='\u{2069}' | '\u{feff}')
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if acts(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// What a log line shows of a field, by the field's name. This is the last line of defence: whatever a caller logs
/// under these names is cut here.
#[must_use]
pub fn field(redactor: &Redactor, name: &str, value: &str) -> String {
    match name {
        "ip_address" => match value.parse() {
            Ok(address) => network(address),
            Err(_) if is_network(value) => value.to_owned(),
            Err(_) => "[redacted]".to_owned(),
        },
        "user_agent" => cut(value, USER_AGENT_CHARACTERS),
        "name" | "user_name" => cut(value, NAME_CHARACTERS),
        "user_id" | "entity_id" if is_hashed(value) => value.to_owned(),
        "user_id" | "entity_id" => redactor.id(value.as_bytes()),
        "api_key" | "authorization" | "cookie" | "password" | "secret" | "token" => {
            "[redacted]".to_owned()
        }
        _ => cut(value, TEXT_CHARACTERS),
    }
}

/// Whether a text is what [`Redactor::id`] makes.
fn is_hashed(text: &str) -> bool {
    text.strip_prefix("h:")
        .is_some_and(|hex| hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Whether a text is what [`network`] makes.
fn is_network(text: &str) -> bool {
    text.parse().is_ok_and(|net: ipnet::IpNet| {
        let most = if net.addr().is_ipv4() { 24 } else { 48 };
        net.prefix_len() <= most && net.addr() == net.network()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_networks() {
        for (address, told) in [
            ("192.0.2.77", "192.0.2.0/24"),
            ("::ffff:192.0.2.77", "192.0.2.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1::/48"),
            ("::1", "::/48"),
        ] {
            assert_eq!(network(address.parse().unwrap()), told);
        }
        let redactor = Redactor::new(b"secret");
        assert_eq!(field(&redactor, "ip_address", "192.0.2.77"), "192.0.2.0/24");
        assert_eq!(
            field(&redactor, "ip_address", "192.0.2.0/24"),
            "192.0.2.0/24"
        );
        for not_cut in [
            "192.0.2.77:80",
            "192.0.2.77/24",
            "192.0.2.77/32",
            "nonsense",
        ] {
            assert_eq!(field(&redactor, "ip_address", not_cut), "[redacted]");
        }
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(cut("\u{e9}\u{e9}\u{e9}\u{e9}", 3), "\u{e9}\u{e9}\u{e9}...");
        assert_eq!(cut("abc", 3), "abc");
        assert_eq!(cut("", 0), "");
        assert_eq!(path(b"/a/b?api_key=1#f"), "/a/b");
        assert_eq!(path(&[b'a'; 100_000]).len(), 256 + 3);
        assert_eq!(path(b"/\xff"), "/\u{fffd}");
    }

    #[test]
    fn nothing_acts_on_a_terminal() {
        assert_eq!(
            printable("a\nb\r\t\0\u{1b}[31m\u{9b}\u{202e}"),
            "a\\nb\\r\\t\\u{0}\\u{1b}[31m\\u{9b}\\u{202e}"
        );
        assert_eq!(printable("\u{430} \u{4e2d} \"\\"), "\u{430} \u{4e2d} \"\\");
    }

    #[test]
    fn hashes_depend_on_the_secret_and_tell_nothing() {
        let one = Redactor::new(b"one");
        assert_eq!(one.id(b"alice"), Redactor::new(b"one").id(b"alice"));
        assert_ne!(one.id(b"alice"), Redactor::new(b"two").id(b"alice"));
        assert_ne!(one.id(b"alice"), one.id(b"bob"));
        assert_eq!(one.id(b"alice").len(), 18);
        // What is hashed already stays; all else is hashed, whoever logs it.
        assert_eq!(field(&one, "user_id", &one.id(b"alice")), one.id(b"alice"));
        assert_eq!(field(&one, "user_id", "alice"), one.id(b"alice"));
        assert_eq!(
            field(&one, "entity_id", "0123456789abcdef"),
            one.id(b"0123456789abcdef")
        );
        assert_eq!(format!("{one:?}"), "Redactor(..)");
    }
}
