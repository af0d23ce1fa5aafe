//! The node's two readings of the wall clock: one for what is at stake across a restart, one for which window it is.
//!
//! The first never goes back, not even over a restart: it must never pass the floor that is known to be on disk.

use std::time::Duration;

use crate::config::FLOOR_AHEAD;
use crate::node::Boot;
use crate::time::{Instant, Now, Wall};

/// A clock that steps back by no more than this is waited for; by more, the node only holds until it has caught up.
const TOLERATED_STEP: Duration = Duration::from_secs(1);

/// What one input's time is taken to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    /// How long.
    pub instant: Instant,
    /// Which window, for spending what others issued. May step back by more than [`TOLERATED_STEP`].
    pub held: Wall,
    /// Which window, for issuing, pledging and self-granting. Never goes back.
    pub sure: Wall,
    /// The clock is behind what this node or an incarnation before it has used: issue, pledge, self-grant nothing.
    pub behind: bool,
}

#[derive(Debug)]
pub(crate) struct Clock {
    /// `max(clock, floor)` at the start: no incarnation before this one has used a later time.
    pub boot: Wall,
    held: Wall,
    sure: Wall,
    behind: bool,
    saved: Wall,
    asked: Wall,
    /// Whether the saved floor limits what may be used. Always, but for a mutant.
    floored: bool,
}

impl Clock {
    pub fn start(boot: Boot, wall: Wall, floored: bool) -> Self {
        let floor = if floored { boot.floor } else { Wall(0) };
        Self {
            boot: wall.max(floor),
            held: wall,
            sure: floor,
            behind: wall < floor,
            saved: floor,
            asked: floor,
            floored,
        }
    }

    /// Takes a reading. Says whether `behind` has changed.
    pub fn read(&mut self, now: Now) -> (Time, bool) {
        let before = self.behind;
        if now.wall >= self.held || self.held.minus(TOLERATED_STEP) > now.wall {
            self.held = now.wall;
        }
        if now.wall >= self.sure {
            self.behind = false;
            let most = if self.floored { self.saved } else { now.wall };
            self.sure = self.sure.max(now.wall.min(most));
        } else if self.sure.minus(TOLERATED_STEP) > now.wall {
            self.behind = true;
        }
        let time = Time {
            instant: now.instant,
            held: self.held,
            sure: self.sure,
            behind: self.behind,
        };
        (time, before != self.behind)
    }

    /// The floor to save now, if the one on disk or on its way is near.
    pub fn floor_to_save(&mut self, now: Now) -> Option<Wall> {
        if self.behind || !self.floored || now.wall.plus(FLOOR_AHEAD / 2) <= self.asked {
            return None;
        }
        self.asked = now.wall.plus(FLOOR_AHEAD);
        Some(self.asked)
    }

    pub fn saved(&mut self, floor: Wall) {
        self.saved = self.saved.max(floor.min(self.asked));
    }

    pub const fn used(&self) -> Wall {
        self.sure
    }

    pub const fn floor(&self) -> Wall {
        self.saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(second: u64) -> Now {
        Now {
            instant: Instant(0),
            wall: Wall(second * SECOND),
        }
    }

    #[test]
    fn a_reading_above_the_saved_floor_is_not_used_until_the_next_floor_is_on_disk() {
        let boot = Boot {
            floor: Wall(10 * SECOND),
            first: false,
        };
        let mut clock = Clock::start(boot, Wall(12 * SECOND), true);
        assert_eq!(clock.boot, Wall(12 * SECOND));
        let (time, _) = clock.read(at(12));
        assert_eq!(
            (time.held, time.sure),
            (Wall(12 * SECOND), Wall(10 * SECOND))
        );
        assert_eq!(clock.floor_to_save(at(12)), Some(Wall(13 * SECOND)));
        assert_eq!(clock.floor_to_save(at(12)), None);
        clock.saved(Wall(13 * SECOND));
        assert_eq!(clock.read(at(12)).0.sure, Wall(12 * SECOND));
        assert_eq!(clock.read(at(86_400)).0.sure, Wall(13 * SECOND));
    }

    #[test]
    fn a_node_behind_its_floor_holds_by_the_real_clock_until_that_has_passed_it() {
        let boot = Boot {
            floor: Wall(100 * SECOND),
            first: false,
        };
        let mut clock = Clock::start(boot, Wall(40 * SECOND), true);
        assert_eq!(clock.boot, Wall(100 * SECOND));
        let (time, _) = clock.read(at(41));
        assert!(time.behind);
        assert_eq!(
            (time.held, time.sure),
            (Wall(41 * SECOND), Wall(100 * SECOND))
        );
        assert_eq!(clock.floor_to_save(at(41)), None);
        let (time, changed) = clock.read(at(100));
        assert!(!time.behind && changed);
    }

    #[test]
    fn a_small_step_back_stands_still_and_a_large_one_makes_a_holder_only() {
        let mut clock = Clock::start(
            Boot {
                floor: Wall(50 * SECOND),
                first: false,
            },
            Wall(50 * SECOND),
            true,
        );
        let half_back = Now {
            instant: Instant(0),
            wall: Wall(50 * SECOND - SECOND / 2),
        };
        let (time, _) = clock.read(half_back);
        assert!(!time.behind);
        assert_eq!(
            (time.held, time.sure),
            (Wall(50 * SECOND), Wall(50 * SECOND))
        );
        let (time, changed) = clock.read(at(30));
        assert!(time.behind && changed);
        assert_eq!(
            (time.held, time.sure),
            (Wall(30 * SECOND), Wall(50 * SECOND))
        );
    }
}
