//! The fields of answers, in every dialect.

use super::*;

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
