//! Which keys are asked for, in which order: drawn before anything is timed.
//!
//! Identities are laid out in the order of use, so that the sequence itself streams through the prefetcher and a
//! subject pays only for its own look-up. It never draws while a subject runs.

/// How often each key is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spread {
    /// All alike.
    Uniform,
    /// The n-th most popular in proportion to n to the power of -1.1.
    Zipf,
}

impl Spread {
    /// The word in row names.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }
}

/// The exponent of [`Spread::Zipf`].
const ZIPF_EXPONENT: f64 = 1.1;

/// One thread's sequence: the n-th decision asks for key number `indexes[n]`, whose hash is `ids[n]`.
pub struct Draws {
    /// Key numbers.
    pub indexes: Vec<u32>,
    /// The keys' 128-bit hashes.
    pub ids: Vec<u128>,
}

impl Draws {
    /// Draws `length` keys out of `keys`; the same `seed` gives the same draws.
    pub fn new(spread: Spread, keys: u32, length: usize, seed: u64) -> Self {
        let mut random = SplitMix(seed);
        let indexes: Vec<u32> = match spread {
            Spread::Uniform => (0..length)
                .map(|_| (random.unit() * f64::from(keys)) as u32)
                .collect(),
            Spread::Zipf => {
                let cumulated = zipf_cumulated(keys);
                let total = cumulated.last().copied().unwrap_or(1.0);
                (0..length)
                    .map(|_| {
                        let at = random.unit() * total;
                        cumulated.partition_point(|sum| *sum <= at) as u32
                    })
                    .collect()
            }
        };
        let last = keys - 1;
        let indexes: Vec<u32> = indexes.into_iter().map(|index| index.min(last)).collect();
        let ids = indexes.iter().map(|index| key_id(*index)).collect();
        Self { indexes, ids }
    }
}

fn zipf_cumulated(keys: u32) -> Vec<f64> {
    let mut sum = 0.0;
    (1..=keys)
        .map(|rank| {
            sum += f64::from(rank).powf(-ZIPF_EXPONENT);
            sum
        })
        .collect()
}

/// The 128-bit hash of key number `index`: what a keyed hash of its name would look like.
pub fn key_id(index: u32) -> u128 {
    let mut mix = SplitMix(u64::from(index).wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ 0x5EED);
    (u128::from(mix.next()) << 64) | u128::from(mix.next())
}

/// Steele, Lea and Flood's SplitMix64 (OOPSLA 2014): small, seedable, good enough to draw keys with.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn draws_stay_within_the_keys_and_repeat_by_seed() {
        for spread in [Spread::Uniform, Spread::Zipf] {
            let draws = Draws::new(spread, 1000, 50_000, 7);
            assert!(draws.indexes.iter().all(|index| *index < 1000));
            assert_eq!(draws.indexes, Draws::new(spread, 1000, 50_000, 7).indexes);
            assert_ne!(draws.indexes, Draws::new(spread, 1000, 50_000, 8).indexes);
        }
    }

    #[test]
    fn zipf_prefers_the_first_key_and_uniform_none() {
        let share = |spread| {
            let draws = Draws::new(spread, 1000, 100_000, 1);
            draws.indexes.iter().filter(|index| **index == 0).count()
        };
        assert!((50..200).contains(&share(Spread::Uniform)));
        // 1 / sum(n^-1.1, n = 1..1000) is 0.18.
        assert!((17_000..19_500).contains(&share(Spread::Zipf)));
    }

    #[test]
    fn ids_do_not_collide() {
        let ids: HashSet<u128> = (0..100_000).map(key_id).collect();
        assert_eq!(ids.len(), 100_000);
    }
}
