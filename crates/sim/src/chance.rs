//! Chance that a seed decides: xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators",
//! 2021), seeded through SplitMix64 as its authors advise.
//!
//! Its numbers must never change: a seed that was written down is a schedule that someone wants to see again. So no
//! crate that may improve its algorithm stands behind it, and nothing here depends on the machine.

/// A stream of numbers that its seed decides.
#[derive(Clone, Debug)]
pub struct Chance([u64; 4]);

impl Chance {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut at = seed;
        Self(std::array::from_fn(|_| split_mix(&mut at)))
    }

    /// Another stream, so that what draws from one part of a run does not shift what another part draws.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.bits())
    }

    /// 64 bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`; 0 if there is none. Biased by at most `bound / 2^64`, which no run can tell.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both possible.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low).saturating_add(1))
    }

    /// A place in a list of `len`, which must not be empty.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// From 0 to below 1.
    pub fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// True so often.
    pub fn happens(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.fraction() < probability
    }

    /// An exponentially distributed number with this mean: the wait until the next of many independent arrivals.
    pub fn wait(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }
}

fn split_mix(at: &mut u64) -> u64 {
    *at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *at;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of the authors' C program for the state 1, 2, 3, 4.
    #[test]
    fn the_published_numbers() {
        let mut chance = Chance([1, 2, 3, 4]);
        assert_eq!(chance.bits(), 41_943_041);
        assert_eq!(chance.bits(), 58_720_359);
        assert_eq!(chance.bits(), 3_588_806_011_781_223);
        assert_eq!(chance.bits(), 3_591_011_842_654_386);
    }

    #[test]
    fn stays_within_bounds() {
        let mut chance = Chance::new(7);
        for _ in 0..10_000 {
            assert!(chance.below(3) < 3);
            assert!((5..=6).contains(&chance.between(5, 6)));
            assert!(chance.wait(2.0) >= 0.0);
        }
        assert_eq!(chance.below(0), 0);
        assert!(!chance.happens(0.0));
        assert!(chance.happens(1.0));
    }
}
