//! One connection: HTTP/1 and HTTP/2 with the configured bounds, ended by GOAWAY or `Connection: close`.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tower::ServiceExt as _;

use crate::config::{Grpc, Http};
use crate::drain::{Life, Phase};
use crate::metrics::{ErrorKind, Telemetry};

/// HTTP/1 and HTTP/2 by prior knowledge, with the HTTP surface's bounds.
pub fn http(settings: &Http) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_timeout)
        .max_buf_size(settings.max_header_bytes)
        .max_headers(settings.max_headers);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(settings.max_header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(settings.header_timeout)
        .max_concurrent_streams(MOST_STREAMS);
    builder
}

/// The most requests at once on one HTTP/2 connection of the HTTP surface.
const MOST_STREAMS: u32 = 1024;

/// HTTP/2 alone, with the gRPC surface's bounds.
///
/// Pings from the peer are always answered and never counted against it.
pub fn grpc(settings: &Grpc) -> http2::Builder<TokioExecutor> {
    let interval = settings.keepalive_interval;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(settings.max_streams)
        .max_pending_accept_reset_streams(settings.max_reset_streams)
        .keep_alive_interval((!interval.is_zero()).then_some(interval))
        .keep_alive_timeout(settings.keepalive_timeout);
    builder
}

/// What every HTTP/2 connection begins with (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Waits for a connection's first bytes, as many as tell its protocol, without taking them. False if they do not come
/// in time, or the node closes: hyper bounds the time only of what comes after them.
async fn begins(stream: &TcpStream, patience: Duration, life: &Life) -> bool {
    let first = async {
        let mut head = [0; PREFACE.len()];
        loop {
            match stream.peek(&mut head).await {
                Ok(0) | Err(_) => return false,
                Ok(read) if read == PREFACE.len() || head[..read] != PREFACE[..read] => {
                    return true;
                }
                // A part of the preface stays readable, so waiting for readability would not wait.
                Ok(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    tokio::select! {
        first = tokio::time::timeout(patience, first) => first.unwrap_or(false),
        () = life.reached(Phase::Closing) => false,
    }
}

/// Serves a router on a connection, telling it the peer's address as [`ConnectInfo`]. What is not HTTP is answered by the
/// parser and never comes to the router, so it is counted here.
pub async fn serve_http(
    builder: auto::Builder<TokioExecutor>,
    patience: Duration,
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    telemetry: &Telemetry,
    life: Life,
) {
    if !begins(&stream, patience, &life).await {
        return;
    }
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.clone().oneshot(request)
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = life.reached(Phase::Closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        if is_bad_request(error.as_ref()) {
            telemetry.error(ErrorKind::BadRequest);
        }
        tracing::debug!(event = "connection_ended", surface = "http", error_message = %error);
    }
}

/// Whether a connection ended because what came was not HTTP, or more of it than is taken.
fn is_bad_request(error: &(dyn std::error::Error + 'static)) -> bool {
    std::iter::successors(Some(error), |error| error.source())
        .filter_map(|error| error.downcast_ref::<hyper::Error>())
        .any(|error| error.is_parse() || error.is_parse_too_large())
}

/// Serves gRPC on a connection.
pub async fn serve_grpc<S>(
    builder: http2::Builder<TokioExecutor>,
    patience: Duration,
    stream: TcpStream,
    service: S,
    life: Life,
) where
    S: Service<Request<Incoming>, Response = Response<tonic::body::Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    if !begins(&stream, patience, &life).await {
        return;
    }
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = life.reached(Phase::Closing) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(event = "connection_ended", surface = "grpc", error_message = %error);
    }
}
