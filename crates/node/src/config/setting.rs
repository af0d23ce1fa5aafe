//! Types of settings: how each is read from the file or from text, and shown again.
//!
//! Reading never guesses: a value of another kind, or out of its range, is refused with what would be right.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A value as a source has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Raw {
    /// From the environment or the command line, where all is text.
    Text(String),
    /// A string of the file.
    String(String),
    /// An integer of the file.
    Integer(i128),
    /// A boolean of the file.
    Boolean(bool),
    /// An array of the file.
    List(Vec<Raw>),
    /// A table in an array of the file, or an empty one.
    Table(Vec<(String, Raw)>),
    /// A kind of the file's that no setting takes.
    Other(&'static str),
}

impl Raw {
    /// The text of a string, whatever the source.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::String(text) => Some(text),
            Self::Integer(_)
            | Self::Boolean(_)
            | Self::List(_)
            | Self::Table(_)
            | Self::Other(_) => None,
        }
    }

    /// What was given, for messages.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Text(text) | Self::String(text) => {
                const MOST: usize = 80;
                let cut: String = text.chars().take(MOST).collect();
                let more = if cut.len() < text.len() { "..." } else { "" };
                format!("{cut:?}{more}")
            }
            Self::Integer(number) => number.to_string(),
            Self::Boolean(truth) => truth.to_string(),
            Self::List(_) => "an array".to_owned(),
            Self::Table(_) => "a table".to_owned(),
            Self::Other(kind) => format!("a {kind}"),
        }
    }
}

/// The numbers that a setting may have.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// At least.
    pub least: u64,
    /// At most.
    pub most: u64,
}

impl Bounds {
    /// Whatever the type holds.
    pub const NONE: Self = Self {
        least: 0,
        most: u64::MAX,
    };
}

/// A type that a setting can have.
pub trait Setting: Sized {
    /// Reads a value.
    ///
    /// # Errors
    /// What would have been right, to follow "expected".
    fn read(raw: &Raw, bounds: Bounds) -> Result<Self, String>;

    /// The value as the file would have it.
    fn show(&self) -> String;
}

fn integer(raw: &Raw, bounds: Bounds, what: &str) -> Result<u64, String> {
    let expected = || format!("{what} from {} to {}", bounds.least, bounds.most);
    let number = match raw {
        Raw::Integer(number) => u64::try_from(*number).map_err(|_| expected())?,
        Raw::Text(text) => text.replace('_', "").parse().map_err(|_| expected())?,
        Raw::String(_) | Raw::Boolean(_) | Raw::List(_) | Raw::Table(_) | Raw::Other(_) => {
            return Err(expected());
        }
    };
    if (bounds.least..=bounds.most).contains(&number) {
        Ok(number)
    } else {
        Err(expected())
    }
}

macro_rules! integer_setting {
    ($($type:ty),*) => {$(
        impl Setting for $type {
            fn read(raw: &Raw, bounds: Bounds) -> Result<Self, String> {
                let most = bounds.most.min(<$type>::MAX as u64);
                let number = integer(raw, Bounds { most, ..bounds }, "a whole number")?;
                Ok(<$type>::try_from(number).expect("bounded by the type's greatest"))
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
integer_setting!(u32, u64, usize);

/// Whole milliseconds; names of such settings end in `_ms`.
impl Setting for Duration {
    fn read(raw: &Raw, bounds: Bounds) -> Result<Self, String> {
        integer(raw, bounds, "whole milliseconds").map(Self::from_millis)
    }

    fn show(&self) -> String {
        self.as_millis().to_string()
    }
}

impl Setting for bool {
    fn read(raw: &Raw, _bounds: Bounds) -> Result<Self, String> {
        match raw {
            Raw::Boolean(truth) => Ok(*truth),
            Raw::Text(text) if text == "true" => Ok(true),
            Raw::Text(text) if text == "false" => Ok(false),
            Raw::Text(_)
            | Raw::String(_)
            | Raw::Integer(_)
            | Raw::List(_)
            | Raw::Table(_)
            | Raw::Other(_) => Err("true or false".to_owned()),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }
}

impl Setting for String {
    fn read(raw: &Raw, _bounds: Bounds) -> Result<Self, String> {
        raw.text()
            .map(str::to_owned)
            .ok_or_else(|| "a string".to_owned())
    }

    fn show(&self) -> String {
        quoted(self)
    }
}

/// A path, or none if it is empty.
impl Setting for Option<PathBuf> {
    fn read(raw: &Raw, _bounds: Bounds) -> Result<Self, String> {
        let text = raw.text().ok_or("a path as a string, or \"\" for none")?;
        if text.contains('\0') {
            return Err("a path without NUL".to_owned());
        }
        Ok((!text.is_empty()).then(|| PathBuf::from(text)))
    }

    fn show(&self) -> String {
        quoted(
            &self
                .as_ref()
                .map_or_else(String::new, |path| path.display().to_string()),
        )
    }
}

/// Strings; separated by commas in the environment and on the command line.
impl Setting for Vec<String> {
    fn read(raw: &Raw, _bounds: Bounds) -> Result<Self, String> {
        let expected = || "an array of strings".to_owned();
        match raw {
            Raw::List(items) => items
                .iter()
                .map(|item| item.text().map(str::to_owned).ok_or_else(expected))
                .collect(),
            Raw::Text(text) => Ok(text
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect()),
            Raw::String(_) | Raw::Integer(_) | Raw::Boolean(_) | Raw::Table(_) | Raw::Other(_) => {
                Err(expected())
            }
        }
    }

    fn show(&self) -> String {
        let items: Vec<String> = self.iter().map(|item| quoted(item)).collect();
        format!("[{}]", items.join(", "))
    }
}

/// Where a surface listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Nowhere: the surface is off.
    Off,
    /// At an address; port 0 takes a free one.
    At(SocketAddr),
}

impl Setting for Listen {
    fn read(raw: &Raw, _bounds: Bounds) -> Result<Self, String> {
        match raw.text() {
            Some("off") => Ok(Self::Off),
            Some(text) => text.parse().map(Self::At).map_err(|_| listen_expected()),
            None => Err(listen_expected()),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Off => quoted("off"),
            Self::At(address) => quoted(&address.to_string()),
        }
    }
}

fn listen_expected() -> String {
    "an IP address and a port, such as \"127.0.0.1:8080\" or \"[::]:8080\", or \"off\"".to_owned()
}

/// A setting with a word for each of its values.
pub trait Choice: Copy + PartialEq + 'static {
    /// The words, in the order in which messages list them.
    const WORDS: &'static [(&'static str, Self)];
}

impl<C: Choice> Setting for C {
    fn read(raw: &Raw, _bounds: Bounds) -> Result<Self, String> {
        raw.text()
            .and_then(|text| C::WORDS.iter().find(|(word, _)| *word == text))
            .map(|(_, value)| *value)
            .ok_or_else(|| {
                let words: Vec<String> = C::WORDS.iter().map(|(word, _)| quoted(word)).collect();
                format!("one of {}", words.join(", "))
            })
    }

    fn show(&self) -> String {
        let (word, _) = C::WORDS
            .iter()
            .find(|(_, value)| value == self)
            .expect("every value of a choice has a word: a test reads each back");
        quoted(word)
    }
}

/// Text as a TOML basic string, which escapes as JSON does, and DEL too.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text)
        .to_string()
        .replace('\u{7f}', "\\u007f")
}
