//! Log lines: their names, their number, and what never stands in them (Y4, Y6).

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gate::table::TableStats;
use gate::time::Now;
use leasehold_node::clock::Clock;
use leasehold_node::config;
use leasehold_node::log::{
    self, AccessLog, Form, Line, MOST_LINES_PER_SECOND, Redactor, RequestLine, TraceContext,
};
use leasehold_node::metrics::Telemetry;
use proptest::prelude::*;
use serde_json::Value;
use tracing_subscriber::fmt::MakeWriter;

/// 2026-11-30T19:34:15.250Z.
const NOW: Now = Now::from_unix_nanos(1_796_067_255_250_000_000);

/// Collects what is written.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub fn text(&self) -> String {
        let bytes = self.0.lock().expect("no writer panicked").clone();
        String::from_utf8(bytes).expect("lines are UTF-8")
    }

    pub fn objects(&self) -> Vec<serde_json::Map<String, Value>> {
        self.text()
            .lines()
            .map(|line| serde_json::from_str(line).expect("each line is an object"))
            .collect()
    }
}

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0
            .lock()
            .expect("no writer panicked")
            .extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Lines {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

fn redactor() -> Redactor {
    Redactor::new(b"a secret of the node's own")
}

pub fn logged(form: Form, work: impl FnOnce()) -> Lines {
    let lines = Lines::default();
    let (clock, _) = Clock::manual(NOW);
    let line = Line {
        form,
        service: log::SERVICE,
        clock,
        redactor: redactor(),
    };
    let subscriber = log::subscriber("trace", line, lines.clone()).expect("a level");
    tracing::subscriber::with_default(subscriber, work);
    lines
}

fn access(which: config::AccessLog, one_in: u64) -> (AccessLog, Arc<Telemetry>) {
    let settings = config::Log {
        access: which,
        access_one_in: one_in,
        ..config::Log::default()
    };
    let telemetry = Arc::new(Telemetry::new(1, NOW));
    (
        AccessLog::new(&settings, redactor(), Arc::clone(&telemetry)),
        telemetry,
    )
}

fn log_one(access: &AccessLog, now: Now) {
    if access.selects(true, now) {
        access.write(&RequestLine::default());
    }
}

const TRACEPARENT: &[u8] = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_refused_request_has_all_the_stable_names() {
    let agent = format!("agent/{}", "x".repeat(100));
    let lines = logged(Form::Json, || {
        let (access, _) = access(config::AccessLog::Refused, 1);
        access.write(&RequestLine {
            request_id: "req-1",
            trace: TraceContext::read(TRACEPARENT),
            user: Some(b"alice@example.com"),
            entity: Some(b"key-5f3a"),
            method: Some("GET"),
            target: Some(b"/v1/things?token=t0ps3cret"),
            status_code: 429,
            error_code: Some("RATE_LIMIT_EXCEEDED"),
            error_message: Some("The quota per 1m is used up."),
            duration: Duration::from_micros(1500),
            address: Some(IpAddr::from([192, 0, 2, 77])),
            user_agent: Some(agent.as_bytes()),
            rule: Some("per-user"),
            limit: Some("1m"),
        });
    });
    let hash = redactor().id(b"alice@example.com");
    let entity = redactor().id(b"key-5f3a");
    assert_eq!(
        lines.text(),
        format!(
            "{{\"timestamp\":\"2026-11-30T19:34:15.250Z\",\"level\":\"INFO\",\
             \"service\":\"leasehold\",\"message\":\"request refused\",\
             \"trace_id\":\"4bf92f3577b34da6a3ce929d0e0e4736\",\"span_id\":\"00f067aa0ba902b7\",\
             \"request_id\":\"req-1\",\"user_id\":\"{hash}\",\"entity_id\":\"{entity}\",\
             \"method\":\"GET\",\"path\":\"/v1/things\",\"status_code\":429,\
             \"error_code\":\"RATE_LIMIT_EXCEEDED\",\"error_type\":\"rate_limit\",\
             \"error_message\":\"The quota per 1m is used up.\",\"duration_ms\":1.5,\
             \"ip_address\":\"192.0.2.0/24\",\"user_agent\":\"{}...\",\"rule\":\"per-user\",\
             \"limit\":\"1m\",\"target\":\"leasehold::access\"}}\n",
            &agent[..50]
        )
    );
}

#[test]
fn any_line_has_the_form_and_cannot_be_forged() {
    let forged = "x\n{\"level\":\"ERROR\"}\u{1b}[2J";
    let lines = logged(Form::Json, || {
        tracing::warn!(path = forged, count = 3_u64, "odd \"one\"")
    });
    let objects = lines.objects();
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0]["message"], "odd \"one\"");
    assert_eq!(objects[0]["count"], 3);
    assert_eq!(objects[0]["level"], "WARN");
    assert_eq!(objects[0]["path"], "x\\n{\"level\":\"ERROR\"}\\u{1b}[2J");

    let lines = logged(Form::Text, || {
        tracing::warn!(path = forged, count = 3_u64, "odd\none")
    });
    let text = lines.text();
    assert_eq!(text.lines().count(), 1);
    assert!(
        text.starts_with("2026-11-30T19:34:15.250Z WARN  odd\\none path="),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn the_settings_select() {
    let count = |which, one_in, refused: bool| {
        let lines = logged(Form::Json, || {
            let (access, _) = access(which, one_in);
            for _ in 0..10 {
                if access.selects(refused, NOW) {
                    access.write(&RequestLine::default());
                }
            }
        });
        lines.objects().len()
    };
    assert_eq!(count(config::AccessLog::Off, 1, true), 0);
    assert_eq!(count(config::AccessLog::Refused, 1, true), 10);
    assert_eq!(count(config::AccessLog::Refused, 1, false), 0);
    assert_eq!(count(config::AccessLog::All, 1, false), 10);
    assert_eq!(count(config::AccessLog::All, 4, false), 3);
}

#[test]
fn a_flood_of_refusals_is_not_a_flood_of_lines() {
    let lines = logged(Form::Json, || {
        let (access, telemetry) = access(config::AccessLog::Refused, 1);
        for _ in 0..MOST_LINES_PER_SECOND + 900 {
            log_one(&access, NOW);
        }
        assert!(
            telemetry
                .scrape(&TableStats::default())
                .contains("throttle_log_records_dropped_total 900\n")
        );
        log_one(&access, Now::from_nanos(NOW.nanos() + 1_000_000_000));
    });
    let objects = lines.objects();
    assert_eq!(objects.len() as u64, MOST_LINES_PER_SECOND + 2);
    assert_eq!(objects[MOST_LINES_PER_SECOND as usize]["dropped"], 900);
}

#[test]
fn a_level_that_is_none_is_told() {
    let (clock, _) = Clock::manual(NOW);
    let line = Line {
        form: Form::Json,
        service: log::SERVICE,
        clock,
        redactor: redactor(),
    };
    let error = log::subscriber("leasehold=loudly", line, Lines::default())
        .err()
        .map(|error| error.to_string());
    assert!(error.is_some_and(|e| e.starts_with("log.level: ")));
}

/// Text that cannot occur in a line by chance.
fn secret() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9@._\u{430}-\u{44f}-]{12,40}".prop_map(|text| format!("zq{text}"))
}

proptest! {
    /// Whatever a request brings, no key, user, query or whole address stands in its line, and the line is one line.
    #[test]
    fn what_is_private_never_stands_in_a_line(
        key in secret(),
        user in secret(),
        query in secret(),
        agent in ".{0,80}",
        path in "/[^?#]{0,40}",
        v4 in any::<[u8; 4]>(),
        v6 in any::<[u16; 8]>(),
        is_v6: bool,
        form in prop_oneof![Just(Form::Json), Just(Form::Text)],
    ) {
        let address = if is_v6 { IpAddr::from(v6) } else { IpAddr::from(v4) };
        let target = format!("{path}?api_key={query}");
        let agent_tail = format!("{agent}{}{key}", " ".repeat(51));
        let lines = logged(form, || {
            let (access, _) = access(config::AccessLog::All, 1);
            access.write(&RequestLine {
                request_id: "req",
                user: Some(user.as_bytes()),
                entity: Some(key.as_bytes()),
                target: Some(target.as_bytes()),
                address: Some(address),
                user_agent: Some(agent_tail.as_bytes()),
                ..RequestLine::default()
            });
            // A careless call elsewhere is cut all the same.
            tracing::info!(
                api_key = key, authorization = key, user_id = user, entity_id = key,
                ip_address = %address, user_agent = agent_tail, "careless"
            );
        });
        let text = lines.text();
        prop_assert_eq!(text.lines().count(), 2);
        for private in [&key, &user, &query] {
            prop_assert!(!text.contains(private.as_str()), "{}", text);
        }
        // The last octet or the interface part is gone, unless it was zero to begin with.
        let whole = address.to_canonical().to_string();
        let network = log::redact::network(address);
        if !network.starts_with(&whole) {
            let told = text.contains(&format!("={whole} ")) || text.contains(&format!("\"{whole}\""));
            prop_assert!(!told, "{}", text);
        }
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{:?}", text);
    }
}
