//! Which rules a request meets: every rule whose conditions all hold.
//!
//! Each rule is filed under its most telling condition (a path, a descriptor entry, a host, a header, a domain), so
//! that a request is held against few candidates however many rules there are; the rest of a candidate's conditions
//! are then checked one by one. It never allocates on the common path and never charges anything.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use policy::address::contains;
use policy::model::{EntryCondition, HeaderCondition, ValueCondition, When};
use smallvec::SmallVec;

use crate::compile::RuleIndex;
use crate::reading::Reading;
use crate::trie::PathTrie;

type Filed<K> = HashMap<K, Vec<RuleIndex>, RandomState>;

/// The rules of a policy, filed.
#[derive(Debug)]
pub(crate) struct Matcher {
    paths: PathTrie,
    entries: HashMap<Arc<str>, ByValue, RandomState>,
    hosts: Filed<Arc<str>>,
    /// Keyed by what follows the `*`, dot and all.
    host_suffixes: Filed<Arc<str>>,
    headers: Vec<(Arc<str>, ByValue)>,
    domains: Filed<Arc<str>>,
    always: Vec<RuleIndex>,
}

/// Rules filed under a name, by what they want of its value.
#[derive(Debug, Default)]
struct ByValue {
    exact: Filed<Arc<str>>,
    other: Vec<RuleIndex>,
}

/// Rules that a request meets, in the order of the policy.
pub(crate) type Matched = SmallVec<[RuleIndex; 16]>;

impl Matcher {
    pub(crate) fn new<'p>(rules: impl Iterator<Item = (RuleIndex, &'p When)>) -> Self {
        let mut matcher = Self {
            paths: PathTrie::new(),
            entries: HashMap::default(),
            hosts: HashMap::default(),
            host_suffixes: HashMap::default(),
            headers: Vec::new(),
            domains: HashMap::default(),
            always: Vec::new(),
        };
        for (rule, when) in rules {
            matcher.file(rule, when);
        }
        matcher
    }

    fn file(&mut self, rule: RuleIndex, when: &When) {
        if !when.paths.is_empty() {
            for pattern in &when.paths {
                self.paths.insert(pattern, rule);
            }
        } else if let Some(entry) = most_telling(&when.descriptor, |entry| &entry.value) {
            self.entries
                .entry(Arc::clone(&entry.key))
                .or_default()
                .file(rule, &entry.value);
        } else if !when.hosts.is_empty() {
            for host in &when.hosts {
                match host.strip_prefix('*') {
                    Some(suffix) => self
                        .host_suffixes
                        .entry(suffix.into())
                        .or_default()
                        .push(rule),
                    None => self.hosts.entry(Arc::clone(host)).or_default().push(rule),
                }
            }
        } else if let Some(header) = most_telling(&when.headers, |header| &header.value) {
            let filed = match self
                .headers
                .iter_mut()
                .position(|(name, _)| *name == header.name)
            {
                Some(known) => &mut self.headers[known].1,
                None => {
                    self.headers
                        .push((Arc::clone(&header.name), ByValue::default()));
                    &mut self.headers.last_mut().expect("one was just pushed").1
                }
            };
            filed.file(rule, &header.value);
        } else if let Some(domain) = &when.domain {
            self.domains
                .entry(Arc::clone(domain))
                .or_default()
                .push(rule);
        } else {
            self.always.push(rule);
        }
    }

    /// The rules whose conditions all hold, in the order of the policy.
    #[inline]
    pub(crate) fn matches<'p>(
        &self,
        reading: &Reading<'_>,
        when: impl Fn(RuleIndex) -> &'p When,
    ) -> Matched {
        let mut matched = Matched::new();
        let mut consider = |rule: RuleIndex| {
            if others_hold(when(rule), reading).is_ok() {
                matched.push(rule);
            }
        };
        if let Some(path) = reading.path() {
            self.paths.matches(path, &mut consider);
        }
        if !self.entries.is_empty() {
            for (key, value) in reading.request().entries {
                if let Some(filed) = self.entries.get(*key) {
                    filed.candidates(value, &mut consider);
                }
            }
        }
        if let Some(host) = reading.host() {
            if let Some(rules) = self.hosts.get(host) {
                rules.iter().copied().for_each(&mut consider);
            }
            if !self.host_suffixes.is_empty() {
                for (dot, _) in host.match_indices('.') {
                    if let Some(rules) = self.host_suffixes.get(&host[dot..]) {
                        rules.iter().copied().for_each(&mut consider);
                    }
                }
            }
        }
        for (name, filed) in &self.headers {
            reading.request().headers.values(name, &mut |value| {
                // A value that is no text equals no condition, but a rule may ask for presence alone.
                filed.candidates(
                    std::str::from_utf8(value).unwrap_or("\u{fffd}"),
                    &mut consider,
                );
            });
        }
        if let Some(rules) = reading
            .request()
            .domain
            .and_then(|domain| self.domains.get(domain))
        {
            rules.iter().copied().for_each(&mut consider);
        }
        self.always.iter().copied().for_each(&mut consider);
        if matched.len() > 1 {
            matched.sort_unstable();
            matched.dedup();
        }
        matched
    }
}

impl ByValue {
    fn file(&mut self, rule: RuleIndex, value: &ValueCondition) {
        match value {
            ValueCondition::Is(text) => self.exact.entry(Arc::clone(text)).or_default().push(rule),
            ValueCondition::Prefix(_) | ValueCondition::Present | ValueCondition::Absent => {
                self.other.push(rule);
            }
        }
    }

    fn candidates(&self, value: &str, consider: &mut impl FnMut(RuleIndex)) {
        if let Some(rules) = self.exact.get(value) {
            rules.iter().copied().for_each(&mut *consider);
        }
        self.other.iter().copied().for_each(consider);
    }
}

/// The condition to file a rule under: an exact one if there is one, else one that wants the name at all. A condition
/// that wants absence cannot be found by what a request has.
fn most_telling<C>(conditions: &[C], value: impl Fn(&C) -> &ValueCondition) -> Option<&C> {
    conditions
        .iter()
        .filter(|condition| *value(condition) != ValueCondition::Absent)
        .min_by_key(|condition| !matches!(value(condition), ValueCondition::Is(_)))
}

/// The first condition that does not hold, named for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet {
    /// No path pattern matches.
    Path,
    /// The method is another.
    Method,
    /// No host pattern matches.
    Host,
    /// A header condition does not hold.
    Header,
    /// The Envoy domain is another.
    Domain,
    /// A descriptor entry condition does not hold.
    Descriptor,
    /// The client's address is in none of the ranges.
    Address,
}

/// Whether every condition holds.
pub(crate) fn holds(when: &When, reading: &Reading<'_>) -> Result<(), Unmet> {
    let path_holds = when.paths.is_empty()
        || reading.path().is_some_and(|path| {
            when.paths
                .iter()
                .any(|pattern| crate::pattern::matches(pattern, path))
        });
    if !path_holds {
        return Err(Unmet::Path);
    }
    others_hold(when, reading)
}

/// Whether every condition but the path's holds: a rule with paths is only ever found by one that matches.
fn others_hold(when: &When, reading: &Reading<'_>) -> Result<(), Unmet> {
    let request = reading.request();
    let require = |holds: bool, unmet: Unmet| if holds { Ok(()) } else { Err(unmet) };
    require(
        when.methods.is_empty()
            || request.method.is_some_and(|method| {
                when.methods
                    .iter()
                    .any(|wanted| wanted.eq_ignore_ascii_case(method))
            }),
        Unmet::Method,
    )?;
    require(
        when.domain.is_none() || when.domain.as_deref() == request.domain,
        Unmet::Domain,
    )?;
    require(
        when.hosts.is_empty()
            || reading.host().is_some_and(|host| {
                when.hosts
                    .iter()
                    .any(|pattern| match pattern.strip_prefix('*') {
                        Some(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
                        None => host == &**pattern,
                    })
            }),
        Unmet::Host,
    )?;
    require(
        when.descriptor
            .iter()
            .all(|entry| entry_holds(entry, request.entries)),
        Unmet::Descriptor,
    )?;
    require(
        when.headers
            .iter()
            .all(|header| header_holds(header, reading)),
        Unmet::Header,
    )?;
    require(
        when.addresses.is_empty()
            || reading
                .client_address()
                .is_some_and(|address| when.addresses.iter().any(|range| contains(range, address))),
        Unmet::Address,
    )
}

fn entry_holds(condition: &EntryCondition, entries: &[(&str, &str)]) -> bool {
    let values = entries
        .iter()
        .filter(|(key, _)| *key == &*condition.key)
        .map(|(_, value)| *value);
    value_holds(&condition.value, values)
}

fn value_holds<'v>(condition: &ValueCondition, mut values: impl Iterator<Item = &'v str>) -> bool {
    match condition {
        ValueCondition::Present => values.next().is_some(),
        ValueCondition::Absent => values.next().is_none(),
        ValueCondition::Is(wanted) => values.any(|value| value == &**wanted),
        ValueCondition::Prefix(wanted) => values.any(|value| value.starts_with(&**wanted)),
    }
}

fn header_holds(condition: &HeaderCondition, reading: &Reading<'_>) -> bool {
    let (mut present, mut equal) = (false, false);
    reading
        .request()
        .headers
        .values(&condition.name, &mut |value| {
            present = true;
            equal |= match &condition.value {
                ValueCondition::Is(wanted) => value == wanted.as_bytes(),
                ValueCondition::Prefix(wanted) => value.starts_with(wanted.as_bytes()),
                ValueCondition::Present | ValueCondition::Absent => true,
            };
        });
    if condition.value == ValueCondition::Absent {
        !present
    } else {
        equal
    }
}
