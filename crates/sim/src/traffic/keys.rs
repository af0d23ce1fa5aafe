//! Which key a request counts against.

use crate::chance::Chance;

/// How a stream picks its keys, by their place in the run's list.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Always the same.
    One(usize),
    /// The first most often, by Zipf's law.
    Zipf(Zipf),
}

impl Choice {
    pub(crate) fn draw(&self, chance: &mut Chance) -> usize {
        match self {
            Self::One(key) => *key,
            Self::Zipf(zipf) => zipf.draw(chance),
        }
    }
}

/// Zipf's law over a number of keys: the k-th is drawn in proportion to `1 / k^exponent`.
#[derive(Clone, Debug)]
pub struct Zipf {
    /// Where its keys begin in the run's list.
    first: usize,
    /// Up to and with each key, the share of all draws.
    cumulated: Vec<f64>,
}

impl Zipf {
    /// For so many keys, at least one, from the `first` of the run's list on.
    #[must_use]
    pub fn new(first: usize, keys: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let mut cumulated: Vec<f64> = (1..=keys.max(1))
            .map(|rank| {
                sum += (rank as f64).powf(-exponent);
                sum
            })
            .collect();
        for share in &mut cumulated {
            *share /= sum;
        }
        Self { first, cumulated }
    }

    fn draw(&self, chance: &mut Chance) -> usize {
        let at = chance.fraction();
        let place = self.cumulated.partition_point(|&share| share <= at);
        self.first + place.min(self.cumulated.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_as_the_law_says() {
        let zipf = Zipf::new(5, 100, 1.0);
        let mut chance = Chance::new(3);
        let mut seen = [0u32; 100];
        for _ in 0..100_000 {
            seen[zipf.draw(&mut chance) - 5] += 1;
        }
        // 1 / H(100) = 0.1928; the tenth key a tenth of that.
        assert!((18_700..19_900).contains(&seen[0]), "{}", seen[0]);
        assert!((1_700..2_200).contains(&seen[9]), "{}", seen[9]);
        assert!(seen.iter().all(|&n| n > 0));
    }
}
