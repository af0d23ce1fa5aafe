//! What is wrong with a policy file: every fault with its place, the problem, and what would be right.
//!
//! A fault never repeats a value that could be a secret, and quotes others cut short and escaped, so that faults
//! may be logged as they are.

use std::fmt;

/// The most faults that are kept of one file; more are only counted.
pub const MAX_FAULTS: usize = 100;

/// A place in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// In bytes from the start of the file.
    pub offset: usize,
    /// How many bytes the faulty text has; 0 if that is not known.
    pub len: usize,
}

/// What kind of fault it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// Not UTF-8, not YAML, or too large.
    Syntax,
    /// A field that is not known here.
    UnknownField,
    /// A field that must be given.
    MissingField,
    /// A key given twice.
    DuplicateKey,
    /// Another type than the field takes.
    WrongType,
    /// A list, mapping or text with nothing in it.
    Empty,
    /// Text that does not read as what it should be.
    Malformed,
    /// A number or a count beyond its bound.
    OutOfRange,
    /// A name that nothing bears.
    UnknownReference,
    /// Two statements that exclude each other, or one that has no effect.
    Conflict,
}

/// One fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind it is.
    pub kind: FaultKind,
    /// Where in the policy, such as `rules[2].limits[0].units`; empty for the whole file.
    pub path: String,
    /// Where in the file.
    pub at: Position,
    /// What is wrong.
    pub problem: String,
    /// What would be right.
    pub help: Option<String>,
    /// Whether the text at [`Fault::at`] may hold a secret and must not be shown.
    pub secret: bool,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.at.line, self.at.column)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.problem)?;
        if let Some(help) = &self.help {
            write!(f, "; {help}")?;
        }
        Ok(())
    }
}

/// All faults of a policy file, in the order of their places. There is at least one. The file is refused whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyErrors {
    faults: Vec<Fault>,
    omitted: usize,
}

impl PolicyErrors {
    /// The faults, at most [`MAX_FAULTS`].
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// How many more there are.
    #[must_use]
    pub const fn omitted(&self) -> usize {
        self.omitted
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        if self.omitted > 0 {
            write!(f, "\nand {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for PolicyErrors {}

/// Proof that a fault was recorded: whoever returns it has told [`Faults`] why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reported(());

/// What was read, or proof that a fault says why not.
pub type Read<T> = Result<T, Reported>;

/// Where faults are collected while a file is read.
#[derive(Debug, Default)]
pub struct Faults {
    faults: Vec<Fault>,
    omitted: usize,
    warnings: Vec<Fault>,
}

impl Faults {
    /// Records a fault.
    pub fn add(&mut self, fault: Fault) -> Reported {
        if self.is_full() {
            self.omitted += 1;
        } else {
            self.faults.push(fault);
        }
        Reported(())
    }

    /// Records what is no fault, but hardly meant. At most [`MAX_FAULTS`] are kept.
    pub fn warn(&mut self, warning: Fault) {
        if self.warnings.len() < MAX_FAULTS {
            self.warnings.push(warning);
        }
    }

    /// Whether further faults are only counted.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.faults.len() >= MAX_FAULTS
    }

    /// Ends the reading: what was read, if there was no fault at all, and the warnings.
    ///
    /// # Errors
    /// All faults recorded.
    pub fn finish<T>(mut self, read: Read<T>) -> Result<(T, Vec<Fault>), PolicyErrors> {
        match read {
            Ok(value) if self.faults.is_empty() => {
                self.warnings.sort_by_key(|warning| warning.at);
                Ok((value, self.warnings))
            }
            Ok(_) | Err(Reported(())) => {
                self.faults.sort_by_key(|fault| fault.at);
                Err(PolicyErrors {
                    faults: self.faults,
                    omitted: self.omitted,
                })
            }
        }
    }
}

/// Text of a file in a message: escaped, and cut after 60 characters.
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 60;
        f.write_str("`")?;
        for c in self.0.chars().take(SHOWN) {
            // What `escape_debug` leaves of quotes and letters reads well; all else becomes an escape.
            match c {
                '\'' | '"' => write!(f, "{c}")?,
                _ => write!(f, "{}", c.escape_debug())?,
            }
        }
        if self.0.chars().nth(SHOWN).is_some() {
            f.write_str("…")?;
        }
        f.write_str("`")
    }
}
