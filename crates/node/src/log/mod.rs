//! Logs with stable field names, redacted.
//!
//! A line tells what happened and to which request, never a key, a token, a query or a whole address. Lines about
//! requests are bounded in number, so that nobody can fill a disk or slow the node by being refused.

mod access;
mod line;
pub mod redact;
mod trace;

use std::io::IsTerminal as _;

use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::{EnvFilter, Registry};

pub use access::{AccessLog, MOST_LINES_PER_SECOND, RequestLine};
pub use line::{Form, Line};
pub use redact::Redactor;
pub use trace::TraceContext;

use crate::clock::Clock;
use crate::config;

/// The value of `service` in every line.
pub const SERVICE: &str = "leasehold";

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The level is none.
    #[error(
        "log.level: {0}; use a level (error, warn, info, debug, trace) or target=level directives"
    )]
    Level(#[from] tracing_subscriber::filter::ParseError),
    /// Something in this process logs already.
    #[error("logging is already set up in this process")]
    AlreadySet,
}

/// Whether `text` says what is logged: a level, or `target=level` directives separated by commas. The filter itself takes
/// any word for a target of which all is logged, a misspelt level too, and then logs nothing else.
#[must_use]
pub fn is_level(text: &str) -> bool {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    let known = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
    let all_known = text.split(',').all(|directive| {
        let directive = directive.trim();
        match directive.rsplit_once('=') {
            Some((target, level)) => !target.is_empty() && known(level),
            None => known(directive),
        }
    });
    all_known && EnvFilter::builder().parse(text).is_ok()
}

/// Sends this process's log to standard error.
///
/// # Errors
/// [`LogError`] if the level cannot be read or logging is already set up.
pub fn init(settings: &config::Log, clock: Clock, redactor: Redactor) -> Result<(), LogError> {
    let form = match settings.format {
        config::LogFormat::Json => Form::Json,
        config::LogFormat::Text => Form::Text,
        config::LogFormat::Auto if std::io::stderr().is_terminal() => Form::Text,
        config::LogFormat::Auto => Form::Json,
    };
    let line = Line {
        form,
        service: SERVICE,
        clock,
        redactor,
    };
    let subscriber = subscriber(&settings.level, line, std::io::stderr)?;
    tracing::subscriber::set_global_default(subscriber).map_err(|_| LogError::AlreadySet)
}

/// What writes lines to `writer`.
///
/// # Errors
/// [`LogError::Level`] if the level cannot be read.
pub fn subscriber<W>(
    level: &str,
    line: Line,
    writer: W,
) -> Result<impl Subscriber + Send + Sync + use<W>, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().parse(level)?;
    let layer = tracing_subscriber::fmt::layer()
        .event_format(line)
        .with_writer(writer);
    Ok(Registry::default().with(filter).with(layer))
}
