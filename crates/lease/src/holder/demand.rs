//! How much a bucket's requests ask for, estimated from looks at the table (L): units a round, smoothed.

/// One unit a round, in the fixed point of [`Demand`].
const ONE: u64 = 1024;

/// Each round replaces one part in so many of the estimate.
const SMOOTHING: u64 = 16;

/// After so many rounds nothing of an older estimate is left.
const FORGOTTEN: u64 = 64;

/// An estimate of the rate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Demand {
    rate: u64,
    known: bool,
    /// The rate when something was last asked for.
    last_rate: u64,
}

impl Demand {
    /// `units` were asked for in `rounds` rounds.
    pub fn learn(&mut self, units: u64, rounds: u64) {
        let rounds = rounds.max(1);
        let seen = units.min(u64::MAX / ONE) * ONE / rounds;
        if !self.known || rounds >= FORGOTTEN {
            self.rate = seen;
            self.known = units > 0;
        } else {
            for _ in 0..rounds {
                let less = self.rate.div_ceil(SMOOTHING);
                self.rate = self.rate - less + seen / SMOOTHING;
            }
        }
        if units > 0 {
            self.last_rate = self.rate.max(1);
        }
    }

    /// What to expect of the next window: as much as in this one, which is nearly over, spread over its rounds.
    pub fn next_window(units: u64, rounds: u64) -> Self {
        let rate = units.min(u64::MAX / ONE) * ONE / rounds.max(1);
        Self {
            rate,
            known: true,
            last_rate: rate,
        }
    }

    /// Nothing more is expected.
    pub fn stop(&mut self) {
        *self = Self::default();
    }

    /// Units expected in so many rounds, rounded up.
    pub fn expected(&self, rounds: u64) -> u64 {
        let units = (u128::from(self.rate) * u128::from(rounds)).div_ceil(u128::from(ONE));
        u64::try_from(units).unwrap_or(u64::MAX)
    }

    /// After how many rounds without a request a key of this rate has stopped, rather than paused: a few times the mean
    /// time between units.
    pub fn pause(&self, times: u64) -> u64 {
        if self.last_rate == 0 {
            return 0;
        }
        (times * ONE).div_ceil(self.last_rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rate_is_learned_and_a_silence_forgotten() {
        let mut demand = Demand::default();
        for _ in 0..100 {
            demand.learn(3, 1);
        }
        assert!((115..=120).contains(&demand.expected(40)), "{demand:?}");
        assert_eq!(demand.pause(3), 1);
        demand.learn(0, 200);
        assert_eq!(demand.expected(40), 0);
    }

    #[test]
    fn a_slow_key_pauses_for_longer() {
        let mut demand = Demand::default();
        for _ in 0..200 {
            demand.learn(1, 10);
        }
        assert!((25..=40).contains(&demand.pause(3)), "{}", demand.pause(3));
        demand.learn(u64::MAX, 1);
        assert!(demand.expected(u64::MAX) > 0);
    }
}
