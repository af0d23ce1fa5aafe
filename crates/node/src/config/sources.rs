//! The sources of a configuration, turned into assignments: the file, the environment, the command line.
//!
//! This knows nothing of which keys there are, only where each assignment came from.

use std::ffi::OsString;
use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::error::{Fault, Origin};
use super::setting::Raw;

/// One value for one key.
#[derive(Clone, Debug)]
pub struct Assignment {
    /// The key, its sections separated by dots.
    pub key: String,
    /// The value.
    pub value: Raw,
    /// Where it was set.
    pub origin: Origin,
}

/// What every variable of ours begins with. Two underscores, so that the variables which Kubernetes makes of a service
/// named `leasehold` (`LEASEHOLD_PORT` ...) are none.
pub const PREFIX: &str = "LEASEHOLD__";

/// A configuration has some fifty keys; a larger file is a mistake.
const MOST_FILE_BYTES: u64 = 1 << 20;

/// Reads the file's assignments.
pub fn file(path: &Path) -> Result<Vec<Assignment>, Fault> {
    let unreadable = |source| Fault::Unreadable {
        path: path.to_owned(),
        source,
    };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > MOST_FILE_BYTES {
        return Err(Fault::TooLarge {
            path: path.to_owned(),
            bytes,
            most: MOST_FILE_BYTES,
        });
    }
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    document(path, &text)
}

/// Reads the assignments of a file's text.
pub fn document(path: &Path, text: &str) -> Result<Vec<Assignment>, Fault> {
    let origin = |at: usize| Origin::File {
        path: path.to_owned(),
        line: 1 + text.as_bytes()[..at.min(text.len())]
            .iter()
            .filter(|b| **b == b'\n')
            .count(),
    };
    let table = DeTable::parse(text).map_err(|error| Fault::Syntax {
        origin: origin(error.span().map_or(0, |span| span.start)),
        problem: error.message().to_owned(),
    })?;
    let mut assignments = Vec::new();
    flatten(table.get_ref(), "", &origin, &mut assignments);
    Ok(assignments)
}

fn flatten(
    table: &DeTable<'_>,
    prefix: &str,
    origin: &dyn Fn(usize) -> Origin,
    into: &mut Vec<Assignment>,
) {
    for (name, value) in table {
        let key = match prefix {
            "" => name.get_ref().to_string(),
            _ => format!("{prefix}.{}", name.get_ref()),
        };
        match value.get_ref() {
            DeValue::Table(inner) if !inner.is_empty() => flatten(inner, &key, origin, into),
            other => into.push(Assignment {
                key,
                value: raw(other),
                origin: origin(name.span().start),
            }),
        }
    }
}

fn raw(value: &DeValue<'_>) -> Raw {
    match value {
        DeValue::String(text) => Raw::String(text.to_string()),
        DeValue::Boolean(truth) => Raw::Boolean(*truth),
        DeValue::Integer(integer) => i128::from_str_radix(integer.as_str(), integer.radix())
            .map_or(Raw::Other("number that no setting takes"), Raw::Integer),
        DeValue::Array(items) => Raw::List(items.iter().map(|item| raw(item.get_ref())).collect()),
        DeValue::Float(_) => Raw::Other("number with a fraction"),
        DeValue::Datetime(_) => Raw::Other("date"),
        DeValue::Table(inner) => Raw::Table(
            inner
                .iter()
                .map(|(name, value)| (name.get_ref().to_string(), raw(value.get_ref())))
                .collect(),
        ),
    }
}

/// Reads the assignments among environment variables, in the order of their names.
pub fn environment(
    variables: impl IntoIterator<Item = (OsString, OsString)>,
) -> (Vec<Assignment>, Vec<Fault>) {
    let mut ours: Vec<(OsString, OsString)> = variables
        .into_iter()
        .filter(|(name, _)| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
        .collect();
    ours.sort();
    let (mut assignments, mut faults) = (Vec::new(), Vec::new());
    for (name, value) in ours {
        let variable = name.to_string_lossy().into_owned();
        match (name.into_string(), value.into_string()) {
            (Ok(name), Ok(value)) => assignments.push(Assignment {
                key: name[PREFIX.len()..].to_lowercase().replace("__", "."),
                value: Raw::Text(value),
                origin: Origin::Environment { variable },
            }),
            _ => faults.push(Fault::NotUtf8 { variable }),
        }
    }
    (assignments, faults)
}

/// Variables that look like ours but for their underscores, each with the one that was probably meant. They are not
/// taken, since Kubernetes makes such variables of its own; see [`PREFIX`].
pub fn nearly_ours<'a>(
    names: impl IntoIterator<Item = &'a OsString>,
    keys: impl Iterator<Item = &'static str> + Clone,
) -> Vec<(String, String)> {
    let single = |name: &str| name.replace("__", "_");
    let mut found: Vec<_> = names
        .into_iter()
        .filter_map(|name| name.to_str())
        .filter(|name| name.starts_with("LEASEHOLD_") && !name.starts_with(PREFIX))
        .filter_map(|name| {
            let looks = single(name);
            let meant = keys
                .clone()
                .map(variable)
                .find(|meant| single(meant) == looks)?;
            Some((name.to_owned(), meant))
        })
        .collect();
    found.sort();
    found
}

/// The variable that sets a key.
#[must_use]
pub fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "__").to_uppercase())
}

/// Reads `KEY=VALUE` of the command line.
pub fn command_line(given: &str) -> Result<Assignment, Fault> {
    let (key, value) = given
        .split_once('=')
        .filter(|(key, _)| !key.is_empty())
        .ok_or_else(|| Fault::NotAnAssignment {
            given: given.to_owned(),
        })?;
    Ok(Assignment {
        key: key.trim().to_owned(),
        value: Raw::Text(value.to_owned()),
        origin: Origin::CommandLine,
    })
}
