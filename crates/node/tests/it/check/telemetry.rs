//! What is counted and logged of questions, and what is not.

use super::*;

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
