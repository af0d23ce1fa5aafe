//! The check endpoint: a request as text, answered by statuses and fields that proxies can act on, without secrets.
#![no_main]

use std::net::IpAddr;
use std::sync::OnceLock;
use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Request, Response};
use leasehold_fuzz::{Parts, assert_field, parts, policy};
use libfuzzer_sys::fuzz_target;
use node::check::Check;
use node::check::query::Query;
use node::render::{BodyForm, Options, SubSecond};

const SECRET: &str = "sesame-7d1f0b2c9e";

static SURFACES: OnceLock<(Parts, [Check; 2])> = OnceLock::new();

fn surfaces() -> &'static (Parts, [Check; 2]) {
    SURFACES.get_or_init(|| {
        let parts = parts(&policy());
        let check = |options| Check {
            gate: parts.gate.clone(),
            fleet: None,
            clock: parts.clock.clone(),
            telemetry: parts.telemetry.clone(),
            options,
            access: parts.access_log(),
            most_body_bytes: 65_536,
            body_timeout: std::time::Duration::from_secs(5),
        };
        let plain = Options::default();
        let other = Options {
            body: BodyForm::ErrorObject,
            sub_second: SubSecond::One,
            ..Options::default()
        };
        let both = [check(plain), check(other)];
        (parts, both)
    })
}

fuzz_target!(|bytes: &[u8]| {
    let (parts, checks) = surfaces();
    let Some((head, body)) = read(bytes) else {
        return;
    };
    parts.hand.advance(Duration::from_millis(
        u64::from(bytes.len() as u32 % 7) * 100,
    ));
    let refuse_with_403 = Query::wants_403(head.uri.query());
    for check in checks {
        for peer in [None, Some(IpAddr::from([10, 0, 0, 1]))] {
            let response = check.answer(&head, peer, Ok(body));
            verify(&response, refuse_with_403);
            if !bytes
                .windows(SECRET.len())
                .any(|window| window == SECRET.as_bytes())
            {
                assert!(
                    !format!("{response:?}").contains(SECRET),
                    "a key was repeated"
                );
            }
        }
    }
});

/// `METHOD target`, lines of `name: value`, an empty line, and the body. What hyper would not let through is left out.
fn read(bytes: &[u8]) -> Option<(http::request::Parts, &[u8])> {
    let end = bytes
        .windows(2)
        .position(|pair| pair == b"\n\n")
        .unwrap_or(bytes.len());
    let body = bytes.get(end + 2..).unwrap_or_default();
    let mut lines = bytes[..end].split(|&byte| byte == b'\n');
    let mut words = lines.next()?.splitn(2, |&byte| byte == b' ');
    let mut request = Request::builder()
        .method(words.next()?)
        .uri(words.next()?)
        .body(())
        .ok()?;
    let headers = request.headers_mut();
    for line in lines {
        let Some(colon) = line.iter().position(|&byte| byte == b':') else {
            continue;
        };
        let name = HeaderName::from_bytes(&line[..colon]);
        let value = HeaderValue::from_bytes(line[colon + 1..].trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers.insert("x-api-key", HeaderValue::from_static(SECRET));
    Some((request.into_parts().0, body))
}

fn verify(response: &Response<impl AsRef<[u8]>>, refuse_with_403: bool) {
    let status = response.status().as_u16();
    let known: &[u16] = if refuse_with_403 {
        &[200, 403]
    } else {
        &[200, 400, 403, 405, 413, 429, 503]
    };
    assert!(known.contains(&status), "{status}");
    for (name, value) in response.headers() {
        assert_field(name.as_str(), value.as_bytes());
    }
    let body = response.body().as_ref();
    if let Some(kind) = response.headers().get(CONTENT_TYPE) {
        assert!(kind.as_bytes().ends_with(b"json"), "{kind:?}");
        let json: serde_json::Value = serde_json::from_slice(body).expect("the body is JSON");
        assert!(json.is_object());
    } else {
        assert!(body.is_empty());
    }
    if status != 200 {
        let cached = response.headers().get(CACHE_CONTROL);
        assert_eq!(cached.map(HeaderValue::as_bytes), Some(&b"no-store"[..]));
        assert!(!body.is_empty(), "a refusal says why");
    }
}
