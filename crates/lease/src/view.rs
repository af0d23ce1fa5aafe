//! Who the members are, who owns a bucket, and what each member's fair share of it is. Every node computes these alike,
//! from numbers only.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::bucket::Bucket;
use crate::id::{NodeId, ViewId};
use crate::terms::{Shape, Terms};
use crate::time::Wall;

/// The agreed list of members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Which list.
    pub id: ViewId,
    /// The members, in the order that all agree on, each once.
    pub members: Vec<NodeId>,
    /// It governs buckets that start at this time or later (S11).
    pub active_from: Wall,
    /// And that start before this time, by this node's lease; the end of time under a fixed list.
    pub lease_until: Wall,
}

/// A list that cannot be a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ViewError {
    /// No member.
    #[error("a view needs at least one member")]
    Empty,
    /// A member is listed twice.
    #[error("node {:016x} is listed twice in the view; each member is listed once", .0.0)]
    Duplicate(NodeId),
}

impl View {
    /// A fixed list, agreed once and for all.
    #[must_use]
    pub const fn fixed(id: ViewId, members: Vec<NodeId>) -> Self {
        Self {
            id,
            members,
            active_from: Wall(0),
            lease_until: Wall(u64::MAX),
        }
    }

    /// Checks the list.
    ///
    /// # Errors
    /// If it is empty or names a node twice.
    pub fn check(&self) -> Result<(), ViewError> {
        if self.members.is_empty() {
            return Err(ViewError::Empty);
        }
        let mut sorted = self.members.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(ViewError::Duplicate(pair[0])),
            None => Ok(()),
        }
    }

    /// Whether a node is a member.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.members.contains(&node)
    }

    /// The one issuer of a bucket's credit.
    #[must_use]
    pub fn owner(&self, bucket: Bucket) -> NodeId {
        self.members[self.owner_index(bucket)]
    }

    /// Who collects shares when the owner is gone: the next member in order; the owner itself in a view of one.
    #[must_use]
    pub fn deputy(&self, bucket: Bucket) -> NodeId {
        self.members[(self.owner_index(bucket) + 1) % self.members.len()]
    }

    /// A member's fair share of an allowance; shares of all members add up to exactly the allowance. A node that is no
    /// member has none.
    #[must_use]
    pub fn share(&self, bucket: Bucket, node: NodeId, allowance: u64) -> u64 {
        let Some(index) = self.members.iter().position(|member| *member == node) else {
            return 0;
        };
        let count = self.members.len();
        let first = scaled(mixed(bucket, ROTATION), count);
        let rank = (index + count - first) % count;
        let count = count as u64;
        allowance / count + u64::from((rank as u64) < allowance % count)
    }

    /// Who issues for a bucket under these terms: all slots of one key have one owner, as they count together.
    #[must_use]
    pub fn issuer(&self, bucket: Bucket, terms: &Terms) -> NodeId {
        match terms.shape {
            Shape::FixedWindow => self.owner(bucket),
            Shape::SlidingWindow | Shape::TokenBucket { .. } => self.owner(bucket.first()),
        }
    }

    /// A member's fair share under these terms.
    #[must_use]
    pub fn share_of(&self, bucket: Bucket, terms: &Terms, node: NodeId) -> u64 {
        match terms.shape {
            Shape::FixedWindow | Shape::TokenBucket { .. } => {
                self.share(bucket, node, terms.shared(bucket))
            }
            // Slots count together: an odd unit that went round would be taken more than once.
            Shape::SlidingWindow => self.share(bucket.first(), node, terms.units),
        }
    }

    fn owner_index(&self, bucket: Bucket) -> usize {
        scaled(mixed(bucket, OWNER), self.members.len())
    }
}

/// The most views that are kept. Only buckets of the oldest are given up, which mostly are over.
const MOST_VIEWS: usize = 16;

/// The views that a node knows, in order of `active_from`.
#[derive(Debug)]
pub(crate) struct Views {
    list: Vec<View>,
    /// Only under a mutant: the newest governs everything.
    newest_only: bool,
}

impl Views {
    pub fn new(first: View, newest_only: bool) -> Self {
        Self {
            list: vec![first],
            newest_only,
        }
    }

    /// S11: the one view under which anything may be done about a bucket with this start, if this node's lease of it
    /// reaches so far.
    pub fn governing(&self, start: Wall) -> Option<&View> {
        if self.newest_only {
            return self.list.last();
        }
        self.list
            .iter()
            .rev()
            .find(|view| view.active_from <= start)
            .filter(|view| start < view.lease_until)
    }

    /// Takes a list, or a longer lease of one. Lists must come in order of `active_from`. Says whether it was taken.
    pub fn install(&mut self, view: View) -> bool {
        if view.check().is_err() {
            return false;
        }
        if let Some(known) = self.list.iter_mut().find(|known| known.id == view.id) {
            // A lease may be cut short as well, before it has been acted on: whoever hands it out sees to that.
            known.lease_until = view.lease_until;
            return known.members == view.members;
        }
        if view.active_from < self.newest().active_from {
            return false;
        }
        if self.list.len() == MOST_VIEWS {
            self.list.remove(0);
        }
        self.list.push(view);
        true
    }

    pub fn newest(&self) -> &View {
        &self.list[self.list.len() - 1]
    }

    pub fn knows(&self, id: ViewId) -> bool {
        self.list.iter().any(|view| view.id == id)
    }

    /// Every node that is a member of some view, in order, each once.
    pub fn members(&self) -> BTreeSet<NodeId> {
        self.list
            .iter()
            .flat_map(|view| view.members.iter().copied())
            .collect()
    }
}

const OWNER: u64 = 0x9E37_79B9_7F4A_7C15;
const ROTATION: u64 = 0xD1B5_4A32_D192_ED03;

/// 64 well-mixed bits of a bucket: two rounds of the finalizer of SplitMix64 (Steele, Lea, Flood 2014) over the
/// halves of the subject, which is a keyed hash already, and the window's number.
fn mixed(bucket: Bucket, salt: u64) -> u64 {
    let high = (bucket.subject.0 >> 64) as u64;
    let low = bucket.subject.0 as u64;
    finalize(finalize(high ^ salt).wrapping_add(low) ^ bucket.window.0.wrapping_mul(salt))
}

const fn finalize(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Scales 64 random bits to `0..count`.
fn scaled(bits: u64, count: usize) -> usize {
    ((u128::from(bits) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::bucket::{Subject, WindowId};

    fn view(count: u64) -> View {
        View::fixed(ViewId(1), (1..=count).map(NodeId).collect())
    }

    proptest! {
        #[test]
        fn shares_add_up_to_exactly_the_allowance(
            subject: u128, window: u64, count in 1_u64..60, allowance: u64, bits in 0_u32..64,
        ) {
            let view = view(count);
            let allowance = allowance >> bits;
            let bucket = Bucket { subject: Subject(subject), window: WindowId(window) };
            let shares: Vec<u64> = view.members.iter().map(|member| view.share(bucket, *member, allowance)).collect();
            prop_assert_eq!(shares.iter().map(|share| u128::from(*share)).sum::<u128>(), u128::from(allowance));
            let spread = shares.iter().max().unwrap() - shares.iter().min().unwrap();
            prop_assert!(spread <= 1);
            prop_assert_eq!(view.share(bucket, NodeId(count + 1), allowance), 0);
            prop_assert!(view.contains(view.owner(bucket)));
            prop_assert_eq!(view.owner(bucket) == view.deputy(bucket), count == 1);
        }
    }

    #[test]
    fn windows_of_one_key_spread_over_owners_and_over_who_gets_the_odd_unit() {
        let view = view(20);
        let mut owned = [0_u32; 20];
        let mut odd = [0_u32; 20];
        for window in 0..20_000 {
            let bucket = Bucket {
                subject: Subject(0x1234_5678_9ABC_DEF0_0FED_CBA9_8765_4321),
                window: WindowId(window),
            };
            owned[view.owner(bucket).0 as usize - 1] += 1;
            for member in &view.members {
                odd[member.0 as usize - 1] += view.share(bucket, *member, 1) as u32;
            }
        }
        for count in owned.iter().chain(&odd) {
            assert!((800..1200).contains(count), "{owned:?} {odd:?}");
        }
    }

    #[test]
    fn a_list_that_is_empty_or_names_a_node_twice_is_refused() {
        assert_eq!(view(0).check(), Err(ViewError::Empty));
        let twice = View::fixed(ViewId(1), vec![NodeId(2), NodeId(1), NodeId(2)]);
        assert_eq!(twice.check(), Err(ViewError::Duplicate(NodeId(2))));
        assert_eq!(view(3).check(), Ok(()));
    }
}
