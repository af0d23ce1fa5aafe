//! What is known of each key: its requests by node, and what its slices summed to. Bounded in keys.
//!
//! When there are more keys than the bound, half of them are given up, chosen by a bit of their hash, and never taken
//! in again; so again as often as needed (M. Wegman's adaptive sampling; P. Flajolet, "On adaptive sampling", 1990).
//! Keys that remain were counted from their first request on, so each is exact, and since the hash is keyed no caller
//! can choose to be among them. The keys kept are a fair sample of all.

use std::collections::HashMap;

/// More requests of one key at one node than are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one key has more than {} requests at one node", u32::MAX)]
pub struct TooManyRequests;

/// What the slices of one key summed to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Requests in slices that were busy enough to be judged.
    pub busy: u64,
    /// Of these, those at the node with the most, slice by slice.
    pub busy_largest: u64,
    /// Requests that the limit admits.
    pub limit_admits: u64,
    /// Requests that fixed shares of the limit admit.
    pub fixed_admits: u64,
}

/// The keys kept.
#[derive(Debug)]
pub struct Keys {
    nodes: usize,
    most: usize,
    /// How often half of the keys were given up.
    halvings: u32,
    rows: HashMap<u128, usize, foldhash::fast::RandomState>,
    hashes: Vec<u128>,
    counts: Vec<u32>,
    sums: Vec<Sums>,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key<'k> {
    /// Its keyed hash.
    pub hash: u128,
    /// Its requests at each node.
    pub counts: &'k [u32],
    /// What its slices summed to.
    pub sums: Sums,
}

impl Key<'_> {
    /// Its requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// The largest node's share of its requests, times the number of nodes: 1 if all nodes have as many, the number of
    /// nodes if one has them all.
    #[must_use]
    pub fn share_times_nodes(&self) -> f64 {
        let largest = self.counts.iter().copied().max().unwrap_or(0);
        ratio(u64::from(largest), self.requests()) * self.counts.len() as f64
    }

    /// The same within slices: how much the key leans on one node at a time, even if it moves. None if no slice had
    /// requests enough.
    #[must_use]
    pub fn busy_share_times_nodes(&self) -> Option<f64> {
        (self.sums.busy > 0)
            .then(|| ratio(self.sums.busy_largest, self.sums.busy) * self.counts.len() as f64)
    }
}

/// A share, 0 of nothing.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

impl Keys {
    /// No keys yet; at most `most` of them, at least 1, ever.
    #[must_use]
    pub fn new(nodes: usize, most: usize) -> Self {
        Self {
            nodes,
            most: most.max(1),
            halvings: 0,
            rows: HashMap::default(),
            hashes: Vec::new(),
            counts: Vec::new(),
            sums: Vec::new(),
        }
    }

    /// How many keys are kept.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.hashes.len()
    }

    /// Whether none is.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }

    /// One key of so many was kept.
    #[must_use]
    pub const fn one_in(&self) -> u64 {
        1 << self.halvings
    }

    /// Counts a request. False if its key is not among those kept.
    ///
    /// # Errors
    /// [`TooManyRequests`].
    pub fn add(&mut self, hash: u128, node: usize) -> Result<bool, TooManyRequests> {
        if !self.is_kept(hash) {
            return Ok(false);
        }
        let row = match self.rows.get(&hash) {
            Some(&row) => row,
            None => {
                while self.hashes.len() >= self.most {
                    self.halve();
                }
                if !self.is_kept(hash) {
                    return Ok(false);
                }
                self.insert(hash)
            }
        };
        let count = &mut self.counts[row * self.nodes + node];
        *count = count.checked_add(1).ok_or(TooManyRequests)?;
        Ok(true)
    }

    /// The sums of a key; none if it is not kept.
    pub fn sums(&mut self, hash: u128) -> Option<&mut Sums> {
        self.rows.get(&hash).map(|&row| &mut self.sums[row])
    }

    /// All keys kept.
    pub fn iter(&self) -> impl Iterator<Item = Key<'_>> {
        let counts = self.counts.chunks_exact(self.nodes.max(1));
        let rows = self.hashes.iter().zip(counts).zip(&self.sums);
        rows.map(|((&hash, counts), &sums)| Key { hash, counts, sums })
    }

    /// Each halving looks at one bit more, from the top. 64 halvings leave nothing to halve.
    fn is_kept(&self, hash: u128) -> bool {
        hash.leading_zeros() >= self.halvings
    }

    fn insert(&mut self, hash: u128) -> usize {
        let row = self.hashes.len();
        self.rows.insert(hash, row);
        self.hashes.push(hash);
        self.counts.resize((row + 1) * self.nodes, 0);
        self.sums.push(Sums::default());
        row
    }

    fn halve(&mut self) {
        self.halvings += 1;
        let mut kept = 0;
        for row in 0..self.hashes.len() {
            let hash = self.hashes[row];
            if !self.is_kept(hash) {
                self.rows.remove(&hash);
                continue;
            }
            self.rows.insert(hash, kept);
            self.hashes[kept] = hash;
            self.sums[kept] = self.sums[row];
            let from = row * self.nodes;
            self.counts
                .copy_within(from..from + self.nodes, kept * self.nodes);
            kept += 1;
        }
        self.hashes.truncate(kept);
        self.sums.truncate(kept);
        self.counts.truncate(kept * self.nodes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shares_are_of_the_largest_node_times_the_nodes() {
        for (counts, share) in [
            (&[5, 5][..], 1.0),
            (&[10, 0], 2.0),
            (&[1, 2, 3], 1.5),
            (&[0, 0, 0], 0.0),
        ] {
            let key = Key {
                hash: 0,
                counts,
                sums: Sums::default(),
            };
            assert_eq!(key.share_times_nodes(), share);
        }
    }

    proptest! {
        /// Whatever is kept is counted exactly, and no more is kept than the bound.
        #[test]
        fn kept_keys_are_exact(
            requests in proptest::collection::vec((0_u32..60, 0_usize..3), 0..400),
            most in 1_usize..40,
        ) {
            let hash = |key: u32| u128::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
            let mut keys = Keys::new(3, most);
            let mut exact: HashMap<u128, [u32; 3]> = HashMap::new();
            for &(key, node) in &requests {
                keys.add(hash(key), node).unwrap();
                exact.entry(hash(key)).or_default()[node] += 1;
                prop_assert!(keys.len() <= most);
            }
            for key in keys.iter() {
                prop_assert_eq!(&exact[&key.hash][..], key.counts);
            }
            let expected = exact.keys().filter(|hash| keys.is_kept(**hash)).count();
            prop_assert_eq!(keys.len(), expected);
            if exact.len() <= most {
                prop_assert_eq!(keys.one_in(), 1);
            }
        }
    }

    #[test]
    fn a_bound_of_one_key_is_a_bound() {
        let mut keys = Keys::new(1, 1);
        for hash in [u128::MAX, 0, 0, 1] {
            keys.add(hash, 0).unwrap();
        }
        assert_eq!(
            keys.iter()
                .map(|key| (key.hash, key.requests()))
                .collect::<Vec<_>>(),
            []
        );
    }
}
