//! The bodies of refusals, and what scripts of other origins may read.

use super::*;

#[test]
fn bodies() {
    let minute = facts(
        1,
        "per-user",
        "1m",
        metered(100, 60_000, Algorithm::FixedWindow),
        true,
    );
    let closed = facts(2, "closed", "deny", Amount::Deny, true);
    let over = refused(
        Refusal::OverLimit,
        smallvec![dry(&minute, 1_900, Some(1_900))],
    );
    let costly = refused(Refusal::Never, smallvec![dry(&minute, 1_900, None)]);
    let never = refused(Refusal::Never, smallvec![dry(&closed, 0, None)]);
    let absent = refused(Refusal::KeyAbsent, smallvec![]);

    let body = |decision: &Decision<'_>, form| {
        let summary = Summary::of(decision);
        let told = Told(&summary);
        let body = told.body(form, told.status(), now(), "req-1").unwrap();
        (
            told.status(),
            body.content_type,
            String::from_utf8(body.bytes).unwrap(),
        )
    };
    assert_eq!(
        body(&over, BodyForm::Problem),
        (
            429,
            "application/problem+json",
            r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded","status":429,"detail":"The quota per 1m is used up. Try again in 2 seconds.","violated-policies":["per-user/1m"],"window":"1m","request_id":"req-1"}"#.into()
        )
    );
    assert_eq!(
        body(&over, BodyForm::ErrorObject),
        (
            429,
            "application/json",
            r#"{"error":{"code":"RATE_LIMIT_EXCEEDED","message":"The quota per 1m is used up. Try again in 2 seconds.","http_status":429,"timestamp":"2026-11-30T19:34:15.250Z","request_id":"req-1"}}"#.into()
        )
    );
    assert_eq!(
        body(&costly, BodyForm::Problem).2,
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Not within any quota","status":429,"detail":"This request costs more than its quota can ever hold. Waiting does not help: ask for less at a time.","violated-policies":["per-user/1m"],"window":"1m","request_id":"req-1"}"#
    );
    assert_eq!(
        body(&never, BodyForm::Problem).2,
        r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Not within any quota","status":429,"detail":"The quota admits no such request. Waiting does not help.","violated-policies":["closed/deny"],"request_id":"req-1"}"#
    );
    assert_eq!(
        body(&absent, BodyForm::Problem),
        (
            403,
            "application/problem+json",
            r#"{"type":"about:blank","title":"Forbidden","status":403,"detail":"This request lacks what its quota is counted by, such as an API key. Send it; waiting does not help.","request_id":"req-1"}"#.into()
        )
    );
    let unavailable = refused(Refusal::Unavailable, smallvec![dry(&minute, 0, Some(0))]);
    assert_eq!(
        body(&unavailable, BodyForm::ErrorObject),
        (
            503,
            "application/json",
            r#"{"error":{"code":"RATE_LIMITER_UNAVAILABLE","message":"The rate limiter cannot count this request at present, and its quota refuses then. Try again later.","http_status":503,"timestamp":"2026-11-30T19:34:15.250Z","request_id":"req-1"}}"#.into()
        )
    );
    assert_eq!(
        Summary::of(&unavailable).retry,
        Retry::After(Duration::from_secs(1))
    );
    let summary = Summary::of(&admitted(smallvec![])).verdict;
    assert_eq!(summary, Verdict::Admitted);
}

/// P3: a browser of another origin can read a refusal; admissions leave the API's own fields alone.
#[test]
fn browsers_can_read_refusals() {
    let minute = facts(
        1,
        "r",
        "1m",
        metered(1, 60_000, Algorithm::FixedWindow),
        true,
    );
    let refusal = refused(
        Refusal::OverLimit,
        smallvec![dry(&minute, 9_000, Some(9_000))],
    );
    let admission = admitted(smallvec![outcome(&minute, 0, 9_000)]);
    let named = Options {
        cors: Cors::new(vec!["https://app.example".into()], true).unwrap(),
        ..Options::default()
    };

    let fields = told_fields(&refusal, &named, Some("https://app.example"));
    assert_eq!(
        value_of(&fields, "access-control-allow-origin"),
        Some("https://app.example")
    );
    assert_eq!(
        value_of(&fields, "access-control-allow-credentials"),
        Some("true")
    );
    assert_eq!(value_of(&fields, "vary"), Some("origin"));
    let exposed = value_of(&fields, "access-control-expose-headers").unwrap();
    for name in fields.iter().map(|(name, _)| name.as_str()) {
        let own = name.starts_with("x-ratelimit")
            || name.starts_with("ratelimit")
            || name == "retry-after";
        assert!(
            !own || exposed.split(", ").any(|e| e == name),
            "{name} is not exposed"
        );
    }

    let fields = told_fields(&refusal, &named, Some("https://evil.example"));
    assert_eq!(value_of(&fields, "access-control-allow-origin"), None);
    assert_eq!(value_of(&fields, "vary"), Some("origin"));

    let fields = told_fields(&admission, &named, Some("https://app.example"));
    assert_eq!(value_of(&fields, "access-control-allow-origin"), None);
    assert!(value_of(&fields, "access-control-expose-headers").is_some());

    let any = Options {
        cors: Cors::new(vec!["*".into()], false).unwrap(),
        ..Options::default()
    };
    let fields = told_fields(&refusal, &any, Some("https://evil.example"));
    assert_eq!(value_of(&fields, "access-control-allow-origin"), Some("*"));
    assert!(
        told_fields(&refusal, &any, None)
            .iter()
            .all(|(n, _)| !n.starts_with("access-control"))
    );
}

prop_compose! {
    fn any_facts(number: u32)(
        units in 1..=u64::MAX,
        window_ms in 100_u64..=100 * 366 * 86_400_000,
        burst in 1..=u64::MAX,
        kind in 0..6_u8,
        disclose: bool,
        shadow: bool,
    ) -> LimitFacts {
        let amount = match kind {
            0 => Amount::Unlimited,
            1 => Amount::Deny,
            2 => Amount::Metered {
                rate: Rate { units, window: Window::Forever }, algorithm: Algorithm::FixedWindow,
            },
            3 => metered(units, window_ms, Algorithm::FixedWindow),
            4 => metered(units, window_ms, Algorithm::SlidingWindow),
            _ => metered(units, window_ms, Algorithm::TokenBucket { burst }),
        };
        let mut facts = facts(number, "rule", &format!("limit-{number}"), amount, disclose);
        if shadow { facts.mode = Mode::Shadow; }
        facts
    }
}

proptest! {
    /// H4: whatever the gate says, times are whole seconds from now, numbers plain, names once, and a wait that is
    /// told covers the longest of the refusing limits.
    #[test]
    fn fields_are_always_well_formed(
        all_facts in (any_facts(1), any_facts(2), any_facts(3)),
        figures in proptest::collection::vec((any::<u64>(), any::<u64>(), proptest::option::of(0..u64::MAX / 2)), 3),
        verdict in prop_oneof![
            Just(Verdict::Admitted),
            Just(Verdict::Refused(Refusal::OverLimit)),
            Just(Verdict::Refused(Refusal::Never)),
        ],
        which in prop_oneof![Just(Dialect::Draft11), Just(Dialect::Draft03), Just(Dialect::GitHub)],
    ) {
        let list = [&all_facts.0, &all_facts.1, &all_facts.2];
        let outcomes = list.iter().zip(&figures).map(|(facts, (remaining, reset, retry))| Outcome {
            part: 0,
            facts,
            brought: None,
            has_room: verdict == Verdict::Admitted || retry.is_none(),
            charged: 0,
            remaining: (facts.amount != Amount::Unlimited).then_some(*remaining),
            reset_after: Duration::from_nanos(*reset),
            retry_after: retry.map(Duration::from_nanos),
        }).collect();
        let decision = Decision { verdict, outcomes, dry: vec![] };
        let fields = told_fields(&decision, &dialect(which), None);

        for (index, (name, value)) in fields.iter().enumerate() {
            prop_assert!(fields[..index].iter().all(|(n, _)| n != name), "{name} twice");
            prop_assert!(value.bytes().all(|b| (b' '..=b'~').contains(&b)));
            let plain = matches!(name.as_str(), "retry-after" | "x-ratelimit-remaining" | "x-ratelimit-reset");
            prop_assert!(!plain || value.parse::<u64>().is_ok(), "{name}: {value}");
        }
        if let Some(retry) = value_of(&fields, "retry-after") {
            let seconds: u128 = retry.parse().unwrap();
            let longest = decision.outcomes.iter()
                .filter(|o| o.facts.mode == Mode::Enforce && !o.has_room)
                .filter_map(|o| o.retry_after).max().unwrap();
            let told = value_of(&fields, "x-ratelimit-reset-ms")
                .map_or(seconds * 1000, |ms| ms.parse().unwrap());
            prop_assert!(Duration::from_millis(told as u64) >= longest);
            prop_assert!(Duration::from_millis(told as u64) < longest + Duration::from_secs(1));
        }
        if let Some(reset) = value_of(&fields, "x-ratelimit-reset") && which == Dialect::GitHub {
            prop_assert!(reset.parse::<u128>().unwrap() * 1_000_000_000 >= now().unix_nanos());
        }
        if let Some(limits) = value_of(&fields, "ratelimit") {
            let parsed = sfv::Parser::new(limits).parse::<sfv::List>();
            prop_assert!(parsed.is_ok(), "{limits}");
        }
        if let Some(policies) = value_of(&fields, "ratelimit-policy") {
            prop_assert!(sfv::Parser::new(policies).parse::<sfv::List>().is_ok(), "{policies}");
            prop_assert!(!policies.contains("w=0"));
        }
    }
}
