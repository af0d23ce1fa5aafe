//! The operators' surface: metrics. (Health is served beside it.)

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::Core;
use crate::metrics::CONTENT_TYPE;

/// The routes.
pub fn routes(core: Core) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .with_state(core)
}

async fn metrics(State(core): State<Core>) -> Response {
    let stats = core.gate.table().stats(core.clock.now());
    let text = core.telemetry.scrape(&stats);
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}
