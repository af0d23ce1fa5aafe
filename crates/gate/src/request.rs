//! What a surface tells the gate of a request: borrowed attributes, each of which may be missing.
//!
//! Nothing here is copied or allocated; a surface lends what it has decoded.

use std::net::IpAddr;

/// A request's attributes. `Default` is a request of which nothing is known.
#[derive(Clone, Copy, Default)]
pub struct Request<'a> {
    /// The method as sent.
    pub method: Option<&'a str>,
    /// The host (or `:authority`) as sent, port and all.
    pub host: Option<&'a str>,
    /// The request target as sent: a path, with or without a query.
    pub path: Option<&'a [u8]>,
    /// The address at the other end of the connection to the API's proxy.
    pub peer: Option<IpAddr>,
    /// The headers.
    pub headers: Headers<'a>,
    /// The Envoy domain.
    pub domain: Option<&'a str>,
    /// The entries of an Envoy descriptor, in order.
    pub entries: &'a [(&'a str, &'a str)],
    /// A limit that the descriptor brings along, if the node accepts such: metered by fixed window, or deny.
    pub limit_override: Option<policy::model::Amount>,
}

/// A view of request headers: calls back with each value of a lower-case name, in order.
#[derive(Clone, Copy)]
pub struct Headers<'a>(&'a dyn HeaderLookup);

/// What can be asked for header values.
pub trait HeaderLookup {
    /// Calls `each` with every value of `name` (lower case), in order.
    fn values<'s>(&'s self, name: &str, each: &mut dyn FnMut(&'s [u8]));
}

impl<'a> Headers<'a> {
    /// Lends headers.
    #[must_use]
    pub fn new(lookup: &'a dyn HeaderLookup) -> Self {
        Self(lookup)
    }

    /// Calls `each` with every value of `name` (lower case), in order.
    pub fn values(&self, name: &str, each: &mut dyn FnMut(&'a [u8])) {
        self.0.values(name, each);
    }
}

struct NoHeaders;

impl HeaderLookup for NoHeaders {
    fn values<'s>(&'s self, _name: &str, _each: &mut dyn FnMut(&'s [u8])) {}
}

impl Default for Headers<'_> {
    fn default() -> Self {
        Self(&NoHeaders)
    }
}

/// Pairs of lower-case names and values.
impl HeaderLookup for &[(&str, &[u8])] {
    fn values<'s>(&'s self, name: &str, each: &mut dyn FnMut(&'s [u8])) {
        for (_, value) in self.iter().filter(|(n, _)| *n == name) {
            each(value);
        }
    }
}

/// How much a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    /// Charge so many hits; 0 looks and charges nothing.
    Take(u64),
    /// Give so many hits back, at most what is charged in the current window. Never refused.
    GiveBack(u64),
}

/// One part of a request: all of it by HTTP, one descriptor by Envoy's protocol.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// Its attributes.
    pub request: Request<'a>,
    /// What it takes.
    pub hits: Hits,
}
