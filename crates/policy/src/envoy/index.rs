//! Finds the limit of a descriptor, at a cost that does not grow with the number of sibling nodes.
//!
//! The rules are those of `GetLimit` in envoyproxy/ratelimit. Entry by entry, from the top of the domain's tree: the
//! node whose composite key (`key_value`, or `key` if it has no value) is exactly the entry's `key_value`; else the
//! first node in the file whose composite key holds a `*` and matches; else the node whose composite key is the
//! entry's key. A limit applies only if the descriptor's last entry lands on it: there is no falling back to a
//! shorter descriptor, nor to another branch once one was taken.
//!
//! Looking up allocates only if an entry is longer than 511 bytes. Wildcards are found by their literal start and
//! end; those that share both are tried one by one.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use smallvec::SmallVec;

use crate::model::{DescriptorDomain, DescriptorLimit, DescriptorNode, DescriptorValue};

type Map<V> = HashMap<Box<[u8]>, V, FixedState>;

/// All domains of a policy, made ready for look-ups.
#[derive(Clone, Debug, Default)]
pub struct Index {
    domains: Map<Children>,
    nodes: Vec<Node>,
    limits: Vec<DescriptorLimit>,
}

#[derive(Clone, Debug)]
struct Node {
    children: Children,
    /// The position in [`Index::limits`].
    limit: Option<usize>,
    /// By level from the top: the composite key, if the node at that level shares its threshold.
    shared: Box<[Option<Box<str>>]>,
}

#[derive(Clone, Debug, Default)]
struct Children {
    /// By composite key, wildcards too: they match their own text.
    by_key: Map<usize>,
    wildcards: Wildcards,
}

/// Composite keys with wildcards, filed by what stands before their first and after their last `*`.
#[derive(Clone, Debug, Default)]
struct Wildcards {
    /// The lengths that starts have, each once.
    start_lengths: Vec<usize>,
    by_start: Map<SameStart>,
}

#[derive(Clone, Debug, Default)]
struct SameStart {
    /// The lengths that ends have, each once.
    end_lengths: Vec<usize>,
    by_end: Map<Vec<Wildcard>>,
}

#[derive(Clone, Debug)]
struct Wildcard {
    /// Its place among the wildcards of its parent: the first that matches is taken.
    order: usize,
    node: usize,
    /// What stands between the stars.
    middles: Box<[Box<[u8]>]>,
}

/// The limit that a descriptor meets.
///
/// Its bucket's key is the domain and every entry in order, key and value, with [`Match::key_value`] for the values.
#[derive(Clone, Copy, Debug)]
pub struct Match<'i> {
    /// Its position in [`Index::limits`].
    pub position: usize,
    /// The limit.
    pub limit: &'i DescriptorLimit,
    patterns: &'i [Option<Box<str>>],
    /// One bit a level, the lowest for the first: matched by a wildcard that shares its threshold.
    shared_levels: u64,
}

impl<'i> Match<'i> {
    /// The value that stands in the bucket's key for the entry at this level, from 0: the entry's own, or the pattern
    /// of a node that shares its threshold.
    #[must_use]
    pub fn key_value<'a>(&self, level: usize, key: &str, value: &'a str) -> &'a str
    where
        'i: 'a,
    {
        if self.shared_levels & level_bit(level) == 0 {
            return value;
        }
        let Some(Some(pattern)) = self.patterns.get(level) else {
            return value;
        };
        let of_value = pattern
            .strip_prefix(key)
            .and_then(|rest| rest.strip_prefix('_'));
        of_value.unwrap_or(pattern)
    }
}

const fn level_bit(level: usize) -> u64 {
    if level < 64 { 1 << level } else { 0 }
}

impl Index {
    /// Makes the trees of domains ready. Of domains or sibling nodes with the same name, which readers refuse, the
    /// first counts.
    #[must_use]
    pub fn new(domains: &[DescriptorDomain]) -> Self {
        let mut index = Self::default();
        for domain in domains {
            let name = domain.name.as_bytes();
            if !index.domains.contains_key(name) {
                let children = index.add_children(&domain.descriptors, &[]);
                index.domains.insert(name.into(), children);
            }
        }
        index
    }

    /// The limits of all trees, in the order of the files.
    #[must_use]
    pub fn limits(&self) -> &[DescriptorLimit] {
        &self.limits
    }

    /// Whether there is a tree for this domain.
    #[must_use]
    pub fn has_domain(&self, domain: &str) -> bool {
        self.domains.contains_key(domain.as_bytes())
    }

    /// The limit that a descriptor meets, if any.
    #[must_use]
    pub fn find(&self, domain: &str, entries: &[(&str, &str)]) -> Option<Match<'_>> {
        let mut children = self.domains.get(domain.as_bytes())?;
        let mut shared_levels = 0;
        let mut last = None;
        let mut composite = SmallVec::<[u8; 512]>::new();
        for (level, (key, value)) in entries.iter().enumerate() {
            composite.clear();
            composite.extend_from_slice(key.as_bytes());
            composite.push(b'_');
            composite.extend_from_slice(value.as_bytes());
            let node = if let Some(exact) = children.by_key.get(&*composite) {
                &self.nodes[*exact]
            } else if let Some(wildcard) = children.wildcards.find(&composite) {
                let node = &self.nodes[wildcard];
                if let Some(Some(_)) = node.shared.get(level) {
                    shared_levels |= level_bit(level);
                }
                node
            } else {
                &self.nodes[*children.by_key.get(key.as_bytes())?]
            };
            children = &node.children;
            last = Some(node);
        }
        let node = last?;
        let position = node.limit?;
        let limit = &self.limits[position];
        Some(Match {
            position,
            limit,
            patterns: &node.shared,
            shared_levels,
        })
    }

    fn add_children(&mut self, nodes: &[DescriptorNode], above: &[Option<Box<str>>]) -> Children {
        let mut children = Children::default();
        for (order, node) in nodes.iter().enumerate() {
            let key = composite_key(node);
            if children.by_key.contains_key(key.as_bytes()) {
                continue;
            }
            let pattern = node.share_threshold.then(|| key.as_str().into());
            let shared: Box<[_]> = above.iter().cloned().chain([pattern]).collect();
            let limit = node.limit.as_ref().map(|limit| {
                self.limits.push(limit.clone());
                self.limits.len() - 1
            });
            let below = self.add_children(&node.descriptors, &shared);
            let place = self.nodes.len();
            self.nodes.push(Node {
                children: below,
                limit,
                shared,
            });
            children.wildcards.add(&key, order, place);
            children.by_key.insert(key.into_bytes().into(), place);
        }
        children
    }
}

/// A node's place among its siblings, as that project writes it.
pub(super) fn composite_key(node: &DescriptorNode) -> String {
    match &node.value {
        DescriptorValue::Any => node.key.to_string(),
        DescriptorValue::Pattern(value) => format!("{}_{value}", node.key),
    }
}

impl Wildcards {
    fn add(&mut self, key: &str, order: usize, node: usize) {
        let Some((start, rest)) = key.split_once('*') else {
            return;
        };
        let (middles, end) = rest
            .rsplit_once('*')
            .map_or((None, rest), |(middles, end)| (Some(middles), end));
        let middles = middles.map_or_else(Box::default, |middles| {
            middles
                .split('*')
                .map(|text| text.as_bytes().into())
                .collect()
        });
        note_length(&mut self.start_lengths, start.len());
        let same = self.by_start.entry(start.as_bytes().into()).or_default();
        note_length(&mut same.end_lengths, end.len());
        let wildcard = Wildcard {
            order,
            node,
            middles,
        };
        same.by_end
            .entry(end.as_bytes().into())
            .or_default()
            .push(wildcard);
    }

    /// The node of the first wildcard in the file that matches.
    fn find(&self, composite: &[u8]) -> Option<usize> {
        let mut first: Option<&Wildcard> = None;
        for &start in &self.start_lengths {
            let Some((before, rest)) = composite.split_at_checked(start) else {
                continue;
            };
            let Some(same) = self.by_start.get(before) else {
                continue;
            };
            for &end in &same.end_lengths {
                let Some(between) = rest.len().checked_sub(end) else {
                    continue;
                };
                let (between, after) = rest.split_at(between);
                let candidates = same.by_end.get(after).map_or(&[][..], Vec::as_slice);
                let found = candidates
                    .iter()
                    .take_while(|wildcard| first.is_none_or(|first| wildcard.order < first.order))
                    .find(|wildcard| wildcard.holds(between));
                first = found.or(first);
            }
        }
        first.map(|wildcard| wildcard.node)
    }
}

impl Wildcard {
    /// Whether the middles occur in order, each as early as it can.
    fn holds(&self, mut between: &[u8]) -> bool {
        for middle in &self.middles {
            match memchr::memmem::find(between, middle) {
                Some(at) => between = &between[at + middle.len()..],
                None => return false,
            }
        }
        true
    }
}

fn note_length(lengths: &mut Vec<usize>, length: usize) {
    if !lengths.contains(&length) {
        lengths.push(length);
    }
}

#[cfg(test)]
mod tests;
