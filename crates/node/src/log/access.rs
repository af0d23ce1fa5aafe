//! Lines about requests: which are written, how many at most, and what stands in them.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use gate::time::Now;

use super::redact::{self, Redactor};
use super::trace::TraceContext;
use crate::config;
use crate::metrics::Telemetry;

/// The most lines about requests in one second; what is over is counted and left out.
pub const MOST_LINES_PER_SECOND: u64 = 100;

/// Writes lines about requests.
#[derive(Debug)]
pub struct AccessLog {
    which: config::AccessLog,
    one_in: u64,
    redactor: Redactor,
    telemetry: Arc<Telemetry>,
    /// Requests that were selected so far. It only picks one in so many.
    selected: AtomicU64,
    budget: Budget,
}

/// A request as a line tells it. All is raw; it is redacted when the line is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestLine<'a> {
    /// Its correlation id.
    pub request_id: &'a str,
    /// The caller's trace.
    pub trace: Option<TraceContext<'a>>,
    /// Its user.
    pub user: Option<&'a [u8]>,
    /// What else it is charged to: its API key.
    pub entity: Option<&'a [u8]>,
    /// Its method.
    pub method: Option<&'a str>,
    /// Its target.
    pub target: Option<&'a [u8]>,
    /// The status that it was answered with.
    pub status_code: u16,
    /// The error's code, if it was refused.
    pub error_code: Option<&'static str>,
    /// The error in words. It must not hold what the request brought.
    pub error_message: Option<&'a str>,
    /// How long its answer took.
    pub duration: Duration,
    /// Where it came from.
    pub address: Option<IpAddr>,
    /// Its user agent.
    pub user_agent: Option<&'a [u8]>,
    /// The rule that refused it.
    pub rule: Option<&'a str>,
    /// The limit that refused it.
    pub limit: Option<&'a str>,
}

impl AccessLog {
    /// Writes what the settings select.
    #[must_use]
    pub fn new(settings: &config::Log, redactor: Redactor, telemetry: Arc<Telemetry>) -> Self {
        Self {
            which: settings.access,
            one_in: settings.access_one_in.max(1),
            redactor,
            telemetry,
            selected: AtomicU64::new(0),
            budget: Budget::default(),
        }
    }

    /// Whether a line about a request is to be written, so that nothing need be gathered for one that is not. Ask once
    /// a request: saying yes takes from the second's lines.
    #[must_use]
    pub fn selects(&self, refused: bool, now: Now) -> bool {
        let wanted = match self.which {
            config::AccessLog::Off => false,
            config::AccessLog::Refused => refused,
            config::AccessLog::All => true,
        };
        // Relaxed: any order of requests is as good as any other.
        if !wanted
            || !self
                .selected
                .fetch_add(1, Relaxed)
                .is_multiple_of(self.one_in)
        {
            return false;
        }
        match self.budget.take(now) {
            Taken::Line => true,
            Taken::LineAfterDropping(dropped) => {
                tracing::warn!(
                    target: "leasehold::access",
                    dropped,
                    "lines about requests were left out: more than {MOST_LINES_PER_SECOND} a second"
                );
                true
            }
            Taken::Nothing => {
                self.telemetry.log_records_dropped(1);
                false
            }
        }
    }

    /// Writes a line about a request that [`Self::selects`] has selected.
    pub fn write(&self, line: &RequestLine<'_>) {
        let user_agent = line.user_agent.map(String::from_utf8_lossy);
        tracing::info!(
            target: "leasehold::access",
            request_id = line.request_id,
            trace_id = line.trace.map(|trace| trace.trace_id),
            span_id = line.trace.map(|trace| trace.span_id),
            user_id = line.user.map(|raw| self.redactor.id(raw)),
            entity_id = line.entity.map(|raw| self.redactor.id(raw)),
            method = line.method,
            path = line.target.map(redact::path),
            status_code = line.status_code,
            error_code = line.error_code,
            error_type = line.error_code.map(|_| error_type(line.status_code)),
            error_message = line.error_message,
            duration_ms = line.duration.as_secs_f64() * 1000.0,
            ip_address = line.address.map(redact::network),
            user_agent = user_agent.as_deref(),
            rule = line.rule,
            limit = line.limit,
            "{}",
            if line.error_code.is_some() { "request refused" } else { "request admitted" }
        );
    }
}

const fn error_type(status: u16) -> &'static str {
    match status {
        429 => "rate_limit",
        500.. => "fault",
        _ => "bad_request",
    }
}

/// So many lines in each second: the second in the upper 40 bits, the lines taken in it in the lower 24.
#[derive(Debug, Default)]
struct Budget {
    state: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Debug, PartialEq, Eq)]
enum Taken {
    Line,
    LineAfterDropping(u64),
    Nothing,
}

const COUNT_BITS: u32 = 24;

impl Budget {
    fn take(&self, now: Now) -> Taken {
        let second = now.nanos() / 1_000_000_000;
        // Relaxed: the word is whole by itself and guards no other memory.
        let before = self.state.fetch_update(Relaxed, Relaxed, |state| {
            let (of, count) = (state >> COUNT_BITS, state & ((1 << COUNT_BITS) - 1));
            if of < second {
                Some((second << COUNT_BITS) | 1)
            } else {
                // A thread whose reading of the clock is older counts in the newer second.
                (count < MOST_LINES_PER_SECOND).then_some(state + 1)
            }
        });
        match before {
            Err(_) => {
                self.dropped.fetch_add(1, Relaxed);
                Taken::Nothing
            }
            Ok(state) if state >> COUNT_BITS < second => match self.dropped.swap(0, Relaxed) {
                0 => Taken::Line,
                dropped => Taken::LineAfterDropping(dropped),
            },
            Ok(_) => Taken::Line,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Now {
        Now::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn lines_are_bounded_in_each_second_and_what_is_dropped_is_told() {
        let budget = Budget::default();
        for _ in 0..MOST_LINES_PER_SECOND {
            assert_eq!(budget.take(at(5_000)), Taken::Line);
        }
        for _ in 0..7 {
            assert_eq!(budget.take(at(5_999)), Taken::Nothing);
        }
        assert_eq!(budget.take(at(6_000)), Taken::LineAfterDropping(7));
        assert_eq!(budget.take(at(6_001)), Taken::Line);
        // An older reading of the clock does not start an older second again.
        for _ in 0..MOST_LINES_PER_SECOND - 2 {
            assert_eq!(budget.take(at(5_999)), Taken::Line);
        }
        assert_eq!(budget.take(at(5_999)), Taken::Nothing);
    }
}
