//! How values are spread: quantiles and a histogram, each value with a weight.

use serde::Serialize;

/// Values with weights, in order.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// Each value with the weight of all up to and including it.
    values: Vec<(f64, u64)>,
}

impl Spread {
    /// Sorts values with their weights. Values that are no numbers are left out, as are those of no weight.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = (f64, u64)>) -> Self {
        let mut values: Vec<(f64, u64)> = values
            .into_iter()
            .filter(|(value, weight)| !value.is_nan() && *weight > 0)
            .collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut sum = 0_u64;
        for (_, weight) in &mut values {
            sum = sum.saturating_add(*weight);
            *weight = sum;
        }
        Self { values }
    }

    /// The weight of all values.
    #[must_use]
    pub fn weight(&self) -> u64 {
        self.values.last().map_or(0, |(_, sum)| *sum)
    }

    /// The smallest value that, with all below it, has at least this share (0 to 1) of the weight; none without values.
    /// (Nearest rank: always a value that occurred.)
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let wanted = (share * self.weight() as f64).ceil() as u64;
        let at = self.values.partition_point(|(_, sum)| *sum < wanted);
        let at = at.min(self.values.len().checked_sub(1)?);
        Some(self.values[at].0)
    }

    /// The weight of the values up to and including one.
    #[must_use]
    pub fn weight_to(&self, value: f64) -> u64 {
        match self.values.partition_point(|(other, _)| *other <= value) {
            0 => 0,
            count => self.values[count - 1].1,
        }
    }

    /// The values and the shares of the weight up to them, for drawing: at most about `most` points.
    #[must_use]
    pub fn points(&self, most: usize) -> Vec<(f64, f64)> {
        let whole = self.weight() as f64;
        let step = (self.values.len() / most.max(1)).max(1);
        let last = self.values.len().saturating_sub(1);
        let chosen = self.values.iter().enumerate();
        let chosen = chosen.filter(|(at, _)| at % step == 0 || *at == last);
        chosen
            .map(|(_, (value, sum))| (*value, *sum as f64 / whole))
            .collect()
    }
}

/// The quantiles that are told.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// The median.
    pub p50: f64,
    /// Nine of ten are at most this.
    pub p90: f64,
    /// Nineteen of twenty are.
    pub p95: f64,
    /// Ninety-nine of a hundred are.
    pub p99: f64,
    /// All are.
    pub max: f64,
}

impl Quantiles {
    /// Of a spread; none if it has no values.
    #[must_use]
    pub fn of(spread: &Spread) -> Option<Self> {
        Some(Self {
            p50: spread.quantile(0.50)?,
            p90: spread.quantile(0.90)?,
            p95: spread.quantile(0.95)?,
            p99: spread.quantile(0.99)?,
            max: spread.quantile(1.0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_are_values_that_occurred() {
        let spread = Spread::new((1..=100).map(|value| (f64::from(value), 1)));
        let quantiles = Quantiles::of(&spread).unwrap();
        let expected = Quantiles {
            p50: 50.0,
            p90: 90.0,
            p95: 95.0,
            p99: 99.0,
            max: 100.0,
        };
        assert_eq!(quantiles, expected);
        assert_eq!(spread.quantile(0.0), Some(1.0));
        assert_eq!(spread.weight_to(1.5), 1);
        assert_eq!(spread.weight_to(0.5), 0);
        assert_eq!(Quantiles::of(&Spread::default()), None);
    }

    #[test]
    fn weights_count() {
        let spread = Spread::new([(2.0, 1), (1.0, 98), (3.0, 1), (9.0, 0), (f64::NAN, 5)]);
        assert_eq!((spread.weight(), spread.quantile(0.98)), (100, Some(1.0)));
        assert_eq!(
            (spread.quantile(0.99), spread.quantile(1.0)),
            (Some(2.0), Some(3.0))
        );
        assert_eq!(spread.points(10), [(1.0, 0.98), (2.0, 0.99), (3.0, 1.0)]);
    }

    proptest! {
        /// A weight is as good as so many equal values.
        #[test]
        fn weighted_and_repeated_agree(
            values in proptest::collection::vec((0_u8..20, 1_u64..6), 1..40), share in 0.0..=1.0,
        ) {
            let weighted = Spread::new(values.iter().map(|&(value, weight)| (f64::from(value), weight)));
            let repeated = Spread::new(values.iter().flat_map(|&(value, weight)| {
                (0..weight).map(move |_| (f64::from(value), 1))
            }));
            prop_assert_eq!(weighted.quantile(share), repeated.quantile(share));
        }
    }
}
