//! A request as rules see it: path and host normalised, the client's address found, identities picked.
//!
//! What is costly is worked out once and only if a rule asks for it. Nothing is believed that a client could choose
//! between: an identity that is given twice differently counts as absent.

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
    api_key: OnceCell<Option<&'r [u8]>>,
    user: OnceCell<Option<&'r [u8]>>,
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

    pub(crate) fn api_key(&self) -> Option<&'r [u8]> {
        *self
            .api_key
            .get_or_init(|| self.identity(&self.compiled.identity.api_key))
    }

    pub(crate) fn user(&self) -> Option<&'r [u8]> {
        *self
            .user
            .get_or_init(|| self.identity(&self.compiled.identity.user))
    }

    fn identity(&self, sources: &[IdentitySource]) -> Option<&'r [u8]> {
        sources.iter().find_map(|source| match source {
            IdentitySource::Header(name) => self.header(name),
            IdentitySource::Bearer => self.header("authorization").and_then(bearer_token),
            IdentitySource::Descriptor(key) => self.entry(key),
        })
    }

    /// The header's one value.
    fn header(&self, name: &str) -> Option<&'r [u8]> {
        let mut only = OnlyValue::default();
        self.request
            .headers
            .values(name, &mut |value| only.see(value));
        only.get()
    }

    /// The descriptor entry's one value.
    fn entry(&self, key: &str) -> Option<&'r [u8]> {
        let mut only = OnlyValue::default();
        for (_, value) in self.request.entries.iter().filter(|(k, _)| *k == key) {
            only.see(value.as_bytes());
        }
        only.get()
    }

    /// The caller's entry in the policy, if it has one.
    pub(crate) fn subject(&self, hasher: &KeyHasher) -> Option<&'r CompiledSubject> {
        let subjects = &self.compiled.subjects;
        let by_api_key = if subjects.by_api_key.is_empty() {
            None
        } else {
            self.api_key()
                .and_then(|raw| subjects.by_api_key.get(&hasher.api_key(raw)))
        };
        by_api_key.or_else(|| {
            if subjects.by_user.is_empty() {
                return None;
            }
            let user = std::str::from_utf8(self.user()?).ok()?;
            subjects.by_user.get(user)
        })
    }

    /// Adds one part of a key; `None` if it is absent.
    pub(crate) fn push_part(&self, key: &mut KeyBuilder<'_>, part: &KeyPart) -> Option<()> {
        let value: &[u8] = match &part.source {
            KeySource::ClientAddress => {
                let cut = address::cut(&self.compiled.client_address, self.client_address()?);
                match cut {
                    IpAddr::V4(v4) => key.push(PartTag::ClientAddress, &v4.octets()),
                    IpAddr::V6(v6) => key.push(PartTag::ClientAddress, &v6.octets()),
                }
                return Some(());
            }
            KeySource::ApiKey => self.api_key()?,
            KeySource::User => self.user()?,
            KeySource::Header(name) => self.header(name)?,
            KeySource::Descriptor(entry) => self.entry(entry)?,
            KeySource::Path => self.path()?,
            KeySource::Method => self.request.method?.as_bytes(),
            KeySource::Host => self.host()?.as_bytes(),
        };
        key.push_folded(PartTag::of(&part.source), value, part.normalize);
        Some(())
    }
}

/// The value that a name has, if it has just one.
#[derive(Default)]
struct OnlyValue<'v> {
    first: Option<&'v [u8]>,
    differs: bool,
}

impl<'v> OnlyValue<'v> {
    fn see(&mut self, value: &'v [u8]) {
        match self.first {
            None => self.first = Some(value),
            Some(first) => self.differs |= first != value,
        }
    }

    fn get(self) -> Option<&'v [u8]> {
        self.first
            .filter(|value| !self.differs && !value.is_empty())
    }
}

/// The token of an `Authorization: Bearer` value (RFC 6750 section 2.1).
fn bearer_token(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer ") && !token.is_empty()).then_some(token)
}
