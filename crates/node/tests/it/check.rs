//! `/v1/check` over a real gate: what proxies and programs send, and what nobody should.

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

#[tokio::test]
async fn every_proxys_form_meets_the_same_bucket() {
    let bench = Bench::new(&by_path(3));
    let nginx = bench.ask("", NGINX).await;
    assert_eq!((nginx.status, nginx.body.as_str()), (200, ""));
    assert_eq!(nginx.field("ratelimit"), Some("\"per-path/1m\";r=2;t=20"));
    assert_eq!(nginx.field("x-ratelimit-remaining"), Some("2"));
    // Caddy, Traefik and APISIX.
    let forwarded = bench.ask("", FORWARDED).await;
    assert_eq!(forwarded.field("x-ratelimit-remaining"), Some("1"));
    let program = bench
        .ask_json(&json!({"method": "GET", "path": "/things"}))
        .await;
    assert_eq!(program.field("x-ratelimit-remaining"), Some("0"));

    let refused = bench.ask("", FORWARDED).await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.field("retry-after"), Some("20"));
    assert_eq!(
        refused.field("content-type"),
        Some("application/problem+json")
    );
    assert_eq!(refused.field("cache-control"), Some("no-store"));
    assert_eq!(
        refused.json()["request_id"],
        refused.field("x-request-id").expect("an id")
    );
    assert_eq!(refused.json()["violated-policies"], json!(["per-path/1m"]));
}

/// H8: the same limit's counters on allowed and denied answers; A11: of one instant.
#[tokio::test]
async fn answers_tell_of_the_same_limit_whatever_the_verdict() {
    let bench = Bench::new(&by_path(1));
    let allowed = bench.ask("", NGINX).await;
    let denied = bench.ask("", NGINX).await;
    assert_eq!((allowed.status, denied.status), (200, 429));
    for name in ["x-ratelimit-limit", "ratelimit-policy"] {
        assert_eq!(allowed.field(name), denied.field(name), "{name}");
    }
    // 1.9 s before there is room again (A10), and just before it.
    bench.hand.advance(Duration::from_millis(58_100));
    assert_eq!(bench.ask("", NGINX).await.field("retry-after"), Some("2"));
    bench.hand.advance(Duration::from_millis(1_899));
    let last = bench.ask("", NGINX).await;
    assert_eq!((last.status, last.field("retry-after")), (429, Some("0")));
    assert_eq!(last.field("x-ratelimit-reset-ms"), Some("1"));
    bench.hand.advance(Duration::from_millis(1));
    assert_eq!(bench.ask("", NGINX).await.status, 200);
}

#[tokio::test]
async fn nginx_gets_statuses_that_it_understands() {
    let bench = Bench::new(&by_path(1));
    assert_eq!(bench.ask("?mode=403", NGINX).await.status, 200);
    let refused = bench.ask("?mode=403", NGINX).await;
    assert_eq!(
        (refused.status, refused.field("retry-after")),
        (403, Some("60"))
    );
    assert_eq!(refused.field("x-ratelimit-remaining"), Some("0"));
    assert_eq!(refused.field("x-leasehold-status"), Some("429"));
    // A fault is no absence of an answer either: a fail-open configuration must not admit it.
    for (query, fields) in [("?mode=403", &[][..]), ("?mode=403&x=y", NGINX)] {
        let fault = bench.ask(query, fields).await;
        assert_eq!(
            (fault.status, fault.field("x-leasehold-status")),
            (403, Some("400"))
        );
    }
    assert_eq!(bench.ask("", NGINX).await.field("x-leasehold-status"), None);
}

/// A proxy must be able to tell an admission from the answer of something else that it reached by mistake.
#[tokio::test]
async fn every_decision_is_marked_as_one() {
    let bench = Bench::new(&by_path(1));
    let marked = |reply: &Reply| reply.field("leasehold-decision").map(str::to_owned);
    let preflight = [
        ("x-original-method", "OPTIONS"),
        ("x-original-uri", "/things"),
        ("origin", "https://a.example"),
        ("access-control-request-method", "GET"),
    ];
    for (query, fields, status, mark) in [
        ("", NGINX, 200, Some("admitted")),
        ("", NGINX, 429, Some("refused")),
        ("?mode=403", NGINX, 403, Some("refused")),
        ("", &preflight, 200, Some("admitted")),
        ("", &[], 400, None),
        ("?mode=403", &[], 403, None),
    ] {
        let reply = bench.ask(query, fields).await;
        assert_eq!(
            (reply.status, marked(&reply).as_deref()),
            (status, mark),
            "{query} {fields:?}"
        );
    }
    for mark in ["admitted", "refused"] {
        let reply = bench.ask_json(&about("/other", json!({}))).await;
        assert_eq!(marked(&reply).as_deref(), Some(mark));
    }
}

#[tokio::test]
async fn hits_are_taken_looked_at_and_given_back() {
    let bench = Bench::new(&by_path(10));
    let remaining = |reply: &Reply| reply.field("x-ratelimit-remaining").map(str::to_owned);
    assert_eq!(
        remaining(&bench.ask("?hits=4", NGINX).await).as_deref(),
        Some("6")
    );
    assert_eq!(
        remaining(&bench.ask("?hits=0", NGINX).await).as_deref(),
        Some("6")
    );
    let question = |extra: Value| about("/things", extra);
    let peek = bench.ask_json(&question(json!({"peek": true}))).await;
    assert_eq!(peek.json()["limits"][0]["remaining"], 6);
    let back = bench.ask_json(&question(json!({"give_back": 3}))).await;
    assert_eq!((back.status, remaining(&back).as_deref()), (200, Some("9")));
    // More than the limit can ever hold.
    let never = bench.ask_json(&question(json!({"hits": 11}))).await;
    assert_eq!((never.status, never.field("retry-after")), (429, None));
    assert_eq!(never.json()["code"], "RATE_LIMIT_NEVER_ADMITS");
    // H7: what was counted is what was charged.
    let series = series(&bench.telemetry.scrape(&TableStats::default()));
    for (verdict, count) in [
        ("admitted", 1.0),
        ("looked", 2.0),
        ("given_back", 1.0),
        ("never", 1.0),
        ("over_limit", 0.0),
    ] {
        let name = format!("throttle_requests_total{{surface=\"http\",verdict=\"{verdict}\"}}");
        assert_eq!(series[&name], count, "{verdict}");
    }
    assert_eq!(
        series[r#"throttle_limit_admitted_total{rule="per-path",limit="1m"}"#],
        1.0
    );
}

#[tokio::test]
async fn a_decision_as_json() {
    let mut hidden = limit(5, 1_000);
    hidden.disclose = false;
    let policy = Policy {
        rules: vec![rule(
            "per-user",
            KeySource::User,
            vec![limit(1, 60_000), hidden],
        )],
        ..Policy::default()
    };
    let bench = Bench::new(&policy);
    let allowed = bench.ask_json(&about("/", json!({"user": "alice"}))).await;
    let id = allowed.field("x-request-id").expect("an id").to_owned();
    assert_eq!(
        allowed.json(),
        json!({
            "allowed": true,
            "limits": [{
                "policy": "per-user/1m", "rule": "per-user", "limit": "1m", "mode": "enforce",
                "has_room": true, "units": 1, "window_ms": 60_000, "remaining": 0,
                "reset_after_ms": 60_000,
            }],
            "request_id": id,
        })
    );
    let denied = bench
        .ask_json(&about("/", json!({"headers": {"X-User-Id": "alice"}})))
        .await;
    assert_eq!(denied.status, 429);
    assert_eq!(denied.json()["allowed"], false);
    assert_eq!(denied.json()["retry_after_ms"], 60_000);
    assert_eq!(denied.json()["violated_policies"], json!(["per-user/1m"]));
    assert_eq!(denied.json()["limits"].as_array().map(Vec::len), Some(1));
    // Another user, and no user.
    for of in [json!({"user": "bob"}), json!({})] {
        assert_eq!(bench.ask_json(&about("/", of)).await.status, 200);
    }
}

#[tokio::test]
async fn programs_name_keys_users_and_entries_of_their_own() {
    let policy = Policy {
        rules: vec![
            rule("per-key", KeySource::ApiKey, vec![limit(1, 60_000)]),
            rule(
                "per-entry",
                KeySource::Descriptor("tenant".into()),
                vec![limit(100, 60_000)],
            ),
        ],
        ..Policy::default()
    };
    let bench = Bench::new(&policy);
    let ask = async |body: Value| bench.ask_json(&about("/", body)).await.status;
    assert_eq!(ask(json!({"api_key": "one"})).await, 200);
    assert_eq!(ask(json!({"api_key": "one"})).await, 429);
    // The same key in the header is the same bucket; the field wins over the header.
    assert_eq!(ask(json!({"headers": {"x-api-key": "one"}})).await, 429);
    assert_eq!(
        ask(json!({"headers": {"x-api-key": "one"}, "api_key": "two"})).await,
        200
    );
    let entries = json!({"api_key": "three", "entries": [{"key": "tenant", "value": "t"}]});
    assert_eq!(
        bench.ask_json(&about("/", entries)).await.json()["limits"][1]["remaining"],
        99
    );
}

#[tokio::test]
async fn a_policy_that_reads_no_key_says_so() {
    let mut policy = by_path(5);
    policy.identity.api_key.clear();
    let reply = Bench::new(&policy)
        .ask_json(&about("/", json!({"api_key": "secret-key"})))
        .await;
    assert_eq!(
        (reply.status, reply.json()["field"].as_str()),
        (400, Some("api_key"))
    );
    assert!(!reply.body.contains("secret-key"));
}

/// P3: a preflight spends nothing, in either form.
#[tokio::test]
async fn a_preflight_spends_nothing() {
    let options = Options {
        cors: Cors::new(vec!["https://app.example".into()], false).expect("an origin"),
        ..Options::default()
    };
    let bench = Bench::with(&by_path(1), options, config::AccessLog::Off);
    let preflight = [
        ("x-original-method", "OPTIONS"),
        ("x-original-uri", "/things"),
        ("origin", "https://app.example"),
        ("access-control-request-method", "GET"),
    ];
    for _ in 0..5 {
        assert_eq!(bench.ask("", &preflight).await.status, 200);
        let json = json!({
            "method": "OPTIONS", "path": "/things",
            "headers": {"origin": "https://a", "access-control-request-method": "GET"},
        });
        assert_eq!(bench.ask_json(&json).await.json()["allowed"], true);
    }
    // OPTIONS of another kind is a request like any other.
    assert_eq!(bench.ask("", &preflight[..3]).await.status, 200);
    let refused = bench.ask("", &preflight[..3]).await;
    assert_eq!(refused.status, 429);
    assert_eq!(
        refused.field("access-control-allow-origin"),
        Some("https://app.example")
    );
    assert!(
        refused
            .field("access-control-expose-headers")
            .is_some_and(|e| e.contains("retry-after"))
    );
}

#[tokio::test]
async fn a_client_cannot_choose_what_is_asked() {
    let bench = Bench::new(&by_path(1));
    let with = |extra: &[(&'static str, &'static str)]| [NGINX, extra].concat();
    for (fields, field) in [
        (with(&[("x-forwarded-uri", "/cheap")]), "x-original-uri"),
        (with(&[("x-original-uri", "/cheap")]), "x-original-uri"),
        (
            with(&[("x-forwarded-method", "OPTIONS")]),
            "x-original-method",
        ),
        (with(&[("x-forwarded-host", "a, b")]), "x-forwarded-host"),
    ] {
        let reply = bench.ask("", &fields).await;
        assert_eq!(
            (reply.status, reply.json()["field"].as_str()),
            (400, Some(field))
        );
    }
    // Nor by a body in JSON, if the proxy sends it along.
    let mut request = question("", NGINX);
    *request.method_mut() = http::Method::POST;
    request
        .headers_mut()
        .insert("content-type", "application/json".parse().expect("a value"));
    *request.body_mut() = Body::from(r#"{"path":"/cheap","hits":0}"#);
    assert_eq!(
        bench.send(request).await.field("x-ratelimit-remaining"),
        Some("0")
    );
    // Nor by the query, if the proxy sends it along: it would set its own price.
    let fields = [
        ("x-forwarded-method", "GET"),
        ("x-forwarded-uri", "/things?hits=0"),
    ];
    let reply = bench.ask("?hits=0", &fields).await;
    assert_eq!(
        (reply.status, reply.json()["field"].as_str()),
        (400, Some("hits"))
    );
}

/// Caddy's `forward_auth` as it is short: the client's query stands in the question too.
#[tokio::test]
async fn a_clients_query_in_the_question_means_nothing() {
    let bench = Bench::new(&by_path(2));
    for (query, status) in [("?page=2", 200), ("?hits=0&page=2", 200), ("?x", 429)] {
        let uri = format!("/things{query}");
        let fields = [("x-forwarded-method", "GET"), ("x-forwarded-uri", &*uri)];
        assert_eq!(bench.ask(query, &fields).await.status, status, "{query}");
    }
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_named() {
    let bench = Bench::new(&by_path(1));
    for (query, fields, named) in [
        ("", &[][..], "X-Original-Method or X-Forwarded-Method"),
        ("", &NGINX[..2], "X-Original-URI or X-Forwarded-Uri"),
        ("?hits=many", NGINX, "hits"),
        ("?mode=500", NGINX, "mode"),
        ("?verbose", NGINX, "query"),
    ] {
        let reply = bench.ask(query, fields).await;
        assert_eq!(
            (reply.status, reply.json()["field"].as_str()),
            (400, Some(named))
        );
        assert_eq!(reply.field("cache-control"), Some("no-store"));
    }
    let reply = bench.ask_json(&json!({"paht": "/"})).await;
    assert_eq!(
        (reply.status, reply.json()["field"].as_str()),
        (400, Some("paht"))
    );
    let mut request = question("", NGINX);
    *request.method_mut() = http::Method::DELETE;
    let reply = bench.send(request).await;
    assert_eq!(
        (reply.status, reply.field("allow")),
        (405, Some("GET, HEAD, POST"))
    );
    // Nothing was charged.
    assert_eq!(bench.ask("", NGINX).await.status, 200);
    let scrape = series(&bench.telemetry.scrape(&TableStats::default()));
    assert_eq!(scrape[r#"throttle_error_total{kind="bad_request"}"#], 6.0);
    assert_eq!(scrape[r#"throttle_error_total{kind="not_served"}"#], 1.0);
}

/// Rules for methods and paths would not apply to such a question, and it would be allowed.
#[tokio::test]
async fn a_program_must_say_what_rules_choose_by() {
    let bench = Bench::new(&by_path(1));
    for (question, named) in [
        (json!({}), "method"),
        (json!({"path": "/x"}), "method"),
        (json!({"method": "GET"}), "path"),
        (json!({"domain": "d"}), "method"),
    ] {
        let reply = bench.ask_json(&question).await;
        assert_eq!(
            (reply.status, reply.json()["field"].as_str()),
            (400, Some(named)),
            "{question}"
        );
    }
    let entries =
        json!({"domain": "d", "hits": 0, "entries": [{"key": "path", "value": "/things"}]});
    assert_eq!(bench.ask_json(&entries).await.status, 200);
}

/// A client's body and its type, handed on by a proxy, are no question: only POST asks in JSON.
#[tokio::test]
async fn a_get_never_asks_in_json() {
    let bench = Bench::new(&by_path(1));
    let asked = |method: http::Method| {
        let request = Request::builder()
            .method(method)
            .uri("/v1/check")
            .header("content-type", "application/json")
            .body(Body::from(r#"{"method":"GET","path":"/cheap","hits":0}"#));
        bench.send(request.expect("a request"))
    };
    let reply = asked(http::Method::GET).await;
    assert_eq!(
        (reply.status, reply.json()["field"].as_str()),
        (400, Some("X-Original-Method or X-Forwarded-Method"))
    );
    assert_eq!(asked(http::Method::HEAD).await.status, 400);
    assert_eq!(asked(http::Method::POST).await.status, 200);
}

/// G2: too large is never taken for over the limit.
#[tokio::test]
async fn a_body_over_the_bound_is_413() {
    let bench = Bench::new(&by_path(1));
    let sizes = [
        (MOST_BODY_BYTES, 400),
        (MOST_BODY_BYTES + 1, 413),
        (5_000_000, 413),
    ];
    for (bytes, status) in sizes {
        for declared in [true, false] {
            let body = if declared {
                Body::from(vec![b' '; bytes])
            } else {
                Body::new(OneChunk(Some(vec![b' '; bytes].into())))
            };
            let request = Request::post("/v1/check").header("content-type", "application/json");
            let reply = bench.send(request.body(body).expect("a request")).await;
            assert_eq!(
                (reply.status, reply.json()["field"].as_str()),
                (status, Some("body"))
            );
            assert_eq!(reply.field("retry-after"), None);
        }
    }
}

/// One chunk of unknown length.
struct OneChunk(Option<bytes::Bytes>);

impl hyper::body::Body for OneChunk {
    type Data = bytes::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, std::io::Error>>> {
        let frame = self
            .0
            .take()
            .map(|chunk| Ok(hyper::body::Frame::data(chunk)));
        std::task::Poll::Ready(frame)
    }
}

/// K8, K10, K11: keys of any bytes and length, and headers given twice, over a real connection.
#[tokio::test]
async fn odd_bytes_over_a_connection() {
    let mut policy = by_path(1000);
    policy
        .rules
        .push(rule("per-key", KeySource::ApiKey, vec![limit(1, 60_000)]));
    let bench = Bench::new(&policy);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let service =
        check::routes(Arc::clone(&bench.check)).into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async move { axum::serve(listener, service).await });

    let send = async |head: Vec<u8>| {
        let mut stream = tokio::net::TcpStream::connect(address)
            .await
            .expect("a listener");
        stream.write_all(&head).await.expect("a peer that reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    };
    let ask = async |method: &str, uri: &[u8], key: &[u8]| {
        let mut head =
            format!("{method} /v1/check HTTP/1.1\r\nhost: a\r\nconnection: close\r\n").into_bytes();
        head.extend_from_slice(b"x-original-method: GET\r\nx-original-uri: ");
        head.extend_from_slice(uri);
        head.extend_from_slice(b"\r\nx-api-key: ");
        head.extend_from_slice(key);
        head.extend_from_slice(b"\r\n\r\n");
        send(head).await
    };
    let status = |answer: &str| answer.split(' ').nth(1).unwrap_or("none").to_owned();

    // A key of 300 bytes, one that is no text, one in Cyrillic: each its own bucket, each limited.
    for key in [
        &[b'k'; 300][..],
        b"\xff\xfe",
        "\u{430}\u{431}".as_bytes(),
        &[b'k'; 301],
    ] {
        assert_eq!(status(&ask("GET", b"/x", key).await), "200");
        assert_eq!(status(&ask("GET", b"/x", key).await), "429");
    }
    // A path that is no text.
    assert_eq!(status(&ask("GET", b"/\xff%00", b"path").await), "200");
    // NUL is no header.
    assert_eq!(status(&ask("GET", b"/x", b"a\0b").await), "400");
    // HEAD has the fields and no body.
    let head = ask("HEAD", b"/x", b"path").await;
    assert_eq!(status(&head), "429");
    assert!(
        head.contains("retry-after: 60\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    // A key given twice differently counts as absent: the shared bucket, which is limited too.
    let twice =
        b"GET /v1/check HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-original-method: GET\r\n\
                  x-original-uri: /x\r\nx-api-key: one\r\nx-api-key: two\r\n\r\n";
    assert_eq!(status(&send(twice.to_vec()).await), "200");
    assert_eq!(status(&send(twice.to_vec()).await), "429");
    server.abort();
}

#[tokio::test]
async fn a_callers_id_is_kept_if_it_can_be() {
    let bench = Bench::new(&by_path(1000));
    let id = async |given: &[(&'static str, &'static str)]| {
        let reply = bench.ask("", &[NGINX, given].concat()).await;
        reply.field("x-request-id").map(str::to_owned)
    };
    assert_eq!(
        id(&[("x-request-id", "abc-1")]).await.as_deref(),
        Some("abc-1")
    );
    assert_eq!(id(&[]).await, None);
    assert_eq!(id(&[("x-request-id", "a b")]).await, None);
    assert_eq!(id(&[("x-request-id", "a\"b")]).await, None);
    assert_eq!(
        id(&[("x-request-id", "a"), ("x-request-id", "b")]).await,
        None
    );
}

#[tokio::test]
async fn finding_a_bucket_is_a_hit_and_making_one_a_miss() {
    let bench = Bench::new(&by_path(1000));
    for _ in 0..4 {
        bench.ask("", NGINX).await;
    }
    bench.ask_json(&about("/other", json!({}))).await;
    let stats = bench.check.gate.table().stats(START);
    let series = series(&bench.telemetry.scrape(&stats));
    assert_eq!(series["throttle_cache_miss_total"], 2.0);
    assert_eq!(series["throttle_cache_hit_total"], 3.0);
    assert!(series["throttle_table_bytes"] > 0.0);
}

/// M2, M5: neither keys nor paths nor methods make series.
#[tokio::test]
async fn callers_cannot_make_series() {
    let bench = Bench::new(&by_path(1000));
    bench.ask("", NGINX).await;
    bench.ask("?bad", NGINX).await;
    let before = series(&bench.telemetry.scrape(&TableStats::default())).len();
    for n in 0..500 {
        let (uri, method, key) = (format!("/{n}"), format!("M{n}"), format!("key-{n}"));
        let fields = [
            ("x-original-method", &*method),
            ("x-original-uri", &*uri),
            ("x-api-key", &*key),
        ];
        assert_eq!(bench.ask("", &fields).await.status, 200);
    }
    let text = bench.telemetry.scrape(&TableStats::default());
    assert_eq!(series(&text).len(), before);
    assert!(!text.contains("key-"));
}

/// Y6: a refused request's line has no raw key, user or whole address.
#[tokio::test]
async fn a_refusal_is_logged_without_what_is_private() {
    let lines = Lines::default();
    let (clock, _) = Clock::manual(START);
    let line = Line {
        form: Form::Json,
        service: SERVICE,
        clock,
        redactor: Redactor::new(b"x"),
    };
    let subscriber = subscriber("info", line, lines.clone()).expect("a level");
    let guard = tracing::subscriber::set_default(subscriber);

    let mut policy = by_path(1);
    policy.client_address.trusted = vec!["192.0.2.0/24".parse().expect("a range")];
    let bench = Bench::with(&policy, Options::default(), config::AccessLog::Refused);
    let mine = [
        ("x-api-key", "raw-api-key-1"),
        ("x-user-id", "alice@example.com"),
        ("x-forwarded-for", "203.0.113.99"),
        ("user-agent", "agent"),
        (
            "traceparent",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ),
    ];
    let fields = [NGINX, &mine].concat();
    assert_eq!(bench.ask("", &fields).await.status, 200);
    assert_eq!(bench.ask("", &fields).await.status, 429);
    drop(guard);

    let objects = lines.objects();
    assert_eq!(objects.len(), 1, "{}", lines.text());
    let line = &objects[0];
    assert_eq!(line["status_code"], 429);
    assert_eq!(line["ip_address"], "203.0.113.0/24");
    assert_eq!(line["path"], "/things");
    assert_eq!(line["rule"], "per-path");
    assert_eq!(line["trace_id"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(
        line["user_id"],
        Redactor::new(b"x").id(b"alice@example.com")
    );
    for private in ["raw-api-key-1", "alice", "203.0.113.99", "page=2"] {
        assert!(!lines.text().contains(private), "{private}");
    }
}

#[tokio::test]
async fn a_request_without_the_rules_key_may_be_refused() {
    let mut policy = by_path(1);
    policy.rules[0].by[0].source = KeySource::ApiKey;
    policy.rules[0].on_absent = OnAbsent::Deny;
    let reply = Bench::new(&policy).ask("", NGINX).await;
    assert_eq!((reply.status, reply.field("retry-after")), (403, None));
}

#[tokio::test]
async fn the_dialect_is_the_operators() {
    let options = Options {
        dialect: Dialect::Draft03,
        ..Options::default()
    };
    let bench = Bench::with(&by_path(10), options, config::AccessLog::Off);
    let reply = bench.ask("", NGINX).await;
    assert_eq!(
        reply.field("x-ratelimit-limit"),
        Some("10, 10;w=60;name=\"per-path/1m\"")
    );
    assert_eq!(reply.field("ratelimit"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever arrives is answered: with a decision or a fault, never a panic, never 5xx.
    #[test]
    fn anything_is_answered(
        fields in proptest::collection::vec(
            (
                proptest::sample::select(&[
                    "x-original-method", "x-original-uri", "x-forwarded-method",
                    "x-forwarded-uri", "x-forwarded-host", "content-type",
                    "x-forwarded-for", "x-request-id", "origin", "traceparent",
                ][..]),
                proptest::sample::select(vec![&b"GET"[..], b"/a", b"application/json", b"OPTIONS",
                    b"\xff", b"", b",", b"1.2.3.4, ::1",
                ]),
            ),
            0..8,
        ),
        query in prop_oneof![Just(""), Just("?"), Just("?mode=403"), Just("?hits=0"), Just("?&=&")],
        body in prop_oneof![
            Just(Vec::new()),
            Just(b"{}".to_vec()),
            Just(br#"{"hits":4294967295,"path":"/a"}"#.to_vec()),
            proptest::collection::vec(any::<u8>(), 0..64),
        ],
    ) {
        let bench = Bench::new(&by_path(5));
        let mut request = Request::post(format!("/v1/check{query}"));
        for (name, value) in &fields {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let response = bench.check.answer(&head, None, Ok(&body));
        let known = [StatusCode::OK, StatusCode::BAD_REQUEST, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
        prop_assert!(known.contains(&response.status()), "{}", response.status());
        prop_assert!(query != "?mode=403" || matches!(response.status().as_u16(), 200 | 403));
    }
}
