//! What fixed shares of a limit would have admitted of the requests of one window, against the limit itself.

/// What became of the requests of one key in one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Admitted {
    /// By the limit, counted in one place.
    pub(super) limit: u64,
    /// By each node alone, with its share.
    pub(super) fixed: u64,
}

/// Shares out a limit among the nodes as the mode `fixed` does: each has the whole part of units/N, and the rest goes
/// one by one to the first nodes in an order that the key's hash rotates, so that shares add up to the limit.
pub(super) fn admitted(units: u64, key: u128, counts: &[u32]) -> Admitted {
    let nodes = counts.len() as u64;
    if nodes == 0 {
        return Admitted::default();
    }
    let (share, rest) = (units / nodes, units % nodes);
    let first = (key % u128::from(nodes)) as u64;
    let (mut requests, mut fixed) = (0, 0);
    for (node, &count) in (0_u64..).zip(counts) {
        let place = (node + nodes - first) % nodes;
        fixed += u64::from(count).min(share + u64::from(place < rest));
        requests += u64::from(count);
    }
    Admitted {
        limit: requests.min(units),
        fixed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_windows() {
        for (units, counts, limit, fixed) in [
            (10, &[5, 5][..], 10, 10),
            (10, &[10, 0], 10, 5),
            (10, &[30, 1], 10, 6),
            (2, &[1, 1, 1, 1], 2, 2),
            (0, &[3, 3], 0, 0),
            (10, &[0, 0], 0, 0),
        ] {
            assert_eq!(
                admitted(units, 0, counts),
                Admitted { limit, fixed },
                "{counts:?}"
            );
        }
    }

    proptest! {
        /// Shares add up: fixed never admits more than the limit, and all of it when every node has requests enough.
        #[test]
        fn shares_add_up_to_the_limit(
            units in 0_u64..1000, key: u128, counts in proptest::collection::vec(0_u32..500, 1..20),
        ) {
            let some = admitted(units, key, &counts);
            prop_assert!(some.fixed <= some.limit);
            let plenty = vec![u32::MAX; counts.len()];
            let all = admitted(units, key, &plenty);
            prop_assert_eq!(all, Admitted { limit: units, fixed: units });
        }
    }
}
