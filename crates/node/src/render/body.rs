//! The bodies of refusals: a problem (RFC 9457) or an error object.
//!
//! A body names the window that is used up and an id by which operators find the request, and never a limit's
//! figures. It is valid JSON whatever the names in it are.

use std::borrow::Cow;
use std::time::Duration;

use gate::decision::{Outcome, Refusal, Verdict};
use gate::time::Now;
use policy::model::Amount;
use serde::Serialize;

use super::summary::{Retry, Summary, policy_name, window_text};
use super::timestamp::Rfc3339;
use super::{BodyForm, whole_seconds};

const PROBLEM_TYPES: &str = "https://iana.org/assignments/http-problem-types#";

/// A body and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The media type.
    pub content_type: &'static str,
    /// JSON text.
    pub bytes: Vec<u8>,
}

/// A decision told in a status, a code and a body. Only admissions have no body.
#[derive(Clone, Debug)]
pub struct Told<'a, 'd, 's>(pub &'a Summary<'d, 's>);

impl Told<'_, '_, '_> {
    /// The HTTP status, in words that clients act upon: 429 is worth a retry, 403 and 503 are no quota's doing.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self.0.verdict {
            Verdict::Admitted => 200,
            Verdict::Refused(Refusal::OverLimit | Refusal::Never) => 429,
            Verdict::Refused(Refusal::KeyAbsent) => 403,
            // A fault of ours, hence never 429.
            Verdict::Refused(Refusal::Unavailable) => 503,
        }
    }

    /// The stable code of the error, none for an admission.
    #[must_use]
    pub const fn code(&self) -> Option<&'static str> {
        match self.0.verdict {
            Verdict::Admitted => None,
            Verdict::Refused(Refusal::OverLimit) => Some("RATE_LIMIT_EXCEEDED"),
            Verdict::Refused(Refusal::Never) => Some("RATE_LIMIT_NEVER_ADMITS"),
            Verdict::Refused(Refusal::KeyAbsent) => Some("RATE_LIMIT_KEY_ABSENT"),
            Verdict::Refused(Refusal::Unavailable) => Some("RATE_LIMITER_UNAVAILABLE"),
        }
    }

    /// The body, for an answer with `status` made at `now` to the request known as `request_id`; none for an admission.
    /// `status` is what the client sees: [`Told::status`], unless who asked answers otherwise.
    #[must_use]
    pub fn body(&self, form: BodyForm, status: u16, now: Now, request_id: &str) -> Option<Body> {
        let code = self.code()?;
        let message = self.message();
        Some(match form {
            BodyForm::Problem => Body {
                content_type: "application/problem+json",
                bytes: json(&Problem {
                    kind: self.problem_type(),
                    title: self.title(status),
                    status,
                    detail: &message,
                    violated_policies: self.violated_policies(),
                    window: self.window(),
                    request_id,
                }),
            },
            BodyForm::ErrorObject => Body {
                content_type: "application/json",
                bytes: json(&ErrorEnvelope {
                    error: ErrorObject {
                        code,
                        message: &message,
                        http_status: status,
                        timestamp: Rfc3339(now).to_string(),
                        request_id,
                    },
                }),
            },
        })
    }

    fn problem_type(&self) -> String {
        let name = match self.0.verdict {
            Verdict::Admitted | Verdict::Refused(Refusal::OverLimit | Refusal::Never) => {
                "quota-exceeded"
            }
            // RFC 9457, 4.2.1: the problem is what its status says.
            Verdict::Refused(Refusal::KeyAbsent) => return "about:blank".into(),
            Verdict::Refused(Refusal::Unavailable) => "temporary-reduced-capacity",
        };
        format!("{PROBLEM_TYPES}{name}")
    }

    const fn title(&self, status: u16) -> &'static str {
        match self.0.verdict {
            Verdict::Admitted | Verdict::Refused(Refusal::OverLimit) => "Quota exceeded",
            Verdict::Refused(Refusal::Never) => "Not within any quota",
            // With `about:blank`, the phrase of the status.
            Verdict::Refused(Refusal::KeyAbsent) => match status {
                429 => "Too Many Requests",
                _ => "Forbidden",
            },
            Verdict::Refused(Refusal::Unavailable) => "Rate limiter unavailable",
        }
    }

    fn violated_policies(&self) -> Option<Vec<String>> {
        let names = || self.0.refusing.iter().map(|o| policy_name(o.facts));
        // That a limit could not be counted is no fault of the caller's.
        let violated = self.0.verdict != Verdict::Refused(Refusal::Unavailable);
        (violated && !self.0.refusing.is_empty()).then(|| names().collect())
    }

    /// The refusing limit that holds out longest.
    fn longest_refusing(&self) -> Option<&Outcome<'_>> {
        self.0
            .refusing
            .iter()
            .max_by_key(|o| o.retry_after.unwrap_or(Duration::MAX))
            .copied()
    }

    /// The window of the refusing limit that holds out longest, such as `1m`.
    #[must_use]
    pub fn window(&self) -> Option<Cow<'static, str>> {
        self.longest_refusing().and_then(window_text)
    }

    /// What happened and what helps, in a sentence or two. Empty for an admission.
    #[must_use]
    pub fn message(&self) -> String {
        let summary = self.0;
        let window = self.window();
        match summary.verdict {
            Verdict::Admitted => String::new(),
            Verdict::Refused(Refusal::OverLimit) => {
                let quota = match window.as_deref() {
                    Some("forever") => "The quota, which never renews, is used up".into(),
                    Some(window) => format!("The quota per {window} is used up"),
                    None => "The quota is used up".to_owned(),
                };
                match summary.retry {
                    Retry::After(wait) if wait < Duration::from_secs(1) => {
                        format!("{quota}. Try again in less than a second.")
                    }
                    Retry::After(wait) => match whole_seconds(wait) {
                        1 => format!("{quota}. Try again in 1 second."),
                        seconds => format!("{quota}. Try again in {seconds} seconds."),
                    },
                    Retry::NotRefused | Retry::Never => {
                        format!("{quota}. Waiting does not help: ask for a larger quota.")
                    }
                }
            }
            Verdict::Refused(Refusal::Never) => match self.longest_refusing().map(Outcome::amount) {
                Some(Amount::Metered { .. }) => {
                    "This request costs more than its quota can ever hold. \
                         Waiting does not help: ask for less at a time."
                        .into()
                }
                Some(Amount::Deny | Amount::Unlimited) | None => {
                    "The quota admits no such request. Waiting does not help.".into()
                }
            },
            Verdict::Refused(Refusal::KeyAbsent) => {
                "This request lacks what its quota is counted by, such as an API key. \
                 Send it; waiting does not help."
                    .into()
            }
            Verdict::Refused(Refusal::Unavailable) => {
                "The rate limiter cannot count this request at present, and its quota refuses then. \
                 Try again later."
                    .into()
            }
        }
    }
}

#[derive(Serialize)]
struct Problem<'a> {
    #[serde(rename = "type")]
    kind: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(rename = "violated-policies", skip_serializing_if = "Option::is_none")]
    violated_policies: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<Cow<'static, str>>,
    request_id: &'a str,
}

#[derive(Serialize)]
struct ErrorEnvelope<'a> {
    error: ErrorObject<'a>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    code: &'static str,
    message: &'a str,
    http_status: u16,
    timestamp: String,
    request_id: &'a str,
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers always have a JSON form")
}
