//! The operators' surface: metrics, and this node's place in its fleet. (Health is served beside it.)

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::Core;
use crate::fleet::Answer;
use crate::metrics::{CONTENT_TYPE, FleetScrape};

/// The routes.
pub fn routes(core: Core) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/fleet", get(fleet))
        .with_state(core)
}

async fn metrics(State(core): State<Core>) -> Response {
    let stats = core.gate.table().stats(core.clock.now());
    let text = match &core.fleet {
        None => core.telemetry.scrape(&stats),
        Some(place) => {
            let fleet = FleetScrape {
                figures: place.fleet.figures(),
                peers: place.transport.peers(),
                requests: core.telemetry.requests(),
            };
            core.telemetry.scrape_in_fleet(&stats, fleet)
        }
    };
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}

/// The most of each list in an answer of `/fleet`.
const MOST_LISTED: usize = 100;

async fn fleet(State(core): State<Core>) -> Response {
    let Some(place) = &core.fleet else {
        return (StatusCode::NOT_FOUND, "this node is of no fleet\n").into_response();
    };
    match place.fleet.status(MOST_LISTED).await {
        Some(status) => {
            let peers = place.transport.peers();
            axum::Json(Answer::new(status, &place.identity, &peers)).into_response()
        }
        None => (
            StatusCode::SERVICE_UNAVAILABLE,
            "this node has left its fleet\n",
        )
            .into_response(),
    }
}
