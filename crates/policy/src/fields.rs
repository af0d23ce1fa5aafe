//! Reading typed values out of a [`Node`] tree, with every fault recorded at its place.
//!
//! Reading goes on after a fault, so that one pass tells all of them; [`Reported`] is the proof that
//! a value is missing because a fault says why. Nothing here falls back to a default silently.

use std::fmt;

use crate::fault::{Fault, FaultKind, Faults, Position, Quoted, Read, Reported};
use crate::yaml::{Content, Key, Node};

/// The longest text that a field takes, in bytes.
pub const MAX_TEXT: usize = 1024;

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

/// A node, and the way to it.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The way.
    pub path: &'a Path<'a>,
    /// The node.
    pub node: &'a Node,
}

impl<'a> Place<'a> {
    /// Records a fault of this node.
    pub fn fault(
        self,
        faults: &mut Faults,
        kind: FaultKind,
        problem: impl Into<String>,
        help: impl Into<Option<String>>,
    ) -> Reported {
        fault_at(faults, self.path, self.node.at, kind, problem, help)
    }

    /// Records that this node is not of the type wanted.
    pub fn wrong_type(self, faults: &mut Faults, wanted: &str) -> Reported {
        let (kind, problem) = if self.node.is_null() {
            (FaultKind::Empty, "is empty".to_owned())
        } else {
            (FaultKind::WrongType, format!("is {}", self.node.kind()))
        };
        self.fault(faults, kind, problem, format!("write {wanted}"))
    }

    /// Reads text of 1 to [`MAX_TEXT`] bytes: any scalar but null. A number or truth value counts as
    /// it is written.
    pub fn text(self, faults: &mut Faults, wanted: &str) -> Read<&'a str> {
        match &self.node.content {
            Content::Scalar { text, .. } if text.is_empty() => {
                let help = format!("write {wanted}");
                Err(self.fault(faults, FaultKind::Empty, "is empty", help))
            }
            Content::Scalar { text, .. } if text.len() > MAX_TEXT => {
                let problem = format!("has {} bytes: at most {MAX_TEXT}", text.len());
                Err(self.fault(faults, FaultKind::OutOfRange, problem, None))
            }
            Content::Scalar { text, .. } if !self.node.is_null() => Ok(text),
            Content::Scalar { .. } | Content::Sequence(_) | Content::Mapping(_) => {
                Err(self.wrong_type(faults, wanted))
            }
        }
    }

    /// Reads `true` or `false`.
    pub fn truth(self, faults: &mut Faults) -> Read<bool> {
        match &self.node.content {
            Content::Scalar { text, plain: true } if text == "true" => Ok(true),
            Content::Scalar { text, plain: true } if text == "false" => Ok(false),
            Content::Scalar { text, .. } if !self.node.is_null() => {
                let problem = format!("{} is not a truth value", Quoted(text));
                let help = "write true or false".to_owned();
                Err(self.fault(faults, FaultKind::WrongType, problem, help))
            }
            Content::Scalar { .. } | Content::Sequence(_) | Content::Mapping(_) => {
                Err(self.wrong_type(faults, "true or false"))
            }
        }
    }

    /// Reads a whole number between bounds; `_` may part its digits.
    pub fn number(self, faults: &mut Faults, least: u64, most: u64) -> Read<u64> {
        let wanted = if least == most {
            least.to_string()
        } else {
            format!("a whole number from {least} to {most}")
        };
        let Content::Scalar { text, plain } = &self.node.content else {
            return Err(self.wrong_type(faults, &wanted));
        };
        if self.node.is_null() {
            return Err(self.wrong_type(faults, &wanted));
        }
        let help = format!("write {wanted}");
        let digits = text.replace('_', "");
        if !plain || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            let what = if *plain { "" } else { " in quotes" };
            let problem = format!("{}{what} is not a whole number", Quoted(text));
            return Err(self.fault(faults, FaultKind::WrongType, problem, help));
        }
        match digits.parse() {
            Ok(number) if number >= least && number <= most => Ok(number),
            Ok(_) | Err(_) => {
                let problem = format!("{} is out of range", Quoted(text));
                Err(self.fault(faults, FaultKind::OutOfRange, problem, help))
            }
        }
    }

    /// Reads one of a few words.
    pub fn word<T: Copy>(self, faults: &mut Faults, words: &[(&str, T)]) -> Read<T> {
        let names: Vec<_> = words.iter().map(|(name, _)| *name).collect();
        let wanted = listed(&names, "or");
        let text = self.text(faults, &wanted)?;
        match words.iter().find(|(name, _)| *name == text) {
            Some((_, value)) => Ok(*value),
            None => {
                let problem = format!("{} is not known here", Quoted(text));
                let help = suggestion(text, &names).map_or_else(
                    || format!("write {wanted}"),
                    |near| format!("did you mean `{near}`?"),
                );
                Err(self.fault(faults, FaultKind::Malformed, problem, help))
            }
        }
    }

    /// The items of a list that is not empty and not too long.
    pub fn items(self, faults: &mut Faults, most: usize, wanted: &str) -> Read<&'a [Node]> {
        let Content::Sequence(items) = &self.node.content else {
            return Err(self.wrong_type(faults, wanted));
        };
        self.count(faults, items.len(), most, wanted)?;
        Ok(items)
    }

    /// The entries of a mapping whose keys are names, not fields; not empty and not too long.
    pub fn entries(
        self,
        faults: &mut Faults,
        most: usize,
        wanted: &str,
    ) -> Read<&'a [(Key, Node)]> {
        let Content::Mapping(entries) = &self.node.content else {
            return Err(self.wrong_type(faults, wanted));
        };
        self.count(faults, entries.len(), most, wanted)?;
        Ok(entries)
    }

    fn count(self, faults: &mut Faults, len: usize, most: usize, wanted: &str) -> Read<()> {
        if len == 0 {
            let help = format!("write {wanted}");
            return Err(self.fault(faults, FaultKind::Empty, "is empty", help));
        }
        if len > most {
            let problem = format!("has {len} items: at most {most}");
            return Err(self.fault(faults, FaultKind::OutOfRange, problem, None));
        }
        Ok(())
    }

    /// Records a fault of one item of this list.
    pub fn fault_of_item(
        self,
        faults: &mut Faults,
        index: usize,
        kind: FaultKind,
        problem: impl Into<String>,
        help: impl Into<Option<String>>,
    ) -> Reported {
        let at = match &self.node.content {
            Content::Sequence(items) => items.get(index).map_or(self.node.at, |item| item.at),
            Content::Scalar { .. } | Content::Mapping(_) => self.node.at,
        };
        fault_at(
            faults,
            &Path::Index(self.path, index),
            at,
            kind,
            problem,
            help,
        )
    }

    /// Reads every item of a list by `read`; goes on after faults.
    pub fn list<T>(
        self,
        faults: &mut Faults,
        most: usize,
        wanted: &str,
        mut read: impl FnMut(&mut Faults, Place<'_>) -> Read<T>,
    ) -> Read<Vec<T>> {
        let items = self.items(faults, most, wanted)?;
        let mut result = Ok(Vec::with_capacity(items.len()));
        for (index, node) in items.iter().enumerate() {
            let path = Path::Index(self.path, index);
            let one = read(faults, Place { path: &path, node });
            result = push(result, one);
        }
        result
    }

    /// Reads a list, or a single value as a list of one. No value may be given twice.
    pub fn one_or_list<T: PartialEq>(
        self,
        faults: &mut Faults,
        most: usize,
        wanted: &str,
        mut read: impl FnMut(&mut Faults, Place<'_>) -> Read<T>,
    ) -> Read<Vec<T>> {
        if !matches!(self.node.content, Content::Sequence(_)) {
            return Ok(vec![read(faults, self)?]);
        }
        let values = self.list(faults, most, wanted, read)?;
        for (index, value) in values.iter().enumerate() {
            if values[..index].contains(value) {
                let problem = "is given twice in this list";
                return Err(self.fault_of_item(faults, index, FaultKind::Conflict, problem, None));
            }
        }
        Ok(values)
    }
}

/// Adds to a list that is still whole.
fn push<T>(list: Read<Vec<T>>, one: Read<T>) -> Read<Vec<T>> {
    let mut list = list?;
    list.push(one?);
    Ok(list)
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
    faults.add(Fault {
        kind,
        path: path.to_string(),
        at,
        problem: problem.into(),
        help: help.into(),
        secret: path.root_field() == Some("subjects"),
    })
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
        .map(|name| (distance(&given, &plain(name)), *name))
        .filter(|(distance, name)| *distance <= (name.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The Damerau-Levenshtein distance, neighbours swapped counting as one (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[a.len()][b.len()]
}
