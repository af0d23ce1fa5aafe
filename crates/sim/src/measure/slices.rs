//! Counts of one slice of time, by key and node. When time has moved on, the slice is handed over and forgotten, so
//! that memory holds the keys of one slice alone.
//!
//! Logs are nearly in order, not quite. A request up to one slice late counts in the slice that is open; one that is
//! later, or the first after a clock was set back, opens a slice of its own.

use std::collections::HashMap;

/// The counts of the open slice.
#[derive(Debug)]
pub(super) struct Slices {
    length_ns: u64,
    nodes: usize,
    open: u64,
    rows: HashMap<u128, usize, foldhash::fast::RandomState>,
    counts: Vec<u32>,
}

impl Slices {
    /// Slices of so many nanoseconds, at least 1, that begin at multiples of it.
    pub(super) fn new(length_ns: u64, nodes: usize) -> Self {
        Self {
            length_ns: length_ns.max(1),
            nodes,
            open: 0,
            rows: HashMap::default(),
            counts: Vec::new(),
        }
    }

    /// Counts a request. If it is of another slice, the open one is handed over first, key by key.
    pub(super) fn add(
        &mut self,
        time_unix_ns: u64,
        key: u128,
        node: usize,
        done: impl FnMut(u128, &[u32]),
    ) {
        let slice = time_unix_ns / self.length_ns;
        if slice > self.open || slice + 1 < self.open {
            self.close(done);
            self.open = slice;
        }
        let next = self.rows.len();
        let row = *self.rows.entry(key).or_insert(next);
        if row == next {
            self.counts.resize((next + 1) * self.nodes, 0);
        }
        let count = &mut self.counts[row * self.nodes + node];
        *count = count.saturating_add(1);
    }

    /// Hands over the open slice, key by key, and leaves it empty.
    pub(super) fn close(&mut self, mut done: impl FnMut(u128, &[u32])) {
        for (key, row) in self.rows.drain() {
            done(key, &self.counts[row * self.nodes..][..self.nodes]);
        }
        self.counts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each slice held, in order, for requests at these times by one key.
    fn slices(times: &[u64]) -> Vec<u32> {
        let mut slices = Slices::new(10, 1);
        let mut told = Vec::new();
        for &time in times {
            slices.add(time, 7, 0, |_, counts| told.push(counts[0]));
        }
        slices.close(|_, counts| told.push(counts[0]));
        told
    }

    #[test]
    fn requests_that_are_a_little_late_count_in_the_open_slice() {
        assert_eq!(slices(&[0, 9, 10, 8, 19, 20, 11, 10]), [2, 3, 3]);
    }

    #[test]
    fn one_wrong_clock_spoils_no_other_slice() {
        assert_eq!(slices(&[0, 1, 1_000_000, 2, 3, 12]), [2, 1, 2, 1]);
        assert_eq!(slices(&[u64::MAX, 0, u64::MAX]), [1, 1, 1]);
    }

    #[test]
    fn keys_and_nodes_are_counted_apart() {
        let mut slices = Slices::new(10, 3);
        for (key, node) in [(1, 0), (2, 2), (1, 0), (1, 1)] {
            slices.add(5, key, node, |_, _| panic!("closed early"));
        }
        let mut told = HashMap::new();
        slices.close(|key, counts| {
            told.insert(key, counts.to_vec());
        });
        assert_eq!(
            told,
            HashMap::from([(1, vec![2, 1, 0]), (2, vec![0, 0, 1])])
        );
    }
}
