//! Access logs of real proxies, read as a stream of requests: when, by whom, for what.
//!
//! Reads the common and combined formats (Apache, nginx) and JSON lines as nginx, Envoy and Caddy write them. Memory
//! is bounded by the longest line that is read, [`lines::MOST_LINE_BYTES`], whatever the file holds. A caller's key
//! leaves this module as a keyed hash only, and nothing of a line is ever shown: errors name the file, the line and
//! the field, never the value.

pub mod bad;
pub mod key;
pub mod lines;
pub mod reader;
pub mod source;
pub mod time;

mod common;
mod fields;
mod json;

pub use bad::{BadLine, Cause};
pub use key::KeyField;
pub use reader::{LogError, LogFormat, LogReader, LogStats, ReadSettings, Record};
