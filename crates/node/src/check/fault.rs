//! What is wrong with a question, told so that whoever sent it can put it right.
//!
//! A fault never repeats a value that was sent (it may be a secret), and its status is never 429: nobody can take it
//! for a refusal by a limit.

use std::borrow::Cow;
use std::time::Duration;

use gate::time::Now;
use serde::Serialize;

use crate::metrics::ErrorKind;
use crate::render::timestamp::Rfc3339;
use crate::render::{Body, BodyForm};

/// Why a question could not be put to the gate. Nothing was charged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A field that is needed is not there.
    #[error("{field}: missing; {expected}")]
    Missing {
        /// The field, or the fields of which one is needed.
        field: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// A field's value cannot be used.
    #[error("{field}: {problem}")]
    Unusable {
        /// The field.
        field: Cow<'static, str>,
        /// What is wrong and what would be right.
        problem: Cow<'static, str>,
    },
    /// A field was sent more than once.
    #[error("{field}: sent more than once; send it once, and see that clients cannot send it too")]
    Repeated {
        /// The field.
        field: Cow<'static, str>,
    },
    /// Two fields that say the same thing disagree.
    #[error("{first} and {second}: disagree; send one, and see that clients cannot send the other")]
    Disagreeing {
        /// One of them.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// The body is larger than the bound.
    #[error("body: larger than {most_bytes} bytes; proxies should not send the body along")]
    BodyTooLarge {
        /// The bound.
        most_bytes: usize,
    },
    /// The body broke off.
    #[error("body: broke off before its end; send it whole")]
    BodyBrokeOff,
    /// The body did not come in time.
    #[error("body: not whole after {} ms; send it at once, or leave it out", most.as_millis())]
    BodyTooSlow {
        /// How long it may take.
        most: Duration,
    },
    /// The method is not served.
    #[error("method: not served here; use GET, HEAD or POST")]
    MethodNotServed,
}

impl Fault {
    /// The HTTP status.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::Missing { .. }
            | Self::Unusable { .. }
            | Self::Repeated { .. }
            | Self::Disagreeing { .. }
            | Self::BodyBrokeOff => 400,
            Self::BodyTooSlow { .. } => 408,
            Self::BodyTooLarge { .. } => 413,
            Self::MethodNotServed => 405,
        }
    }

    /// The stable code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "FIELD_MISSING",
            Self::Unusable { .. } => "FIELD_UNUSABLE",
            Self::Repeated { .. } => "FIELD_REPEATED",
            Self::Disagreeing { .. } => "FIELDS_DISAGREE",
            Self::BodyTooSlow { .. } => "BODY_TOO_SLOW",
            Self::BodyTooLarge { .. } => "BODY_TOO_LARGE",
            Self::BodyBrokeOff => "BODY_BROKE_OFF",
            Self::MethodNotServed => "METHOD_NOT_SERVED",
        }
    }

    /// How it is counted.
    #[must_use]
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Missing { .. }
            | Self::Unusable { .. }
            | Self::Repeated { .. }
            | Self::Disagreeing { .. }
            | Self::BodyTooSlow { .. }
            | Self::BodyBrokeOff => ErrorKind::BadRequest,
            Self::BodyTooLarge { .. } => ErrorKind::BodyTooLarge,
            Self::MethodNotServed => ErrorKind::NotServed,
        }
    }

    /// The field that is at fault.
    #[must_use]
    pub fn field(&self) -> &str {
        match self {
            Self::Missing { field, .. } => field,
            Self::Unusable { field, .. } | Self::Repeated { field } => field,
            Self::Disagreeing { first, .. } => first,
            Self::BodyTooLarge { .. } | Self::BodyTooSlow { .. } | Self::BodyBrokeOff => "body",
            Self::MethodNotServed => "method",
        }
    }

    /// The body that tells of it.
    #[must_use]
    pub fn body(&self, form: BodyForm, now: Now, request_id: &str) -> Body {
        let detail = self.to_string();
        match form {
            BodyForm::Problem => Body {
                content_type: "application/problem+json",
                bytes: json(&Problem {
                    kind: "about:blank",
                    title: match self.status() {
                        405 => "Method Not Allowed",
                        408 => "Request Timeout",
                        413 => "Content Too Large",
                        _ => "Bad Request",
                    },
                    status: self.status(),
                    detail: &detail,
                    code: self.code(),
                    field: self.field(),
                    request_id,
                }),
            },
            BodyForm::ErrorObject => Body {
                content_type: "application/json",
                bytes: json(&Envelope {
                    error: ErrorObject {
                        code: self.code(),
                        message: &detail,
                        field: self.field(),
                        http_status: self.status(),
                        timestamp: Rfc3339(now).to_string(),
                        request_id,
                    },
                }),
            },
        }
    }
}

#[derive(Serialize)]
struct Problem<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    code: &'static str,
    field: &'a str,
    request_id: &'a str,
}

#[derive(Serialize)]
struct Envelope<'a> {
    error: ErrorObject<'a>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    code: &'static str,
    message: &'a str,
    field: &'a str,
    http_status: u16,
    timestamp: String,
    request_id: &'a str,
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers always have a JSON form")
}
