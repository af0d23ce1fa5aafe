//! Envoy's rate limit service: an answer that Envoy understands to any request, or an error that is no decision.
#![no_main]

use std::sync::OnceLock;
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};
use leasehold_fuzz::{Parts, assert_field, assert_printable, parts, policy};
use libfuzzer_sys::fuzz_target;
use node::render::Options;
use node::rls::{Fields, Rls};
use prost::Message as _;
use wire::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use wire::rls::rate_limit_descriptor::{Entry, RateLimitOverride};
use wire::rls::{Code, Overrides, RateLimitRequest, RateLimitResponse};

/// A request in words that the policy knows, or any others.
#[derive(Debug)]
struct Input {
    message: RateLimitRequest,
    later: Duration,
}

const WORDS: [&str; 14] = [
    "tree", "rules", "user", "path", "quota", "other", "seen", "az", "abz", "a*z", "/none", "/all",
    "/login/x", "",
];

fn word(u: &mut Unstructured<'_>) -> arbitrary::Result<String> {
    if u.ratio(7_u8, 8_u8)? {
        u.choose(&WORDS).map(ToString::to_string)
    } else {
        u.arbitrary()
    }
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Self> {
        let later = Duration::from_millis(u.arbitrary::<u16>()?.into());
        let mut message = RateLimitRequest {
            domain: word(u)?,
            hits_addend: if u.ratio(1_u8, 4_u8)? {
                u.arbitrary()?
            } else {
                0
            },
            descriptors: Vec::new(),
        };
        for _ in 0..u.int_in_range(0..=5)? {
            let mut descriptor = RateLimitDescriptor::default();
            for _ in 0..u.int_in_range(0..=3)? {
                let key = word(u)?;
                let value = if u.ratio(7_u8, 8_u8)? {
                    word(u)?.into_bytes()
                } else {
                    u.arbitrary::<Vec<u8>>()?
                };
                descriptor.entries.push(Entry { key, value });
            }
            if u.ratio(1_u8, 4_u8)? {
                descriptor.hits_addend = Some(u.arbitrary()?);
            }
            descriptor.is_negative_hits = u.ratio(1_u8, 8_u8)?;
            if u.ratio(1_u8, 8_u8)? {
                descriptor.limit = Some(RateLimitOverride {
                    requests_per_unit: u.arbitrary()?,
                    unit: u.int_in_range(-1..=9)?,
                });
            }
            message.descriptors.push(descriptor);
        }
        Ok(Self { message, later })
    }
}

static SURFACES: OnceLock<(Parts, [Rls; 2])> = OnceLock::new();

fn surfaces() -> &'static (Parts, [Rls; 2]) {
    SURFACES.get_or_init(|| {
        let parts = parts(&policy());
        let rls = |fields, overrides| Rls {
            fleet: None,
            gate: parts.gate.clone(),
            clock: parts.clock.clone(),
            telemetry: parts.telemetry.clone(),
            options: Options::default(),
            fields,
            overrides,
            access: parts.access_log(),
        };
        let both = [
            rls(Fields::All, Overrides::Accept),
            rls(Fields::BesideEnvoys, Overrides::Ignore),
        ];
        (parts, both)
    })
}

fuzz_target!(|input: Input| {
    let (parts, services) = surfaces();
    parts.hand.advance(input.later);
    // What crosses the wire is what is decided on.
    let bytes = input.message.encode_to_vec();
    let message = RateLimitRequest::decode(&*bytes).expect("what was encoded decodes");
    for service in services {
        match service.decide(&message) {
            Ok(response) => check(&message, &response),
            Err(status) => {
                assert_eq!(
                    status.code() as i32,
                    3,
                    "no decision, and not the caller's fault: {status}"
                );
                assert_printable(status.message());
            }
        }
    }
});

fn check(request: &RateLimitRequest, response: &RateLimitResponse) {
    assert_eq!(response.statuses.len(), request.descriptors.len());
    let refused = response.overall_code() == Code::OverLimit;
    assert!(
        refused || response.overall_code() == Code::Ok,
        "UNKNOWN admits"
    );
    let mut over = 0;
    for (status, descriptor) in response.statuses.iter().zip(&request.descriptors) {
        match status.code() {
            Code::Unknown => panic!("a status is UNKNOWN"),
            Code::OverLimit => over += 1,
            Code::Ok => {}
        }
        if let Some(limit) = &status.current_limit {
            // A status with a limit has its figures, and never more left than there is.
            assert!(
                status.limit_remaining <= limit.requests_per_unit,
                "{status:?}"
            );
            let reset = status.duration_until_reset.expect("a limit has a reset");
            assert!(reset.seconds >= 0 && reset.nanos == 0, "{reset:?}");
        }
        if descriptor.is_negative_hits && request.descriptors.len() == 1 {
            assert!(!refused, "giving back was refused: {response:?}");
        }
    }
    assert!(!refused || over > 0, "refused by none: {response:?}");
    for field in &response.response_headers_to_add {
        assert!(field.raw_value.is_empty(), "Envoy ignores raw_value");
        assert_field(&field.key, field.value.as_bytes());
    }
    let bytes = response.encode_to_vec();
    assert_eq!(
        &RateLimitResponse::decode(&*bytes).expect("it decodes"),
        response
    );
}
