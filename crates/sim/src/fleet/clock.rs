//! One machine's two clocks, and how wrong they are.

use lease::time::{Instant, Now, Wall};

use super::queue::At;

/// True time 0 as the wall clock of a machine without fault shows it: 600 days after the epoch that windows are counted
/// from, so that a step back by many days stays above zero.
pub const START: Wall = Wall(600 * 86_400 * 1_000_000_000);

/// Both clocks of one machine. They drift together; only the wall clock is stepped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    /// The wall clock's error, without drift, in nanoseconds.
    step_ns: i64,
    /// How much faster than true time both run, in parts per million.
    drift_ppm: i64,
    /// Where the drift began to count, and what had been gathered until then.
    anchor: At,
    gathered_ns: i64,
}

impl Clock {
    pub(crate) const fn new(step_ns: i64, drift_ppm: i64) -> Self {
        Self {
            step_ns,
            drift_ppm,
            anchor: At(0),
            gathered_ns: 0,
        }
    }

    /// What both clocks show at `at`. The monotonic one counts from the start of the run, drift included.
    pub(crate) fn now(&self, at: At) -> Now {
        let counted = at.0.saturating_add_signed(self.drift(at));
        Now {
            instant: Instant(counted),
            wall: Wall(
                START
                    .0
                    .saturating_add(counted)
                    .saturating_add_signed(self.step_ns),
            ),
        }
    }

    /// When the monotonic clock will show `instant`, not before it does.
    pub(crate) fn when(&self, instant: Instant) -> At {
        let mut guess = At(instant.0.saturating_add_signed(-self.drift(At(instant.0))));
        // What is still missing shrinks by the drift, at least a hundredfold, each time.
        loop {
            let missing = instant.0.saturating_sub(self.now(guess).instant.0);
            if missing == 0 || guess == At::NEVER {
                return guess;
            }
            guess = guess.plus(missing);
        }
    }

    pub(crate) const fn step(&mut self, by_ns: i64) {
        self.step_ns = self.step_ns.saturating_add(by_ns);
    }

    /// The wall clock is right again, but for this error.
    pub(crate) const fn set_error(&mut self, ns: i64, at: At) {
        self.step_ns = ns.saturating_sub(self.drift(at));
    }

    pub(crate) const fn set_drift(&mut self, ppm: i64, at: At) {
        self.gathered_ns = self.drift(at);
        self.anchor = at;
        self.drift_ppm = ppm;
    }

    const fn drift(&self, at: At) -> i64 {
        let since = at.0.saturating_sub(self.anchor.0) as i64;
        // A run of a day at 500 ppm: 8.64e13 * 500 = 4.3e16, well within 64 bits.
        self.gathered_ns + since.saturating_mul(self.drift_ppm) / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drift_moves_both_and_a_step_only_the_wall_clock() {
        let mut clock = Clock::new(0, 100);
        let second = At(1_000_000_000);
        assert_eq!(clock.now(second).instant.0, 1_000_100_000);
        assert_eq!(clock.now(second).wall.0, START.0 + 1_000_100_000);
        clock.step(-86_400_000_000_000);
        assert_eq!(clock.now(second).instant.0, 1_000_100_000);
        clock.set_drift(0, second);
        assert_eq!(clock.now(At(2_000_000_000)).instant.0, 2_000_100_000);
        clock.set_error(5, At(2_000_000_000));
        assert_eq!(clock.now(At(2_000_000_000)).wall.0, START.0 + 2_000_000_005);
    }

    #[test]
    fn when_is_never_early() {
        for ppm in [-500, -1, 0, 3, 500] {
            let clock = Clock::new(0, ppm);
            for instant in [0, 1, 999, 25_000_000, 1_234_567_891_011] {
                let at = clock.when(Instant(instant));
                let shown = clock.now(at).instant.0;
                assert!(shown >= instant, "{ppm} {instant}: {shown}");
                assert!(shown < instant + 1_000, "{ppm} {instant}: {shown}");
            }
        }
    }
}
