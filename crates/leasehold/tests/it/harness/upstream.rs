//! The API that is protected: answers each request with what it has seen of it.
//!
//! `x-answer-status` in a request makes it answer so; `x-fail-once: <name>` makes it hang up the first time that it
//! meets that name, for proxies that try again; `x-never-check` makes it leave a question about a request without an answer.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A running API.
pub struct Upstream {
    pub port: u16,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Seen {
    requests: AtomicUsize,
    failed: Mutex<HashSet<String>>,
}

impl Upstream {
    /// Starts it on a port of the system's choice.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Seen::default());
        let task = tokio::spawn(serve(listener, Arc::clone(&seen)));
        Self { port, seen, task }
    }

    /// How many requests have reached it.
    pub fn requests(&self) -> usize {
        // Relaxed: read after the answers that were counted have come in.
        self.seen.requests.load(Ordering::Relaxed)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, seen: Arc<Seen>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let seen = Arc::clone(&seen);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let seen = Arc::clone(&seen);
                async move { answer(request, &seen).await }
            });
            // A proxy may hang up whenever it likes.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// Hangs up, as a crashed API would.
#[derive(Debug)]
struct HangUp;

impl std::fmt::Display for HangUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("hanging up, as the request asked")
    }
}

impl std::error::Error for HangUp {}

impl From<Infallible> for HangUp {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

async fn answer(request: Request<Incoming>, seen: &Seen) -> Result<Response<Full<Bytes>>, HangUp> {
    seen.requests.fetch_add(1, Ordering::Relaxed);
    let (parts, body) = request.into_parts();
    let header = |name: &str| {
        let value = parts.headers.get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    if let Some(name) = header("x-fail-once")
        && seen.failed.lock().unwrap().insert(name)
    {
        return Err(HangUp);
    }
    if header("x-never-check").is_some() && parts.uri.path() == "/v1/check" {
        std::future::pending::<()>().await;
    }
    let body = body.collect().await.map_err(|_| HangUp)?.to_bytes();
    let headers: Vec<_> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
        .collect();
    let seen = json!({
        "method": parts.method.as_str(),
        "target": parts.uri.to_string(),
        "headers": headers,
        "body": String::from_utf8_lossy(&body),
    });
    let status = header("x-answer-status").map_or(200, |status| status.parse().unwrap());
    Ok(Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(Full::new(seen.to_string().into()))
        .unwrap())
}
