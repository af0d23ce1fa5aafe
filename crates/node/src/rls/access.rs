//! The line about a request of Envoy's, for the log.
//!
//! Its fields are those of the first descriptor that tells them; all is redacted when the line is written.

use std::time::Duration;

use gate::decision::Verdict;
use gate::request::{Part, Request};
use policy::model::{IdentityReading, IdentitySource};

use super::answer::REFUSED_STATUS;
use crate::log::{AccessLog, RequestLine, TraceContext};
use crate::render::Told;

/// Writes the line.
pub fn write(
    log: &AccessLog,
    parts: &[Part<'_>],
    identity: &IdentityReading,
    told: &Told<'_, '_, '_>,
    elapsed: Duration,
    request_id: &str,
) {
    let requests = || parts.iter().map(|part| &part.request);
    let header = |name: &str| requests().find_map(|request| header(request, name));
    let found = |sources: &[IdentitySource]| {
        requests().find_map(|request| sources.iter().find_map(|source| value(request, source)))
    };
    let message = told.message();
    let refusing = told.0.refusing.first().map(|outcome| outcome.facts);
    log.write(&RequestLine {
        request_id,
        trace: header("traceparent").and_then(TraceContext::read),
        user: found(&identity.user),
        entity: found(&identity.api_key),
        method: requests().find_map(|request| request.method),
        target: requests().find_map(|request| request.path),
        status_code: match told.0.verdict {
            Verdict::Admitted => told.status(),
            Verdict::Refused(_) => REFUSED_STATUS,
        },
        error_code: told.code(),
        error_message: told.code().map(|_| &*message),
        duration: elapsed,
        address: requests().find_map(|request| request.peer),
        user_agent: header("user-agent"),
        rule: refusing.map(|facts| facts.rule.as_str()),
        limit: refusing.map(|facts| facts.name.as_str()),
    });
}

fn value<'a>(request: &Request<'a>, source: &IdentitySource) -> Option<&'a [u8]> {
    match source {
        IdentitySource::Header(name) => header(request, name),
        IdentitySource::Bearer => header(request, "authorization"),
        IdentitySource::Descriptor(key) => request
            .entries
            .iter()
            .find(|(known, _)| **known == **key)
            .map(|(_, value)| value.as_bytes()),
    }
}

fn header<'a>(request: &Request<'a>, name: &str) -> Option<&'a [u8]> {
    let mut first = None;
    request
        .headers
        .values(name, &mut |value| first = first.or(Some(value)));
    first
}
