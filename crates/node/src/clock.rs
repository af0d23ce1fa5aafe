//! The only reader of the operating system's clocks, and of the processor's counter.
//!
//! [`Clock::now`] is the wall clock's reading at the start plus what a monotonic clock has counted since: it never
//! goes back, and steps of the wall clock do not move it. It must never read the wall clock twice.

mod ticks;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use gate::time::Now;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Tells the time to all surfaces. Clones tell the same time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System(Anchor),
    Manual(Arc<AtomicU64>),
}

/// A reading of the monotonic clock in nanoseconds, from an arbitrary start. The standard library's `Instant` reads the
/// same clock, but what it takes to subtract two of them is a good part of a decision's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading(u64);

impl Reading {
    #[inline]
    fn take() -> Self {
        let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
        // The clock counts from about the machine's start, so neither is negative, and 2^64 ns are 584 years.
        Self(
            (tv_sec as u64)
                .saturating_mul(1_000_000_000)
                .saturating_add(tv_nsec as u64),
        )
    }
}

/// Where the monotonic clock stood when the wall clock was read.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    wall: Now,
    monotonic: Reading,
    /// Whether the monotonic clock is told by the processor's counter.
    by_ticks: bool,
}

impl Anchor {
    #[inline]
    fn now(&self) -> Now {
        self.at(if self.by_ticks {
            ticks::now()
        } else {
            Reading::take()
        })
    }

    #[inline]
    fn at(&self, reading: Reading) -> Now {
        let elapsed = reading.0.saturating_sub(self.monotonic.0);
        Now::from_nanos(self.wall.nanos().saturating_add(elapsed))
    }
}

impl Clock {
    /// Starts from the wall clock, but not below `floor`: the latest time that the table has seen, so that a restart
    /// after the wall clock was set back does not give time back either.
    ///
    /// The monotonic clock stands still while the machine is suspended; a node that was suspended counts its windows
    /// from where it left off.
    #[must_use]
    #[allow(clippy::disallowed_methods)] // This is the node's clock.
    pub fn system(floor: Now) -> Self {
        Self::anchored(SystemTime::now(), Reading::take(), floor)
    }

    fn anchored(wall: SystemTime, monotonic: Reading, floor: Now) -> Self {
        let since_1970 = wall
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or(Duration::ZERO);
        let wall = Now::from_unix_nanos(since_1970.as_nanos()).max(floor);
        Self(Source::System(Anchor {
            wall,
            monotonic,
            by_ticks: ticks::trusted(),
        }))
    }

    /// A clock that stands where its hand is put.
    #[must_use]
    pub fn manual(start: Now) -> (Self, Hand) {
        let nanos = Arc::new(AtomicU64::new(start.nanos()));
        (Self(Source::Manual(Arc::clone(&nanos))), Hand(nanos))
    }

    /// The time. Never less than what this thread was told before, and at most by a hair (see `ticks`) than what
    /// another was.
    #[inline]
    #[must_use]
    pub fn now(&self) -> Now {
        match &self.0 {
            Source::System(anchor) => anchor.now(),
            // Acquire, with the hand's Release: who is told a time sees what was done before the hand moved.
            Source::Manual(nanos) => Now::from_nanos(nanos.load(Ordering::Acquire)),
        }
    }
}

/// Moves a manual clock, forward only.
#[derive(Clone, Debug)]
pub struct Hand(Arc<AtomicU64>);

impl Hand {
    /// Moves it on.
    pub fn advance(&self, by: Duration) {
        let by = u64::try_from(by.as_nanos()).unwrap_or(u64::MAX);
        // Release, with the clock's Acquire. The closure always gives a value, so the update cannot fail.
        let _ = self
            .0
            .fetch_update(Ordering::Release, Ordering::Relaxed, |nanos| {
                Some(nanos.saturating_add(by))
            });
    }
}

/// The time from one instant to a later one; zero if it is not later.
#[must_use]
pub const fn between(from: Now, to: Now) -> Duration {
    Duration::from_nanos(to.nanos().saturating_sub(from.nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn anchor(clock: &Clock) -> Anchor {
        match &clock.0 {
            Source::System(anchor) => *anchor,
            Source::Manual(_) => unreachable!("these tests anchor system clocks"),
        }
    }

    const START: Reading = Reading(5_000_000_000);

    #[test]
    fn time_is_the_wall_clock_at_the_start_and_monotonic_from_there() {
        let anchor = anchor(&Clock::anchored(wall(2_000_000_000), START, Now::default()));
        let at = |ms: u64| anchor.at(Reading(START.0 + ms * 1_000_000)).unix_nanos();
        assert_eq!(at(0), 2_000_000_000_000_000_000);
        assert_eq!(at(1_500), 2_000_000_001_500_000_000);
        // A reading of another core from before the anchor is the anchor's.
        assert_eq!(
            anchor.at(Reading(START.0 - 1_000_000_000)).unix_nanos(),
            at(0)
        );
        assert_eq!(anchor.at(Reading(u64::MAX)).nanos(), u64::MAX);
    }

    #[test]
    fn a_wall_clock_set_back_does_not_give_time_back() {
        let floor = Now::from_unix_nanos(2_000_000_000_000_000_000);
        for set_back in [1_999_999_999, 0] {
            let anchor = anchor(&Clock::anchored(wall(set_back), START, floor));
            assert_eq!(anchor.at(START), floor);
        }
        let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        let anchor = anchor(&Clock::anchored(before_1970, START, Now::default()));
        assert_eq!(anchor.at(START), Now::default());
    }

    #[test]
    fn readings_are_those_of_the_monotonic_clock() {
        let clock = Clock::system(Now::default());
        let before = clock.now();
        let waited = Duration::from_millis(20);
        // A hair longer: see `ticks`.
        let until = Reading(Reading::take().0 + waited.as_nanos() as u64 * 21 / 20);
        while Reading::take().0 < until.0 {
            std::thread::yield_now();
        }
        assert!(between(before, clock.now()) >= waited);
    }

    #[test]
    fn the_system_clock_never_goes_back_in_a_thread_and_hardly_between_threads() {
        // What a kernel that turns its clock's rate can make of it.
        const HAIR_NS: u64 = 1_000_000;
        let clock = Clock::system(Now::default());
        let latest = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut own = 0;
                    for _ in 0..100_000 {
                        let told_before = latest.load(Ordering::Acquire);
                        let now = clock.now().nanos();
                        assert!(now >= own);
                        assert!(now + HAIR_NS > told_before);
                        own = now;
                        latest.fetch_max(now, Ordering::AcqRel);
                    }
                });
            }
        });
    }

    #[test]
    fn a_manual_clock_moves_by_its_hand_alone() {
        let (clock, hand) = Clock::manual(Now::from_nanos(5));
        let same = clock.clone();
        hand.advance(Duration::from_nanos(7));
        assert_eq!((clock.now().nanos(), same.now().nanos()), (12, 12));
        assert_eq!(
            between(Now::from_nanos(5), clock.now()),
            Duration::from_nanos(7)
        );
        assert_eq!(between(clock.now(), Now::from_nanos(5)), Duration::ZERO);
        hand.advance(Duration::MAX);
        assert_eq!(clock.now().nanos(), u64::MAX);
    }
}
