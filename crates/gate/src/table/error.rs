//! Why a table could not be had, or not be continued.

use std::io;
use std::path::PathBuf;

use super::MOST_LIVE_BUCKETS;

/// Why a table could not be had. A table in memory that exists is never affected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// More buckets than a table may have.
    #[error("a table for {live_buckets} live buckets is too large: at most {MOST_LIVE_BUCKETS}")]
    TooLarge {
        /// The number asked for.
        live_buckets: u64,
    },
    /// The processor cannot change 128 bits in one step.
    #[error("this processor has no 128-bit compare-and-swap (cmpxchg16b), which the table needs")]
    Processor,
    /// The memory could not be had.
    #[error("no memory for a table of {bytes} bytes: lower the number of live buckets")]
    Memory {
        /// Its size.
        bytes: u64,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file could not be opened, made or read.
    #[error("the table file {path}: cannot {action} it")]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// What identifies this boot of the machine could not be read.
    #[error("cannot read the machine's boot id from /proc/sys/kernel/random/boot_id")]
    BootId {
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The path names something else than a table's file. It was left as it was.
    #[error("{path} is not a table file: name a file that does not exist, or remove this one")]
    NotATable {
        /// The path.
        path: PathBuf,
    },
    /// The file is a table's, but damaged, and damage was to be refused. It was left as it was.
    #[error(
        "the table file {path} is damaged: {why}; to begin anew, which forgets all counts, remove it"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: Discard,
    },
    /// The file would have to be begun anew, but another process decides on it now.
    #[error(
        "the table file {path} is in use by another process, and {why}: stop that process, or give both the same settings"
    )]
    InUse {
        /// The file.
        path: PathBuf,
        /// Why it would have to be begun anew.
        why: Discard,
    },
    /// Another process has been preparing the file for too long.
    #[error("the table file {path} is held by another process that has not finished preparing it")]
    Held {
        /// The file.
        path: PathBuf,
    },
}

/// Why what a file held was not continued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Discard {
    /// Its making was never finished.
    #[error("its making was never finished")]
    Unfinished,
    /// Another layout.
    #[error("its layout is version {found}, not {}", super::header::VERSION)]
    Version {
        /// The version found.
        found: u64,
    },
    /// The machine has restarted since: what reached the disk may be torn.
    #[error("the machine has restarted since it was written")]
    MachineRestarted,
    /// The hash secret is another, so every bucket has another id.
    #[error("it was written under another hash secret")]
    Secret,
    /// It was made for another number of live buckets.
    #[error("it has {found} slots, not {expected}")]
    Slots {
        /// Slots found.
        found: u64,
        /// Slots wanted.
        expected: u64,
    },
    /// Its contents cannot have been written by a table.
    #[error("its contents are damaged")]
    Damaged,
    /// It is shorter than its header says, or longer.
    #[error("it has {found} bytes{}: it was cut off or copied badly", in_place_of(*.expected))]
    CutOff {
        /// Its length.
        found: u64,
        /// The length that its header gives, if that much is left of it.
        expected: Option<u64>,
    },
    /// Its latest time is far ahead of the clock.
    #[error("its latest time is more than an hour ahead of the clock")]
    AheadOfClock,
}

fn in_place_of(expected: Option<u64>) -> String {
    expected.map_or_else(String::new, |bytes| format!(" in place of {bytes}"))
}

impl Discard {
    /// Whether something has spoilt the file, in place of its simply being of another time or for other settings.
    #[must_use]
    pub const fn is_damage(self) -> bool {
        match self {
            Self::Damaged | Self::CutOff { .. } => true,
            Self::Unfinished
            | Self::Version { .. }
            | Self::MachineRestarted
            | Self::Secret
            | Self::Slots { .. }
            | Self::AheadOfClock => false,
        }
    }
}
