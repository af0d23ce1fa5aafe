//! All path patterns of a policy in one tree, so that finding those that match costs as much as the path is long,
//! not as many as there are.
//!
//! Unlike a router it finds every match, not the best. It sees normalised paths only.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use policy::model::{PathPattern, Segment};

use crate::compile::RuleIndex;

/// Patterns have at most this many segments, which bounds the depth of the walk.
pub(crate) const MOST_SEGMENTS: usize = 128;

/// The tree. Nodes are numbered; the root is 0.
#[derive(Debug)]
pub(crate) struct PathTrie {
    nodes: Vec<Node>,
}

/// The literal pieces of a glob, in order.
type Pieces = Box<[Box<[u8]>]>;

#[derive(Debug, Default)]
struct Node {
    literals: HashMap<Box<[u8]>, usize, RandomState>,
    any: Option<usize>,
    globs: Vec<(Pieces, usize)>,
    /// Rules whose pattern ends here.
    end: Vec<RuleIndex>,
    /// Rules whose pattern goes on with anything.
    rest: Vec<RuleIndex>,
}

impl PathTrie {
    pub(crate) fn new() -> Self {
        Self {
            nodes: vec![Node::default()],
        }
    }

    /// Adds a pattern of a rule.
    pub(crate) fn insert(&mut self, pattern: &PathPattern, rule: RuleIndex) {
        let mut at = 0;
        for segment in &pattern.segments {
            at = match segment {
                Segment::Rest => {
                    self.nodes[at].rest.push(rule);
                    return;
                }
                Segment::Literal(text) => self.literal_child(at, text.as_bytes()),
                Segment::Any => self.any_child(at),
                Segment::Glob(pieces) => self.glob_child(
                    at,
                    pieces.iter().map(|piece| piece.as_bytes().into()).collect(),
                ),
            };
        }
        self.nodes[at].end.push(rule);
    }

    fn literal_child(&mut self, at: usize, text: &[u8]) -> usize {
        if let Some(&child) = self.nodes[at].literals.get(text) {
            return child;
        }
        let child = self.add_node();
        self.nodes[at].literals.insert(text.into(), child);
        child
    }

    fn any_child(&mut self, at: usize) -> usize {
        if let Some(child) = self.nodes[at].any {
            return child;
        }
        let child = self.add_node();
        self.nodes[at].any = Some(child);
        child
    }

    fn glob_child(&mut self, at: usize, pieces: Pieces) -> usize {
        if let Some((_, child)) = self.nodes[at]
            .globs
            .iter()
            .find(|(known, _)| *known == pieces)
        {
            return *child;
        }
        let child = self.add_node();
        self.nodes[at].globs.push((pieces, child));
        child
    }

    fn add_node(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    /// Calls `found` with each rule that has a matching pattern; with one rule more than once if several of its
    /// patterns match.
    #[inline]
    pub(crate) fn matches(&self, path: &[u8], found: &mut impl FnMut(RuleIndex)) {
        let path = path.strip_prefix(b"/").unwrap_or(path);
        self.walk(0, (!path.is_empty()).then_some(path), found);
    }

    fn walk(&self, at: usize, remaining: Option<&[u8]>, found: &mut impl FnMut(RuleIndex)) {
        let node = &self.nodes[at];
        for &rule in &node.rest {
            found(rule);
        }
        let Some(path) = remaining else {
            for &rule in &node.end {
                found(rule);
            }
            return;
        };
        let (segment, remaining) = match path.iter().position(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], Some(&path[slash + 1..])),
            None => (path, None),
        };
        if let Some(&child) = node.literals.get(segment) {
            self.walk(child, remaining, found);
        }
        if let Some(child) = node.any.filter(|_| !segment.is_empty()) {
            self.walk(child, remaining, found);
        }
        for (pieces, child) in &node.globs {
            if glob_matches(pieces, segment) {
                self.walk(*child, remaining, found);
            }
        }
    }
}

/// Whether a segment is the pieces in order with anything between them. Greedy from the left, which is right for
/// patterns whose only wild card is "anything": the first place where a piece fits leaves the most for the rest.
pub(crate) fn glob_matches<P: AsRef<[u8]>>(pieces: &[P], segment: &[u8]) -> bool {
    let [first, middle @ .., last] = pieces else {
        return pieces.first().is_some_and(|only| only.as_ref() == segment);
    };
    let Some(mut left) = segment.strip_prefix(first.as_ref()) else {
        return false;
    };
    for piece in middle {
        let piece = piece.as_ref();
        if piece.is_empty() {
            continue;
        }
        let Some(at) = left.windows(piece.len()).position(|window| window == piece) else {
            return false;
        };
        left = &left[at + piece.len()..];
    }
    left.ends_with(last.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pattern(text: &str) -> PathPattern {
        let segments = text[1..]
            .split('/')
            .filter(|segment| !segment.is_empty())
            .map(|segment| match segment {
                "**" => Segment::Rest,
                "{}" => Segment::Any,
                glob if glob.contains('*') => {
                    Segment::Glob(glob.split('*').map(Into::into).collect())
                }
                literal => Segment::Literal(literal.into()),
            })
            .collect();
        PathPattern {
            source: text.into(),
            segments,
        }
    }

    fn found(patterns: &[&str], path: &str) -> Vec<u32> {
        let mut trie = PathTrie::new();
        for (index, text) in patterns.iter().enumerate() {
            trie.insert(&pattern(text), RuleIndex(index as u32));
        }
        let mut rules = Vec::new();
        trie.matches(path.as_bytes(), &mut |rule| rules.push(rule.0));
        rules.sort_unstable();
        rules
    }

    #[test]
    fn every_matching_pattern_is_found() {
        let patterns = [
            "/", "/a", "/a/b", "/a/{}", "/a/**", "/**", "/{}/b", "/a/b*", "/a/*b", "/x*y*z",
        ];
        assert_eq!(found(&patterns, "/"), [0, 5]);
        assert_eq!(found(&patterns, "/a"), [1, 4, 5]);
        assert_eq!(found(&patterns, "/a/b"), [2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(found(&patterns, "/a/c"), [3, 4, 5]);
        assert_eq!(found(&patterns, "/a/b/c"), [4, 5]);
        assert_eq!(found(&patterns, "/xyz"), [5, 9]);
        assert_eq!(found(&patterns, "/x1y2y3z"), [5, 9]);
        assert_eq!(found(&patterns, "/xzy"), [5]);
        assert_eq!(found(&patterns, "/A"), [5]);
    }

    /// What a glob means, written as plainly as can be.
    fn plain_glob(pieces: &[&str], segment: &str) -> bool {
        match pieces {
            [] => false,
            [only] => *only == segment,
            [first, rest @ ..] => segment
                .strip_prefix(first)
                .is_some_and(|left| (0..=left.len()).any(|skip| plain_glob(rest, &left[skip..]))),
        }
    }

    proptest! {
        #[test]
        fn globs_match_as_their_meaning_says(
            pieces in proptest::collection::vec("[ab]{0,2}", 1..5),
            segment in "[ab]{0,8}",
        ) {
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            prop_assert_eq!(
                glob_matches(&pieces, segment.as_bytes()),
                plain_glob(&pieces, &segment)
            );
        }
    }
}
