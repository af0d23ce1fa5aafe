//! Envoy's rate limit messages, to and from the gate's types.
//!
//! Reading lends: a [`CheckedRequest`] borrows the strings of the message that it was read from. Writing tells what
//! was decided; it never decides.
//!
//! Source: `envoy/service/ratelimit/v3/rls.proto`; where it is silent, envoyproxy/ratelimit's behaviour.

use std::time::Duration;

use gate::decision::Outcome;
use gate::request::Hits;
use policy::model::{Algorithm, Amount, Mode};
use policy::rate::{Rate, Window, WindowMs};
use smallvec::SmallVec;

use crate::envoy::config::core::v3::HeaderValue;
use crate::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
pub use crate::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor;
pub use crate::envoy::service::ratelimit::v3::rate_limit_response::rate_limit::Unit;
pub use crate::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, RateLimit,
};
pub use crate::envoy::service::ratelimit::v3::{
    RateLimitRequest, RateLimitResponse, rate_limit_service_client, rate_limit_service_server,
};
use crate::envoy::r#type::v3::RateLimitUnit;

/// The most descriptors that a request may have.
pub const MOST_DESCRIPTORS: usize = 256;

/// The most entries that a descriptor may have.
pub const MOST_ENTRIES: usize = 64;

/// What stands for a value that is not UTF-8: all such values are one to the rules. Never an error, because Envoy
/// admits on one, and clients choose the bytes.
pub const NOT_TEXT: &str = "\u{fffd}";

const SECOND_MS: u64 = 1000;
const MINUTE_MS: u64 = 60 * SECOND_MS;
const HOUR_MS: u64 = 60 * MINUTE_MS;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Envoy's MONTH and YEAR have no stated length; envoyproxy/ratelimit takes 30 and 365 days.
const MONTH_MS: u64 = 30 * DAY_MS;
const YEAR_MS: u64 = 365 * DAY_MS;
const WEEK_MS: u64 = 7 * DAY_MS;

/// What is wrong with a request. It was not looked at further, and nothing was charged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// No domain.
    #[error("domain must not be empty")]
    EmptyDomain,
    /// No descriptors.
    #[error("descriptors must not be empty: send at least one")]
    NoDescriptors,
    /// Too many descriptors.
    #[error("descriptors: {count} are too many, at most {MOST_DESCRIPTORS}")]
    TooManyDescriptors {
        /// How many there were.
        count: usize,
    },
    /// A descriptor without entries.
    #[error("descriptors[{descriptor}].entries must not be empty: send at least one")]
    NoEntries {
        /// Its index.
        descriptor: usize,
    },
    /// A descriptor with too many entries.
    #[error("descriptors[{descriptor}].entries: {count} are too many, at most {MOST_ENTRIES}")]
    TooManyEntries {
        /// Its index.
        descriptor: usize,
        /// How many there were.
        count: usize,
    },
    /// An entry without a key.
    #[error("descriptors[{descriptor}].entries[{entry}].key must not be empty")]
    EmptyKey {
        /// The descriptor's index.
        descriptor: usize,
        /// The entry's index.
        entry: usize,
    },
    /// An override in a unit that does not exist.
    #[error(
        "descriptors[{descriptor}].limit.unit is {unit}: use SECOND, MINUTE, HOUR, DAY, MONTH or YEAR (1 to 6)"
    )]
    UnknownUnit {
        /// The descriptor's index.
        descriptor: usize,
        /// What was sent.
        unit: i32,
    },
}

/// Whether the limits that descriptors bring along are heeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overrides {
    /// They are taken in place of the policy's.
    Accept,
    /// They are not looked at.
    #[default]
    Ignore,
}

/// One descriptor of a [`CheckedRequest`].
#[derive(Clone, Copy, Debug)]
pub struct Descriptor<'c> {
    /// Its keys and values, in order; keys are not empty.
    pub entries: &'c [(&'c str, &'c str)],
    /// What it takes or gives back.
    pub hits: Hits,
    /// The limit it brings, if such are accepted: metered by fixed window, or deny if it is of 0 requests.
    pub limit_override: Option<Amount>,
}

#[derive(Clone, Copy, Debug)]
struct Span {
    end: u32,
    hits: Hits,
    limit_override: Option<Amount>,
}

/// A request that has a domain, and 1 to [`MOST_DESCRIPTORS`] descriptors, each with 1 to [`MOST_ENTRIES`] entries.
#[derive(Clone, Debug)]
pub struct CheckedRequest<'r> {
    domain: &'r str,
    pairs: SmallVec<[(&'r str, &'r str); 8]>,
    spans: SmallVec<[Span; 4]>,
}

impl<'r> CheckedRequest<'r> {
    /// Checks a request and lends its strings.
    ///
    /// # Errors
    /// [`RequestError`], naming the first field that is wrong.
    pub fn read(request: &'r RateLimitRequest, overrides: Overrides) -> Result<Self, RequestError> {
        if request.domain.is_empty() {
            return Err(RequestError::EmptyDomain);
        }
        if request.descriptors.is_empty() {
            return Err(RequestError::NoDescriptors);
        }
        if request.descriptors.len() > MOST_DESCRIPTORS {
            return Err(RequestError::TooManyDescriptors {
                count: request.descriptors.len(),
            });
        }
        let mut pairs = SmallVec::new();
        let mut spans = SmallVec::new();
        for (index, descriptor) in request.descriptors.iter().enumerate() {
            read_entries(index, descriptor, &mut pairs)?;
            spans.push(Span {
                end: u32::try_from(pairs.len()).expect("at most 256 times 64 entries"),
                hits: read_hits(request.hits_addend, descriptor),
                limit_override: match overrides {
                    Overrides::Accept => read_override(index, descriptor)?,
                    Overrides::Ignore => None,
                },
            });
        }
        Ok(Self {
            domain: &request.domain,
            pairs,
            spans,
        })
    }

    /// The domain; not empty.
    #[must_use]
    pub fn domain(&self) -> &'r str {
        self.domain
    }

    /// The descriptors, in order.
    pub fn descriptors(&self) -> impl ExactSizeIterator<Item = Descriptor<'_>> {
        self.spans.iter().enumerate().map(|(index, span)| {
            let start = index
                .checked_sub(1)
                .map_or(0, |before| self.spans[before].end);
            Descriptor {
                entries: &self.pairs[start as usize..span.end as usize],
                hits: span.hits,
                limit_override: span.limit_override,
            }
        })
    }
}

fn read_entries<'r>(
    index: usize,
    descriptor: &'r RateLimitDescriptor,
    pairs: &mut SmallVec<[(&'r str, &'r str); 8]>,
) -> Result<(), RequestError> {
    let count = descriptor.entries.len();
    if count == 0 {
        return Err(RequestError::NoEntries { descriptor: index });
    }
    if count > MOST_ENTRIES {
        return Err(RequestError::TooManyEntries {
            descriptor: index,
            count,
        });
    }
    for (at, entry) in descriptor.entries.iter().enumerate() {
        if entry.key.is_empty() {
            return Err(RequestError::EmptyKey {
                descriptor: index,
                entry: at,
            });
        }
        pairs.push((
            &entry.key,
            std::str::from_utf8(&entry.value).unwrap_or(NOT_TEXT),
        ));
    }
    Ok(())
}

/// The request's `hits_addend` cannot tell 0 from unset, so 0 means 1. The descriptor's can, so 0 only looks.
fn read_hits(of_request: u32, descriptor: &RateLimitDescriptor) -> Hits {
    let hits = descriptor
        .hits_addend
        .unwrap_or_else(|| u64::from(of_request.max(1)));
    if descriptor.is_negative_hits {
        Hits::GiveBack(hits)
    } else {
        Hits::Take(hits)
    }
}

fn read_override(
    index: usize,
    descriptor: &RateLimitDescriptor,
) -> Result<Option<Amount>, RequestError> {
    let Some(limit) = &descriptor.limit else {
        return Ok(None);
    };
    let unknown = RequestError::UnknownUnit {
        descriptor: index,
        unit: limit.unit,
    };
    let ms = match RateLimitUnit::try_from(limit.unit) {
        Ok(RateLimitUnit::Second) => SECOND_MS,
        Ok(RateLimitUnit::Minute) => MINUTE_MS,
        Ok(RateLimitUnit::Hour) => HOUR_MS,
        Ok(RateLimitUnit::Day) => DAY_MS,
        Ok(RateLimitUnit::Month) => MONTH_MS,
        Ok(RateLimitUnit::Year) => YEAR_MS,
        Ok(RateLimitUnit::Unknown) | Err(_) => return Err(unknown),
    };
    if limit.requests_per_unit == 0 {
        return Ok(Some(Amount::Deny));
    }
    let window = Window::Millis(WindowMs::new(ms).expect("Envoy's units are in range"));
    let units = u64::from(limit.requests_per_unit);
    Ok(Some(Amount::Metered {
        rate: Rate { units, window },
        algorithm: Algorithm::FixedWindow,
    }))
}

/// The status of a descriptor that met these outcomes, in the order of the rules.
///
/// Of several limits, the one that is told of is one that refuses (the one that stays shut longest), else the one
/// with the least left. A descriptor that met no limit is OK with 0 remaining and no limit; one that met only
/// unlimited ones is OK with the greatest number remaining: both as envoyproxy/ratelimit has it.
pub fn descriptor_status<'a, 's: 'a>(
    outcomes: impl IntoIterator<Item = &'a Outcome<'s>>,
) -> DescriptorStatus {
    let mut worst: Option<&Outcome<'_>> = None;
    for outcome in outcomes {
        if worst.is_none_or(|so_far| tells_more(outcome, so_far)) {
            worst = Some(outcome);
        }
    }
    let Some(outcome) = worst else {
        return DescriptorStatus {
            code: Code::Ok.into(),
            ..DescriptorStatus::default()
        };
    };
    let metered = outcome.remaining.is_some();
    DescriptorStatus {
        code: if refuses(outcome) {
            Code::OverLimit
        } else {
            Code::Ok
        }
        .into(),
        current_limit: current_limit(outcome),
        limit_remaining: saturating_u32(outcome.remaining.unwrap_or(u64::MAX)),
        duration_until_reset: metered.then(|| whole_seconds_up(outcome.reset_after)),
        quota: None,
    }
}

/// Whether this outcome alone refuses the request.
#[must_use]
pub fn refuses(outcome: &Outcome<'_>) -> bool {
    match outcome.facts.mode {
        Mode::Enforce => !outcome.has_room,
        Mode::Shadow => false,
    }
}

fn tells_more(one: &Outcome<'_>, other: &Outcome<'_>) -> bool {
    match (refuses(one), refuses(other)) {
        (true, false) => true,
        (false, true) => false,
        // `None` here means never again, which is longest.
        (true, true) => {
            one.retry_after.unwrap_or(Duration::MAX) > other.retry_after.unwrap_or(Duration::MAX)
        }
        // What is left of a limit that never refuses would only mislead beside one that may.
        (false, false) => match (one.facts.mode, other.facts.mode) {
            (Mode::Enforce, Mode::Shadow) => true,
            (Mode::Shadow, Mode::Enforce) => false,
            (Mode::Enforce, Mode::Enforce) | (Mode::Shadow, Mode::Shadow) => {
                one.remaining.unwrap_or(u64::MAX) < other.remaining.unwrap_or(u64::MAX)
            }
        },
    }
}

/// What Envoy may show of a limit; `None` if it is not to be disclosed, or has no bound.
///
/// Envoy knows seven units. A limit whose window is none of them has the unit UNKNOWN and says its window in its
/// name; Envoy then sends `x-ratelimit-limit` without the `w` parameter, rather than a wrong one.
#[must_use]
pub fn current_limit(outcome: &Outcome<'_>) -> Option<RateLimit> {
    if !outcome.facts.disclose {
        return None;
    }
    let (units, unit) = match outcome.amount() {
        Amount::Unlimited => return None,
        Amount::Deny => (0, Unit::Unknown),
        Amount::Metered { rate, algorithm: _ } => (rate.units, unit_of(rate.window)),
    };
    Some(RateLimit {
        name: (outcome.facts.envoy_name.as_deref())
            .unwrap_or(outcome.facts.name.as_str())
            .to_owned(),
        requests_per_unit: saturating_u32(units),
        unit: unit.into(),
    })
}

/// The unit that is exactly this window, or UNKNOWN.
#[must_use]
pub fn unit_of(window: Window) -> Unit {
    match window {
        Window::Forever => Unit::Unknown,
        Window::Millis(ms) => match ms.get() {
            SECOND_MS => Unit::Second,
            MINUTE_MS => Unit::Minute,
            HOUR_MS => Unit::Hour,
            DAY_MS => Unit::Day,
            WEEK_MS => Unit::Week,
            MONTH_MS => Unit::Month,
            YEAR_MS => Unit::Year,
            _ => Unit::Unknown,
        },
    }
}

/// Envoy cuts `duration_until_reset` to whole seconds, so it is rounded up here: a client told 0 would come too soon.
#[must_use]
pub fn whole_seconds_up(duration: Duration) -> prost_types::Duration {
    // A protobuf duration ends at 10,000 years.
    const MOST_SECONDS: u64 = 315_576_000_000;
    let up = duration
        .as_secs()
        .saturating_add(u64::from(duration.subsec_nanos() > 0));
    let seconds = i64::try_from(up.min(MOST_SECONDS)).expect("10,000 years of seconds fit");
    prost_types::Duration { seconds, nanos: 0 }
}

/// A header for Envoy to add. In `value`, since it does not look at `raw_value`.
#[must_use]
pub fn header(name: impl Into<String>, value: impl Into<String>) -> HeaderValue {
    HeaderValue {
        key: name.into(),
        value: value.into(),
        raw_value: Vec::new(),
    }
}

fn saturating_u32(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[path = "rls_tests.rs"]
mod tests;
