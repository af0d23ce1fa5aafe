//! Why a line is no record of a request. It names what is wrong and where in the line, never what stands there: a
//! line holds addresses and may hold API keys.

use super::lines::MOST_LINE_BYTES;
use super::time::TimeError;

/// Why a line could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadLine {
    /// It goes on for too long; the rest of it is skipped.
    #[error("is longer than {MOST_LINE_BYTES} bytes")]
    TooLong,
    /// It is neither a JSON object nor does it hold a time in brackets.
    #[error(
        "is in no known format: common, combined, or one JSON object a line (nginx: `escape=json`)"
    )]
    UnknownFormat,
    /// Envoy's default format, in which a caller's own quotes stand unescaped.
    #[error(
        "is in Envoy's default text format, in which a caller can forge fields: let Envoy write \
         `json_format`"
    )]
    EnvoyText,
    /// A common or combined line that breaks off or has other fields.
    #[error("has no {0} where the common log format has it")]
    NotCommon(&'static str),
    /// It begins as a JSON object but is none.
    #[error(
        "is not one JSON object: wrong at column {column} (nginx: set `escape=json` in `log_format`)"
    )]
    NotJson {
        /// Where, in bytes, counted from 1.
        column: usize,
    },
    /// None of the fields that could hold something is there.
    #[error("has no field for the {what}: it would be one of {}", names.join(", "))]
    NoField {
        /// What is wanted.
        what: &'static str,
        /// The names looked for.
        names: &'static [&'static str],
    },
    /// A JSON object names a wanted field twice.
    #[error("has the field for the {0} twice")]
    Twice(&'static str),
    /// The key is to be read from a field that this format does not name.
    #[error(
        "has fields without names: in common and combined logs the key is `address`, `user`, \
         `header:referer`, `header:user-agent` or `field:NUMBER`"
    )]
    Unnamed,
    /// The time is none.
    #[error("has a time that {0}")]
    Time(#[from] TimeError),
    /// The status is not a number from 100 to 999.
    #[error("has a status that is no number from 100 to 999")]
    Status,
}

/// The kinds of [`BadLine`], for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// [`BadLine::TooLong`].
    TooLong,
    /// [`BadLine::UnknownFormat`] and [`BadLine::EnvoyText`].
    Format,
    /// [`BadLine::NotCommon`] and [`BadLine::NotJson`].
    Broken,
    /// [`BadLine::NoField`], [`BadLine::Twice`] and [`BadLine::Unnamed`].
    Field,
    /// [`BadLine::Time`].
    Time,
    /// [`BadLine::Status`].
    Status,
}

impl Cause {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::TooLong,
        Self::Format,
        Self::Broken,
        Self::Field,
        Self::Time,
        Self::Status,
    ];

    /// In words, as a table shows it.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::TooLong => "too long",
            Self::Format => "unknown format",
            Self::Broken => "broken off or malformed",
            Self::Field => "a field missing or given twice",
            Self::Time => "unreadable time",
            Self::Status => "unreadable status",
        }
    }
}

impl BadLine {
    /// Its kind.
    #[must_use]
    pub const fn cause(&self) -> Cause {
        match self {
            Self::TooLong => Cause::TooLong,
            Self::UnknownFormat | Self::EnvoyText => Cause::Format,
            Self::NotCommon(_) | Self::NotJson { .. } => Cause::Broken,
            Self::NoField { .. } | Self::Twice(_) | Self::Unnamed => Cause::Field,
            Self::Time(_) => Cause::Time,
            Self::Status => Cause::Status,
        }
    }
}
