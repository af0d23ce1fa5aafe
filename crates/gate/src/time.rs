//! The gate's time: nanoseconds since Leasehold's epoch, handed in by the caller.

/// 2025-01-01T00:00:00Z in seconds since the Unix epoch. Counting from here instead of 1970 keeps a token bucket's
/// state, which is finer than a nanosecond, inside 64 bits until 2098.
pub const EPOCH_UNIX_SECONDS: u64 = 1_735_689_600;

/// An instant: nanoseconds since [`EPOCH_UNIX_SECONDS`]. Whoever makes one sees to it that it never goes back within
/// a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Now(u64);

impl Now {
    /// Takes nanoseconds since Leasehold's epoch.
    #[must_use]
    pub const fn from_nanos(since_epoch: u64) -> Self {
        Self(since_epoch)
    }

    /// Takes nanoseconds since the Unix epoch; what is before 2025 is 2025's first instant.
    #[must_use]
    pub const fn from_unix_nanos(unix: u128) -> Self {
        let since = unix.saturating_sub(EPOCH_UNIX_SECONDS as u128 * 1_000_000_000);
        Self(if since > u64::MAX as u128 {
            u64::MAX
        } else {
            since as u64
        })
    }

    /// Nanoseconds since Leasehold's epoch.
    #[must_use]
    pub const fn nanos(self) -> u64 {
        self.0
    }

    /// Nanoseconds since the Unix epoch.
    #[must_use]
    pub const fn unix_nanos(self) -> u128 {
        self.0 as u128 + EPOCH_UNIX_SECONDS as u128 * 1_000_000_000
    }
}
