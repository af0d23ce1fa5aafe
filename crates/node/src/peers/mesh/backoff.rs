//! How long to wait before the next attempt to connect: twice as long after each failure, up to a bound, with jitter,
//! so that the nodes of a fleet do not all call a restarted one at the same moment.

use std::time::Duration;

/// The wait before the next attempt.
#[derive(Debug)]
pub(super) struct Backoff {
    least: Duration,
    most: Duration,
    next: Duration,
}

impl Backoff {
    pub(super) fn new(least: Duration, most: Duration) -> Self {
        Self {
            least,
            most,
            next: least.min(most),
        }
    }

    /// The attempt succeeded: begin anew.
    pub(super) fn reset(&mut self) {
        self.next = self.least.min(self.most);
    }

    /// The wait after a failure: between a half and the whole of what is due, by these random bits.
    pub(super) fn wait(&mut self, random: u64) -> Duration {
        let whole = self.next;
        self.next = whole.saturating_mul(2).min(self.most);
        jittered(whole, random)
    }
}

/// Between a half and the whole.
pub(super) fn jittered(whole: Duration, random: u64) -> Duration {
    let half = whole / 2;
    let nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
    // The high half of the product: evenly spread over 0..nanos.
    let more = (u128::from(nanos) * u128::from(random)) >> 64;
    half + Duration::from_nanos(u64::try_from(more).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_bound_and_begin_anew() {
        let ms = Duration::from_millis;
        let mut backoff = Backoff::new(ms(50), ms(300));
        for whole in [50, 100, 200, 300, 300] {
            let longest = backoff.wait(u64::MAX);
            assert!(
                longest <= ms(whole) && longest > ms(whole) - ms(1),
                "{longest:?}"
            );
        }
        backoff.reset();
        assert_eq!(backoff.wait(0), ms(25));
        assert_eq!(Backoff::new(ms(5), ms(0)).wait(7), ms(0));
    }
}
