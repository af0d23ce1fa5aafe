//! Limits found in trees of Envoy descriptors, as envoyproxy/ratelimit finds them.

use policy::model::DescriptorDomain;

use crate::compile::{CompileError, Compiler, LimitIndex};
use crate::hash::LimitIdentity;
use crate::request::Request;

#[derive(Debug, Default)]
pub(crate) struct Domains;

impl Domains {
    pub(crate) fn new(
        _: &[DescriptorDomain],
        _: &mut Compiler<'_, '_>,
    ) -> Result<Self, CompileError> {
        Ok(Self)
    }
}

#[derive(Default)]
pub(crate) struct TreeMatches<'s> {
    found: smallvec::SmallVec<[&'s TreeMatch; 4]>,
}

pub(crate) struct TreeMatch {
    pub(crate) part: u16,
    pub(crate) limit: LimitIndex,
    pub(crate) identity: LimitIdentity,
}

impl TreeMatch {
    pub(crate) fn key_entries<'e>(
        &self,
        entries: &'e [(&'e str, &'e str)],
    ) -> impl Iterator<Item = (&'e str, &'e str)> {
        entries.iter().copied()
    }
}

impl<'s> TreeMatches<'s> {
    pub(crate) fn find(&mut self, _: &'s Domains, _: &Request<'_>, _: u16) {}
    pub(crate) fn in_force(&self) -> impl Iterator<Item = &TreeMatch> {
        self.found.iter().copied()
    }
}
