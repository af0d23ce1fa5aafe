//! From how many requests on a key's largest share tells something of where its requests go, rather than of chance.
//!
//! A key with one request has all of it at one node, however evenly a fleet spreads. A key whose every request goes to
//! one of N nodes by lot exceeds `threshold` by chance with a probability of at most
//! `N * exp(-n * D(threshold/N || 1/N))` after n requests, D the Kullback-Leibler divergence of two coins: each node's
//! count is binomial (W. Hoeffding, "Probability inequalities for sums of bounded random variables", 1963, theorem 1),
//! and there are N of them.

/// How often a key that is spread by lot may still seem uneven.
const ERROR: f64 = 0.01;

/// The fewest requests after which a key that is spread by lot over so many nodes has its largest share, times the
/// nodes, above the threshold in at most 1 of 100 cases. Where no key can be above it, 1.
#[must_use]
pub fn fewest_requests(nodes: usize, threshold: f64) -> u64 {
    let nodes = nodes as f64;
    let (largest, even) = (threshold / nodes, 1.0 / nodes);
    if largest >= 1.0 || largest <= even {
        return 1;
    }
    let divergence =
        largest * (largest / even).ln() + (1.0 - largest) * ((1.0 - largest) / (1.0 - even)).ln();
    ((nodes / ERROR).ln() / divergence).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uniform numbers that are the same in every run (G. Marsaglia's xorshift64).
    struct Lots(u64);

    impl Lots {
        fn below(&mut self, bound: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 >> 11) as usize % bound
        }
    }

    #[test]
    fn keys_spread_by_lot_seldom_seem_uneven() {
        for (nodes, expected) in [(2, 41), (3, 97), (5, 221), (20, 1324)] {
            let requests = fewest_requests(nodes, 1.5);
            assert_eq!(requests, expected, "{nodes} nodes");
            let mut lots = Lots(7);
            let keys = 2000;
            let uneven = (0..keys)
                .filter(|_| {
                    let mut counts = vec![0_u64; nodes];
                    for _ in 0..requests {
                        counts[lots.below(nodes)] += 1;
                    }
                    let largest = *counts.iter().max().unwrap();
                    (largest * nodes as u64) as f64 > 1.5 * requests as f64
                })
                .count();
            assert!(uneven * 100 <= keys, "{uneven} of {keys} on {nodes} nodes");
        }
    }

    #[test]
    fn a_share_that_cannot_be_exceeded_needs_no_requests() {
        assert_eq!(fewest_requests(1, 1.5), 1);
        assert_eq!(fewest_requests(2, 2.0), 1);
        assert_eq!(fewest_requests(2, 1.0), 1);
    }
}
