//! Records from one log, with an account of everything in it that is none. It reads on past bad lines, shows the
//! first few by number and cause, and fails at the end if they were too many to be believed.

use std::io::BufRead;
use std::sync::Arc;

use gate::hash::{KeyHash, KeyHasher};
use policy::model::ClientAddressReading;

use super::bad::{BadLine, Cause};
use super::fields::Fields;
use super::key::{self, KeyField};
use super::lines::{Line, Lines};
use super::{common, json};

/// How many bad lines of a log are shown.
const MOST_SHOWN: usize = 5;

/// How a log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Told apart line by line: what begins with `{` is JSON.
    #[default]
    Auto,
    /// Common, combined, and either with more fields or a virtual host.
    Common,
    /// One JSON object a line.
    Json,
}

/// How logs are read.
#[derive(Clone, Debug)]
pub struct ReadSettings {
    /// How they are written.
    pub format: LogFormat,
    /// Which field is the key.
    pub key: KeyField,
    /// How a client's address is found and cut.
    pub client_address: ClientAddressReading,
    /// The largest share of a log's lines that may be bad, 0 to 1.
    pub most_bad_share: f64,
}

/// One logged request. Texts that the log does not give are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// When it was logged (nginx, Caddy: when it ended; Envoy: when it began), in nanoseconds since 1970-01-01 UTC.
    pub time_unix_ns: u64,
    /// Who called, hashed; none if the key's field was absent.
    pub key: Option<KeyHash>,
    /// The method.
    pub method: String,
    /// The target, query included.
    pub path: String,
    /// The host as requested.
    pub host: String,
    /// The answer's status, if there was an answer.
    pub status: Option<u16>,
}

/// What was in a log so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Lines that are not blank.
    pub lines: u64,
    /// Requests given.
    pub records: u64,
    /// Of these, requests whose key was absent.
    pub keyless: u64,
    /// Lines of connections that carried no request.
    pub not_requests: u64,
    /// Lines with bytes that are not UTF-8, which were replaced; the lines count all the same.
    pub not_utf8: u64,
    /// Bad lines by [`Cause`], in the order of [`Cause::ALL`].
    pub bad: [u64; Cause::ALL.len()],
    /// The first bad lines: where, and what is wrong.
    pub shown: Vec<String>,
    /// The earliest time, in nanoseconds since 1970; none if there are no requests.
    pub first_unix_ns: Option<u64>,
    /// The latest.
    pub last_unix_ns: Option<u64>,
    /// How many requests have an earlier time than the one before.
    pub backward_steps: u64,
    /// The longest way back from the latest time so far, in nanoseconds.
    pub most_backward_ns: u64,
}

impl LogStats {
    /// All bad lines.
    #[must_use]
    pub fn bad_lines(&self) -> u64 {
        self.bad.iter().sum()
    }
}

/// Why a log could not be read to its end, or not believed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The stream failed: a disk, a gzip file that breaks off.
    #[error("{file}: after line {line}: {source}")]
    Io {
        /// The log.
        file: String,
        /// The last line that was read.
        line: u64,
        /// What happened.
        source: std::io::Error,
    },
    /// More bad lines than allowed.
    #[error(
        "{file}: {bad} of {lines} lines could not be read, which is more than {:.3}%{}",
        most_bad_share * 100.0,
        shown.iter().map(|line| format!("\n  {line}")).collect::<String>()
    )]
    TooManyBad {
        /// The log.
        file: String,
        /// How many.
        bad: u64,
        /// Of how many that are not blank.
        lines: u64,
        /// The bound.
        most_bad_share: f64,
        /// The first of them.
        shown: Vec<String>,
    },
}

/// Gives the records of one log.
pub struct LogReader {
    file: String,
    lines: Lines<Box<dyn BufRead + Send>>,
    settings: Arc<ReadSettings>,
    hasher: Arc<KeyHasher>,
    stats: LogStats,
    previous_unix_ns: u64,
}

impl std::fmt::Debug for LogReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogReader")
            .field("file", &self.file)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

impl LogReader {
    /// Begins at the start of a log. `file` is what messages call it.
    pub fn new(
        file: String,
        input: Box<dyn BufRead + Send>,
        settings: Arc<ReadSettings>,
        hasher: Arc<KeyHasher>,
    ) -> Self {
        Self {
            file,
            lines: Lines::new(input),
            settings,
            hasher,
            stats: LogStats::default(),
            previous_unix_ns: 0,
        }
    }

    /// What messages call the log.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// What was in the log so far.
    #[must_use]
    pub const fn stats(&self) -> &LogStats {
        &self.stats
    }

    /// Writes the next request into `record`; false at the log's end.
    ///
    /// # Errors
    /// If the stream fails, or at its end if too many lines were bad.
    pub fn advance(&mut self, record: &mut Record) -> Result<bool, LogError> {
        loop {
            let line = match self.lines.advance() {
                Ok(line) => line,
                Err(source) => {
                    return Err(LogError::Io {
                        file: self.file.clone(),
                        line: self.lines.number(),
                        source,
                    });
                }
            };
            let Some(line) = line else {
                return self.finish().map(|()| false);
            };
            let read = match line {
                Line::TooLong => {
                    self.stats.lines += 1;
                    Err(BadLine::TooLong)
                }
                Line::Whole(bytes) if bytes.trim_ascii().is_empty() => continue,
                Line::Whole(bytes) => {
                    self.stats.lines += 1;
                    let text = String::from_utf8_lossy(bytes);
                    self.stats.not_utf8 += u64::from(matches!(text, std::borrow::Cow::Owned(_)));
                    fields(&text, &self.settings)
                        .map(|fields| fill(record, &fields, &self.settings, &self.hasher))
                }
            };
            match read {
                Ok(true) => {
                    self.account(record);
                    return Ok(true);
                }
                Ok(false) => self.stats.not_requests += 1,
                Err(bad) => self.bad(&bad),
            }
        }
    }

    fn account(&mut self, record: &Record) {
        let (stats, time) = (&mut self.stats, record.time_unix_ns);
        stats.records += 1;
        stats.keyless += u64::from(record.key.is_none());
        let last = stats.last_unix_ns.unwrap_or(time);
        stats.backward_steps += u64::from(time < self.previous_unix_ns);
        stats.most_backward_ns = stats.most_backward_ns.max(last.saturating_sub(time));
        stats.first_unix_ns = Some(stats.first_unix_ns.map_or(time, |first| first.min(time)));
        stats.last_unix_ns = Some(last.max(time));
        self.previous_unix_ns = time;
    }

    fn bad(&mut self, bad: &BadLine) {
        self.stats.bad[bad.cause() as usize] += 1;
        if self.stats.shown.len() < MOST_SHOWN {
            let (file, line) = (&self.file, self.lines.number());
            self.stats.shown.push(format!("{file}:{line}: {bad}"));
        }
    }

    fn finish(&self) -> Result<(), LogError> {
        let (bad, lines) = (self.stats.bad_lines(), self.stats.lines);
        if bad as f64 > lines as f64 * self.settings.most_bad_share {
            return Err(LogError::TooManyBad {
                file: self.file.clone(),
                bad,
                lines,
                most_bad_share: self.settings.most_bad_share,
                shown: self.stats.shown.clone(),
            });
        }
        Ok(())
    }
}

/// Takes a line apart in the format that it is in.
fn fields<'l>(line: &'l str, settings: &ReadSettings) -> Result<Fields<'l>, BadLine> {
    let line = line.trim();
    let forwarding = settings.client_address.header.name();
    match (settings.format, line.as_bytes().first()) {
        (LogFormat::Common, _) => common::read(line, &settings.key),
        (LogFormat::Json, _) | (LogFormat::Auto, Some(b'{')) => {
            json::read(line, &settings.key, forwarding)
        }
        (LogFormat::Auto, Some(b'[')) => Err(BadLine::EnvoyText),
        (LogFormat::Auto, _) if line.contains('[') => common::read(line, &settings.key),
        (LogFormat::Auto, _) => Err(BadLine::UnknownFormat),
    }
}

/// Makes a record of a line's fields; false if they are of no request.
fn fill(
    record: &mut Record,
    fields: &Fields<'_>,
    settings: &ReadSettings,
    hasher: &KeyHasher,
) -> bool {
    if fields.method.is_empty() {
        return false;
    }
    record.time_unix_ns = fields.time_unix_ns;
    record.key = key::key(fields, &settings.key, &settings.client_address, hasher);
    record.status = fields.status;
    for (text, from) in [
        (&mut record.method, &fields.method),
        (&mut record.path, &fields.path),
        (&mut record.host, &fields.host),
    ] {
        text.clear();
        text.push_str(from);
    }
    true
}
