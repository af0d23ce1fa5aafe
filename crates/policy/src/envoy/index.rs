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
mod tests {
    use proptest::prelude::*;

    use super::super::oracle;
    use super::*;
    use crate::model::{Amount, Limit, LimitName, Mode, OnDegraded, RuleName};

    fn limit(name: &str) -> DescriptorLimit {
        DescriptorLimit {
            rule: RuleName::new(name),
            limit: Limit {
                name: LimitName::new("unlimited"),
                amount: Amount::Unlimited,
                cost: 1,
                on_degraded: OnDegraded::FairShare,
                disclose: true,
            },
            mode: Mode::Enforce,
            quota_mode: false,
            replaced_as: None,
            replaces: Vec::new(),
        }
    }

    fn node(key: &str, value: &str, shares: bool, below: Vec<DescriptorNode>) -> DescriptorNode {
        DescriptorNode {
            key: key.into(),
            value: match value {
                "" => DescriptorValue::Any,
                value => DescriptorValue::Pattern(value.into()),
            },
            share_threshold: shares,
            limit: None,
            descriptors: below,
        }
    }

    /// Small alphabets, so that keys, values and patterns meet often.
    fn words() -> impl Strategy<Value = String> {
        "[ab_*]{0,4}"
    }

    fn trees() -> impl Strategy<Value = Vec<DescriptorNode>> {
        let leaf = (words(), words(), any::<bool>(), any::<bool>())
            .prop_map(|(key, value, shares, limited)| (key, value, shares, limited, Vec::new()));
        let built = leaf.prop_map(build).prop_recursive(3, 40, 6, |below| {
            (
                words(),
                words(),
                any::<bool>(),
                any::<bool>(),
                prop::collection::vec(below, 0..6),
            )
                .prop_map(build)
        });
        prop::collection::vec(built, 0..12).prop_map(|mut nodes| {
            name_all(&mut nodes, "d");
            nodes
        })
    }

    fn build(parts: (String, String, bool, bool, Vec<DescriptorNode>)) -> DescriptorNode {
        let (key, value, shares, limited, below) = parts;
        let shares = shares && (key.contains('*') || value.contains('*'));
        let mut node = node(&key, &value, shares, below);
        node.limit = limited.then(|| limit("unnamed"));
        node
    }

    /// Gives each limit a name of its own and drops siblings that a reader would refuse.
    fn name_all(nodes: &mut Vec<DescriptorNode>, above: &str) {
        let mut seen = Vec::new();
        nodes.retain(|node| {
            let key = composite_key(node);
            let is_new = !seen.contains(&key);
            seen.push(key);
            is_new
        });
        for (place, node) in nodes.iter_mut().enumerate() {
            let name = format!("{above}.{place}");
            name_all(&mut node.descriptors, &name);
            if node.limit.is_some() {
                node.limit = Some(limit(&name));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn finds_what_a_plain_reading_of_the_rules_finds(
            descriptors in trees(),
            requests in prop::collection::vec(
                prop::collection::vec((words(), words()), 0..4), 1..20
            ),
        ) {
            let domain = DescriptorDomain { name: "d".into(), descriptors };
            let index = Index::new(std::slice::from_ref(&domain));
            for request in &requests {
                let entries: Vec<(&str, &str)> =
                    request.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
                let found = index.find("d", &entries).map(|found| {
                    let values: Vec<String> = entries
                        .iter()
                        .enumerate()
                        .map(|(level, (key, value))| found.key_value(level, key, value).to_owned())
                        .collect();
                    (found.limit.rule.to_string(), values)
                });
                prop_assert_eq!(found, oracle::find(&domain, &entries), "{:?}", entries);
            }
            prop_assert!(index.find("e", &[("a", "b")]).is_none());
        }

        #[test]
        fn wildcards_hold_as_a_plain_match_does(
            pattern in "[ab]{0,2}\\*[ab*]{0,5}",
            text in "[ab]{0,8}",
        ) {
            let mut wildcards = Wildcards::default();
            wildcards.add(&pattern, 0, 7);
            let parts: Vec<&str> = pattern.split('*').collect();
            prop_assert_eq!(
                wildcards.find(text.as_bytes()).is_some(),
                oracle::matches(&parts, &text)
            );
        }
    }

    #[test]
    fn thousands_of_siblings() {
        let mut nodes = Vec::new();
        for number in 0..5000 {
            let mut exact = node("path", &format!("/exact/{number}"), false, vec![]);
            exact.limit = Some(limit(&format!("exact-{number}")));
            let mut wild = node("path", &format!("/wild/{number:04}/*"), false, vec![]);
            wild.limit = Some(limit(&format!("wild-{number}")));
            nodes.extend([exact, wild]);
        }
        let domain = DescriptorDomain {
            name: "d".into(),
            descriptors: nodes,
        };
        let index = Index::new(&[domain]);
        assert_eq!(index.limits().len(), 10_000);
        let found = |value: &str| {
            let found = index.find("d", &[("path", value)])?;
            assert_eq!(&index.limits()[found.position], found.limit);
            Some(found.limit.rule.as_str())
        };
        assert_eq!(found("/exact/4711"), Some("exact-4711"));
        assert_eq!(found("/wild/0815/x"), Some("wild-815"));
        assert_eq!(found("/wild/0815"), None);
        assert_eq!(found("/exact/5000"), None);
    }
}
