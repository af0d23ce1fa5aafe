//! What is told: response fields, logs, and what descriptors may say.

use super::*;

#[tokio::test]
async fn response_fields_follow_the_configuration() {
    let envoys = [
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ];
    for (setting, ours, theirs) in [
        ("grpc.fields=all", true, true),
        ("grpc.fields=beside-envoys", true, false),
        ("grpc.fields=none", false, false),
    ] {
        let fixture = Fixture::with(&two_per_minute(), &[setting]).await;
        let channel = fixture.channel().await;
        let admitted = ask(channel.clone(), &["a"]).await.unwrap();
        assert_eq!(
            fields(&admitted).contains_key("ratelimit"),
            ours,
            "{setting}"
        );
        ask(channel.clone(), &["a"]).await.unwrap();
        let refused = ask(channel, &["a"]).await.unwrap();
        assert_eq!(
            fields(&refused).contains_key("retry-after"),
            ours,
            "{setting}"
        );
        for name in envoys {
            assert_eq!(
                fields(&admitted).contains_key(name),
                theirs,
                "{setting} {name}"
            );
            assert_eq!(
                fields(&refused).contains_key(name),
                theirs,
                "{setting} {name}"
            );
        }
    }
}

#[tokio::test]
async fn what_is_not_disclosed_is_not_told() {
    let mut rules = vec![rule("per-user", "user", vec![limit(2, 60_000)])];
    let RuleLimits::Own(limits) = &mut rules[0].limits else {
        unreachable!("made so above")
    };
    limits[0].disclose = false;
    let fixture = Fixture::with(&policy(rules), &["grpc.fields=all"]).await;
    let channel = fixture.channel().await;
    for code in [Code::Ok, Code::Ok, Code::OverLimit] {
        let response = ask(channel.clone(), &["a"]).await.unwrap();
        assert_eq!(response.overall_code(), code);
        assert_eq!(response.statuses[0].current_limit, None);
        let fields = fields(&response);
        assert!(
            !fields.keys().any(|name| name.starts_with("ratelimit")),
            "{fields:?}"
        );
    }
}

#[tokio::test]
async fn a_rule_in_shadow_counts_and_admits() {
    let mut rules = vec![rule("per-user", "user", vec![limit(1, 60_000)])];
    rules[0].mode = Mode::Shadow;
    let fixture = Fixture::with(&policy(rules), &[]).await;
    let channel = fixture.channel().await;
    for _ in 0..3 {
        let response = ask(channel.clone(), &["a"]).await.unwrap();
        let (overall, statuses) = figures(&response);
        assert_eq!((overall, statuses[0].0), (Code::Ok, Code::Ok));
        assert!(response.raw_body.is_empty());
    }
}

#[tokio::test]
async fn a_request_that_lacks_a_key_is_refused_where_the_rule_says_so() {
    let mut rules = vec![rule("per-user", "user", vec![limit(1, 60_000)])];
    rules[0].on_absent = OnAbsent::Deny;
    let fixture = Fixture::with(&policy(rules), &[]).await;
    let mut message = request(&[]);
    message.descriptors = vec![descriptor(&[("other", "x")]); 2];
    let response = send(fixture.channel().await, message).await.unwrap();
    let (overall, statuses) = figures(&response);
    assert_eq!(overall, Code::OverLimit);
    assert!(
        statuses.iter().all(|(code, ..)| *code == Code::OverLimit),
        "{statuses:?}"
    );
    // Envoy answers 429 to every OVER_LIMIT: the body says no other.
    let body: serde_json::Value = serde_json::from_slice(&response.raw_body).unwrap();
    assert_eq!(
        (&body["status"], &body["title"]),
        (&429.into(), &"Too Many Requests".into())
    );
}

#[tokio::test]
async fn a_fault_without_a_decision_is_never_taken_for_a_refusal() {
    let fixture = Fixture::with(&two_per_minute(), &[]).await;
    let channel = fixture.channel().await;
    let huge = "x".repeat(5 << 20);
    let refused = ask(channel.clone(), &[&huge]).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::OutOfRange, "{refused}");

    for (message, field) in [
        (
            RateLimitRequest {
                domain: String::new(),
                ..request(&["a"])
            },
            "domain",
        ),
        (request(&[]), "descriptors"),
    ] {
        let refused = send(channel.clone(), message).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        assert!(refused.message().starts_with(field), "{refused}");
    }
    let scrape = fixture.core.telemetry.scrape(&TableStats::default());
    assert!(
        scrape.contains("throttle_error_total{kind=\"bad_request\"} 2\n"),
        "{scrape}"
    );
    let response = ask(channel, &["a"]).await.unwrap();
    assert_eq!(
        response.statuses[0].limit_remaining, 1,
        "the faults charged nothing"
    );
}

#[tokio::test]
async fn keys_of_any_length_and_bytes_are_limited() {
    let fixture = Fixture::with(&two_per_minute(), &[]).await;
    let channel = fixture.channel().await;
    let long = vec![b'k'; 70_000];
    for key in [
        &long[..],
        b"line\nbreak",
        b"\0",
        b"\xff\xfe",
        "\u{430}".as_bytes(),
    ] {
        for code in [Code::Ok, Code::Ok, Code::OverLimit] {
            let mut message = request(&["a"]);
            message.descriptors[0].entries[0].value = key.to_vec();
            let response = send(channel.clone(), message).await.unwrap();
            assert_eq!(response.overall_code(), code, "{} bytes", key.len());
        }
    }
}

#[tokio::test]
async fn rules_for_http_meet_what_descriptors_tell() {
    let mut by_address = rule("per-address", "unused", vec![limit(1, 60_000)]);
    by_address.by[0].source = KeySource::ClientAddress;
    by_address.when.methods = vec!["POST".into()];
    let fixture = Fixture::with(&policy(vec![by_address]), &[]).await;
    let channel = fixture.channel().await;
    let asked = |method: &'static str, address: &'static str| {
        let mut message = request(&[]);
        message.descriptors = vec![descriptor(&[
            ("method", method),
            ("remote_address", address),
        ])];
        send(channel.clone(), message)
    };
    assert_eq!(
        asked("POST", "192.0.2.1").await.unwrap().overall_code(),
        Code::Ok
    );
    assert_eq!(
        asked("POST", "192.0.2.1").await.unwrap().overall_code(),
        Code::OverLimit
    );
    assert_eq!(
        asked("POST", "192.0.2.2").await.unwrap().overall_code(),
        Code::Ok
    );
    assert_eq!(
        asked("GET", "192.0.2.1").await.unwrap().overall_code(),
        Code::Ok
    );
}

/// A rule for a path holds however often, and under whichever keys, Envoy is told to send the path.
#[tokio::test]
async fn a_path_sent_twice_still_meets_the_rules_for_it() {
    let mut logins = rule("logins", "unused", vec![limit(1, 60_000)]);
    logins.by = Vec::new();
    logins.when.methods = vec!["POST".into()];
    logins.when.paths = vec![PathPattern {
        source: "/login".into(),
        segments: vec![Segment::Literal("login".into())],
    }];
    let fixture = Fixture::with(&policy(vec![logins]), &[]).await;
    let channel = fixture.channel().await;
    for code in [Code::Ok, Code::OverLimit] {
        let mut message = request(&[]);
        message.descriptors = vec![descriptor(&[
            ("path", "/login"),
            (":path", "/login?x"),
            (":method", "POST"),
            ("method", "post"),
        ])];
        let response = send(channel.clone(), message).await.unwrap();
        assert_eq!(response.overall_code(), code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_four_at_once_get_exactly_the_limit() {
    let rules = vec![rule("per-user", "user", vec![limit(5, 60_000)])];
    let fixture = Fixture::with(&policy(rules), &[]).await;
    let channel = fixture.channel().await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..64 {
        tasks.spawn(ask(channel.clone(), &["a"]));
    }
    let answers = tasks.join_all().await;
    let codes: Vec<Code> = answers
        .into_iter()
        .map(|answer| answer.unwrap().overall_code())
        .collect();
    assert_eq!(codes.iter().filter(|code| **code == Code::Ok).count(), 5);
    assert_eq!(
        codes
            .iter()
            .filter(|code| **code == Code::OverLimit)
            .count(),
        59
    );
    let scrape = fixture.core.telemetry.scrape(&TableStats::default());
    for expected in [
        "throttle_limit_admitted_total{rule=\"per-user\",limit=\"1m\"} 5\n",
        "throttle_requests_blocked_total{rule=\"per-user\",limit=\"1m\"} 59\n",
    ] {
        assert!(scrape.contains(expected), "{expected}{scrape}");
    }
}

fn any_entry() -> impl Strategy<Value = (String, Vec<u8>)> {
    let key = prop_oneof!["user|path|method|host|remote_address|:path", "[ -~]{1,8}"];
    let value = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..20),
        "GET|/a//b/../%2e|10.0.0.1".prop_map(String::into_bytes),
    ];
    (key, value)
}

/// The service on a core, with a log of what `which` selects.
fn service(core: Core, which: config::AccessLog) -> Rls {
    let settings = config::Log {
        access: which,
        ..config::Log::default()
    };
    Rls {
        fleet: None,
        access: AccessLog::new(&settings, core.redactor, core.telemetry.clone()),
        gate: core.gate,
        clock: core.clock,
        telemetry: core.telemetry,
        options: Options::default(),
        fields: Fields::All,
        overrides: Overrides::Accept,
    }
}

#[test]
fn refusals_are_logged_without_what_identifies_a_caller() {
    let (core, _) = core(&two_per_minute());
    let rls = service(core, config::AccessLog::Refused);
    let mut message = request(&[]);
    message.descriptors = vec![
        descriptor(&[
            ("user", "alice"),
            ("path", "/a?token=t0p"),
            ("method", "GET"),
        ]),
        descriptor(&[("remote_address", "192.0.2.77"), ("api_key", "k3y")]),
        descriptor(&[("x-request-id", "req-1")]),
    ];
    let lines = logged(Form::Json, || {
        for _ in 0..3 {
            rls.decide(&message).unwrap();
        }
    });
    let [line] = &lines.objects()[..] else {
        panic!("{}", lines.text())
    };
    assert_eq!(line["request_id"], "req-1");
    assert_eq!(
        (&line["method"], &line["path"]),
        (&"GET".into(), &"/a".into())
    );
    assert_eq!(
        (&line["rule"], &line["status_code"]),
        (&"per-user".into(), &429.into())
    );
    assert_eq!(line["ip_address"], "192.0.2.0/24");
    for secret in ["alice", "t0p", "k3y", "192.0.2.77"] {
        assert!(!lines.text().contains(secret), "{secret}: {}", lines.text());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_decision_has_a_code_and_a_status_for_each_descriptor(
        descriptors in proptest::collection::vec(
            (proptest::collection::vec(any_entry(), 1..5), any::<Option<u64>>(), any::<bool>()), 1..5),
        hits_addend in any::<u32>(),
    ) {
        let mut paths = rule("paths", "user", vec![limit(3, 1_000), limit(7, 900_000)]);
        paths.by.push(KeyPart { source: KeySource::Path, normalize: Normalizer::default() });
        paths.on_absent = OnAbsent::Share;
        let (core, _) = core(&policy(vec![paths, rule("users", "user", vec![limit(2, 60_000)])]));
        let rls = service(core, config::AccessLog::Off);
        let message = RateLimitRequest {
            domain: "api".into(),
            hits_addend,
            descriptors: descriptors
                .into_iter()
                .map(|(entries, hits_addend, is_negative_hits)| RateLimitDescriptor {
                    entries: entries.into_iter().map(|(key, value)| Entry { key, value }).collect(),
                    hits_addend,
                    is_negative_hits,
                    limit: None,
                })
                .collect(),
        };
        for _ in 0..3 {
            let response = rls.decide(&message).unwrap();
            prop_assert_eq!(response.statuses.len(), message.descriptors.len());
            let codes = response.statuses.iter().map(DescriptorStatus::code);
            let refused = codes.clone().any(|code| code == Code::OverLimit);
            prop_assert!(codes.chain([response.overall_code()]).all(|code| code != Code::Unknown));
            prop_assert_eq!(response.overall_code() == Code::OverLimit, refused);
        }
    }
}

/// A browser's own question spends nothing, and passes where nothing is left.
#[tokio::test]
async fn preflights_spend_nothing() {
    let fixture = Fixture::with(&two_per_minute(), &[]).await;
    let ask = async |methods: &[&str], others: &[(&str, &str)]| {
        let mut entries = vec![("user", "u")];
        entries.extend(methods.iter().map(|method| ("method", *method)));
        entries.extend(others);
        let mut request = request(&[]);
        request.descriptors = vec![descriptor(&entries), descriptor(&[("user", "v")])];
        figures(&send(fixture.channel().await, request).await.unwrap())
    };
    let origin = ("Origin", "https://app.example");
    let asks = ("access-control-request-method", "GET");
    let untouched = (Code::Ok, vec![(Code::Ok, 0, None); 2]);
    for _ in 0..3 {
        assert_eq!(ask(&["OPTIONS"], &[origin, asks]).await, untouched);
    }
    // All of it must be told; else it is a request like others.
    assert_eq!(ask(&["OPTIONS"], &[origin]).await.1[0].1, 1);
    assert_eq!(ask(&["OPTIONS"], &[asks]).await.1[0].1, 0);
    for methods in [&["GET"] as &[&str], &["options"], &[]] {
        let (code, _) = ask(methods, &[origin, asks]).await;
        assert_eq!(code, Code::OverLimit, "{methods:?}");
    }
    assert_eq!(ask(&["OPTIONS"], &[origin, asks]).await, untouched);
}

/// Whose origin may read a refusal is told of the origin that a descriptor tells.
#[tokio::test]
async fn refusals_can_be_read_by_scripts_of_allowed_origins() {
    let settings = ["answer.allow_origins=https://app.example"];
    let fixture = Fixture::with(&two_per_minute(), &settings).await;
    for (origin, expected) in [
        ("https://app.example", Some("https://app.example")),
        ("https://other.example", None),
    ] {
        let mut request = request(&[]);
        request.descriptors = vec![descriptor(&[("user", "u"), ("origin", origin)])];
        request.hits_addend = 3;
        let response = send(fixture.channel().await, request).await.unwrap();
        assert_eq!(response.overall_code(), Code::OverLimit);
        let allowed = fields(&response)
            .get("access-control-allow-origin")
            .copied();
        assert_eq!(allowed, expected);
    }
}
