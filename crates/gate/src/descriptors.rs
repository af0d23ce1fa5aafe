//! Limits found in trees of Envoy descriptors, as envoyproxy/ratelimit finds them: one for each descriptor at most,
//! less those that others of the same request replace.
//!
//! The look-up itself is [`policy::envoy::Index`]'s; here its limits get their places among all others.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use policy::envoy::{Index, Match};
use policy::model::{
    Amount, DescriptorDomain, DescriptorLimit, Limit, LimitName, Mode, OnDegraded, RuleName,
};
use smallvec::SmallVec;

use crate::compile::{CompileError, Compiler, LimitIndex, Whose};
use crate::request::Request;

/// The trees of a policy.
#[derive(Debug)]
pub(crate) struct Domains {
    index: Index,
    /// By [`Match::position`].
    limits: Vec<LimitIndex>,
    /// By domain: the limit that stands for those that descriptors bring along.
    overrides: HashMap<Arc<str>, LimitIndex, RandomState>,
}

/// What was found for one descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeMatch<'s> {
    pub(crate) part: u16,
    pub(crate) limit: LimitIndex,
    /// `None` if the descriptor brought its limit along.
    found: Option<Match<'s>>,
}

/// What was found for a request.
#[derive(Debug, Default)]
pub(crate) struct TreeMatches<'s> {
    found: SmallVec<[TreeMatch<'s>; 2]>,
}

impl Domains {
    pub(crate) fn new(
        domains: &[DescriptorDomain],
        compiler: &mut Compiler<'_, '_>,
    ) -> Result<Self, CompileError> {
        let index = Index::new(domains);
        let mut limits = Vec::with_capacity(index.limits().len());
        for limit in index.limits() {
            limits.push(Self::one(compiler, limit)?);
        }
        let mut overrides = HashMap::default();
        for domain in domains {
            let rule = RuleName::new(&format!("{}:override", domain.name));
            let stand_in = Limit {
                name: LimitName::new("override"),
                amount: Amount::Unlimited,
                cost: 1,
                on_degraded: OnDegraded::FairShare,
                sharing: None,
                disclose: true,
            };
            let set = compiler.set(&rule, Mode::Enforce, &[stand_in], Whose::Rule)?;
            for limit in set.indexes() {
                compiler.limits[limit.0 as usize].facts.envoy_name = Some(Arc::default());
            }
            overrides.extend(set.indexes().map(|limit| (Arc::clone(&domain.name), limit)));
        }
        Ok(Self {
            index,
            limits,
            overrides,
        })
    }

    fn one(
        compiler: &mut Compiler<'_, '_>,
        found: &DescriptorLimit,
    ) -> Result<LimitIndex, CompileError> {
        let limits = std::slice::from_ref(&found.limit);
        let set = compiler.set(&found.rule, found.mode, limits, Whose::Rule)?;
        let limit = set.indexes().next().expect("a set of one limit has one");
        let compiled = &mut compiler.limits[limit.0 as usize];
        compiled.quota_mode = found.quota_mode;
        compiled.facts.envoy_name = Some(found.replaced_as.clone().unwrap_or_default());
        Ok(limit)
    }

    /// What a request's descriptor meets, if anything. A limit that it brings along stands in for the tree's, in
    /// domains that the policy knows.
    fn find(&self, request: &Request<'_>, part: u16) -> Option<TreeMatch<'_>> {
        let domain = request.domain?;
        if request.limit_override.is_some() {
            let limit = *self.overrides.get(domain)?;
            return Some(TreeMatch {
                part,
                limit,
                found: None,
            });
        }
        let found = self.index.find(domain, request.entries)?;
        Some(TreeMatch {
            part,
            limit: self.limits[found.position],
            found: Some(found),
        })
    }
}

impl<'s> TreeMatches<'s> {
    /// Adds what a request's descriptor meets.
    pub(crate) fn find(&mut self, domains: &'s Domains, request: &Request<'_>, part: u16) {
        self.found.extend(domains.find(request, part));
    }

    /// What is left when those that others replace are taken out.
    pub(crate) fn in_force(&self) -> impl Iterator<Item = &TreeMatch<'s>> {
        self.found.iter().filter(|found| {
            let Some(name) = found
                .limit_in_tree()
                .and_then(|limit| limit.replaced_as.as_ref())
            else {
                return true;
            };
            !self
                .found
                .iter()
                .filter_map(TreeMatch::limit_in_tree)
                .any(|other| other.replaces.contains(name))
        })
    }
}

impl<'s> TreeMatch<'s> {
    fn limit_in_tree(&self) -> Option<&'s DescriptorLimit> {
        self.found.map(|found| found.limit)
    }

    /// The entries that make up the bucket's key: all, with values that share a threshold replaced by their pattern.
    pub(crate) fn key_entries<'e>(
        &'e self,
        entries: &'e [(&'e str, &'e str)],
    ) -> impl Iterator<Item = (&'e str, &'e str)> {
        entries.iter().enumerate().map(|(level, (key, value))| {
            let value = match &self.found {
                Some(found) => found.key_value(level, key, value),
                None => value,
            };
            (*key, value)
        })
    }
}
