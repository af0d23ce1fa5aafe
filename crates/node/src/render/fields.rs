//! The header fields of an answer, by dialect.
//!
//! Names are lower case, as HTTP/2 and Envoy want them. Values are printable ASCII, times whole seconds and never
//! negative. Every name appears at most once.

use std::fmt::Write as _;
use std::time::Duration;

use gate::decision::{Outcome, Verdict};
use gate::time::Now;
use policy::model::{Algorithm, Amount};
use policy::rate::Window;
use sfv::{Integer, KeyRef, ListSerializer, RefBareItem, StringRef, key_ref};

use super::cors::EXPOSED;
use super::summary::{Retry, Summary, policy_name};
use super::{Dialect, Options, SubSecond, whole_millis, whole_seconds};

const Q: &KeyRef = key_ref("q");
const W: &KeyRef = key_ref("w");
const R: &KeyRef = key_ref("r");
const T: &KeyRef = key_ref("t");
/// Draft-11 wants parameters of one implementation prefixed by its name.
const BURST: &KeyRef = key_ref("leasehold-burst");

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
                draft_11(summary, shown, retry_seconds, each);
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
        value.push_str(";name=\"");
        for c in policy_name(outcome.facts).chars() {
            if matches!(c, '"' | '\\') {
                value.push('\\');
            }
            value.push(c);
        }
        value.push('"');
    }
    each("x-ratelimit-limit", value);
    each("x-ratelimit-remaining", text(value, figures.remaining));
    if let Some(after) = figures.reset_after {
        each("x-ratelimit-reset", text(value, whole_seconds(after)));
    }
}

fn draft_11(
    summary: &Summary<'_, '_>,
    shown: &Outcome<'_>,
    retry_seconds: Option<u64>,
    each: &mut dyn FnMut(&'static str, &str),
) {
    let mut policies = ListSerializer::new();
    for outcome in &summary.policies {
        let Some(figures) = Figures::of(outcome) else {
            continue;
        };
        let name = policy_name(outcome.facts);
        let mut item = policies
            .bare_item(string(&name))
            .parameter(Q, integer(figures.units));
        if let Some(window) = figures.window_seconds {
            item = item.parameter(W, integer(window));
        }
        if figures.capacity != figures.units {
            let _ = item.parameter(BURST, integer(figures.capacity));
        }
    }
    if let Some(list) = policies.finish() {
        each("ratelimit-policy", &list);
    }

    let Some(figures) = Figures::of(shown) else {
        return;
    };
    let mut limits = ListSerializer::new();
    let name = policy_name(shown.facts);
    let item = limits
        .bare_item(string(&name))
        .parameter(R, integer(figures.remaining));
    if let Some(after) = figures.reset_after {
        // "The Retry-After field value SHOULD NOT reference a point in time earlier than the end of the effective
        // window": of the two, the wait that was worked out from the refusing limits holds.
        let window = whole_seconds(after);
        let _ = item.parameter(
            T,
            integer(retry_seconds.map_or(window, |retry| window.min(retry))),
        );
    }
    if let Some(list) = limits.finish() {
        each("ratelimit", &list);
    }
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
        match outcome.amount {
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

/// A structured field's string.
fn string(printable: &str) -> RefBareItem<'_> {
    StringRef::from_str(printable)
        .expect("policy_name leaves nothing but printable ASCII, which every string may hold")
        .into()
}

/// A structured field's integer: at most 15 digits, more is told as that.
fn integer(number: u64) -> RefBareItem<'static> {
    RefBareItem::Integer(Integer::try_from(number).unwrap_or(Integer::MAX))
}

fn write_number(value: &mut String, number: u64) {
    write!(value, "{number}").expect("a String takes all that is written to it");
}

fn text(value: &mut String, number: u64) -> &str {
    value.clear();
    write_number(value, number);
    value
}
