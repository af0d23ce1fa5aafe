//! `/v1/check` over a real gate: what proxies and programs send, and what nobody should.

mod decided;
mod questions;
mod telemetry;

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::ConnectInfo;
use gate::Gate;
use gate::hash::HashSecret;
use gate::table::{Table, TableStats};
use gate::time::Now;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use leasehold_node::check::{self, Check};
use leasehold_node::clock::{Clock, Hand};
use leasehold_node::config;
use leasehold_node::log::{AccessLog, Form, Line, Redactor, SERVICE, subscriber};
use leasehold_node::metrics::Telemetry;
use leasehold_node::render::{Cors, Dialect, Options};
use policy::model::{
    Algorithm, Amount, KeyPart, KeySource, Limit, LimitName, Mode, Normalizer, OnAbsent,
    OnDegraded, Policy, Rule, RuleLimits, RuleName, When,
};
use policy::rate::{Rate, Window, WindowMs};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tower::ServiceExt as _;

use crate::log::Lines;
use crate::metrics::series;

const START: Now = Now::from_unix_nanos(1_796_067_255_250_000_000);
const MOST_BODY_BYTES: usize = 65_536;

fn limit(units: u64, window_ms: u64) -> Limit {
    let window = Window::Millis(WindowMs::new(window_ms).expect("a window in range"));
    Limit {
        name: LimitName::new(&window.to_string()),
        amount: Amount::Metered {
            rate: Rate { units, window },
            algorithm: Algorithm::TokenBucket { burst: units },
        },
        cost: 1,
        on_degraded: OnDegraded::FairShare,
        sharing: None,
        disclose: true,
    }
}

fn rule(name: &str, source: KeySource, limits: Vec<Limit>) -> Rule {
    Rule {
        name: RuleName::new(name),
        when: When::default(),
        by: vec![KeyPart {
            source,
            normalize: Normalizer::default(),
        }],
        on_absent: OnAbsent::Share,
        mode: Mode::Enforce,
        limits: RuleLimits::Own(limits),
    }
}

/// A node's check surface under a policy, with a clock that stands.
struct Bench {
    check: Arc<Check>,
    hand: Hand,
    telemetry: Arc<Telemetry>,
}

impl Bench {
    fn new(policy: &Policy) -> Self {
        Self::with(policy, Options::default(), config::AccessLog::Off)
    }

    fn with(policy: &Policy, options: Options, which: config::AccessLog) -> Self {
        let table = Table::anonymous(NonZeroU64::new(10_000).expect("not zero")).expect("memory");
        let gate = Gate::new(table, &HashSecret::new(1, [7; 32]), policy).expect("a policy");
        let (clock, hand) = Clock::manual(START);
        let telemetry = Arc::new(Telemetry::new(100, START));
        telemetry.learn(gate.snapshot().limits());
        let settings = config::Log {
            access: which,
            ..config::Log::default()
        };
        let check = Arc::new(Check {
            gate: Arc::new(gate),
            fleet: None,
            clock,
            telemetry: Arc::clone(&telemetry),
            options,
            access: AccessLog::new(&settings, Redactor::new(b"x"), Arc::clone(&telemetry)),
            most_body_bytes: MOST_BODY_BYTES,
            body_timeout: Duration::from_secs(10),
        });
        Self {
            check,
            hand,
            telemetry,
        }
    }

    async fn send(&self, request: Request<Body>) -> Reply {
        let router = check::routes(Arc::clone(&self.check));
        Reply::of(
            router
                .oneshot(request)
                .await
                .expect("the router always answers"),
        )
        .await
    }

    async fn ask(&self, query: &str, fields: &[(&str, &str)]) -> Reply {
        self.send(question(query, fields)).await
    }

    async fn ask_json(&self, body: &Value) -> Reply {
        let request = Request::post("/v1/check")
            .header("content-type", "application/json; charset=utf-8")
            .body(Body::from(body.to_string()));
        self.send(request.expect("a request")).await
    }
}

fn question(query: &str, fields: &[(&str, &str)]) -> Request<Body> {
    let peer = SocketAddr::from(([192, 0, 2, 1], 4711));
    let request = Request::get(format!("/v1/check{query}")).extension(ConnectInfo(peer));
    let request = fields.iter().fold(request, |request, (name, value)| {
        request.header(*name, *value)
    });
    request.body(Body::empty()).expect("a request")
}

/// A program's question about a GET of this path, with these fields besides.
fn about(path: &str, mut fields: Value) -> Value {
    fields["method"] = "GET".into();
    fields["path"] = path.into();
    fields
}

struct Reply {
    status: u16,
    headers: http::HeaderMap,
    body: String,
}

impl Reply {
    async fn of(response: Response<Body>) -> Self {
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.expect("a body in memory").to_bytes();
        let body = String::from_utf8(bytes.to_vec()).expect("bodies are UTF-8");
        Self {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let value = values
            .next()
            .map(|value| value.to_str().expect("printable"));
        assert!(values.next().is_none(), "{name} twice");
        value
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a JSON body")
    }
}

const NGINX: &[(&str, &str)] = &[
    ("host", "api.example"),
    ("x-original-method", "GET"),
    ("x-original-uri", "/things?page=2"),
    ("x-real-ip", "198.51.100.7"),
];
const FORWARDED: &[(&str, &str)] = &[
    ("host", "leasehold:8080"),
    ("x-forwarded-method", "GET"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-host", "api.example"),
    ("x-forwarded-uri", "/things?page=2"),
    ("x-forwarded-for", "198.51.100.7"),
];

fn by_path(units: u64) -> Policy {
    Policy {
        rules: vec![rule(
            "per-path",
            KeySource::Path,
            vec![limit(units, 60_000)],
        )],
        ..Policy::default()
    }
}
