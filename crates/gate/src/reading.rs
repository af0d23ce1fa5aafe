//! A request as rules see it: path and host normalised, the client's address found, identities picked.
//!
//! What is costly is worked out once and only if a rule asks for it. Nothing is believed that a client could choose
//! between: what is given twice differently is disputed, and no rule is ever skipped for it.

use std::cell::OnceCell;
use std::net::IpAddr;

use policy::address::{self, ForwardedHops};
use policy::host::{self, HostBuffer};
use policy::model::{IdentitySource, KeyPart, KeySource};
use policy::path::{self, PathBuffer};

use crate::compile::{Compiled, CompiledSubject};
use crate::hash::KeyHasher;
use crate::key::{KeyBuilder, PartTag};
use crate::request::Request;

/// Room for what is normalised, so that a reading can lend it without allocating.
#[derive(Default)]
pub(crate) struct Scratch {
    path: PathBuffer,
    host: HostBuffer,
}

/// A request being read under one policy.
pub(crate) struct Reading<'r> {
    request: Request<'r>,
    compiled: &'r Compiled,
    path: Option<&'r [u8]>,
    host: Option<&'r str>,
    address: OnceCell<Option<IpAddr>>,
    api_key: OnceCell<Value<'r>>,
    user: OnceCell<Value<'r>>,
}

impl<'r> Reading<'r> {
    pub(crate) fn new(
        request: Request<'r>,
        compiled: &'r Compiled,
        scratch: &'r mut Scratch,
    ) -> Self {
        let Scratch { path, host } = scratch;
        Self {
            path: request
                .path
                .map(|raw| path::normalize_into(&compiled.paths, raw, path)),
            host: request.host.map(|raw| host::normalize_into(raw, host)),
            request,
            compiled,
            address: OnceCell::new(),
            api_key: OnceCell::new(),
            user: OnceCell::new(),
        }
    }

    pub(crate) fn request(&self) -> &Request<'r> {
        &self.request
    }

    pub(crate) fn path(&self) -> Option<&'r [u8]> {
        self.path
    }

    pub(crate) fn host(&self) -> Option<&'r str> {
        self.host
    }

    /// The client's address, IPv4 unwrapped from IPv6, not cut to a prefix.
    pub(crate) fn client_address(&self) -> Option<IpAddr> {
        *self.address.get_or_init(|| {
            let reading = &self.compiled.client_address;
            let peer = self.request.peer?;
            let mut hops = ForwardedHops::new(reading, peer);
            if hops.needs_header() {
                let header = reading.header.name();
                self.request
                    .headers
                    .values(header, &mut |value| hops.feed(value));
            }
            Some(hops.finish().address)
        })
    }

    pub(crate) fn api_key(&self) -> Value<'r> {
        *self
            .api_key
            .get_or_init(|| self.identity(&self.compiled.identity.api_key))
    }

    pub(crate) fn user(&self) -> Value<'r> {
        *self
            .user
            .get_or_init(|| self.identity(&self.compiled.identity.user))
    }

    fn identity(&self, sources: &[IdentitySource]) -> Value<'r> {
        let mut value = Value::Absent;
        for source in sources {
            match source {
                IdentitySource::Header(name) => self.see_header(name, &mut |v| value.see(v)),
                IdentitySource::Bearer => self.see_header("authorization", &mut |v| {
                    if let Some(token) = bearer_token(v) {
                        value.see(token);
                    }
                }),
                IdentitySource::Descriptor(key) => self.see_entry(key, &mut value),
            }
        }
        value
    }

    fn see_header(&self, name: &str, each: &mut dyn FnMut(&'r [u8])) {
        self.request.headers.values(name, each);
    }

    fn see_entry(&self, key: &str, value: &mut Value<'r>) {
        for (_, v) in self.request.entries.iter().filter(|(k, _)| *k == key) {
            value.see(v.as_bytes());
        }
    }

    /// The caller's entry in the policy, if it has one.
    pub(crate) fn subject(&self, hasher: &KeyHasher) -> Option<&'r CompiledSubject> {
        let subjects = &self.compiled.subjects;
        let by_api_key = if subjects.by_api_key.is_empty() {
            None
        } else {
            self.api_key()
                .one()
                .and_then(|raw| subjects.by_api_key.get(&hasher.api_key(raw)))
        };
        by_api_key.or_else(|| {
            if subjects.by_user.is_empty() {
                return None;
            }
            let user = std::str::from_utf8(self.user().one()?).ok()?;
            subjects.by_user.get(user)
        })
    }

    /// Adds one part of a key, unless the request has no one value for it.
    pub(crate) fn push_part(&self, key: &mut KeyBuilder<'_>, part: &KeyPart) -> Result<(), Lack> {
        let given = |value: Option<&'r [u8]>| value.map_or(Value::Absent, Value::One);
        let value = match &part.source {
            KeySource::ClientAddress => {
                let address = self.client_address().ok_or(Lack::Absent)?;
                match address::cut(&self.compiled.client_address, address) {
                    IpAddr::V4(v4) => key.push(PartTag::ClientAddress, &v4.octets()),
                    IpAddr::V6(v6) => key.push(PartTag::ClientAddress, &v6.octets()),
                }
                return Ok(());
            }
            KeySource::ApiKey => self.api_key(),
            KeySource::User => self.user(),
            KeySource::Header(name) => {
                let mut value = Value::Absent;
                self.see_header(name, &mut |v| value.see(v));
                value
            }
            KeySource::Descriptor(entry) => {
                let mut value = Value::Absent;
                self.see_entry(entry, &mut value);
                value
            }
            KeySource::Path => given(self.path()),
            KeySource::Method => given(self.request.method.map(str::as_bytes)),
            KeySource::Host => given(self.host().map(str::as_bytes)),
        };
        match value {
            Value::One(value) if !value.is_empty() => {
                key.push_folded(PartTag::of(&part.source), value, part.normalize);
                Ok(())
            }
            Value::One(_) | Value::Absent => Err(Lack::Absent),
            Value::Disputed => Err(Lack::Disputed),
        }
    }
}

/// Why a request has no value for a part of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lack {
    /// It has none.
    Absent,
    /// It has several that differ. Which of them the upstream believes cannot be known.
    Disputed,
}

/// What a request says of one thing, in all the places that it may say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'v> {
    /// Nothing.
    Absent,
    /// One value, perhaps several times.
    One(&'v [u8]),
    /// Values that differ.
    Disputed,
}

impl<'v> Value<'v> {
    fn see(&mut self, value: &'v [u8]) {
        *self = match *self {
            Self::Absent => Self::One(value),
            Self::One(first) if first == value => Self::One(first),
            Self::One(_) | Self::Disputed => Self::Disputed,
        };
    }

    /// The one value, if it is not empty.
    pub(crate) fn one(self) -> Option<&'v [u8]> {
        match self {
            Self::One(value) if !value.is_empty() => Some(value),
            Self::One(_) | Self::Absent | Self::Disputed => None,
        }
    }
}

/// The token of an `Authorization: Bearer` value (RFC 6750 section 2.1).
fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}
