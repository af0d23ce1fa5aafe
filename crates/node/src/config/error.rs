//! What can be wrong with a configuration. Every fault names its key and where that was set, and what would be right.

use std::fmt;
use std::path::PathBuf;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A line of the file.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// `--set`.
    CommandLine,
    /// Nowhere: the value is the default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment { variable } => write!(f, "environment variable {variable}"),
            Self::CommandLine => f.write_str("--set"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// One fault.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is larger than a configuration can be.
    #[error("{}: {bytes} bytes are too many for a configuration, at most {most}", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The most.
        most: u64,
    },
    /// The file is not TOML.
    #[error("{origin}: not TOML: {problem}")]
    Syntax {
        /// Where.
        origin: Origin,
        /// What the parser says.
        problem: String,
    },
    /// There is no such key.
    #[error("{origin}: unknown key `{key}`{}", suggestion(near))]
    UnknownKey {
        /// Where.
        origin: Origin,
        /// The key.
        key: String,
        /// The known key that is nearest, if one is near.
        near: Option<String>,
    },
    /// The value does not fit its key.
    #[error("{origin}: `{key}` is {given}: expected {expected}")]
    BadValue {
        /// Where.
        origin: Origin,
        /// The key.
        key: &'static str,
        /// What was given; of a secret, only that it was.
        given: String,
        /// What would be right.
        expected: String,
    },
    /// A `--set` without `=`.
    #[error("--set {given:?}: expected KEY=VALUE")]
    NotAnAssignment {
        /// What was given.
        given: String,
    },
    /// An environment variable of ours that is not UTF-8.
    #[error("environment variable {variable}: its value is not UTF-8")]
    NotUtf8 {
        /// Its name, as well as it can be shown.
        variable: String,
    },
    /// Settings that contradict each other.
    #[error("`{key}` and `{other}`: {problem}")]
    Conflict {
        /// One key.
        key: &'static str,
        /// The other.
        other: &'static str,
        /// What is wrong, and what would be right.
        problem: String,
    },
}

fn suggestion(near: &Option<String>) -> String {
    near.as_ref()
        .map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// All faults of a configuration, at least one. Nothing was started.
#[derive(Debug)]
pub struct ConfigError(pub Vec<Fault>);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration is refused:")?;
        self.0.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

impl std::error::Error for ConfigError {}
