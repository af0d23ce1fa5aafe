//! Envoy's rate limit service, v3: `ShouldRateLimit`.
//!
//! Over the limit is an answer, OVER_LIMIT with the gRPC status OK. A gRPC error means that there is no decision, and
//! Envoy then does as its failure mode says; so an error is never used to refuse.

mod access;
mod answer;
pub mod attributes;

use std::sync::Arc;

use gate::Gate;
use gate::decision::Verdict;
use gate::request::Part;
use smallvec::SmallVec;
use tonic::{Request, Response, Status};
use wire::rls::rate_limit_service_server::RateLimitService;
use wire::rls::{CheckedRequest, Overrides, RateLimitRequest, RateLimitResponse};

use self::attributes::EntryHeaders;
use crate::clock::{Clock, between};
use crate::config::Choice;
use crate::fleet::{self, Asking, Fleet};
use crate::log::AccessLog;
use crate::metrics::{Answer, Charge, ErrorKind, Surface, Telemetry};
use crate::render::{self, Summary, Told};

/// Which response fields Envoy is told to add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fields {
    /// All of the dialect.
    All,
    /// All but `x-ratelimit-limit`, `-remaining` and `-reset`, which Envoy can make itself.
    #[default]
    BesideEnvoys,
    /// None.
    None,
}

impl Choice for Fields {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("all", Self::All),
        ("beside-envoys", Self::BesideEnvoys),
        ("none", Self::None),
    ];
}

impl Fields {
    fn include(self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::BesideEnvoys => !matches!(
                name,
                "x-ratelimit-limit" | "x-ratelimit-remaining" | "x-ratelimit-reset"
            ),
            Self::None => false,
        }
    }
}

/// The service.
pub struct Rls {
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
    /// Which fields Envoy is told to add.
    pub fields: Fields,
    /// Writes lines about requests.
    pub access: AccessLog,
    /// Whether limits that descriptors bring along are taken.
    pub overrides: Overrides,
}

impl Rls {
    /// Decides one request. If it lacks credit that the fleet may have, that is asked for, once.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, naming the field, if the request is not understood.
    pub async fn decide_in_fleet(
        &self,
        message: &RateLimitRequest,
    ) -> Result<RateLimitResponse, Status> {
        fleet::decide_and_ask(self.fleet.as_ref(), |asking| self.attempt(message, asking)).await
    }

    /// Decides one request with the credit that is here.
    ///
    /// # Errors
    /// INVALID_ARGUMENT, naming the field, if the request is not understood.
    pub fn decide(&self, message: &RateLimitRequest) -> Result<RateLimitResponse, Status> {
        self.attempt(message, &mut Asking::nobody())
    }

    /// Decides, unless what is refused only lacks credit that is to be asked for: then nothing is recorded, and the
    /// answer is empty.
    fn attempt(
        &self,
        message: &RateLimitRequest,
        asking: &mut Asking<'_>,
    ) -> Result<RateLimitResponse, Status> {
        let now = self.clock.now();
        let request = CheckedRequest::read(message, self.overrides).map_err(|error| {
            self.telemetry.error(ErrorKind::BadRequest);
            Status::invalid_argument(error.to_string())
        })?;
        if request
            .descriptors()
            .any(|descriptor| attributes::tells_preflight(descriptor.entries))
        {
            let elapsed = between(now, self.clock.now());
            self.telemetry
                .record_undecided(Answer::Preflight, Surface::Rls, elapsed);
            return Ok(answer::preflight(request.descriptors().count()));
        }
        let policy = self.gate.snapshot();
        let identity = policy.identity_reading();
        let headers: SmallVec<[EntryHeaders<'_>; 4]> = request
            .descriptors()
            .map(|descriptor| EntryHeaders::new(descriptor.entries, identity))
            .collect();
        let parts: SmallVec<[Part<'_>; 4]> = request
            .descriptors()
            .zip(&headers)
            .map(|(descriptor, headers)| attributes::part(request.domain(), &descriptor, headers))
            .collect();
        let mut decision = self.gate.check(&policy, &parts, now);
        if asking.takes_up(&decision) {
            return Ok(RateLimitResponse::default());
        }
        let fleet = self.fleet.as_ref();
        let degraded = fleet::is_degraded(fleet, &self.gate, &policy, &parts, now, &mut decision);
        let mut summary = Summary::of(&decision);
        summary.degraded = degraded;
        let refused = decision.verdict != Verdict::Admitted;
        let logged = self.access.selects(refused, now);
        let request_id = if refused || logged {
            request_id(&parts)
        } else {
            String::new()
        };
        let response = answer::answer(
            &decision,
            &summary,
            parts.len(),
            now,
            self,
            attributes::origin(&parts),
            &request_id,
        );
        let charge = Charge::of(parts.iter().map(|part| part.hits));
        let elapsed = between(now, self.clock.now());
        self.telemetry
            .record(&decision, charge, Surface::Rls, now, elapsed);
        if logged {
            let told = Told(&summary);
            access::write(&self.access, &parts, identity, &told, elapsed, &request_id);
        }
        Ok(response)
    }
}

/// The id that Envoy gave the request, if a descriptor tells it, else a new one.
fn request_id(parts: &[Part<'_>]) -> String {
    const MOST_BYTES: usize = 128;
    parts
        .iter()
        .flat_map(|part| part.request.entries)
        .find(|(key, _)| matches!(*key, "x-request-id" | "request_id"))
        .map(|(_, value)| *value)
        .filter(|value| (1..=MOST_BYTES).contains(&value.len()))
        .filter(|value| value.bytes().all(|byte| byte.is_ascii_graphic()))
        .map_or_else(|| uuid::Uuid::new_v4().to_string(), str::to_owned)
}

#[tonic::async_trait]
impl RateLimitService for Rls {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        self.decide_in_fleet(request.get_ref())
            .await
            .map(Response::new)
    }
}
