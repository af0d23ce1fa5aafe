//! `/v1/check`: what proxies and programs ask over HTTP.
//!
//! A question is read whole before the clock is, and put to the gate once; what it lacks or has wrong is answered by a
//! [`Fault`], before anything is charged. The listener is for proxies and programs of the operator's: what they say
//! of a request is believed. See [`headers`] for the form of proxies and [`json`] for that of programs.

mod decided;
pub mod fault;
pub mod headers;
pub mod json;
pub mod query;
mod reply;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, State};
use axum::routing::any;
use bytes::Bytes;
use gate::decision::Verdict;
use gate::request::{HeaderLookup, Headers, Hits, Part, Request};
use gate::time::Now;
use gate::{Compiled, Gate};
use http::{HeaderMap, Method, Response, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use policy::address::ForwardedHops;
use policy::model::{IdentityReading, IdentitySource};
use smallvec::SmallVec;

pub use self::fault::Fault;
use self::headers::Original;
use self::json::Question;
use self::query::Query;
use self::reply::Reply;
use crate::clock::{Clock, between};
use crate::fleet::{self, Asking, Fleet};
use crate::log::{AccessLog, RequestLine, TraceContext};
use crate::metrics::{Answer, Charge, Surface, Telemetry};
use crate::render::{self, Summary, Told, is_preflight};

/// Answers questions.
pub struct Check {
    /// Decides.
    pub gate: Arc<Gate>,
    /// This node's fleet, to be asked for credit that a request lacks.
    pub fleet: Option<Fleet>,
    /// Tells the time, once a request for the decision and once for its duration.
    pub clock: Clock,
    /// Counts.
    pub telemetry: Arc<Telemetry>,
    /// How answers are worded.
    pub options: render::Options,
    /// Writes lines about requests.
    pub access: AccessLog,
    /// The largest body that is read.
    pub most_body_bytes: usize,
    /// How long a body may take to come.
    pub body_timeout: Duration,
}

/// The route.
pub fn routes(check: Arc<Check>) -> Router {
    Router::new()
        .route("/v1/check", any(handle))
        .with_state(check)
}

async fn handle(State(check): State<Arc<Check>>, request: http::Request<Body>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let peer = head
        .extensions
        .get::<ConnectInfo<SocketAddr>>()
        .map(|info| info.0.ip());
    let read = read_body(body, check.most_body_bytes);
    let body = match tokio::time::timeout(check.body_timeout, read).await {
        Ok(read) => read,
        Err(_) => Err(Fault::BodyTooSlow {
            most: check.body_timeout,
        }),
    };
    check
        .answer_in_fleet(&head, peer, body.as_deref())
        .await
        .map(Body::from)
}

async fn read_body(body: Body, most_bytes: usize) -> Result<Bytes, Fault> {
    let too_large = Fault::BodyTooLarge { most_bytes };
    // Known beforehand: nothing of it need be read.
    if hyper::body::Body::size_hint(&body).lower() > most_bytes as u64 {
        return Err(too_large);
    }
    match Limited::new(body, most_bytes).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large),
        Err(_) => Err(Fault::BodyBrokeOff),
    }
}

/// A request as one of the forms tells it.
struct Asked<'a> {
    request: Request<'a>,
    hits: Hits,
    /// The value of its `Origin`.
    origin: Option<&'a str>,
    is_preflight: bool,
    json: bool,
}

/// Headers as hyper has them.
struct Map<'a>(&'a HeaderMap);

impl HeaderLookup for Map<'_> {
    fn values<'s>(&'s self, name: &str, each: &mut dyn FnMut(&'s [u8])) {
        for value in self.0.get_all(name) {
            each(value.as_bytes());
        }
    }
}

impl Check {
    /// Answers a question whose body has arrived or failed to, from `peer`. If it lacks credit that the fleet may have,
    /// that is asked for, once.
    pub async fn answer_in_fleet(
        &self,
        head: &http::request::Parts,
        peer: Option<IpAddr>,
        body: Result<&[u8], &Fault>,
    ) -> Response<Bytes> {
        fleet::decide_and_ask(self.fleet.as_ref(), |asking| {
            self.attempt(head, peer, body, asking)
        })
        .await
    }

    /// Answers a question with the credit that is here.
    #[must_use]
    pub fn answer(
        &self,
        head: &http::request::Parts,
        peer: Option<IpAddr>,
        body: Result<&[u8], &Fault>,
    ) -> Response<Bytes> {
        self.attempt(head, peer, body, &mut Asking::nobody())
    }

    /// Answers, unless what is refused only lacks credit that is to be asked for: then nothing is recorded, and the
    /// answer is empty.
    fn attempt(
        &self,
        head: &http::request::Parts,
        peer: Option<IpAddr>,
        body: Result<&[u8], &Fault>,
        asking: &mut Asking<'_>,
    ) -> Response<Bytes> {
        let now = self.clock.now();
        let reply = Reply::new(&self.options, now, head);
        let answered = body
            .map_err(Clone::clone)
            .and_then(|body| self.decide(head, peer, body, now, &reply, asking));
        answered.unwrap_or_else(|fault| {
            self.telemetry.error(fault.kind());
            tracing::debug!(
                target: "leasehold::check",
                request_id = reply.request_id(),
                status_code = fault.status(),
                error_code = fault.code(),
                error_message = %fault,
                "question refused"
            );
            reply.fault(&fault)
        })
    }

    fn decide(
        &self,
        head: &http::request::Parts,
        peer: Option<IpAddr>,
        body: &[u8],
        now: Now,
        reply: &Reply<'_>,
        asking: &mut Asking<'_>,
    ) -> Result<Response<Bytes>, Fault> {
        if !matches!(head.method, Method::GET | Method::HEAD | Method::POST) {
            return Err(Fault::MethodNotServed);
        }
        let policy = self.gate.snapshot();
        // A proxy may hand on a client's body and its type. What it says of the request itself decides the form, so
        // that no client can ask in its own words. Programs ask by POST alone.
        let may_be_json = head.method == Method::POST && is_json(&head.headers);
        if headers::is_asked(&head.headers) || !may_be_json {
            let authority = head.uri.authority().map(|authority| authority.as_str());
            let original = Original::read(&head.headers, authority)?;
            let query = Query::beside(head.uri.query(), original.query())?;
            let map = Map(&head.headers);
            let has = |name: header::HeaderName| head.headers.contains_key(name);
            let asked = Asked {
                request: Request {
                    method: Some(original.method),
                    host: original.host,
                    path: Some(original.target),
                    peer,
                    headers: Headers::new(&map),
                    ..Request::default()
                },
                hits: Hits::Take(query.hits.unwrap_or(1)),
                origin: head
                    .headers
                    .get(header::ORIGIN)
                    .and_then(|value| value.to_str().ok()),
                is_preflight: is_preflight(
                    original.method,
                    has(header::ORIGIN),
                    has(header::ACCESS_CONTROL_REQUEST_METHOD),
                ),
                json: false,
            };
            return Ok(self.put(&policy, &asked, now, reply, asking));
        }

        if Query::read(head.uri.query())?.hits.is_some() {
            return Err(Fault::Unusable {
                field: "hits".into(),
                problem: "with a JSON question it belongs in the body".into(),
            });
        }
        let question = Question::read(body)?.with_identity_placed(policy.identity_reading())?;
        let entries: SmallVec<[(&str, &str); 8]> = question
            .entries
            .iter()
            .map(|entry| (&*entry.key, &*entry.value))
            .collect();
        let origin = question.headers.first("origin");
        let asked = Asked {
            request: Request {
                method: question.method.as_deref(),
                host: question.host.as_deref(),
                path: question.path.as_deref().map(str::as_bytes),
                peer: question.peer,
                headers: Headers::new(&question.headers),
                domain: question.domain.as_deref(),
                entries: &entries,
                limit_override: None,
            },
            hits: question.takes(),
            origin,
            is_preflight: question.method.as_deref().is_some_and(|method| {
                let asks = question.headers.first("access-control-request-method");
                is_preflight(method, origin.is_some(), asks.is_some())
            }),
            json: true,
        };
        Ok(self.put(&policy, &asked, now, reply, asking))
    }

    /// Puts a question to the gate.
    fn put(
        &self,
        policy: &Compiled,
        asked: &Asked<'_>,
        now: Now,
        reply: &Reply<'_>,
        asking: &mut Asking<'_>,
    ) -> Response<Bytes> {
        if asked.is_preflight {
            let elapsed = between(now, self.clock.now());
            self.telemetry
                .record_undecided(Answer::Preflight, Surface::Http, elapsed);
            return reply.preflight(asked.json);
        }
        let part = Part {
            request: asked.request,
            hits: asked.hits,
        };
        let parts = [part];
        let mut decision = self.gate.check(policy, &parts, now);
        if asking.takes_up(&decision) {
            return Response::default();
        }
        let fleet = self.fleet.as_ref();
        let degraded = fleet::is_degraded(fleet, &self.gate, policy, &parts, now, &mut decision);
        let mut summary = Summary::of(&decision);
        summary.degraded = degraded;
        let response = reply.decision(&decision, &summary, asked.origin, asked.json);
        let elapsed = between(now, self.clock.now());
        let charge = Charge::of([asked.hits]);
        self.telemetry
            .record(&decision, charge, Surface::Http, now, elapsed);
        if self
            .access
            .selects(decision.verdict != Verdict::Admitted, now)
        {
            self.log(policy, asked, &summary, elapsed, reply);
        }
        response
    }

    fn log(
        &self,
        policy: &Compiled,
        asked: &Asked<'_>,
        summary: &Summary<'_, '_>,
        elapsed: Duration,
        reply: &Reply<'_>,
    ) {
        let request = &asked.request;
        let first = |name: &str| {
            let mut first = None;
            request
                .headers
                .values(name, &mut |value| first = first.or(Some(value)));
            first
        };
        let identity = policy.identity_reading();
        let found = |sources: &[IdentitySource]| {
            sources.iter().find_map(|source| match source {
                IdentitySource::Header(name) => first(name),
                IdentitySource::Bearer => first("authorization"),
                IdentitySource::Descriptor(key) => request
                    .entries
                    .iter()
                    .find(|(known, _)| **known == **key)
                    .map(|(_, value)| value.as_bytes()),
            })
        };
        let address = request.peer.map(|peer| {
            let mut hops = ForwardedHops::new(policy.client_address_reading(), peer);
            if let Some(name) = forwarding_header(policy) {
                request.headers.values(name, &mut |value| hops.feed(value));
            }
            hops.finish().address
        });
        let told = Told(summary);
        let refusing = summary.refusing.first().map(|outcome| outcome.facts);
        let message = told.message();
        self.access.write(&RequestLine {
            request_id: reply.request_id(),
            trace: first("traceparent").and_then(TraceContext::read),
            user: found(&identity.user),
            entity: found(&identity.api_key),
            method: request.method,
            target: request.path,
            status_code: reply.status(told.status()),
            error_code: told.code(),
            error_message: told.code().map(|_| &*message),
            duration: elapsed,
            address,
            user_agent: first("user-agent"),
            rule: refusing.map(|facts| facts.rule.as_str()),
            limit: refusing.map(|facts| facts.name.as_str()),
        });
    }
}

fn forwarding_header(policy: &Compiled) -> Option<&str> {
    use policy::model::ForwardingHeader;
    Some(match &policy.client_address_reading().header {
        ForwardingHeader::XForwardedFor => "x-forwarded-for",
        ForwardingHeader::Forwarded => "forwarded",
        ForwardingHeader::Single(name) => name,
    })
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|value| {
        let essence = value
            .as_bytes()
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default();
        essence
            .trim_ascii()
            .eq_ignore_ascii_case(b"application/json")
    })
}

impl Question {
    /// Puts the API key and the user where the policy looks first, in place of what is there.
    fn with_identity_placed(mut self, reading: &IdentityReading) -> Result<Self, Fault> {
        for (field, value, sources) in [
            ("api_key", self.api_key.take(), &reading.api_key),
            ("user", self.user.take(), &reading.user),
        ] {
            let Some(value) = value else { continue };
            match sources.first() {
                Some(IdentitySource::Header(name)) => self.headers.replace(name, value),
                Some(IdentitySource::Bearer) => {
                    self.headers
                        .replace("authorization", format!("Bearer {value}"));
                }
                Some(IdentitySource::Descriptor(key)) => {
                    self.entries.retain(|entry| *entry.key != **key);
                    self.entries.push(json::Entry {
                        key: key.to_string(),
                        value,
                    });
                }
                None => {
                    return Err(Fault::Unusable {
                        field: field.into(),
                        problem: "the policy in force reads none; leave it out".into(),
                    });
                }
            }
        }
        Ok(self)
    }
}
