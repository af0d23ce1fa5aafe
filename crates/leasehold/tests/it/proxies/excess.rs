//! Requests with so many header fields, or such long ones, that some part of the way cannot hold them.
//!
//! Such a request may be refused, in whatever words; it must never pass an exhausted limit, be taken for Leasehold's
//! absence, or end the proxy.

use bytes::Bytes;
use http::{Method, StatusCode};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{Stack, assert_refusal, remaining};
use crate::harness::client::{Client, Reply};
use crate::harness::proxy::{Failing, Kind};

/// A request's target and header fields.
struct Excess {
    what: String,
    target: String,
    headers: Vec<(String, Vec<u8>)>,
}

impl Excess {
    fn fields(count: usize) -> Self {
        Self {
            what: format!("{count} fields"),
            target: "/limited".into(),
            headers: (0..count)
                .map(|n| (format!("x-{n}"), b"v".to_vec()))
                .collect(),
        }
    }

    fn query(bytes: usize) -> Self {
        Self {
            what: format!("a query of {bytes} bytes"),
            target: format!("/limited?{}", "q".repeat(bytes)),
            headers: Vec::new(),
        }
    }

    fn values(values: &[(&str, usize)]) -> Self {
        Self {
            what: format!("{values:?} bytes"),
            target: "/limited".into(),
            headers: values
                .iter()
                .map(|(name, bytes)| ((*name).into(), vec![b'9'; *bytes]))
                .collect(),
        }
    }

    fn all() -> Vec<Self> {
        let counts = (60..=110).chain([150, 190, 199, 200, 201, 300, 1000, 4000]);
        let mut all: Vec<_> = counts.map(Self::fields).collect();
        for kib in [4, 8, 12, 14, 15, 16, 20, 31, 40, 60, 64, 100, 900] {
            // Just below a round number too, where a request fits and what is made of it may not.
            for bytes in [kib * 1024 - 200, kib * 1000 + 200] {
                all.push(Self::query(bytes));
                all.push(Self::values(&[("x-long", bytes)]));
                all.push(Self::values(&[("x-api-key", bytes)]));
            }
        }
        all.push(Self::values(&[("x-forwarded-for", 7600), ("x-long", 7500)]));
        all.push(Self::values(&[("x-forwarded-for", 15_000)]));
        all
    }

    async fn send(&self, client: Client, port: u16) -> Option<Reply> {
        let headers: Vec<(&str, &[u8])> = self
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_slice()))
            .collect();
        // A proxy may hang up on what it finds too large.
        client
            .send(port, Method::GET, &self.target, &headers, Bytes::new())
            .await
            .ok()
    }
}

/// The status that a request with a control character in a field is answered with, if it is.
async fn with_control(byte: u8, port: u16) -> Option<u16> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let head = b"GET /limited HTTP/1.1\r\nHost: test\r\nConnection: close\r\nX-Odd: a";
    let request = [head, &[byte][..], b"b\r\n\r\n"].concat();
    stream.write_all(&request).await.unwrap();
    let mut answer = Vec::new();
    // A proxy may hang up on it.
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    answer.split(' ').nth(1)?.parse().ok()
}

/// A client that has spent its limit, and sends more than fits, or what no field may hold.
pub(super) async fn excess_does_not_evade(kind: Kind, failing: Failing) {
    let stack = Stack::start(kind, failing).await;
    let client = Client::at(13);
    for _ in 0..5 {
        stack.get(client, "/limited").await;
    }
    assert_refusal(kind, &stack.get(client, "/limited").await);
    let before = stack.api.requests();
    let mut wrong = Vec::new();
    for excess in Excess::all() {
        if let Some(reply) = excess.send(client, stack.proxy.port).await
            && !reply.status.is_client_error()
        {
            wrong.push((excess.what, reply.status));
        }
    }
    for byte in [0x01, 0x0b, 0x7f] {
        if let Some(status) = with_control(byte, stack.proxy.port).await
            && !(400..500).contains(&status)
        {
            let status = StatusCode::from_u16(status).unwrap();
            wrong.push((format!("the control character {byte}"), status));
        }
    }
    assert_eq!(
        wrong,
        [],
        "{kind:?} {failing:?}: neither passed nor an absence"
    );
    assert_eq!(stack.api.requests(), before, "none reaches the API");
    // What is large and fits passes: the proxy is there, and still asks.
    let fitting = [
        Excess::fields(30),
        Excess::fields(60),
        Excess::query(7000),
        Excess::values(&[("cookie", 7900), ("x-long", 3900)]),
    ];
    for (excess, left) in fitting.into_iter().zip((1..5).rev()) {
        let reply = excess.send(Client::at(14), stack.proxy.port).await;
        let reply = reply.unwrap_or_else(|| panic!("{kind:?}: no answer to {}", excess.what));
        assert_eq!(reply.status, StatusCode::OK, "{}: {reply:?}", excess.what);
        assert_eq!(remaining(&reply), left, "{}", excess.what);
    }
}
