//! Max-min fairness: nobody gets more than it wants, and who gets less than it wants gets no less than any other.

/// What one asker wants, and in what pieces it can use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Want {
    pub units: u64,
    /// The cost of one of its requests: less than that is of no use to it. At least 1.
    pub quantum: u64,
}

/// Splits `pool`; never gives out more. Whole quanta, but for what completes a want; what is left after that goes in
/// quanta to the first from `turn` on.
pub(crate) fn split(pool: u64, wants: &[Want], turn: usize) -> Vec<u64> {
    let mut given = vec![0; wants.len()];
    if wants.is_empty() {
        return given;
    }
    let mut order: Vec<usize> = (0..wants.len()).collect();
    order.sort_by_key(|index| wants[*index].units);
    let mut left = pool;
    for (done, index) in order.iter().enumerate() {
        let level = left / (wants.len() - done) as u64;
        let want = wants[*index];
        given[*index] = if want.units <= level {
            want.units
        } else {
            level - level % want.quantum.max(1)
        };
        left -= given[*index];
    }
    loop {
        let before = left;
        for offset in 0..wants.len() {
            let index = (turn + offset) % wants.len();
            let more = (wants[index].units - given[index]).min(wants[index].quantum.max(1));
            if more > 0 && more <= left {
                given[index] += more;
                left -= more;
            }
        }
        if left == before || left == 0 {
            return given;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unit_wants(units: &[u64]) -> Vec<Want> {
        units
            .iter()
            .map(|units| Want {
                units: *units,
                quantum: 1,
            })
            .collect()
    }

    proptest! {
        #[test]
        fn the_split_is_max_min_fair_and_wastes_nothing(
            units in proptest::collection::vec(0_u64..50, 1..12), pool in 0_u64..300, turn in 0_usize..12,
        ) {
            let given = split(pool, &unit_wants(&units), turn);
            let total: u64 = given.iter().sum();
            prop_assert_eq!(total, pool.min(units.iter().sum()));
            let most = given.iter().max().copied().unwrap_or(0);
            for (index, given) in given.iter().enumerate() {
                prop_assert!(*given <= units[index]);
                prop_assert!(*given == units[index] || *given + 1 >= most);
            }
        }

        #[test]
        fn quanta_never_make_it_give_more_than_there_is(
            wants in proptest::collection::vec((0_u64..50, 0_u64..9), 1..12), pool: u64, bits in 0_u32..64,
        ) {
            let pool = pool >> bits;
            let wants: Vec<Want> = wants.into_iter().map(|(units, quantum)| Want { units, quantum }).collect();
            let given = split(pool, &wants, 3);
            prop_assert!(given.iter().sum::<u64>() <= pool);
            for (given, want) in given.iter().zip(&wants) {
                prop_assert!(*given <= want.units);
                prop_assert!(*given == want.units || given % want.quantum.max(1) == 0);
            }
        }
    }

    #[test]
    fn five_units_and_askers_of_five_and_one() {
        let wants = [
            Want {
                units: 5,
                quantum: 5,
            },
            Want {
                units: 1,
                quantum: 1,
            },
        ];
        assert_eq!(split(5, &wants, 0), [0, 1]);
        assert_eq!(split(6, &wants, 0), [5, 1]);
        assert_eq!(split(u64::MAX, &wants, 0), [5, 1]);
    }
}
