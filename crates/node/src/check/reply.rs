//! Answers as HTTP responses.
//!
//! With `mode=403` every status from 400 becomes 403, faults too: nginx's `auth_request` takes all others for the
//! absence of an answer, and a fail-open configuration would then admit the request. `X-Leasehold-Status` says what it
//! would have been, `X-Leasehold-Detail` and `X-Leasehold-Window` what its body says, for nginx to tell its client.

use std::cell::OnceCell;

use bytes::Bytes;
use gate::decision::{Decision, Verdict};
use gate::time::Now;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use super::decided::Decided;
use super::fault::Fault;
use super::query::Query;
use crate::render::{Body, Options, Summary, Told, fields};

/// The most characters of a caller's correlation id.
const MOST_ID_BYTES: usize = 128;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const STATUS: HeaderName = HeaderName::from_static("x-leasehold-status");
const DETAIL: HeaderName = HeaderName::from_static("x-leasehold-detail");
const WINDOW: HeaderName = HeaderName::from_static("x-leasehold-window");
/// Tells an answer of Leasehold's from one of whatever else a proxy may have reached in its place.
const DECISION: HeaderName = HeaderName::from_static("leasehold-decision");
const ADMITTED: HeaderValue = HeaderValue::from_static("admitted");
const REFUSED: HeaderValue = HeaderValue::from_static("refused");

/// What one answer is made with.
pub(super) struct Reply<'a> {
    options: &'a Options,
    now: Now,
    refuse_with_403: bool,
    given_id: Option<&'a str>,
    made_id: OnceCell<String>,
}

impl<'a> Reply<'a> {
    pub(super) fn new(options: &'a Options, now: Now, head: &'a http::request::Parts) -> Self {
        let mut ids = head.headers.get_all(REQUEST_ID).iter();
        let given_id = match (ids.next(), ids.next()) {
            (Some(only), None) => only
                .to_str()
                .ok()
                .filter(|id| (1..=MOST_ID_BYTES).contains(&id.len()) && id.bytes().all(is_plain)),
            (None, _) | (Some(_), Some(_)) => None,
        };
        Self {
            options,
            now,
            refuse_with_403: Query::wants_403(head.uri.query()),
            given_id,
            made_id: OnceCell::new(),
        }
    }

    /// The caller's id, or one made for this answer.
    pub(super) fn request_id(&self) -> &str {
        self.given_id.unwrap_or_else(|| {
            self.made_id
                .get_or_init(|| uuid::Uuid::new_v4().to_string())
        })
    }

    /// The status as it is sent.
    pub(super) const fn status(&self, status: u16) -> u16 {
        if self.refuse_with_403 && status >= 400 {
            403
        } else {
            status
        }
    }

    pub(super) fn decision(
        &self,
        decision: &Decision<'_>,
        summary: &Summary<'_, '_>,
        origin: Option<&str>,
        json: bool,
    ) -> Response<Bytes> {
        let told = Told(summary);
        let mut response = self.response(told.status());
        let headers = response.headers_mut();
        let decided = match decision.verdict {
            Verdict::Admitted => ADMITTED,
            Verdict::Refused(_) => REFUSED,
        };
        headers.insert(DECISION, decided);
        fields(
            summary,
            self.now,
            self.options,
            origin,
            &mut |name, value| {
                let value = HeaderValue::from_str(value).expect("fields are printable ASCII");
                headers.insert(HeaderName::from_static(name), value);
            },
        );
        if self.refuse_with_403 && matches!(decision.verdict, Verdict::Refused(_)) {
            // Neither holds what would have to be escaped in JSON, nor anything that the caller sent.
            let said = [
                (DETAIL, Some(told.message().into())),
                (WINDOW, told.window()),
            ];
            for (name, text) in said {
                if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
                    headers.insert(name, value);
                }
            }
        }
        let body = if json {
            Some(Body {
                content_type: "application/json",
                bytes: Decided::of(summary, &decision.outcomes, self.request_id()).bytes(),
            })
        } else if decision.verdict == Verdict::Admitted {
            None
        } else {
            // With `mode=403` the proxy answers with the true status, and never with this body.
            let status = told.status();
            told.body(self.options.body, status, self.now, self.request_id())
        };
        self.with_body(response, body)
    }

    pub(super) fn preflight(&self, json: bool) -> Response<Bytes> {
        let body = json.then(|| Body {
            content_type: "application/json",
            bytes: Decided::without_limits(self.request_id()).bytes(),
        });
        let mut response = self.response(200);
        response.headers_mut().insert(DECISION, ADMITTED);
        self.with_body(response, body)
    }

    pub(super) fn fault(&self, fault: &Fault) -> Response<Bytes> {
        let mut response = self.response(fault.status());
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if fault.status() == 405 {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
        }
        let body = fault.body(self.options.body, self.now, self.request_id());
        self.with_body(response, Some(body))
    }

    fn response(&self, status: u16) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = StatusCode::from_u16(self.status(status))
            .expect("statuses are three digits, all of them constants");
        if self.status(status) != status || (self.refuse_with_403 && status == 403) {
            response.headers_mut().insert(STATUS, status.into());
        }
        response
    }

    /// Adds the body, and the id if the caller gave one or the body names it.
    fn with_body(&self, mut response: Response<Bytes>, body: Option<Body>) -> Response<Bytes> {
        let id = if body.is_some() {
            Some(self.request_id())
        } else {
            self.given_id
        };
        if let Some(id) = id {
            let id = HeaderValue::from_str(id).expect("ids are graphic ASCII");
            response.headers_mut().insert(REQUEST_ID, id);
        }
        if let Some(Body {
            content_type,
            bytes,
        }) = body
        {
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            *response.body_mut() = bytes.into();
        }
        response
    }
}

/// Whether a byte may be in a caller's correlation id: printable, and nothing that would end a JSON string where a
/// proxy puts the id into a body of its own.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'"' && byte != b'\\'
}
