//! What a key is made of: each source tells callers apart, and nothing else does.

use gate::Verdict;
use gate::request::{Headers, Hits, Part, Request};
use policy::model::{IdentitySource, KeySource};

use crate::fixture::{START, answer, by, fixed, gate, get, hit, policy, rule};

/// A request from which every source can be read.
struct Full<'a> {
    method: &'a str,
    host: &'a str,
    path: &'a str,
    peer: &'a str,
    headers: &'a [(&'a str, &'a [u8])],
    entries: &'a [(&'a str, &'a str)],
}

const FULL: Full<'static> = Full {
    method: "GET",
    host: "one.example",
    path: "/one",
    peer: "192.0.2.1",
    headers: &[
        ("x-api-key", b"key-1"),
        ("x-user-id", b"user-1"),
        ("x-tenant", b"tenant-1"),
    ],
    entries: &[("zone", "one")],
};

#[test]
fn each_source_tells_callers_apart_and_only_by_itself() {
    let other_headers = |name: &'static str| -> Vec<(&'static str, &'static [u8])> {
        let other = |(n, value): &(&'static str, &'static [u8])| {
            (*n, if *n == name { b"other" } else { *value })
        };
        FULL.headers.iter().map(other).collect()
    };
    let (keys, users, tenants) = (
        other_headers("x-api-key"),
        other_headers("x-user-id"),
        other_headers("x-tenant"),
    );
    let variants = [
        (
            KeySource::Method,
            Full {
                method: "PUT",
                ..FULL
            },
        ),
        (
            KeySource::Host,
            Full {
                host: "two.example",
                ..FULL
            },
        ),
        (
            KeySource::Path,
            Full {
                path: "/two",
                ..FULL
            },
        ),
        (
            KeySource::ClientAddress,
            Full {
                peer: "192.0.2.2",
                ..FULL
            },
        ),
        (
            KeySource::ApiKey,
            Full {
                headers: &keys,
                ..FULL
            },
        ),
        (
            KeySource::User,
            Full {
                headers: &users,
                ..FULL
            },
        ),
        (
            KeySource::Header("x-tenant".into()),
            Full {
                headers: &tenants,
                ..FULL
            },
        ),
        (
            KeySource::Descriptor("zone".into()),
            Full {
                entries: &[("zone", "two")],
                ..FULL
            },
        ),
    ];
    for (source, _) in &variants {
        let gate = gate(&policy(vec![rule(
            "r",
            &[],
            by(source.clone()),
            vec![fixed(1, 60_000)],
        )]));
        let admitted = |full: &Full<'_>| {
            let request = Request {
                method: Some(full.method),
                host: Some(full.host),
                path: Some(full.path.as_bytes()),
                peer: Some(full.peer.parse().unwrap()),
                headers: Headers::new(&full.headers),
                entries: full.entries,
                ..Request::default()
            };
            let parts = [Part {
                request,
                hits: Hits::Take(1),
            }];
            gate.check(&gate.snapshot(), &parts, START).verdict == Verdict::Admitted
        };
        assert!(admitted(&FULL), "{source:?}");
        for (changed, full) in &variants {
            assert_eq!(
                admitted(full),
                changed == source,
                "by {source:?}, {changed:?} changed"
            );
        }
    }
}

#[test]
fn a_bearer_token_is_an_api_key_and_other_schemes_are_not() {
    let mut policy = policy(vec![rule(
        "r",
        &[],
        by(KeySource::ApiKey),
        vec![fixed(1, 60_000)],
    )]);
    policy.identity.api_key = vec![IdentitySource::Bearer];
    let gate = gate(&policy);
    let admitted = |value: &str| hit(&gate, &get("/").header("authorization", value)).admitted();
    assert!(admitted("Bearer one"));
    assert!(!admitted("bearer  one "), "the same token");
    assert!(admitted("Bearer two"));
    // All that is no bearer token shares the bucket of requests without a key.
    assert!(admitted("Basic dTpw"));
    for none in ["Bearer", "Bearer ", "Basic two", ""] {
        assert!(!admitted(none), "{none:?}");
    }
    assert!(!hit(&gate, &get("/")).admitted());
}

/// Two descriptors of one request with one key are two hits on one bucket, both or none.
#[test]
fn one_bucket_met_twice_is_charged_twice_or_not_at_all() {
    let gate = gate(&policy(vec![rule(
        "r",
        &[],
        by(KeySource::Descriptor("zone".into())),
        vec![fixed(5, 60_000)],
    )]));
    let ask = |times: usize| {
        let part = Part {
            request: Request {
                entries: &[("zone", "one")],
                ..Request::default()
            },
            hits: Hits::Take(1),
        };
        answer(&gate.check(&gate.snapshot(), &vec![part; times], START))
    };
    assert!(ask(2).admitted());
    assert!(ask(2).admitted());
    assert!(!ask(2).admitted(), "one is left");
    let last = ask(1);
    assert_eq!((last.admitted(), last.remaining("r")), (true, 0));
    assert!(!ask(1).admitted());
}
