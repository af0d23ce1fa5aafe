use gate::decision::{LimitFacts, LimitNumber};
use policy::model::{Algorithm, LimitName, OnDegraded, RuleName};
use proptest::prelude::*;
use prost::Message as _;

use super::*;
use crate::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::{
    Entry, RateLimitOverride,
};

fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    RateLimitDescriptor {
        entries: entries
            .iter()
            .map(|(key, value)| Entry {
                key: (*key).into(),
                value: (*value).into(),
            })
            .collect(),
        ..RateLimitDescriptor::default()
    }
}

fn request(descriptors: Vec<RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest {
        domain: "api".into(),
        descriptors,
        hits_addend: 0,
    }
}

fn first_hits(of_request: u32, of_descriptor: Option<u64>, negative: bool) -> Hits {
    let mut message = request(vec![descriptor(&[("k", "v")])]);
    message.hits_addend = of_request;
    message.descriptors[0].hits_addend = of_descriptor;
    message.descriptors[0].is_negative_hits = negative;
    let checked = CheckedRequest::read(&message, Overrides::Ignore).unwrap();
    checked.descriptors().next().unwrap().hits
}

/// C6: unset and 0 are 1, but 0 of a descriptor only looks.
#[test]
fn hits_are_read_as_envoy_sends_them() {
    assert_eq!(first_hits(0, None, false), Hits::Take(1));
    assert_eq!(first_hits(7, None, false), Hits::Take(7));
    assert_eq!(first_hits(7, Some(0), false), Hits::Take(0));
    assert_eq!(first_hits(0, Some(u64::MAX), false), Hits::Take(u64::MAX));
    assert_eq!(first_hits(7, Some(3), true), Hits::GiveBack(3));
    assert_eq!(first_hits(0, None, true), Hits::GiveBack(1));
}

#[test]
fn faults_name_their_field() {
    let cases: [(RateLimitRequest, &str); 6] = [
        (RateLimitRequest::default(), "domain must not be empty"),
        (
            request(vec![]),
            "descriptors must not be empty: send at least one",
        ),
        (
            request(vec![descriptor(&[("k", "v")]); MOST_DESCRIPTORS + 1]),
            "descriptors: 257 are too many, at most 256",
        ),
        (
            request(vec![descriptor(&[("k", "v")]), descriptor(&[])]),
            "descriptors[1].entries must not be empty: send at least one",
        ),
        (
            request(vec![descriptor(&[("k", "v"); MOST_ENTRIES + 1])]),
            "descriptors[0].entries: 65 are too many, at most 64",
        ),
        (
            request(vec![descriptor(&[("k", "v"), ("", "v")])]),
            "descriptors[0].entries[1].key must not be empty",
        ),
    ];
    for (message, expected) in cases {
        let error = CheckedRequest::read(&message, Overrides::Ignore).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

fn overriding(requests_per_unit: u32, unit: i32) -> RateLimitRequest {
    let mut message = request(vec![descriptor(&[("k", "v")])]);
    message.descriptors[0].limit = Some(RateLimitOverride {
        requests_per_unit,
        unit,
    });
    message
}

fn read_limit(message: &RateLimitRequest, overrides: Overrides) -> Option<Amount> {
    let checked = CheckedRequest::read(message, overrides).unwrap();
    checked.descriptors().next().unwrap().limit_override
}

#[test]
fn an_override_counts_only_where_it_is_accepted() {
    let message = overriding(10, 2);
    assert_eq!(read_limit(&message, Overrides::Ignore), None);
    assert_eq!(
        read_limit(&message, Overrides::Accept),
        Some(per_minute(10))
    );
}

/// A4 by a descriptor's own limit.
#[test]
fn an_override_of_none_denies_all_and_one_in_no_unit_is_refused() {
    assert_eq!(
        read_limit(&overriding(0, 1), Overrides::Accept),
        Some(Amount::Deny)
    );
    for unit in [0, 7, -1, i32::MAX] {
        let message = overriding(10, unit);
        let error = CheckedRequest::read(&message, Overrides::Accept).unwrap_err();
        assert_eq!(
            error,
            RequestError::UnknownUnit {
                descriptor: 0,
                unit
            }
        );
        assert_eq!(read_limit(&message, Overrides::Ignore), None);
    }
}

fn facts(amount: Amount, mode: Mode, disclose: bool) -> LimitFacts {
    LimitFacts {
        number: LimitNumber(0),
        rule: RuleName::new("per-user"),
        name: LimitName::new("1m"),
        envoy_name: None,
        amount,
        mode,
        on_degraded: OnDegraded::default(),
        disclose,
    }
}

fn per_minute(units: u64) -> Amount {
    let window = Window::Millis(WindowMs::new(60_000).unwrap());
    Amount::Metered {
        rate: Rate { units, window },
        algorithm: Algorithm::FixedWindow,
    }
}

fn outcome(facts: &LimitFacts, remaining: Option<u64>, retry_ms: Option<u64>) -> Outcome<'_> {
    Outcome {
        part: 0,
        facts,
        brought: None,
        has_room: retry_ms.is_none(),
        charged: u64::from(retry_ms.is_none()),
        remaining,
        reset_after: Duration::from_millis(1_001),
        retry_after: retry_ms.map(Duration::from_millis),
    }
}

#[test]
fn a_status_tells_of_the_limit_with_the_least_left() {
    let (wide, tight) = (
        facts(per_minute(1_000), Mode::Enforce, true),
        facts(per_minute(10), Mode::Enforce, true),
    );
    let shadow = facts(per_minute(1), Mode::Shadow, true);
    let outcomes = [
        outcome(&wide, Some(900), None),
        outcome(&tight, Some(3), None),
        outcome(&shadow, Some(0), Some(5)),
    ];
    let status = descriptor_status(&outcomes);
    assert_eq!(status.code(), Code::Ok);
    assert_eq!(status.limit_remaining, 3);
    let limit = status.current_limit.unwrap();
    assert_eq!(
        (limit.requests_per_unit, limit.unit(), &*limit.name),
        (10, Unit::Minute, "1m")
    );
    assert_eq!(status.duration_until_reset.unwrap().seconds, 2);
}

#[test]
fn a_status_of_a_refusal_tells_of_the_limit_that_stays_shut_longest() {
    let (one, other) = (
        facts(per_minute(10), Mode::Enforce, true),
        facts(per_minute(20), Mode::Enforce, true),
    );
    let never = facts(Amount::Deny, Mode::Enforce, true);
    let mut outcomes = vec![
        outcome(&one, Some(0), Some(10)),
        outcome(&other, Some(4), Some(700)),
        outcome(&one, Some(2), None),
    ];
    let status = descriptor_status(&outcomes);
    assert_eq!(status.code(), Code::OverLimit);
    assert_eq!(status.current_limit.unwrap().requests_per_unit, 20);

    let mut shut = outcome(&never, Some(0), None);
    shut.has_room = false;
    outcomes.insert(0, shut);
    let status = descriptor_status(&outcomes);
    assert_eq!(status.code(), Code::OverLimit);
    let limit = status.current_limit.unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit()), (0, Unit::Unknown));
}

#[test]
fn a_descriptor_without_a_bound_is_ok() {
    let none = descriptor_status(&[]);
    assert_eq!((none.code(), none.limit_remaining), (Code::Ok, 0));
    assert_eq!(
        (none.current_limit, none.duration_until_reset),
        (None, None)
    );

    let unlimited = facts(Amount::Unlimited, Mode::Enforce, true);
    let status = descriptor_status(&[outcome(&unlimited, None, None)]);
    assert_eq!(
        (status.code(), status.limit_remaining),
        (Code::Ok, u32::MAX)
    );
    assert_eq!(
        (status.current_limit, status.duration_until_reset),
        (None, None)
    );
}

#[test]
fn an_undisclosed_limit_refuses_without_showing_itself() {
    let hidden = facts(per_minute(10), Mode::Enforce, false);
    let status = descriptor_status(&[outcome(&hidden, Some(0), Some(10))]);
    assert_eq!(
        (status.code(), status.current_limit),
        (Code::OverLimit, None)
    );
}

/// A7 in Envoy's 32 bits.
#[test]
fn what_does_not_fit_envoys_fields_is_its_greatest_number() {
    for (units, shown) in [
        (u64::from(u32::MAX), u32::MAX),
        (u64::from(u32::MAX) + 1, u32::MAX),
        (i64::MAX as u64, u32::MAX),
        (1, 1),
    ] {
        let limit = facts(per_minute(units), Mode::Enforce, true);
        let status = descriptor_status(&[outcome(&limit, Some(units), None)]);
        assert_eq!(status.limit_remaining, shown);
        assert_eq!(status.current_limit.unwrap().requests_per_unit, shown);
    }
}

#[test]
fn only_exact_windows_have_a_unit() {
    let cases = [
        (1_000, Unit::Second),
        (60_000, Unit::Minute),
        (3_600_000, Unit::Hour),
        (86_400_000, Unit::Day),
        (7 * 86_400_000, Unit::Week),
        (30 * 86_400_000, Unit::Month),
        (365 * 86_400_000, Unit::Year),
        (900_000, Unit::Unknown),
        (999, Unit::Unknown),
        (28 * 86_400_000, Unit::Unknown),
    ];
    for (ms, unit) in cases {
        assert_eq!(
            unit_of(Window::Millis(WindowMs::new(ms).unwrap())),
            unit,
            "{ms} ms"
        );
    }
    assert_eq!(unit_of(Window::Forever), Unit::Unknown);
}

#[test]
fn durations_are_rounded_up_and_never_overflow() {
    let seconds = |duration| whole_seconds_up(duration).seconds;
    assert_eq!(seconds(Duration::ZERO), 0);
    assert_eq!(seconds(Duration::from_nanos(1)), 1);
    assert_eq!(seconds(Duration::from_millis(1_000)), 1);
    assert_eq!(seconds(Duration::from_millis(1_900)), 2);
    assert_eq!(seconds(Duration::MAX), 315_576_000_000);
}

#[test]
fn headers_travel_in_value() {
    let header = header("retry-after", "2");
    assert_eq!((&*header.key, &*header.value), ("retry-after", "2"));
    assert!(header.raw_value.is_empty());
}

proptest! {
    #[test]
    fn any_bytes_that_decode_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(message) = RateLimitRequest::decode(&*bytes) {
            for overrides in [Overrides::Accept, Overrides::Ignore] {
                let _ = CheckedRequest::read(&message, overrides);
            }
        }
    }

    #[test]
    fn what_is_read_is_what_was_sent(
        sent in prop::collection::vec(
            prop::collection::vec(("[a-z]{1,4}", "\\PC{0,8}"), 1..6), 1..8),
    ) {
        let message = request(
            sent.iter()
                .map(|entries| {
                    descriptor(&entries.iter().map(|(k, v)| (&**k, &**v)).collect::<Vec<_>>())
                })
                .collect(),
        );
        let message = RateLimitRequest::decode(&*message.encode_to_vec()).unwrap();
        let checked = CheckedRequest::read(&message, Overrides::Ignore).unwrap();
        let read: Vec<Vec<(String, String)>> = checked
            .descriptors()
            .map(|d| d.entries.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect())
            .collect();
        prop_assert_eq!(read, sent);
    }

    #[test]
    fn rounding_up_is_by_less_than_a_second(ms in 0_u64..10_000_000) {
        let up = whole_seconds_up(Duration::from_millis(ms)).seconds as u64 * 1000;
        prop_assert!(up >= ms && up < ms + 1000);
    }
}

/// Bytes that a client chose must not turn the request into an error, which Envoy would admit on.
#[test]
fn a_value_that_is_no_text_is_still_counted() {
    use prost::Message as _;
    let mut request = RateLimitRequest {
        domain: "api".into(),
        descriptors: vec![descriptor(&[("address", "192.0.2.1"), ("api_key", "????")])],
        ..RateLimitRequest::default()
    };
    let mut bytes = request.encode_to_vec();
    let at = bytes.windows(4).position(|four| four == b"????").unwrap();
    bytes[at..at + 4].copy_from_slice(b"a\xff\xfeb");
    request = RateLimitRequest::decode(bytes.as_slice()).unwrap();
    let checked = CheckedRequest::read(&request, Overrides::Ignore).unwrap();
    let entries = checked.descriptors().next().unwrap().entries;
    assert_eq!(entries, [("address", "192.0.2.1"), ("api_key", NOT_TEXT)]);
}
