//! What is decided, and how it is told: every form of question, every verdict.

use super::*;

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
    assert_eq!(
        series[r#"throttle_limit_charged_units_total{rule="per-path",limit="1m"}"#],
        4.0
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
