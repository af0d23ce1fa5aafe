//! The protocol's time. Two clocks, both passed in: one for how long, one for which window.

use std::ops::Add;
use std::time::Duration;

/// A monotonic instant of one process, in nanoseconds from an arbitrary start. Never compared between nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

/// The wall clock: nanoseconds since 2025-01-01T00:00:00Z, as the decision table counts. Windows are cut from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub u64);

/// One reading of both clocks, taken once and used for everything that follows from one input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// How long.
    pub instant: Instant,
    /// Which window. As read: it may step back and forth, the node sees to it that what it uses does not.
    pub wall: Wall,
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }
}

impl Instant {
    /// The time from `earlier` to here; zero if it is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Wall {
    /// Later by so much; stops at the end of time.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }

    /// The next nanosecond.
    #[must_use]
    pub const fn just_after(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// Earlier by so much; stops at zero.
    #[must_use]
    pub fn minus(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(nanos(by)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
