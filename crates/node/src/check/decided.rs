//! A decision as programs read it: one JSON object.
//!
//! What it tells of a limit is bounded by the limit's `disclose`, as in header fields.

use gate::decision::{Outcome, Verdict};
use policy::model::{Amount, Mode};
use policy::rate::Window;
use serde::Serialize;

use crate::render::{Retry, Summary, Told, policy_name, whole_millis};

/// A decision as a program reads it.
#[derive(Debug, Serialize)]
pub struct Decided {
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// How long to wait; absent if it was allowed, or if waiting does not help.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violated_policies: Vec<String>,
    /// The disclosed limits, shadow ones too.
    limits: Vec<DecidedLimit>,
    request_id: String,
}

#[derive(Debug, Serialize)]
struct DecidedLimit {
    policy: String,
    rule: String,
    limit: String,
    mode: &'static str,
    has_room: bool,
    /// Absent if it does not meter.
    #[serde(skip_serializing_if = "Option::is_none")]
    units: Option<u64>,
    /// Absent if it never renews.
    #[serde(skip_serializing_if = "Option::is_none")]
    window_ms: Option<u64>,
    /// Absent if it has no bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reset_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl Decided {
    /// Tells of a decision.
    #[must_use]
    pub fn of(summary: &Summary<'_, '_>, outcomes: &[Outcome<'_>], request_id: &str) -> Self {
        let told = Told(summary);
        Self {
            allowed: summary.verdict == Verdict::Admitted,
            code: told.code(),
            message: told.code().map(|_| told.message()),
            retry_after_ms: match summary.retry {
                Retry::After(wait) => Some(whole_millis(wait)),
                Retry::NotRefused | Retry::Never => None,
            },
            violated_policies: summary
                .refusing
                .iter()
                .map(|o| policy_name(o.facts))
                .collect(),
            limits: outcomes
                .iter()
                .filter(|o| o.facts.disclose)
                .map(DecidedLimit::of)
                .collect(),
            request_id: request_id.to_owned(),
        }
    }

    /// Tells of an admission that met no limit.
    #[must_use]
    pub fn without_limits(request_id: &str) -> Self {
        Self {
            allowed: true,
            code: None,
            message: None,
            retry_after_ms: None,
            violated_policies: Vec::new(),
            limits: Vec::new(),
            request_id: request_id.to_owned(),
        }
    }

    /// Its text.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("strings and numbers always have a JSON form")
    }
}

impl DecidedLimit {
    fn of(outcome: &Outcome<'_>) -> Self {
        let (units, window_ms) = match outcome.amount() {
            Amount::Unlimited => (None, None),
            Amount::Deny => (Some(0), None),
            Amount::Metered { rate, .. } => match rate.window {
                Window::Forever => (Some(rate.units), None),
                Window::Millis(ms) => (Some(rate.units), Some(ms.get())),
            },
        };
        Self {
            policy: policy_name(outcome.facts),
            rule: outcome.facts.rule.to_string(),
            limit: outcome.facts.name.to_string(),
            mode: match outcome.facts.mode {
                Mode::Enforce => "enforce",
                Mode::Shadow => "shadow",
            },
            has_room: outcome.has_room,
            units,
            window_ms,
            remaining: outcome.remaining,
            reset_after_ms: window_ms.map(|_| whole_millis(outcome.reset_after)),
            retry_after_ms: outcome.retry_after.map(whole_millis),
        }
    }
}
