//! What the command line asked for: which groups, how long, how often.

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
        if self.quick { 1 << 20 } else { 1 << 22 }
    }

    /// Tells whoever waits what is going on.
    pub fn say(&self, what: &str) {
        eprintln!("bench: {what}");
    }
}
