//! One event as one line: a JSON object with stable names, or text for people.
//!
//! Every value passes [`redact::field`] and [`redact::printable`], whoever logged it.

use std::fmt::{self, Write as _};

use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::redact::{self, Redactor};
use crate::clock::Clock;
use crate::render::timestamp::Rfc3339;

/// The names that come first, in this order, after `timestamp`, `level` and `service`.
const FIRST: [&str; 17] = [
    "message",
    "trace_id",
    "span_id",
    "request_id",
    "user_id",
    "entity_id",
    "method",
    "path",
    "status_code",
    "error_code",
    "error_type",
    "error_message",
    "duration_ms",
    "ip_address",
    "user_agent",
    "rule",
    "limit",
];

/// What lines look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One JSON object a line.
    Json,
    /// For people: time, level, message, then `name=value`.
    Text,
}

/// Formats events.
#[derive(Clone, Debug)]
pub struct Line {
    /// What they look like.
    pub form: Form,
    /// The value of `service`.
    pub service: &'static str,
    /// What tells the time of an event.
    pub clock: Clock,
    /// What hashes ids.
    pub redactor: Redactor,
}

impl<S, N> FormatEvent<S, N> for Line
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields {
            redactor: &self.redactor,
            values: Vec::with_capacity(16),
        };
        event.record(&mut fields);
        fields.values.sort_by_key(|(name, _)| {
            FIRST
                .iter()
                .position(|first| first == name)
                .unwrap_or(FIRST.len())
        });
        let time = Rfc3339(self.clock.now());
        let level = event.metadata().level();
        match self.form {
            Form::Json => {
                // Written by hand to keep the order; names are Rust identifiers or constants, values go through
                // serde_json.
                write!(writer, "{{\"timestamp\":\"{time}\",\"level\":\"{level}\"")?;
                write!(writer, ",\"service\":\"{}\"", self.service)?;
                for (name, value) in &fields.values {
                    write!(writer, ",{}:{value}", Value::from(*name))?;
                }
                if !fields.values.iter().any(|(name, _)| *name == "target") {
                    write!(
                        writer,
                        ",\"target\":{}",
                        Value::from(event.metadata().target())
                    )?;
                }
                writeln!(writer, "}}")
            }
            Form::Text => {
                write!(writer, "{time} {level:<5}")?;
                for (name, value) in &fields.values {
                    match value {
                        Value::String(text) if *name == "message" => write!(writer, " {text}")?,
                        Value::String(text)
                            if !text.is_empty() && !text.contains([' ', '"', '=']) =>
                        {
                            write!(writer, " {name}={text}")?;
                        }
                        Value::String(_)
                        | Value::Null
                        | Value::Bool(_)
                        | Value::Number(_)
                        | Value::Array(_)
                        | Value::Object(_) => write!(writer, " {name}={value}")?,
                    }
                }
                writeln!(writer)
            }
        }
    }
}

/// An event's fields, redacted, each name once.
struct Fields<'a> {
    redactor: &'a Redactor,
    values: Vec<(&'static str, Value)>,
}

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        let name = match field.name() {
            // A raw identifier, for names that are Rust's own.
            name if name.starts_with("r#") => &name[2..],
            name => name,
        };
        match self.values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.values.push((name, value)),
        }
    }

    fn put_text(&mut self, field: &Field, text: &str) {
        let kept = redact::field(self.redactor, field.name(), text);
        self.put(field, Value::String(redact::printable(&kept)));
    }
}

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        if write!(text, "{value:?}").is_err() {
            text.push_str("[not formattable]");
        }
        self.put_text(field, &text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put_text(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.put_text(field, &value.to_string());
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.put_text(field, &value.to_string());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        let mut text = value.to_string();
        let mut source = value.source();
        while let Some(cause) = source {
            // A String takes all that is written to it.
            let _ = write!(text, ": {cause}");
            source = cause.source();
        }
        self.put_text(field, &text);
    }
}
