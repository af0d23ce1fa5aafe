//! Reads a request's host so that its spellings meet the same rules.
//!
//! White space around it, user information (`user@`), the port, and trailing dots are cut off; ASCII letters become
//! lower case; an IPv6 address is written in its one short form, in brackets. Anything else stays as it was sent:
//! this module must never drop a host that it cannot read, because a rule on no host would then miss it. It never
//! allocates for a host of up to [`HostBuffer`]'s size.

use std::io::Write;
use std::net::Ipv6Addr;

use smallvec::SmallVec;

/// Room for a normalised host; longer ones move to the heap.
pub type HostBuffer = SmallVec<[u8; 128]>;

/// Normalises a host or authority; see the module for the rules.
///
/// Returns a slice of `host` if nothing in it has to be rewritten, else the text written to `buffer`, whose earlier
/// contents are lost. An empty host is empty. Normalising the result again changes nothing.
#[must_use]
pub fn normalize_into<'a>(host: &'a str, buffer: &'a mut HostBuffer) -> &'a str {
    let name = strip(host);
    let literal = name
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    buffer.clear();
    if let Ok(address) = literal.unwrap_or(name).parse::<Ipv6Addr>() {
        // A `SmallVec` grows as needed: writing to it cannot fail.
        let _ = write!(buffer, "[{address}]");
    } else if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        buffer.extend(name.bytes().map(|byte| byte.to_ascii_lowercase()));
    } else {
        return name;
    }
    // Only ASCII letters were changed, or ASCII was written.
    std::str::from_utf8(buffer).unwrap_or(name)
}

/// Cuts until nothing more comes off, since a port may hide a dot and a dot a port.
fn strip(host: &str) -> &str {
    let mut name = host.rsplit_once('@').map_or(host, |(_, after)| after);
    loop {
        let shorter = without_port(name.trim_matches(|c: char| c.is_ascii_whitespace()))
            .trim_end_matches('.');
        if shorter.len() == name.len() {
            return name;
        }
        name = shorter;
    }
}

/// Without `:port`, but an IPv6 address keeps its colons.
fn without_port(name: &str) -> &str {
    match name.rsplit_once(':') {
        Some((before, port))
            if port.bytes().all(|byte| byte.is_ascii_digit())
                && (before.ends_with(']') && before.starts_with('[') || !before.contains(':')) =>
        {
            before
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn normal(host: &str) -> String {
        normalize_into(host, &mut HostBuffer::new()).to_owned()
    }

    #[test]
    fn spellings_of_a_host_read_the_same() {
        let cases = [
            ("api.example.com", "api.example.com"),
            ("API.Example.COM", "api.example.com"),
            ("api.example.com:8443", "api.example.com"),
            ("api.example.com:", "api.example.com"),
            ("api.example.com.", "api.example.com"),
            ("Api.example.com.:80", "api.example.com"),
            ("api.example.com:80.", "api.example.com"),
            (" api.example.com ", "api.example.com"),
            ("user:secret@api.example.com:80", "api.example.com"),
            ("192.0.2.1:80", "192.0.2.1"),
            ("[2001:DB8:0::1]:443", "[2001:db8::1]"),
            ("[2001:db8::1]", "[2001:db8::1]"),
            ("2001:db8::0:1", "[2001:db8::1]"),
            ("[::1]:80", "[::1]"),
            ("", ""),
            (":80", ""),
            (".", ""),
            ("Not A Host:x", "not a host:x"),
            ("a:1:2", "a:1:2"),
            ("[zz]:80", "[zz]"),
            ("BÜCHER.example", "bÜcher.example"),
        ];
        for (host, expected) in cases {
            assert_eq!(normal(host), expected, "{host}");
        }
    }

    #[test]
    fn a_normal_host_is_lent_and_not_copied() {
        let host = "api.example.com:443";
        let mut buffer = HostBuffer::new();
        assert_eq!(normalize_into(host, &mut buffer).as_ptr(), host.as_ptr());
    }

    proptest! {
        #[test]
        fn once_is_enough(host in prop_oneof![any::<String>(), "[@\\[\\]:. aA0-9]{0,12}"]) {
            let once = normal(&host);
            prop_assert_eq!(normal(&once), once);
        }
    }
}
