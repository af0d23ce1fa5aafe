//! What a client is told of a decision: the status, the header fields and the body, for every surface.
//!
//! Nothing here decides, reads a clock or looks at a request: all that it tells comes from one
//! [`Decision`](gate::decision::Decision) and the one instant at which that decision was made, so that figures and
//! times agree with each other (a limit cannot run out between the two). The figures of a limit that is not
//! disclosed never appear, in any field or body.
//!
//! Which limit is shown: of the enforcing, disclosed limits, on a refusal the one that refuses longest, otherwise
//! the one with the fewest units left (as Envoy chooses). All fields of one answer speak of that same limit.
//!
//! Sources: `Retry-After` RFC 9110 section 10.2.3; problem details RFC 9457; `RateLimit` and `RateLimit-Policy`
//! draft-ietf-httpapi-ratelimit-headers-11 (draft-12 of 2026-11-20 was not yet readable when this was written);
//! `x-ratelimit-*` draft-polli-ratelimit-headers-03 as Envoy 1.40 sends them.

mod body;
mod cors;
mod fields;
mod summary;
pub mod timestamp;

pub use body::{Body, Told};
pub use cors::{Cors, CorsError, is_preflight};
pub use fields::fields;
pub use summary::{Retry, Summary, policy_name};

/// How answers are worded. All of it is the operator's choice; the defaults suit most clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Which header fields tell of limits.
    pub dialect: Dialect,
    /// Which body a refusal has.
    pub body: BodyForm,
    /// What `Retry-After` says of a wait of less than a second.
    pub sub_second: SubSecond,
    /// What browsers of other origins may read.
    pub cors: Cors,
}

/// Which header fields tell of a limit's figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dialect {
    /// `RateLimit` and `RateLimit-Policy` (draft-11, structured fields), and `X-RateLimit-Limit`, `-Remaining` and
    /// `-Reset` with plain numbers, the reset in seconds from now.
    #[default]
    Draft11,
    /// `X-RateLimit-*` as Envoy sends them: the limit followed by all policies, the reset in seconds from now.
    Draft03,
    /// `X-RateLimit-*` as GitHub sends them: the reset as seconds since 1970.
    GitHub,
    /// No field tells of limits. `Retry-After` is still sent.
    None,
}

/// Which body a refusal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyForm {
    /// `application/problem+json` (RFC 9457).
    #[default]
    Problem,
    /// `application/json`: one object `error` with code, message, status, timestamp and request id.
    ErrorObject,
}

/// What `Retry-After`, which counts whole seconds, says of a shorter wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubSecond {
    /// `0`, and `X-RateLimit-Reset-Ms` with the milliseconds.
    #[default]
    ZeroWithMs,
    /// `1`.
    One,
}

/// Whole seconds that cover `wait`, rounded up: who waits so long does not come early.
#[must_use]
pub const fn whole_seconds(wait: std::time::Duration) -> u64 {
    if wait.subsec_nanos() == 0 {
        wait.as_secs()
    } else {
        wait.as_secs().saturating_add(1)
    }
}

/// Whole milliseconds that cover `wait`, rounded up.
#[must_use]
pub const fn whole_millis(wait: std::time::Duration) -> u64 {
    let millis = wait.as_nanos().div_ceil(1_000_000);
    if millis > u64::MAX as u128 {
        u64::MAX
    } else {
        millis as u64
    }
}
