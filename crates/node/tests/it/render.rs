//! Golden answers: every dialect against every verdict, and the cases H4, H8, A10 and A11.

use std::time::Duration;

use gate::decision::{Decision, LimitFacts, LimitNumber, Outcome, Refusal, Verdict};
use gate::time::Now;
use leasehold_node::render::{
    self, BodyForm, Cors, Dialect, Options, Retry, SubSecond, Summary, Told,
};
use policy::model::{Algorithm, Amount, LimitName, Mode, OnDegraded, RuleName};
use policy::rate::{Rate, Window, WindowMs};
use proptest::prelude::*;
use smallvec::{SmallVec, smallvec};

/// 2026-11-30T19:34:15.250Z.
fn now() -> Now {
    Now::from_unix_nanos(1_796_067_255_250_000_000)
}

fn metered(units: u64, window_ms: u64, algorithm: Algorithm) -> Amount {
    let window = Window::Millis(WindowMs::new(window_ms).expect("a window in range"));
    Amount::Metered {
        rate: Rate { units, window },
        algorithm,
    }
}

fn facts(number: u32, rule: &str, limit: &str, amount: Amount, disclose: bool) -> LimitFacts {
    LimitFacts {
        number: LimitNumber(number),
        rule: RuleName::new(rule),
        name: LimitName::new(limit),
        envoy_name: None,
        amount,
        mode: Mode::Enforce,
        on_degraded: OnDegraded::FairShare,
        disclose,
    }
}

fn outcome(facts: &LimitFacts, remaining: u64, reset_ms: u64) -> Outcome<'_> {
    Outcome {
        part: 0,
        facts,
        amount: facts.amount,
        has_room: true,
        remaining: Some(remaining),
        reset_after: Duration::from_millis(reset_ms),
        retry_after: None,
    }
}

fn dry(facts: &LimitFacts, reset_ms: u64, retry_ms: Option<u64>) -> Outcome<'_> {
    Outcome {
        has_room: false,
        remaining: Some(0),
        retry_after: retry_ms.map(Duration::from_millis),
        ..outcome(facts, 0, reset_ms)
    }
}

fn refused(why: Refusal, outcomes: SmallVec<[Outcome<'_>; 4]>) -> Decision<'_> {
    Decision {
        dry: vec![],
        verdict: Verdict::Refused(why),
        outcomes,
    }
}

fn admitted(outcomes: SmallVec<[Outcome<'_>; 4]>) -> Decision<'_> {
    Decision {
        dry: vec![],
        verdict: Verdict::Admitted,
        outcomes,
    }
}

fn told_fields(
    decision: &Decision<'_>,
    options: &Options,
    origin: Option<&str>,
) -> Vec<(String, String)> {
    let mut told = Vec::new();
    render::fields(
        &Summary::of(decision),
        now(),
        options,
        origin,
        &mut |name, value| {
            told.push((name.to_owned(), value.to_owned()));
        },
    );
    told
}

fn lines(decision: &Decision<'_>, options: &Options) -> String {
    let fields = told_fields(decision, options, None);
    fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect()
}

fn dialect(dialect: Dialect) -> Options {
    Options {
        dialect,
        ..Options::default()
    }
}

fn value_of<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields
        .iter()
        .find(|(n, _)| n == name)
        .map(|(_, v)| v.as_str())
}

#[test]
fn admitted_in_every_dialect() {
    let minute = facts(
        1,
        "per-user",
        "1m",
        metered(100, 60_000, Algorithm::FixedWindow),
        true,
    );
    let second = facts(
        2,
        "per-ip",
        "1s",
        metered(10, 1000, Algorithm::TokenBucket { burst: 20 }),
        true,
    );
    let decision = admitted(smallvec![
        outcome(&minute, 50, 29_001),
        outcome(&second, 7, 650)
    ]);

    assert_eq!(
        lines(&decision, &dialect(Dialect::Draft11)),
        "ratelimit-policy: \"per-ip/1s\";q=10;w=1;leasehold-burst=20, \"per-user/1m\";q=100;w=60\n\
         ratelimit: \"per-ip/1s\";r=7;t=1\n\
         x-ratelimit-limit: 20\n\
         x-ratelimit-remaining: 7\n\
         x-ratelimit-reset: 1\n"
    );
    assert_eq!(
        lines(&decision, &dialect(Dialect::Draft03)),
        "x-ratelimit-limit: 20, 10;w=1;burst=20;name=\"per-ip/1s\", 100;w=60;name=\"per-user/1m\"\n\
         x-ratelimit-remaining: 7\n\
         x-ratelimit-reset: 1\n"
    );
    assert_eq!(
        lines(&decision, &dialect(Dialect::GitHub)),
        "x-ratelimit-limit: 20\n\
         x-ratelimit-remaining: 7\n\
         x-ratelimit-reset: 1796067256\n"
    );
    assert_eq!(lines(&decision, &dialect(Dialect::None)), "");
}

#[test]
fn over_limit_in_every_dialect() {
    let minute = facts(
        1,
        "per-user",
        "1m",
        metered(100, 60_000, Algorithm::FixedWindow),
        true,
    );
    let second = facts(
        2,
        "per-ip",
        "1s",
        metered(10, 1000, Algorithm::FixedWindow),
        true,
    );
    // Both are used up: the wait is up to the later boundary, and the limit shown is the one that it belongs to.
    let decision = refused(
        Refusal::OverLimit,
        smallvec![
            dry(&second, 400, Some(400)),
            dry(&minute, 29_001, Some(29_001))
        ],
    );

    assert_eq!(
        lines(&decision, &dialect(Dialect::Draft11)),
        "retry-after: 30\n\
         ratelimit-policy: \"per-user/1m\";q=100;w=60, \"per-ip/1s\";q=10;w=1\n\
         ratelimit: \"per-user/1m\";r=0;t=30\n\
         x-ratelimit-limit: 100\n\
         x-ratelimit-remaining: 0\n\
         x-ratelimit-reset: 30\n\
         cache-control: no-store\n"
    );
    assert_eq!(
        lines(&decision, &dialect(Dialect::Draft03)),
        "retry-after: 30\n\
         x-ratelimit-limit: 100, 100;w=60;name=\"per-user/1m\", 10;w=1;name=\"per-ip/1s\"\n\
         x-ratelimit-remaining: 0\n\
         x-ratelimit-reset: 30\n\
         cache-control: no-store\n"
    );
    assert_eq!(
        lines(&decision, &dialect(Dialect::GitHub)),
        "retry-after: 30\n\
         x-ratelimit-limit: 100\n\
         x-ratelimit-remaining: 0\n\
         x-ratelimit-reset: 1796067285\n\
         cache-control: no-store\n"
    );
    assert_eq!(
        lines(&decision, &dialect(Dialect::None)),
        "retry-after: 30\ncache-control: no-store\n"
    );
}

#[test]
fn a_refusal_that_waiting_cannot_mend_has_no_retry_after() {
    let minute = facts(
        1,
        "per-user",
        "1m",
        metered(100, 60_000, Algorithm::FixedWindow),
        true,
    );
    let denied = facts(2, "closed", "deny", Amount::Deny, true);
    let forever = facts(
        3,
        "trial",
        "forever",
        {
            Amount::Metered {
                rate: Rate {
                    units: 5,
                    window: Window::Forever,
                },
                algorithm: Algorithm::FixedWindow,
            }
        },
        true,
    );

    let cases = [
        (
            refused(Refusal::Never, smallvec![dry(&denied, 0, None)]),
            "\"closed/deny\";r=0",
        ),
        (
            refused(Refusal::OverLimit, smallvec![dry(&forever, 0, None)]),
            "\"trial/forever\";r=0",
        ),
        (refused(Refusal::KeyAbsent, smallvec![]), ""),
        // One that waiting mends and one that it does not.
        (
            refused(
                Refusal::OverLimit,
                smallvec![dry(&minute, 500, Some(500)), dry(&forever, 0, None)],
            ),
            "\"trial/forever\";r=0",
        ),
    ];
    for (decision, shown) in cases {
        assert_eq!(Summary::of(&decision).retry, Retry::Never);
        for each in [
            Dialect::Draft11,
            Dialect::Draft03,
            Dialect::GitHub,
            Dialect::None,
        ] {
            let fields = told_fields(&decision, &dialect(each), None);
            assert_eq!(
                value_of(&fields, "retry-after"),
                None,
                "{each:?} {fields:?}"
            );
            assert_eq!(
                value_of(&fields, "x-ratelimit-reset"),
                None,
                "{each:?} {fields:?}"
            );
            assert_eq!(value_of(&fields, "cache-control"), Some("no-store"));
        }
        let fields = told_fields(&decision, &Options::default(), None);
        assert_eq!(value_of(&fields, "ratelimit").unwrap_or(""), shown);
    }
}

/// A10: whole seconds, rounded up; under one second by the switch.
#[test]
fn waits_are_whole_seconds_rounded_up() {
    let facts = facts(
        1,
        "r",
        "1m",
        metered(10, 60_000, Algorithm::SlidingWindow),
        false,
    );
    let zero = Options::default();
    let one = Options {
        sub_second: SubSecond::One,
        ..Options::default()
    };
    // Wait in microseconds; Retry-After and X-RateLimit-Reset-Ms by the first switch, Retry-After by the other.
    let table: [(u64, &str, Option<&str>, &str); 9] = [
        (1_900_000, "2", None, "2"),
        (2_000_000, "2", None, "2"),
        (2_000_001, "3", None, "3"),
        (1_000_000, "1", None, "1"),
        (999_999, "0", Some("1000"), "1"),
        (700_000, "0", Some("700"), "1"),
        (1, "0", Some("1"), "1"),
        (0, "0", Some("0"), "1"),
        (
            100 * 366 * 86_400 * 1_000_000,
            "3162240000",
            None,
            "3162240000",
        ),
    ];
    for (micros, by_zero, millis, by_one) in table {
        let mut limit = dry(&facts, 60_000, Some(0));
        limit.retry_after = Some(Duration::from_micros(micros));
        let decision = refused(Refusal::OverLimit, smallvec![limit]);

        let fields = told_fields(&decision, &zero, None);
        assert_eq!(
            value_of(&fields, "retry-after"),
            Some(by_zero),
            "{micros} us"
        );
        assert_eq!(
            value_of(&fields, "x-ratelimit-reset-ms"),
            millis,
            "{micros} us"
        );
        let fields = told_fields(&decision, &one, None);
        assert_eq!(
            value_of(&fields, "retry-after"),
            Some(by_one),
            "{micros} us"
        );
        assert_eq!(
            value_of(&fields, "x-ratelimit-reset-ms"),
            None,
            "{micros} us"
        );
    }
}

/// The figures of a limit that is not disclosed are nowhere, in no dialect and no body.
#[test]
fn what_is_not_disclosed_is_not_told() {
    let secret = facts(
        1,
        "hidden",
        "day",
        metered(987_654_321, 86_400_000, Algorithm::FixedWindow),
        false,
    );
    let shown = facts(
        2,
        "open",
        "1m",
        metered(100, 60_000, Algorithm::FixedWindow),
        true,
    );
    let refusal = refused(
        Refusal::OverLimit,
        smallvec![
            dry(&secret, 7_000, Some(7_000)),
            outcome(&shown, 40, 30_000)
        ],
    );
    let mut spent = outcome(&secret, 123_456_789, 7_000);
    spent.has_room = true;
    let admission = admitted(smallvec![spent, outcome(&shown, 40, 30_000)]);
    for decision in [&refusal, &admission] {
        for each in [
            Dialect::Draft11,
            Dialect::Draft03,
            Dialect::GitHub,
            Dialect::None,
        ] {
            let told = lines(decision, &dialect(each));
            assert!(
                !told.contains("987654321") && !told.contains("123456789"),
                "{told}"
            );
            assert!(!told.contains("hidden"), "{told}");
        }
        // The figures that are told are those of the disclosed limit, whichever the verdict (H8).
        let fields = told_fields(decision, &Options::default(), None);
        assert_eq!(value_of(&fields, "x-ratelimit-limit"), Some("100"));
        assert_eq!(value_of(&fields, "x-ratelimit-remaining"), Some("40"));
    }
    let summary = Summary::of(&refusal);
    for form in [BodyForm::Problem, BodyForm::ErrorObject] {
        let body = Told(&summary).body(form, 429, now(), "id").unwrap();
        assert!(!String::from_utf8(body.bytes).unwrap().contains("987654321"));
    }
    // Retry-After of the hidden limit is told; `t` of the shown one does not lie beyond it.
    let fields = told_fields(&refusal, &Options::default(), None);
    assert_eq!(value_of(&fields, "retry-after"), Some("7"));
    assert_eq!(value_of(&fields, "ratelimit"), Some("\"open/1m\";r=40;t=7"));
}

#[test]
fn shadow_limits_are_neither_shown_nor_waited_for() {
    let mut shadow = facts(
        1,
        "trial",
        "1h",
        metered(1, 3_600_000, Algorithm::FixedWindow),
        true,
    );
    shadow.mode = Mode::Shadow;
    let real = facts(
        2,
        "real",
        "1m",
        metered(100, 60_000, Algorithm::FixedWindow),
        true,
    );
    let decision = admitted(smallvec![
        dry(&shadow, 3_000_000, Some(3_000_000)),
        outcome(&real, 3, 9_000)
    ]);
    assert_eq!(
        lines(&decision, &Options::default()),
        "ratelimit-policy: \"real/1m\";q=100;w=60\n\
         ratelimit: \"real/1m\";r=3;t=9\n\
         x-ratelimit-limit: 100\n\
         x-ratelimit-remaining: 3\n\
         x-ratelimit-reset: 9\n"
    );
    let refusal = refused(
        Refusal::OverLimit,
        smallvec![
            dry(&shadow, 3_000_000, Some(3_000_000)),
            dry(&real, 9_000, Some(9_000))
        ],
    );
    assert_eq!(
        Summary::of(&refusal).retry,
        Retry::After(Duration::from_secs(9))
    );
    assert_eq!(Summary::of(&refusal).refusing.len(), 1);
}

#[test]
fn what_was_decided_on_old_credit_is_marked() {
    let minute = facts(
        1,
        "r",
        "1m",
        metered(10, 60_000, Algorithm::FixedWindow),
        true,
    );
    let decision = admitted(smallvec![outcome(&minute, 3, 9_000)]);
    let mut summary = Summary::of(&decision);
    let marked = |summary: &Summary<'_, '_>| {
        let mut marked = false;
        render::fields(
            summary,
            now(),
            &dialect(Dialect::None),
            None,
            &mut |name, value| {
                marked |= (name, value) == ("x-ratelimit-degraded", "true");
            },
        );
        marked
    };
    assert!(!marked(&summary));
    summary.degraded = true;
    assert!(marked(&summary));
}

#[test]
fn windows_that_are_no_whole_seconds_are_rounded_up() {
    let fast = facts(
        1,
        "fast",
        "100ms",
        metered(10, 100, Algorithm::FixedWindow),
        true,
    );
    let told = lines(
        &admitted(smallvec![outcome(&fast, 9, 60)]),
        &Options::default(),
    );
    assert!(
        told.starts_with("ratelimit-policy: \"fast/100ms\";q=10;w=1\n"),
        "{told}"
    );
}

#[test]
fn names_that_no_field_may_hold_are_made_printable() {
    let odd = facts(
        1,
        "a\"b\\c\u{e9}\n",
        "1m",
        metered(10, 60_000, Algorithm::FixedWindow),
        true,
    );
    let decision = admitted(smallvec![outcome(&odd, 9, 60)]);
    let fields = told_fields(&decision, &Options::default(), None);
    assert_eq!(
        value_of(&fields, "ratelimit"),
        Some(r#""a\"b\\c??/1m";r=9;t=1"#)
    );
    let fields = told_fields(&decision, &dialect(Dialect::Draft03), None);
    assert_eq!(
        value_of(&fields, "x-ratelimit-limit"),
        Some(r#"10, 10;w=60;name="a\"b\\c??/1m""#)
    );
}

#[test]
fn a_limit_of_any_size_is_told() {
    let huge = facts(
        1,
        "huge",
        "1m",
        metered(u64::MAX, 60_000, Algorithm::FixedWindow),
        true,
    );
    let fields = told_fields(
        &admitted(smallvec![outcome(&huge, u64::MAX, 1)]),
        &Options::default(),
        None,
    );
    // Structured fields hold 15 digits.
    assert_eq!(
        value_of(&fields, "ratelimit"),
        Some("\"huge/1m\";r=999999999999999;t=1")
    );
    assert_eq!(
        value_of(&fields, "x-ratelimit-limit"),
        Some("18446744073709551615")
    );
}

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
            amount: facts.amount,
            has_room: verdict == Verdict::Admitted || retry.is_none(),
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
