//! Which field of a log says who called, and that field as a keyed hash. The field's text goes no further.

use std::net::IpAddr;
use std::str::FromStr;

use gate::hash::{KeyHash, KeyHasher};
use policy::address::{ForwardedHops, cut};
use policy::model::ClientAddressReading;

use super::fields::Fields;

/// Which field is the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum KeyField {
    /// The client's address: the peer, or who a trusted proxy says it forwarded for.
    #[default]
    Address,
    /// A request header, by its name in lower case.
    Header(String),
    /// A field of the log: by its name, dotted if nested, in JSON; by its number from 1 in common formats.
    Field(String),
    /// The user that the proxy authenticated.
    User,
}

/// Text that names no key field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("names no key: write `address`, `user`, `header:NAME` or `field:NAME`")]
pub struct KeyFieldError;

impl FromStr for KeyField {
    type Err = KeyFieldError;

    fn from_str(text: &str) -> Result<Self, KeyFieldError> {
        match text.split_once(':') {
            None if text == "address" => Ok(Self::Address),
            None if text == "user" => Ok(Self::User),
            Some(("header", name)) if !name.is_empty() => {
                Ok(Self::Header(name.to_ascii_lowercase()))
            }
            Some(("field", name)) if !name.is_empty() => Ok(Self::Field(name.to_owned())),
            _ => Err(KeyFieldError),
        }
    }
}

impl std::fmt::Display for KeyField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address => f.write_str("address"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Field(name) => write!(f, "field:{name}"),
            Self::User => f.write_str("user"),
        }
    }
}

/// The key of a line, hashed; none if the field is absent.
pub(super) fn key(
    fields: &Fields<'_>,
    field: &KeyField,
    reading: &ClientAddressReading,
    hasher: &KeyHasher,
) -> Option<KeyHash> {
    let text = match field {
        KeyField::Address => return address_key(fields, reading, hasher),
        KeyField::Header(_) | KeyField::Field(_) => &fields.named,
        KeyField::User => &fields.user,
    };
    (!text.is_empty()).then(|| hasher.key(text.as_bytes()))
}

/// The client's address as the gate would find it: hops of trusted proxies are looked through, IPv6 is cut to its
/// prefix, ports are dropped.
fn address_key(
    fields: &Fields<'_>,
    reading: &ClientAddressReading,
    hasher: &KeyHasher,
) -> Option<KeyHash> {
    let (peer, forwarded) = if fields.address.is_empty() {
        // Envoy appends the peer to the header that it logs.
        match fields.forwarded.rsplit_once(',') {
            Some((before, last)) => (last.trim(), before),
            None => (fields.forwarded.trim(), ""),
        }
    } else {
        (fields.address.trim(), fields.forwarded.as_ref())
    };
    // nginx writes `unix:` for a peer on a local socket.
    if peer.is_empty() || peer == "unix:" {
        return None;
    }
    let Some(address) = address(peer) else {
        // A host name (Apache's HostnameLookups): names have no case.
        return Some(hasher.key(peer.to_ascii_lowercase().as_bytes()));
    };
    let mut hops = ForwardedHops::new(reading, address);
    if !forwarded.is_empty() {
        hops.feed(forwarded.as_bytes());
    }
    Some(match cut(reading, hops.finish().address) {
        IpAddr::V4(address) => hasher.key(&address.octets()),
        IpAddr::V6(address) => hasher.key(&address.octets()),
    })
}

/// An address with or without a port; IPv6 with a port in brackets.
fn address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    if let Ok(address) = text.parse::<std::net::SocketAddr>() {
        return Some(address.ip());
    }
    text.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate::hash::HashSecret;
    use std::borrow::Cow;

    fn found(address: &str, forwarded: &str, trusted: &[&str]) -> Option<KeyHash> {
        let fields = Fields {
            address: Cow::Owned(address.to_owned()),
            forwarded: Cow::Owned(forwarded.to_owned()),
            ..Fields::default()
        };
        let reading = ClientAddressReading {
            trusted: trusted.iter().map(|range| range.parse().unwrap()).collect(),
            ..ClientAddressReading::default()
        };
        let hasher = KeyHasher::new(&HashSecret::new(1, [7; 32]));
        key(&fields, &KeyField::Address, &reading, &hasher)
    }

    /// K1, K3 and K4: ports are no part of a key, a /64 is one key, a forged hop is not believed.
    #[test]
    fn an_address_is_the_key_that_the_gate_would_count_by() {
        let plain = found("192.0.2.1", "", &[]);
        assert!(plain.is_some());
        for same in ["192.0.2.1:4711", "::ffff:192.0.2.1", "[::ffff:192.0.2.1]:9"] {
            assert_eq!(found(same, "", &[]), plain, "{same}");
        }
        assert_eq!(
            found("2001:db8::1", "", &[]),
            found("[2001:db8::ffff]:80", "", &[])
        );
        assert_ne!(
            found("2001:db8::1", "", &[]),
            found("2001:db8:0:1::1", "", &[])
        );
        let forged = "192.0.2.9, 192.0.2.1";
        assert_eq!(found("10.0.0.1", forged, &["10.0.0.0/8"]), plain);
        assert_eq!(found("192.0.2.1", "192.0.2.9", &["10.0.0.0/8"]), plain);
        // Envoy's header alone.
        assert_eq!(found("", "192.0.2.9, 192.0.2.1", &[]), plain);
        assert_eq!(found("", "192.0.2.1,10.0.0.1", &["10.0.0.0/8"]), plain);
    }

    #[test]
    fn what_is_no_address_is_absent_or_a_name() {
        for absent in ["", "unix:"] {
            assert_eq!(found(absent, "", &[]), None);
        }
        assert_eq!(
            found("Host.example", "", &[]),
            found("host.EXAMPLE", "", &[])
        );
    }

    #[test]
    fn key_fields_are_read_back_as_written() {
        for text in [
            "address",
            "user",
            "header:x-api-key",
            "field:request.remote_ip",
        ] {
            assert_eq!(text.parse::<KeyField>().unwrap().to_string(), text);
        }
        for text in ["", "Address", "header:", "field:", "header", "cookie:x"] {
            assert_eq!(text.parse::<KeyField>(), Err(KeyFieldError), "{text}");
        }
    }
}
