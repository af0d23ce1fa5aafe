//! Reading typed values out of a [`Node`] tree, with every fault recorded at its place.
//!
//! Reading goes on after a fault, so that one pass tells all of them; [`Reported`] is the proof that
//! a value is missing because a fault says why. Nothing here falls back to a default silently.

mod place;

use std::fmt;

use crate::fault::{Fault, FaultKind, Faults, Position, Quoted, Read, Reported};
use crate::yaml::{Content, Key, Node};

pub use self::place::{MAX_TEXT, Place};

/// The way from the root to a node.
#[derive(Clone, Copy)]
pub enum Path<'a> {
    /// The whole document.
    Root,
    /// A field or key of a mapping.
    Field(&'a Path<'a>, &'a str),
    /// An item of a list, from 0.
    Index(&'a Path<'a>, usize),
}

impl Path<'_> {
    /// The field of the document that the way begins with.
    fn root_field(&self) -> Option<&str> {
        match self {
            Self::Root => None,
            Self::Field(Path::Root, name) => Some(name),
            Self::Field(parent, _) | Self::Index(parent, _) => parent.root_field(),
        }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
            Self::Field(parent, name) => {
                let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
                if name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
                    return write!(f, "{parent}[{}]", Quoted(name));
                }
                match parent {
                    Self::Root => f.write_str(name),
                    Self::Field(..) | Self::Index(..) => write!(f, "{parent}.{name}"),
                }
            }
        }
    }
}

/// Records a fault at a place that need not have a node.
pub fn fault_at(
    faults: &mut Faults,
    path: &Path<'_>,
    at: Position,
    kind: FaultKind,
    problem: impl Into<String>,
    help: impl Into<Option<String>>,
) -> Reported {
    faults.add(told_of(path, at, kind, problem, help))
}

fn told_of(
    path: &Path<'_>,
    at: Position,
    kind: FaultKind,
    problem: impl Into<String>,
    help: impl Into<Option<String>>,
) -> Fault {
    Fault {
        kind,
        path: path.to_string(),
        at,
        problem: problem.into(),
        help: help.into(),
        secret: path.root_field() == Some("subjects"),
    }
}

/// A mapping whose fields are known.
pub struct Fields<'a> {
    path: &'a Path<'a>,
    at: Position,
    entries: &'a [(Key, Node)],
    /// Known fields for which an unknown one was probably meant.
    misspelt: Vec<(String, Reported)>,
}

impl<'a> Fields<'a> {
    /// Opens a mapping; records every field that is not among the known ones.
    pub fn open(faults: &mut Faults, place: Place<'a>, known: &[&str]) -> Read<Self> {
        let Content::Mapping(entries) = &place.node.content else {
            let wanted = format!("a mapping with {}", listed(known, "and"));
            return Err(place.wrong_type(faults, &wanted));
        };
        let mut misspelt = Vec::new();
        for (key, _) in entries
            .iter()
            .filter(|(key, _)| !known.contains(&key.text.as_str()))
        {
            let near = suggestion(&key.text, known)
                .filter(|near| !entries.iter().any(|(key, _)| key.text == *near));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None if key.text == "<<" => "merge keys are not read: write the fields out".into(),
                None => format!("the fields here are {}", listed(known, "and")),
            };
            let path = Path::Field(place.path, &key.text);
            let reported = fault_at(
                faults,
                &path,
                key.at,
                FaultKind::UnknownField,
                "unknown field",
                help,
            );
            misspelt.extend(near.map(|near| (near.to_owned(), reported)));
        }
        Ok(Self {
            path: place.path,
            at: place.node.at,
            entries,
            misspelt,
        })
    }

    /// Whether no field is given.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether a field is given.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(key, _)| key.text == name)
    }

    /// Reads a field if it is given.
    pub fn optional<T>(
        &self,
        faults: &mut Faults,
        name: &str,
        read: impl FnOnce(&mut Faults, Place<'_>) -> Read<T>,
    ) -> Read<Option<T>> {
        let Some((_, node)) = self.entries.iter().find(|(key, _)| key.text == name) else {
            return Ok(None);
        };
        let path = Path::Field(self.path, name);
        read(faults, Place { path: &path, node }).map(Some)
    }

    /// Reads a field; records it if it is missing, with what it should hold.
    pub fn required<T>(
        &self,
        faults: &mut Faults,
        name: &str,
        wanted: &str,
        read: impl FnOnce(&mut Faults, Place<'_>) -> Read<T>,
    ) -> Read<T> {
        match self.optional(faults, name, read)? {
            Some(value) => Ok(value),
            None => Err(self.missing(faults, name, wanted)),
        }
    }

    /// Records that a field is missing, unless that is because it was misspelt.
    pub fn missing(&self, faults: &mut Faults, name: &str, wanted: &str) -> Reported {
        if let Some((_, reported)) = self.misspelt.iter().find(|(meant, _)| meant == name) {
            return *reported;
        }
        let problem = format!("`{name}` is missing");
        let help = format!("write `{name}: {wanted}`");
        self.fault(faults, FaultKind::MissingField, problem, help)
    }

    /// Records a fault of one field's value; of the mapping if it is not given.
    pub fn fault_of(
        &self,
        faults: &mut Faults,
        name: &str,
        kind: FaultKind,
        problem: impl Into<String>,
        help: impl Into<Option<String>>,
    ) -> Reported {
        match self.entries.iter().find(|(key, _)| key.text == name) {
            Some((_, node)) => {
                let path = Path::Field(self.path, name);
                fault_at(faults, &path, node.at, kind, problem, help)
            }
            None => self.fault(faults, kind, problem, help),
        }
    }

    /// Records a fault of the mapping as a whole.
    pub fn fault(
        &self,
        faults: &mut Faults,
        kind: FaultKind,
        problem: impl Into<String>,
        help: impl Into<Option<String>>,
    ) -> Reported {
        fault_at(faults, self.path, self.at, kind, problem, help)
    }
}

/// The names as prose: "`a`, `b` or `c`".
fn listed(names: &[&str], last: &str) -> String {
    let mut text = String::new();
    for (index, name) in names.iter().enumerate() {
        if index > 0 {
            text += if index + 1 < names.len() { ", " } else { " " };
            if index + 1 == names.len() {
                text += last;
                text += " ";
            }
        }
        text += "`";
        text += name;
        text += "`";
    }
    text
}

/// The name that was probably meant: the nearest, if it is at most a third of its letters away.
#[must_use]
pub fn suggestion<'k>(given: &str, known: &[&'k str]) -> Option<&'k str> {
    const LONGEST: usize = 64;
    if given.len() > LONGEST {
        return None;
    }
    let plain = |name: &str| name.to_lowercase().replace(['-', ' '], "_");
    let given = plain(given);
    known
        .iter()
        .map(|name| (strsim::osa_distance(&given, &plain(name)), *name))
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}
