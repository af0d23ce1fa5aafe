//! What the command line asked for: which groups, how long, how often.

use std::time::Duration;

/// Runs of each subject in a group, whatever else was asked for.
const ROUNDS: usize = 5;

/// The options, read.
pub struct Plan {
    /// All in under ten minutes.
    pub quick: bool,
    /// Only groups with this in their name.
    pub only: Option<String>,
}

impl Plan {
    /// Whether a group is to be measured.
    pub fn wants(&self, group: &str) -> bool {
        self.only.as_deref().is_none_or(|only| group.contains(only))
    }

    /// Alternated runs of each subject.
    pub fn rounds(&self) -> usize {
        if self.quick { ROUNDS } else { ROUNDS + 2 }
    }

    /// Decisions by each thread in a run in process.
    pub fn decisions(&self) -> usize {
        if self.quick { 1 << 19 } else { 1 << 22 }
    }

    /// How long a load is counted.
    pub fn load_time(&self) -> Duration {
        if self.quick {
            Duration::from_millis(1200)
        } else {
            Duration::from_secs(5)
        }
    }

    /// How long a burst lasts: the same always, for it is part of what is measured.
    pub fn burst_time(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Fresh servers that are filled with keys; their memory hardly differs from run to run.
    pub fn memory_rounds(&self) -> usize {
        ROUNDS
    }

    /// Tells whoever waits what is going on.
    pub fn say(&self, what: &str) {
        eprintln!("bench: {what}");
    }
}
