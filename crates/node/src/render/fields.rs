//! The header fields of an answer, by dialect.
//!
//! Names are lower case, as HTTP/2 and Envoy want them. Values are printable ASCII, times whole seconds and never
//! negative. Every name appears at most once.

use std::time::Duration;

use gate::decision::{Outcome, Verdict};
use gate::time::Now;
use policy::model::{Algorithm, Amount};
use policy::rate::Window;

use super::cors::EXPOSED;
use super::summary::{Retry, Summary, push_policy_name};
use super::{Dialect, Options, SubSecond, whole_millis, whole_seconds};

/// Draft-11 wants parameters of one implementation prefixed by its name.
const BURST: &str = ";leasehold-burst=";

/// The greatest integer of a structured field (RFC 9651, 3.3.1). More is told as that.
const GREATEST: u64 = 999_999_999_999_999;

/// Calls `each` with every field that tells of a decision made at `now`.
///
/// `origin` is the request's `Origin`, if it had one. The value is lent for the call only.
pub fn fields(
    summary: &Summary<'_, '_>,
    now: Now,
    options: &Options,
    origin: Option<&str>,
    each: &mut dyn FnMut(&'static str, &str),
) {
    let mut value = String::with_capacity(96);
    let retry_seconds = retry(summary, options, &mut value, each);
    if let Some(shown) = summary.shown {
        match options.dialect {
            Dialect::None => {}
            Dialect::Draft11 => {
                draft_11(summary, shown, retry_seconds, &mut value, each);
                plain(shown, Reset::Delta, now, &mut value, each);
            }
            Dialect::Draft03 => draft_03(summary, shown, &mut value, each),
            Dialect::GitHub => plain(shown, Reset::Epoch, now, &mut value, each),
        }
    }
    if summary.degraded {
        each("x-ratelimit-degraded", "true");
    }
    let refused = matches!(summary.verdict, Verdict::Refused(_));
    if refused {
        each("cache-control", "no-store");
    }
    cors(refused, options, origin, each);
}

/// `Retry-After`, and the milliseconds if it cannot say them. Returns the seconds sent.
fn retry(
    summary: &Summary<'_, '_>,
    options: &Options,
    value: &mut String,
    each: &mut dyn FnMut(&'static str, &str),
) -> Option<u64> {
    let Retry::After(wait) = summary.retry else {
        return None;
    };
    let seconds = if wait >= Duration::from_secs(1) {
        whole_seconds(wait)
    } else {
        match options.sub_second {
            SubSecond::One => 1,
            SubSecond::ZeroWithMs => {
                each("x-ratelimit-reset-ms", text(value, whole_millis(wait)));
                0
            }
        }
    };
    each("retry-after", text(value, seconds));
    Some(seconds)
}

/// How the reset is told.
#[derive(Clone, Copy)]
enum Reset {
    /// Seconds from now.
    Delta,
    /// Seconds since 1970.
    Epoch,
}

fn plain(
    shown: &Outcome<'_>,
    reset: Reset,
    now: Now,
    value: &mut String,
    each: &mut dyn FnMut(&'static str, &str),
) {
    let Some(figures) = Figures::of(shown) else {
        return;
    };
    each("x-ratelimit-limit", text(value, figures.capacity));
    each("x-ratelimit-remaining", text(value, figures.remaining));
    if let Some(after) = figures.reset_after {
        let told = match reset {
            Reset::Delta => whole_seconds(after),
            Reset::Epoch => epoch_seconds(now, after),
        };
        each("x-ratelimit-reset", text(value, told));
    }
}

/// `10, 10;w=1;name="per-ip"`, as Envoy writes it.
fn draft_03(
    summary: &Summary<'_, '_>,
    shown: &Outcome<'_>,
    value: &mut String,
    each: &mut dyn FnMut(&'static str, &str),
) {
    let Some(figures) = Figures::of(shown) else {
        return;
    };
    value.clear();
    write_number(value, figures.capacity);
    for outcome in &summary.policies {
        let Some(policy) = Figures::of(outcome) else {
            continue;
        };
        value.push_str(", ");
        write_number(value, policy.units);
        if let Some(window) = policy.window_seconds {
            value.push_str(";w=");
            write_number(value, window);
        }
        if policy.capacity != policy.units {
            value.push_str(";burst=");
            write_number(value, policy.capacity);
        }
        value.push_str(";name=");
        push_policy_name(value, outcome.facts);
    }
    each("x-ratelimit-limit", value);
    each("x-ratelimit-remaining", text(value, figures.remaining));
    if let Some(after) = figures.reset_after {
        each("x-ratelimit-reset", text(value, whole_seconds(after)));
    }
}

/// `"rule/1m";q=10;w=60` and `"rule/1m";r=9;t=60`: lists of strings with integer parameters (RFC 9651). Written by hand
/// because every answer carries them; the tests read them with a parser of that standard.
fn draft_11(
    summary: &Summary<'_, '_>,
    shown: &Outcome<'_>,
    retry_seconds: Option<u64>,
    value: &mut String,
    each: &mut dyn FnMut(&'static str, &str),
) {
    value.clear();
    for outcome in &summary.policies {
        let Some(figures) = Figures::of(outcome) else {
            continue;
        };
        if !value.is_empty() {
            value.push_str(", ");
        }
        push_policy_name(value, outcome.facts);
        push_parameter(value, ";q=", figures.units);
        if let Some(window) = figures.window_seconds {
            push_parameter(value, ";w=", window);
        }
        if figures.capacity != figures.units {
            push_parameter(value, BURST, figures.capacity);
        }
    }
    if !value.is_empty() {
        each("ratelimit-policy", value);
    }

    let Some(figures) = Figures::of(shown) else {
        return;
    };
    value.clear();
    push_policy_name(value, shown.facts);
    push_parameter(value, ";r=", figures.remaining);
    if let Some(after) = figures.reset_after {
        // "The Retry-After field value SHOULD NOT reference a point in time earlier than the end of the effective
        // window": of the two, the wait that was worked out from the refusing limits holds.
        let window = whole_seconds(after);
        let told = retry_seconds.map_or(window, |retry| window.min(retry));
        push_parameter(value, ";t=", told);
    }
    each("ratelimit", value);
}

fn cors(
    refused: bool,
    options: &Options,
    origin: Option<&str>,
    each: &mut dyn FnMut(&'static str, &str),
) {
    if refused && options.cors.varies() {
        each("vary", "origin");
    }
    let Some(origin) = origin else { return };
    each("access-control-expose-headers", EXPOSED);
    if refused && let Some(allowed) = options.cors.allowed(origin) {
        each("access-control-allow-origin", allowed);
        if options.cors.credentials() {
            each("access-control-allow-credentials", "true");
        }
    }
}

/// A limit's figures as clients count them.
struct Figures {
    /// Units per window.
    units: u64,
    /// The most that can ever be left: the burst of a token bucket, otherwise the units.
    capacity: u64,
    /// Units left.
    remaining: u64,
    /// The window in whole seconds, rounded up, at least 1.
    window_seconds: Option<u64>,
    /// Until it is whole again. `None` if it never renews.
    reset_after: Option<Duration>,
}

impl Figures {
    /// `None` if there is no limit to tell of.
    fn of(outcome: &Outcome<'_>) -> Option<Self> {
        let remaining = outcome.remaining?;
        match outcome.amount() {
            Amount::Unlimited => None,
            Amount::Deny => Some(Self {
                units: 0,
                capacity: 0,
                remaining: 0,
                window_seconds: None,
                reset_after: None,
            }),
            Amount::Metered { rate, algorithm } => {
                let (window_seconds, reset_after) = match rate.window {
                    Window::Forever => (None, None),
                    Window::Millis(ms) => {
                        (Some(ms.get().div_ceil(1000)), Some(outcome.reset_after))
                    }
                };
                let capacity = match algorithm {
                    Algorithm::FixedWindow | Algorithm::SlidingWindow => rate.units,
                    Algorithm::TokenBucket { burst } => burst,
                };
                Some(Self {
                    units: rate.units,
                    capacity,
                    remaining: remaining.min(capacity),
                    window_seconds,
                    reset_after,
                })
            }
        }
    }
}

/// The second since 1970 at or after which the reset lies.
fn epoch_seconds(now: Now, after: Duration) -> u64 {
    let at = now
        .unix_nanos()
        .saturating_add(after.as_nanos())
        .div_ceil(1_000_000_000);
    u64::try_from(at).unwrap_or(u64::MAX)
}

/// A structured field's parameter.
fn push_parameter(value: &mut String, name: &str, number: u64) {
    value.push_str(name);
    write_number(value, number.min(GREATEST));
}

/// Decimal digits, without the formatting machinery: every answer has up to a dozen numbers.
fn write_number(value: &mut String, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    value.push_str(str::from_utf8(&digits[start..]).expect("digits are ASCII"));
}

fn text(value: &mut String, number: u64) -> &str {
    value.clear();
    write_number(value, number);
    value
}
