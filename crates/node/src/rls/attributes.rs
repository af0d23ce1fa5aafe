//! What Envoy's descriptors tell of a request, in the gate's terms.
//!
//! A rule may always name descriptor entries as they are. Besides, entries whose keys are well known fill the
//! attributes that rules for HTTP use, so that one rule serves both surfaces; `docs/envoy.md` has the table.
//!
//! Which entries there are, and in which order, is the operator's doing: the first path, method, host and address count,
//! so that a rule for them never vanishes. Keys and users are the client's words: of those, the gate sees all.

use std::net::IpAddr;

use gate::request::{HeaderLookup, Headers, Part, Request};
use policy::model::{IdentityReading, IdentitySource};
use wire::rls::Descriptor;

use crate::render::is_preflight;

/// The keys that tell the client's address. Envoy has resolved forwarding headers before.
pub const ADDRESS_KEYS: &[&str] = &["remote_address", "masked_remote_address"];
/// The keys that tell the path.
pub const PATH_KEYS: &[&str] = &["path", ":path"];
/// The keys that tell the method.
pub const METHOD_KEYS: &[&str] = &["method", ":method"];
/// The keys that tell the host.
pub const HOST_KEYS: &[&str] = &["host", ":authority"];

type Entries<'a> = &'a [(&'a str, &'a str)];

/// The key that tells the API key, wherever the policy reads it.
pub const API_KEY: &str = "api_key";
/// The key that tells the user, wherever the policy reads it.
pub const USER: &str = "user";

/// A descriptor's entries as headers: an entry whose key is a header's name, in any case, stands for that header, and
/// [`API_KEY`] and [`USER`] for the first header that the policy reads such from.
#[derive(Clone, Copy, Debug)]
pub struct EntryHeaders<'a> {
    entries: Entries<'a>,
    api_key: Option<&'a str>,
    user: Option<&'a str>,
}

impl<'a> EntryHeaders<'a> {
    /// Lends entries as headers under a policy's reading of identities.
    #[must_use]
    pub fn new(entries: Entries<'a>, reading: &'a IdentityReading) -> Self {
        Self {
            entries,
            api_key: first_header(&reading.api_key),
            user: first_header(&reading.user),
        }
    }
}

fn first_header(sources: &[IdentitySource]) -> Option<&str> {
    sources.iter().find_map(|source| match source {
        IdentitySource::Header(name) => Some(&**name),
        IdentitySource::Bearer | IdentitySource::Descriptor(_) => None,
    })
}

impl HeaderLookup for EntryHeaders<'_> {
    fn values<'s>(&'s self, name: &str, each: &mut dyn FnMut(&'s [u8])) {
        let is_api_key = self.api_key == Some(name);
        let is_user = self.user == Some(name);
        for (key, value) in self.entries {
            if key.eq_ignore_ascii_case(name)
                || (is_api_key && *key == API_KEY)
                || (is_user && *key == USER)
            {
                each(value.as_bytes());
            }
        }
    }
}

/// The part of a request that a descriptor is.
#[must_use]
pub fn part<'a>(
    domain: &'a str,
    descriptor: &Descriptor<'a>,
    headers: &'a EntryHeaders<'a>,
) -> Part<'a> {
    let entries = descriptor.entries;
    let request = Request {
        method: values(entries, METHOD_KEYS).next(),
        host: values(entries, HOST_KEYS).next(),
        path: values(entries, PATH_KEYS).next().map(str::as_bytes),
        peer: values(entries, ADDRESS_KEYS).find_map(address),
        headers: Headers::new(headers),
        domain: Some(domain),
        entries,
        limit_override: descriptor.limit_override,
    };
    Part {
        request,
        hits: descriptor.hits,
    }
}

/// Whether a descriptor tells of a browser's preflight, which spends nothing.
#[must_use]
pub fn tells_preflight(entries: Entries<'_>) -> bool {
    let has = |name: &str| {
        entries
            .iter()
            .any(|(key, _)| key.eq_ignore_ascii_case(name))
    };
    // What is spared the limits is so by every entry that tells the method.
    let (has_origin, has_method) = (has("origin"), has("access-control-request-method"));
    let mut methods = values(entries, METHOD_KEYS).peekable();
    methods.peek().is_some() && methods.all(|method| is_preflight(method, has_origin, has_method))
}

/// The origin of a browser's request, if a descriptor tells it.
#[must_use]
pub fn origin<'a>(parts: &[Part<'a>]) -> Option<&'a str> {
    parts
        .iter()
        .flat_map(|part| part.request.entries)
        .find(|(key, _)| key.eq_ignore_ascii_case("origin"))
        .map(|(_, value)| *value)
}

/// The values of the entries with one of these keys.
fn values<'a>(entries: Entries<'a>, keys: &[&str]) -> impl Iterator<Item = &'a str> {
    entries
        .iter()
        .filter(|(key, _)| keys.contains(key))
        .map(|(_, value)| *value)
}

/// An address, or the network that Envoy masked it to.
fn address(value: &str) -> Option<IpAddr> {
    let (address, _) = value.split_once('/').unwrap_or((value, ""));
    address.parse().ok()
}

#[cfg(test)]
mod tests {
    use gate::request::Hits;

    use super::*;

    fn with<R>(entries: &[(&str, &str)], check: impl FnOnce(Part<'_>) -> R) -> R {
        let descriptor = Descriptor {
            entries,
            hits: Hits::Take(1),
            limit_override: None,
        };
        let reading = IdentityReading::default();
        check(part(
            "api",
            &descriptor,
            &EntryHeaders::new(entries, &reading),
        ))
    }

    #[test]
    fn well_known_entries_are_attributes() {
        let entries = [
            ("remote_address", "192.0.2.7"),
            (":path", "/a?b=c"),
            ("method", "GET"),
            (":authority", "api.example:443"),
            ("X-Tier", "gold"),
        ];
        with(&entries, |part| {
            let request = part.request;
            assert_eq!(request.peer, Some(IpAddr::from([192, 0, 2, 7])));
            assert_eq!(request.path, Some(&b"/a?b=c"[..]));
            assert_eq!(
                (request.method, request.host),
                (Some("GET"), Some("api.example:443"))
            );
            assert_eq!(
                (request.domain, request.entries),
                (Some("api"), &entries[..])
            );
            let mut values = Vec::new();
            request
                .headers
                .values("x-tier", &mut |value| values.push(value.to_vec()));
            assert_eq!(values, [b"gold"]);
        });
    }

    #[test]
    fn the_api_key_and_the_user_are_found_where_the_policy_reads_them() {
        let entries = [("api_key", "k"), ("user", "u"), ("X-API-Key", "k2")];
        with(&entries, |part| {
            let values = |name: &str| {
                let mut values = Vec::new();
                part.request
                    .headers
                    .values(name, &mut |value| values.push(value));
                values
            };
            assert_eq!(values("x-api-key"), [b"k", &b"k2"[..]]);
            assert_eq!(values("x-user-id"), [b"u"]);
            assert_eq!(values("authorization"), [b""; 0]);
        });
        let reading = IdentityReading {
            api_key: vec![
                IdentitySource::Bearer,
                IdentitySource::Header("x-token".into()),
            ],
            user: Vec::new(),
        };
        let headers = EntryHeaders::new(&entries, &reading);
        let count = |name: &str| {
            let mut count = 0;
            headers.values(name, &mut |_| count += 1);
            count
        };
        assert_eq!(
            (count("x-token"), count("x-api-key"), count("x-user-id")),
            (1, 1, 0)
        );
    }

    #[test]
    fn addresses_are_read_in_envoys_forms_and_nothing_else_is_one() {
        let cases = [
            ("remote_address", "2001:db8::1", Some("2001:db8::1")),
            ("masked_remote_address", "192.0.2.0/24", Some("192.0.2.0")),
            ("masked_remote_address", "2001:db8::/64", Some("2001:db8::")),
            ("remote_address", "192.0.2.7:80", None),
            ("remote_address", "", None),
            ("remote_address", "unknown", None),
        ];
        for (key, value, expected) in cases {
            let expected: Option<IpAddr> = expected.map(|text| text.parse().unwrap());
            with(&[(key, value)], |part| {
                assert_eq!(part.request.peer, expected, "{value}")
            });
        }
    }

    #[test]
    fn the_first_path_method_and_host_count() {
        let entries = [
            ("path", "/login"),
            (":path", "/login?x"),
            (":method", "POST"),
            ("method", "GET"),
            ("host", "a.example"),
            (":authority", "b.example"),
            ("host", "c.example"),
        ];
        with(&entries, |part| {
            let request = part.request;
            assert_eq!(request.path, Some(&b"/login"[..]));
            assert_eq!(
                (request.method, request.host),
                (Some("POST"), Some("a.example"))
            );
        });
    }

    #[test]
    fn the_first_address_that_is_one_counts() {
        let network = ("masked_remote_address", "192.0.2.0/24");
        let whole = ("remote_address", "192.0.2.7");
        for (entries, last) in [
            ([network, whole], 0),
            ([whole, network], 7),
            ([("remote_address", "unknown"), whole], 7),
        ] {
            with(&entries, |part| {
                assert_eq!(part.request.peer, Some(IpAddr::from([192, 0, 2, last])));
            });
        }
    }
}
