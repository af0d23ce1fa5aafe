//! Finds the client's address: the nearest hop that is not a trusted proxy.
//!
//! The peer is the client unless it is in a trusted range. If it is, the forwarding header that it wrote is read
//! from its right end: each address that is itself trusted names one hop more, and the first that is not is the
//! client. What lies further left was sent by the client and is never believed.
//!
//! - All hops trusted: the leftmost is the client.
//! - An element that names no address (garbage, `unknown`, an obfuscated `_name`, an IPv6 zone) ends the walk at the
//!   hop to its right, the last that is known. The same holds past [`MOST_HOPS`] elements of one header value. So a
//!   client behind a proxy that hides addresses is counted as that proxy: together with others, but counted.
//! - Repeated headers are one list, in order. Empty elements do not count (RFC 9110 section 5.6.1).
//! - Ports are cut off; IPv4-mapped IPv6 addresses are IPv4, in headers, in peers and in ranges.
//! - A header with a single address ([`ForwardingHeader::Single`]) must come once and hold one address; otherwise the
//!   peer is the client.
//!
//! This module must never allocate, and never take an address from the left of one that it could not read.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;

use crate::model::{ClientAddressReading, ForwardingHeader};

/// How many elements of one header value are looked at, from its right end.
pub const MOST_HOPS: usize = 64;

/// Where a client's address was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// The peer is not a trusted proxy, or it sent no forwarding header.
    Peer,
    /// The nearest hop that is not a trusted proxy.
    Hop,
    /// Every hop was trusted: the farthest of them.
    FarthestTrusted,
    /// The next hop could not be read: the last trusted one before it.
    LastReadable,
}

/// The client's address, whole, and where it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress {
    /// The address, IPv4-mapped ones unwrapped. [`cut`] makes the part of a key of it.
    pub address: IpAddr,
    /// Where it was found.
    pub found: Found,
}

impl ForwardingHeader {
    /// The header's name in lower case.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::XForwardedFor => "x-forwarded-for",
            Self::Forwarded => "forwarded",
            Self::Single(name) => name,
        }
    }
}

/// Collects what the values of the forwarding header say. Feed it each value in order, then [`finish`] it.
///
/// [`finish`]: ForwardedHops::finish
#[derive(Clone, Debug)]
pub struct ForwardedHops<'r> {
    reading: &'r ClientAddressReading,
    peer: IpAddr,
    is_peer_trusted: bool,
    values_seen: u32,
    /// The outcome of the walk over the values so far, as if every hop after them were trusted.
    walk: Walk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Walk {
    /// No element yet.
    Nothing,
    /// Stopped at an untrusted hop.
    Untrusted(IpAddr),
    /// Met trusted hops alone; the leftmost of them.
    Trusted(IpAddr),
    /// Stopped at what could not be read; the hop to its right, if there was one.
    Unreadable(Option<IpAddr>),
}

impl<'r> ForwardedHops<'r> {
    /// Begins with the address at the other end of the connection.
    #[must_use]
    pub fn new(reading: &'r ClientAddressReading, peer: IpAddr) -> Self {
        let peer = peer.to_canonical();
        Self {
            reading,
            peer,
            is_peer_trusted: is_trusted(&reading.trusted, peer),
            values_seen: 0,
            walk: Walk::Nothing,
        }
    }

    /// Whether the header matters. If not, there is no need to feed its values.
    #[must_use]
    pub const fn needs_header(&self) -> bool {
        self.is_peer_trusted
    }

    /// Takes one value of the header named by the reading.
    pub fn feed(&mut self, value: &[u8]) {
        if !self.is_peer_trusted {
            return;
        }
        self.values_seen = self.values_seen.saturating_add(1);
        let here = match self.reading.header {
            ForwardingHeader::XForwardedFor => self.walk(ListElements(Some(value)), plain_address),
            ForwardingHeader::Forwarded => {
                self.walk(QuotedElements(Some(value)), forwarded_address)
            }
            ForwardingHeader::Single(_) => match plain_address(value.trim_ascii()) {
                Some(address) if self.values_seen == 1 => Walk::Untrusted(address),
                Some(_) | None => Walk::Unreadable(None),
            },
        };
        self.walk = match (here, self.walk) {
            (Walk::Nothing, before) => before,
            (Walk::Trusted(hop), Walk::Nothing) => Walk::Trusted(hop),
            (Walk::Trusted(hop), Walk::Unreadable(None)) => Walk::Unreadable(Some(hop)),
            (
                Walk::Trusted(_),
                before @ (Walk::Untrusted(_) | Walk::Trusted(_) | Walk::Unreadable(Some(_))),
            ) => before,
            (stopped @ (Walk::Untrusted(_) | Walk::Unreadable(_)), _) => stopped,
        };
    }

    /// The client's address.
    #[must_use]
    pub const fn finish(&self) -> ClientAddress {
        let (address, found) = match self.walk {
            Walk::Nothing => (self.peer, Found::Peer),
            Walk::Untrusted(hop) => (hop, Found::Hop),
            Walk::Trusted(hop) => (hop, Found::FarthestTrusted),
            Walk::Unreadable(Some(hop)) => (hop, Found::LastReadable),
            Walk::Unreadable(None) => (self.peer, Found::LastReadable),
        };
        ClientAddress { address, found }
    }

    /// Walks elements, the nearest hop first.
    fn walk<'v>(
        &self,
        elements: impl Iterator<Item = &'v [u8]>,
        read: impl Fn(&[u8]) -> Option<IpAddr>,
    ) -> Walk {
        let mut farthest = None;
        let mut elements = elements
            .map(<[u8]>::trim_ascii)
            .filter(|element| !element.is_empty());
        for element in elements.by_ref().take(MOST_HOPS) {
            match read(element) {
                Some(hop) if is_trusted(&self.reading.trusted, hop) => farthest = Some(hop),
                Some(hop) => return Walk::Untrusted(hop),
                None => return Walk::Unreadable(farthest),
            }
        }
        match farthest {
            None => Walk::Nothing,
            Some(hop) if elements.next().is_some() => Walk::Unreadable(Some(hop)),
            Some(hop) => Walk::Trusted(hop),
        }
    }
}

/// The elements of a comma-separated list, the last first.
struct ListElements<'v>(Option<&'v [u8]>);

impl<'v> Iterator for ListElements<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        let rest = self.0?;
        let comma = rest.iter().rposition(|&byte| byte == b',');
        self.0 = comma.map(|at| &rest[..at]);
        Some(comma.map_or(rest, |at| &rest[at + 1..]))
    }
}

/// The elements of a comma-separated list with quoted strings, the last first.
///
/// Read from the right, so that a quote that the client left open cannot swallow what its proxies wrote after it. A
/// quote that was never opened spoils its element and all to the left.
struct QuotedElements<'v>(Option<&'v [u8]>);

impl<'v> Iterator for QuotedElements<'v> {
    type Item = &'v [u8];

    fn next(&mut self) -> Option<&'v [u8]> {
        let rest = self.0?;
        let mut at = rest.len();
        while at > 0 {
            at -= 1;
            match rest[at] {
                b',' => {
                    self.0 = Some(&rest[..at]);
                    return Some(&rest[at + 1..]);
                }
                b'"' => match opening_quote(&rest[..at]) {
                    Some(opening) => at = opening,
                    None => break,
                },
                _ => {}
            }
        }
        self.0 = None;
        Some(rest)
    }
}

/// The nearest quote from the right that no backslash escapes.
fn opening_quote(before: &[u8]) -> Option<usize> {
    let mut end = before.len();
    loop {
        let quote = before[..end].iter().rposition(|&byte| byte == b'"')?;
        let escapes = before[..quote]
            .iter()
            .rev()
            .take_while(|&&byte| byte == b'\\')
            .count();
        if escapes % 2 == 0 {
            return Some(quote);
        }
        end = quote - escapes;
    }
}

/// The address in the one `for` parameter of an element (RFC 7239 section 4).
fn forwarded_address(element: &[u8]) -> Option<IpAddr> {
    let mut found = None;
    let mut rest = Some(element);
    while let Some(pairs) = rest {
        let mut is_quoted = false;
        // An escaped quote cannot be part of an address; toggling on it makes the pair unreadable, which it is.
        let end = pairs.iter().position(|&byte| {
            is_quoted ^= byte == b'"';
            byte == b';' && !is_quoted
        });
        let pair = end.map_or(pairs, |end| &pairs[..end]).trim_ascii();
        rest = end.map(|end| &pairs[end + 1..]);
        if pair.is_empty() {
            continue;
        }
        let equals = pair.iter().position(|&byte| byte == b'=')?;
        if pair[..equals].eq_ignore_ascii_case(b"for") {
            if found.is_some() {
                return None;
            }
            found = Some(&pair[equals + 1..]);
        }
    }
    let value = found?;
    let unquoted = value
        .strip_prefix(b"\"")
        .and_then(|value| value.strip_suffix(b"\""));
    plain_address(unquoted.unwrap_or(value))
}

/// An address, with or without a port; IPv6 with a port in brackets.
fn plain_address(text: &[u8]) -> Option<IpAddr> {
    // The longest text of an address is 45 bytes; brackets and a port add 8.
    let text = std::str::from_utf8(text)
        .ok()
        .filter(|text| text.len() <= 53)?;
    let address = if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        if !port.is_empty() && !is_port(port.strip_prefix(':')?) {
            return None;
        }
        IpAddr::V6(address.parse::<Ipv6Addr>().ok()?)
    } else {
        match text.split_once(':') {
            Some((address, port)) if !port.contains(':') => {
                IpAddr::V4(address.parse().ok().filter(|_| is_port(port))?)
            }
            Some(_) | None => text.parse().ok()?,
        }
    };
    Some(address.to_canonical())
}

/// A port of RFC 7239 section 6: a number, or an obfuscated name.
fn is_port(port: &str) -> bool {
    match port.strip_prefix('_') {
        Some(name) => {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !name.is_empty() && name.bytes().all(is_allowed)
        }
        None => (1..=5).contains(&port.len()) && port.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// Whether any of the ranges holds the address. IPv4-mapped addresses are IPv4, and so are ranges of them; `::/0`
/// holds IPv6 addresses alone.
#[must_use]
pub fn is_trusted(ranges: &[IpNet], address: IpAddr) -> bool {
    ranges.iter().any(|range| contains(range, address))
}

/// Whether the range holds the address, as [`is_trusted`] reads both.
#[must_use]
pub fn contains(range: &IpNet, address: IpAddr) -> bool {
    match (range, address.to_canonical()) {
        (IpNet::V4(range), IpAddr::V4(address)) => range.contains(&address),
        (IpNet::V6(range), IpAddr::V6(address)) => range.contains(&address),
        (IpNet::V6(range), IpAddr::V4(address)) => {
            range.addr().to_ipv4_mapped().is_some()
                && range.prefix_len() >= 96
                && range.contains(&address.to_ipv6_mapped())
        }
        (IpNet::V4(_), IpAddr::V6(_)) => false,
    }
}

/// The part of an address that keys are made of: the rest of its bits are zero.
#[must_use]
pub fn cut(reading: &ClientAddressReading, address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let kept = u32::from(reading.ipv4_prefix.min(32));
            let mask = u32::MAX.checked_shl(32 - kept).unwrap_or(0);
            IpAddr::V4((u32::from(address) & mask).into())
        }
        IpAddr::V6(address) => {
            let kept = u32::from(reading.ipv6_prefix.min(128));
            let mask = u128::MAX.checked_shl(128 - kept).unwrap_or(0);
            IpAddr::V6((u128::from(address) & mask).into())
        }
    }
}

#[cfg(test)]
mod tests;
