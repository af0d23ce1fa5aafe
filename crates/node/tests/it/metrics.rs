//! The scrape: counts that equal what was charged (H7), and series that nobody can multiply (M2, M5).

use std::collections::BTreeMap;
use std::time::Duration;

use gate::decision::{Decision, LimitFacts, LimitNumber, Outcome, Refusal, Verdict};
use gate::request::Hits;
use gate::table::TableStats;
use gate::time::Now;
use leasehold_node::metrics::{Answer, Charge, ErrorKind, Reload, Surface, Telemetry};
use policy::model::{Algorithm, Amount, LimitName, Mode, OnDegraded, RuleName};
use policy::rate::{Rate, Window, WindowMs};
use smallvec::smallvec;

const NOW: Now = Now::from_nanos(60_000_000_000_000_000);

fn facts(number: u32, rule: &str, mode: Mode) -> LimitFacts {
    let window = Window::Millis(WindowMs::new(60_000).expect("a window in range"));
    LimitFacts {
        number: LimitNumber(number),
        rule: RuleName::new(rule),
        name: LimitName::new("1m"),
        envoy_name: None,
        amount: Amount::Metered {
            rate: Rate { units: 10, window },
            algorithm: Algorithm::FixedWindow,
        },
        mode,
        on_degraded: OnDegraded::FairShare,
        disclose: false,
    }
}

fn outcome(facts: &LimitFacts, remaining: u64, has_room: bool) -> Outcome<'_> {
    Outcome {
        part: 0,
        facts,
        brought: None,
        has_room,
        charged: if has_room { 3 } else { 0 },
        remaining: Some(remaining),
        reset_after: Duration::from_secs(5),
        retry_after: (!has_room).then_some(Duration::from_secs(5)),
    }
}

/// One that had room for a request that another refused.
fn uncharged(facts: &LimitFacts, remaining: u64) -> Outcome<'_> {
    Outcome {
        charged: 0,
        ..outcome(facts, remaining, true)
    }
}

/// Series by name and labels. Every series must appear once and have a number.
pub fn series(scrape: &str) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for line in scrape.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').expect("a name and a value");
        let value = value.parse().expect("a number");
        assert!(all.insert(name.to_owned(), value).is_none(), "{name} twice");
    }
    all
}

fn record(telemetry: &Telemetry, decision: &Decision<'_>, charge: Charge, surface: Surface) {
    telemetry.record(decision, charge, surface, NOW, Duration::from_micros(30));
}

/// A limit whose algorithm was changed, or one of another domain's tree, is another limit of the same name. It shares the
/// series: Prometheus refuses a scrape that has one twice.
#[test]
fn limits_of_one_name_share_a_series() {
    let telemetry = Telemetry::new(10, NOW);
    let (before, after) = (facts(0, "r", Mode::Enforce), facts(1, "r", Mode::Enforce));
    let admitted = |facts, remaining, at| {
        let decision = Decision {
            verdict: Verdict::Admitted,
            outcomes: smallvec![outcome(facts, remaining, true)],
            dry: vec![],
        };
        let (charge, surface) = (Charge::Taken, Surface::Http);
        telemetry.record(&decision, charge, surface, at, Duration::from_micros(30));
    };
    telemetry.learn([&before]);
    admitted(&before, 2, NOW);
    telemetry.learn([&after]);
    admitted(&after, 7, Now::from_nanos(NOW.nanos() + 1_000_000_000));
    admitted(&before, 1, NOW);
    let series = series(&telemetry.scrape(&TableStats::default()));
    let of = |name: &str| series[&format!("{name}{{rule=\"r\",limit=\"1m\"}}")];
    assert!((of("throttle_limit_admitted_total") - 3.0).abs() < 1e-9);
    let usage = of("throttle_token_bucket_usage");
    assert!((usage - 0.3).abs() < 1e-9, "the latest seen, not {usage}");
}

#[test]
fn counts_are_what_was_charged() {
    let telemetry = Telemetry::new(10, NOW);
    let (ip, user) = (
        facts(0, "per-ip", Mode::Enforce),
        facts(1, "per-user", Mode::Enforce),
    );
    let trial = facts(2, "trial", Mode::Shadow);
    telemetry.learn([&ip, &user, &trial]);

    let admitted = Decision {
        dry: vec![],
        verdict: Verdict::Admitted,
        outcomes: smallvec![
            outcome(&ip, 3, true),
            outcome(&user, 9, true),
            outcome(&trial, 0, false)
        ],
    };
    let refused = Decision {
        dry: vec![],
        verdict: Verdict::Refused(Refusal::OverLimit),
        outcomes: smallvec![
            outcome(&ip, 0, false),
            uncharged(&user, 9),
            uncharged(&trial, 0)
        ],
    };
    let absent = Decision {
        dry: vec![],
        verdict: Verdict::Refused(Refusal::KeyAbsent),
        outcomes: smallvec![],
    };
    for _ in 0..3 {
        record(&telemetry, &admitted, Charge::Taken, Surface::Http);
    }
    for _ in 0..2 {
        record(&telemetry, &refused, Charge::Taken, Surface::Rls);
    }
    record(&telemetry, &absent, Charge::Taken, Surface::Rls);
    // A look charges nothing, whatever it finds.
    record(&telemetry, &refused, Charge::Looked, Surface::Http);
    record(&telemetry, &admitted, Charge::GivenBack, Surface::Http);
    telemetry.record_undecided(Answer::Preflight, Surface::Http, Duration::ZERO);
    telemetry.error(ErrorKind::BadRequest);

    let table = TableStats {
        live_estimate: 5,
        slots: 64,
        claimed: 7,
        reclaimed: 2,
        ..TableStats::default()
    };
    let text = telemetry.scrape(&table);
    let series = series(&text);
    let expected = [
        (
            r#"throttle_requests_total{surface="http",verdict="admitted"}"#,
            3.0,
        ),
        (
            r#"throttle_requests_total{surface="http",verdict="looked"}"#,
            1.0,
        ),
        (
            r#"throttle_requests_total{surface="http",verdict="given_back"}"#,
            1.0,
        ),
        (
            r#"throttle_requests_total{surface="http",verdict="preflight"}"#,
            1.0,
        ),
        (
            r#"throttle_requests_total{surface="rls",verdict="over_limit"}"#,
            2.0,
        ),
        (
            r#"throttle_requests_total{surface="rls",verdict="key_absent"}"#,
            1.0,
        ),
        (
            r#"throttle_requests_total{surface="rls",verdict="admitted"}"#,
            0.0,
        ),
        (
            r#"throttle_limit_admitted_total{rule="per-ip",limit="1m"}"#,
            3.0,
        ),
        (
            r#"throttle_limit_admitted_total{rule="per-user",limit="1m"}"#,
            3.0,
        ),
        (
            r#"throttle_limit_charged_units_total{rule="per-ip",limit="1m"}"#,
            9.0,
        ),
        (
            r#"throttle_limit_charged_units_total{rule="trial",limit="1m"}"#,
            0.0,
        ),
        (
            r#"throttle_requests_blocked_total{rule="per-ip",limit="1m"}"#,
            2.0,
        ),
        (
            r#"throttle_requests_blocked_total{rule="per-user",limit="1m"}"#,
            0.0,
        ),
        (
            r#"throttle_requests_blocked_total{rule="(none)",limit="(none)"}"#,
            1.0,
        ),
        (
            r#"throttle_rate_limit_exceeded_total{rule="per-ip",limit="1m",mode="enforce"}"#,
            2.0,
        ),
        (
            r#"throttle_rate_limit_exceeded_total{rule="trial",limit="1m",mode="shadow"}"#,
            3.0,
        ),
        (
            r#"throttle_rate_limit_exceeded_total{rule="trial",limit="1m",mode="enforce"}"#,
            0.0,
        ),
        (
            r#"throttle_token_bucket_usage{rule="per-user",limit="1m"}"#,
            0.1,
        ),
        (
            r#"throttle_request_duration_seconds_count{surface="rls"}"#,
            3.0,
        ),
        (
            r#"throttle_request_duration_seconds_bucket{surface="rls",le="2.5e-05"}"#,
            0.0,
        ),
        (
            r#"throttle_request_duration_seconds_bucket{surface="rls",le="5e-05"}"#,
            3.0,
        ),
        (
            r#"throttle_request_duration_seconds_bucket{surface="rls",le="+Inf"}"#,
            3.0,
        ),
        ("throttle_cache_hit_total", 8.0),
        ("throttle_cache_miss_total", 7.0),
        ("throttle_active_keys_count", 5.0),
        (r#"throttle_error_total{kind="bad_request"}"#, 1.0),
    ];
    for (name, value) in expected {
        assert_eq!(series.get(name), Some(&value), "{name} in\n{text}");
    }
    // Blocked adds up to all that were refused and would have been charged.
    let blocked: f64 = series
        .iter()
        .filter(|(n, _)| n.starts_with("throttle_requests_blocked"))
        .map(|(_, v)| v)
        .sum();
    assert_eq!(blocked, 3.0);
}

#[test]
fn many_limits_share_one_series() {
    let telemetry = Telemetry::new(5, NOW);
    let all: Vec<LimitFacts> = (0..1000)
        .map(|n| facts(n, &format!("rule-{n}"), Mode::Enforce))
        .collect();
    telemetry.learn(&all);
    for facts in &all {
        let decision = Decision {
            dry: vec![],
            verdict: Verdict::Admitted,
            outcomes: smallvec![outcome(facts, 1, true)],
        };
        record(&telemetry, &decision, Charge::Taken, Surface::Rls);
    }
    let series = series(&telemetry.scrape(&TableStats::default()));
    let admitted: Vec<_> = series
        .iter()
        .filter(|(n, _)| n.starts_with("throttle_limit_admitted"))
        .collect();
    assert_eq!(admitted.len(), 6);
    assert_eq!(
        series[r#"throttle_limit_admitted_total{rule="(other)",limit="(other)"}"#],
        995.0
    );
}

#[test]
fn a_limit_whose_name_was_not_learnt_is_counted_all_the_same() {
    let telemetry = Telemetry::new(5, NOW);
    let unknown = facts(3, "unknown", Mode::Enforce);
    let decision = Decision {
        dry: vec![],
        verdict: Verdict::Admitted,
        outcomes: smallvec![outcome(&unknown, 1, true)],
    };
    record(&telemetry, &decision, Charge::Taken, Surface::Rls);
    let name = r#"throttle_limit_admitted_total{rule="(other)",limit="(other)"}"#;
    assert_eq!(series(&telemetry.scrape(&TableStats::default()))[name], 1.0);
    // Learning it later moves its count to its own series.
    telemetry.learn([&unknown]);
    let series = series(&telemetry.scrape(&TableStats::default()));
    assert_eq!(
        series[r#"throttle_limit_admitted_total{rule="unknown",limit="1m"}"#],
        1.0
    );
    assert!(!series.contains_key(name));
}

#[test]
fn nothing_is_lost_between_threads() {
    let telemetry = Telemetry::new(5, NOW);
    let limit = facts(0, "r", Mode::Enforce);
    telemetry.learn([&limit]);
    let decision = Decision {
        dry: vec![],
        verdict: Verdict::Admitted,
        outcomes: smallvec![outcome(&limit, 1, true)],
    };
    std::thread::scope(|scope| {
        for _ in 0..40 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    record(&telemetry, &decision, Charge::Taken, Surface::Http);
                }
            });
        }
    });
    let series = series(&telemetry.scrape(&TableStats::default()));
    assert_eq!(
        series[r#"throttle_requests_total{surface="http",verdict="admitted"}"#],
        40_000.0
    );
    assert_eq!(
        series[r#"throttle_limit_admitted_total{rule="r",limit="1m"}"#],
        40_000.0
    );
}

#[test]
fn odd_names_cannot_break_the_text() {
    let telemetry = Telemetry::new(5, NOW);
    let odd = facts(0, "a\"b\\c\nthrottle_error_total 7", Mode::Enforce);
    telemetry.learn([&odd]);
    let text = telemetry.scrape(&TableStats::default());
    assert!(!series(&text).contains_key("throttle_error_total"));
    assert!(
        text.contains(r#"rule="a\"b\\c\nthrottle_error_total 7""#),
        "{text}"
    );
}

#[test]
fn the_state_of_the_policy_is_shown() {
    let telemetry = Telemetry::new(5, NOW);
    let value = |name: &str| {
        series(&telemetry.scrape(&TableStats::default()))
            .get(name)
            .copied()
    };
    telemetry.policy(Reload::Applied, "abc", NOW);
    assert_eq!(value("throttle_policy_reload_failed"), Some(0.0));
    assert_eq!(value(r#"throttle_policy_info{version="abc"}"#), Some(1.0));
    let loaded = value("throttle_policy_loaded_timestamp_seconds");
    telemetry.policy(
        Reload::Refused,
        "def",
        Now::from_nanos(NOW.nanos() + 5_000_000_000),
    );
    assert_eq!(value("throttle_policy_reload_failed"), Some(1.0));
    assert!(telemetry.policy_is_refused());
    assert_eq!(value(r#"throttle_policy_info{version="abc"}"#), Some(1.0));
    assert_eq!(value("throttle_policy_loaded_timestamp_seconds"), loaded);
    // The file as it was is in force again: nothing is wrong any more.
    telemetry.policy(Reload::Unchanged, "abc", NOW);
    assert_eq!(value("throttle_policy_reload_failed"), Some(0.0));
    assert_eq!(
        value(r#"throttle_policy_reloads_total{outcome="refused"}"#),
        Some(1.0)
    );
}

#[test]
fn a_request_takes_if_any_of_its_parts_does() {
    assert_eq!(Charge::of([]), Charge::Looked);
    assert_eq!(Charge::of([Hits::Take(0), Hits::Take(0)]), Charge::Looked);
    assert_eq!(Charge::of([Hits::Take(0), Hits::Take(1)]), Charge::Taken);
    assert_eq!(
        Charge::of([Hits::GiveBack(3), Hits::Take(0)]),
        Charge::GivenBack
    );
    assert_eq!(
        Charge::of([Hits::GiveBack(3), Hits::Take(2)]),
        Charge::Taken
    );
}
