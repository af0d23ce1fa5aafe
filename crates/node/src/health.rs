//! Health over HTTP: `/live`, `/ready`, `/startup` and `/health`.
//!
//! `/live` tells only that the process answers: it must never depend on anything that a restart would not mend.
//! `/ready` tells whether to send requests here. `/health` is for people and dashboards.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use gate::Gate;

use crate::clock::Clock;
use crate::drain::{Life, Phase};
use crate::metrics::Telemetry;
use crate::render::timestamp::Rfc3339;

/// What health is told from.
#[derive(Clone)]
pub struct Health {
    /// The node's phase.
    pub life: Life,
    /// Tells the time of an answer.
    pub clock: Clock,
    /// Knows whether the policy file on disk is refused.
    pub telemetry: Arc<Telemetry>,
    /// Knows whether its table is full.
    pub gate: Arc<Gate>,
}

/// From best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    /// All is well.
    Healthy,
    /// It serves, but someone should look.
    Degraded,
    /// It does not take requests.
    Unhealthy,
}

#[derive(serde::Serialize)]
struct Report {
    status: Status,
    timestamp: String,
    service: &'static str,
    version: &'static str,
    checks: Checks,
}

#[derive(serde::Serialize)]
struct Checks {
    serving: Check,
    policy: Check,
    table: Check,
}

#[derive(serde::Serialize)]
struct Check {
    status: Status,
    detail: &'static str,
}

impl Health {
    /// The routes.
    pub fn routes(self) -> Router {
        Router::new()
            .route("/live", get(live))
            .route("/ready", get(ready))
            .route("/startup", get(startup))
            .route("/health", get(health))
            .with_state(self)
    }

    fn report(&self) -> Report {
        let now = self.clock.now();
        let (serving, detail) = match self.life.phase() {
            Phase::Starting => (Status::Unhealthy, "starting"),
            Phase::Serving => (Status::Healthy, "serving"),
            Phase::Leaving | Phase::Closing => (Status::Unhealthy, "going away"),
        };
        let serving = Check {
            status: serving,
            detail,
        };
        let policy = if self.telemetry.policy_is_refused() {
            let detail = "the policy on disk is refused; the last good one is in force";
            Check {
                status: Status::Degraded,
                detail,
            }
        } else {
            Check {
                status: Status::Healthy,
                detail: "in force",
            }
        };
        let table = if self.gate.table().shares_cells(now) {
            let detail =
                "it was full of live buckets; some keys share a count, and may be refused early";
            Check {
                status: Status::Degraded,
                detail,
            }
        } else {
            Check {
                status: Status::Healthy,
                detail: "every key has a count of its own",
            }
        };
        let status = [&serving, &policy, &table]
            .into_iter()
            .fold(Status::Healthy, |worst, check| worst.max(check.status));
        Report {
            status,
            timestamp: Rfc3339(now).to_string(),
            service: "leasehold",
            version: env!("CARGO_PKG_VERSION"),
            checks: Checks {
                serving,
                policy,
                table,
            },
        }
    }

    fn answer(&self, ok: bool) -> Response {
        let status = if ok {
            StatusCode::OK
        } else {
            StatusCode::SERVICE_UNAVAILABLE
        };
        let fields = [
            (header::CONTENT_TYPE, "application/json"),
            (header::CACHE_CONTROL, "no-store"),
        ];
        let body = serde_json::to_vec(&self.report())
            .expect("a report is strings and structs, which JSON always takes");
        (status, fields, body).into_response()
    }
}

async fn live(State(health): State<Health>) -> Response {
    health.answer(true)
}

async fn ready(State(health): State<Health>) -> Response {
    health.answer(health.life.phase() == Phase::Serving)
}

async fn startup(State(health): State<Health>) -> Response {
    health.answer(health.life.phase() != Phase::Starting)
}

async fn health(State(health): State<Health>) -> Response {
    health.answer(health.report().status != Status::Unhealthy)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use gate::bucket::BucketId;
    use gate::hash::HashSecret;
    use gate::meter::Meter;
    use gate::table::{Place, Table};
    use gate::time::Now;
    use http_body_util::BodyExt as _;
    use policy::model::{Algorithm, Policy};
    use policy::rate::{Rate, Window};
    use tower::ServiceExt as _;

    use super::*;
    use crate::metrics::{MOST_LIMITS, Reload};

    struct Probe(Health);

    impl Probe {
        fn new() -> Self {
            let now = Now::from_unix_nanos(1_900_000_000_250_000_000);
            let (clock, _) = Clock::manual(now);
            let telemetry = Arc::new(Telemetry::new(MOST_LIMITS, now));
            let table = Table::anonymous(NonZeroU64::MIN).unwrap();
            let gate = Gate::new(table, &HashSecret::new(1, [7; 32]), &Policy::default());
            Self(Health {
                life: Life::default(),
                clock,
                telemetry,
                gate: Arc::new(gate.unwrap()),
            })
        }

        async fn get(&self, path: &str) -> (u16, serde_json::Value) {
            let request = http::Request::get(path)
                .body(axum::body::Body::empty())
                .unwrap();
            let answer = self.0.clone().routes().oneshot(request).await.unwrap();
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            (status, serde_json::from_slice(&body).unwrap())
        }

        async fn statuses(&self) -> [u16; 4] {
            let mut statuses = [0; 4];
            for (status, path) in statuses
                .iter_mut()
                .zip(["/live", "/startup", "/ready", "/health"])
            {
                *status = self.get(path).await.0;
            }
            statuses
        }
    }

    #[tokio::test]
    async fn each_phase_has_its_answers() {
        let probe = Probe::new();
        assert_eq!(probe.statuses().await, [200, 503, 503, 503]);
        probe.0.life.go_on_to(Phase::Serving);
        assert_eq!(probe.statuses().await, [200, 200, 200, 200]);
        probe.0.life.go_on_to(Phase::Leaving);
        assert_eq!(probe.statuses().await, [200, 200, 503, 503]);
        probe.0.life.go_on_to(Phase::Closing);
        assert_eq!(probe.statuses().await, [200, 200, 503, 503]);
    }

    #[tokio::test]
    async fn a_report_has_its_shape() {
        let probe = Probe::new();
        probe.0.life.go_on_to(Phase::Serving);
        let (_, report) = probe.get("/health").await;
        let expected = serde_json::json!({
            "status": "healthy",
            "timestamp": "2030-03-17T17:46:40.250Z",
            "service": "leasehold",
            "version": env!("CARGO_PKG_VERSION"),
            "checks": {
                "serving": { "status": "healthy", "detail": "serving" },
                "policy": { "status": "healthy", "detail": "in force" },
                "table": { "status": "healthy", "detail": "every key has a count of its own" },
            },
        });
        assert_eq!(report, expected);
    }

    #[tokio::test]
    async fn a_refused_policy_degrades_but_still_serves() {
        let probe = Probe::new();
        probe.0.life.go_on_to(Phase::Serving);
        probe
            .0
            .telemetry
            .policy(Reload::Refused, "", Now::default());
        assert_eq!(probe.statuses().await, [200, 200, 200, 200]);
        let (_, report) = probe.get("/health").await;
        assert_eq!(report["status"], "degraded");
        assert_eq!(report["checks"]["policy"]["status"], "degraded");
    }

    #[tokio::test]
    async fn a_full_table_degrades_but_still_serves() {
        let probe = Probe::new();
        probe.0.life.go_on_to(Phase::Serving);
        let rate = Rate {
            units: 1,
            window: Window::Forever,
        };
        let meter = Meter::new(rate, Algorithm::FixedWindow);
        let table = probe.0.gate.table();
        let now = probe.0.clock.now();
        let place = |n: u64| {
            let id = u128::from(n).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            let id = BucketId(id);
            table.take(id, 1, &meter, 1, now).place
        };
        assert!((1..10_000).any(|n| place(n) != Place::Own), "it fills up");
        assert_eq!(probe.statuses().await, [200, 200, 200, 200]);
        let (_, report) = probe.get("/health").await;
        assert_eq!(report["status"], "degraded");
        assert_eq!(report["checks"]["table"]["status"], "degraded");
        assert_eq!(report["checks"]["policy"]["status"], "healthy");
    }
}
