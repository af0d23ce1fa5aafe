//! A decision as Envoy is told of it.
//!
//! `overall_code` alone is what Envoy enforces: it is OK or OVER_LIMIT, never UNKNOWN, which Envoy would admit.

use gate::decision::{Decision, Verdict};
use gate::time::Now;
use wire::rls::{Code, RateLimitResponse, descriptor_status, header};

use super::{Fields, Rls};
use crate::render::{self, Summary, Told};

/// The answer to a browser's preflight of so many descriptors: it passes, and no limit was met.
#[must_use]
pub fn preflight(descriptors: usize) -> RateLimitResponse {
    let mut response = RateLimitResponse {
        statuses: (0..descriptors).map(|_| descriptor_status([])).collect(),
        ..RateLimitResponse::default()
    };
    response.set_overall_code(Code::Ok);
    response
}

/// The HTTP status of Envoy's own answer to every OVER_LIMIT, whatever the refusal is for (`rate_limited_status`, unless
/// the operator changes it).
pub(super) const REFUSED_STATUS: u16 = 429;

/// The answer to a request of so many descriptors. `request_id` is told only of a refusal.
#[must_use]
pub fn answer(
    decision: &Decision<'_>,
    summary: &Summary<'_, '_>,
    descriptors: usize,
    now: Now,
    rls: &Rls,
    origin: Option<&str>,
    request_id: &str,
) -> RateLimitResponse {
    let mut response = RateLimitResponse {
        statuses: Vec::with_capacity(descriptors),
        ..RateLimitResponse::default()
    };
    let mut rest = decision.outcomes.as_slice();
    for part in 0..descriptors {
        // The outcomes are in the order of the parts.
        let its = rest
            .iter()
            .take_while(|outcome| usize::from(outcome.part) == part)
            .count();
        let (outcomes, others) = rest.split_at(its);
        response.statuses.push(descriptor_status(outcomes));
        rest = others;
    }
    match decision.verdict {
        Verdict::Admitted => response.set_overall_code(Code::Ok),
        Verdict::Refused(_) => {
            response.set_overall_code(Code::OverLimit);
            if response
                .statuses
                .iter()
                .all(|status| status.code() != Code::OverLimit)
            {
                // No limit accounts for it (a key is absent), so no descriptor is singled out.
                response
                    .statuses
                    .iter_mut()
                    .for_each(|status| status.set_code(Code::OverLimit));
            }
            let body = Told(summary).body(rls.options.body, REFUSED_STATUS, now, request_id);
            if let Some(body) = body {
                response.raw_body = body.bytes;
                response
                    .response_headers_to_add
                    .push(header("content-type", body.content_type));
            }
        }
    }
    if rls.fields != Fields::None {
        let headers = &mut response.response_headers_to_add;
        render::fields(summary, now, &rls.options, origin, &mut |name, value| {
            if rls.fields.include(name) {
                headers.push(header(name, value));
            }
        });
    }
    response
}
