//! Values of the types that fields have, each read within its bounds.

use super::{Path, fault_at, listed, suggestion, told_of};
use crate::fault::{FaultKind, Faults, Quoted, Read, Reported};
use crate::yaml::{Content, Key, Node};

/// The longest text that a field takes, in bytes.
pub const MAX_TEXT: usize = 1024;

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

    /// Records what is allowed of this node, but hardly meant.
    pub fn warn(
        self,
        faults: &mut Faults,
        kind: FaultKind,
        problem: impl Into<String>,
        help: impl Into<Option<String>>,
    ) {
        faults.warn(told_of(self.path, self.node.at, kind, problem, help));
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
