//! What must hold behind every proxy, in both variants of its configuration.
//!
//! The limits have windows so long that none ends during a test.

mod excess;
mod impostor;

use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::harness::client::{Client, Reply};
use crate::harness::eventually;
use crate::harness::leasehold::Leasehold;
use crate::harness::proxy::{Failing, Kind, Neighbours, Patience, Proxy};
use crate::harness::upstream::Upstream;
use crate::policies;
use excess::excess_does_not_evade;

/// A node, an API and a proxy between them and the clients.
struct Stack {
    node: Leasehold,
    api: Upstream,
    proxy: Proxy,
}

impl Stack {
    async fn start(kind: Kind, failing: Failing) -> Self {
        Self::start_with(kind, failing, Patience::Long, "", &[]).await
    }

    async fn start_with(
        kind: Kind,
        failing: Failing,
        patience: Patience,
        settings: &str,
        edits: &[(&str, &str)],
    ) -> Self {
        let api = Upstream::start().await;
        let node = Leasehold::start_with(&policies::for_proxies(), settings).await;
        let to = Neighbours {
            check: node.http,
            rls: node.grpc,
            api: api.port,
        };
        let proxy = kind.start_edited(failing, patience, to, edits).await;
        let stack = Self { node, api, proxy };
        stack.wait_until_asked().await;
        stack
    }

    /// Waits until the proxy asks Leasehold, with requests under a limit that no test looks at.
    async fn wait_until_asked(&self) {
        eventually("the proxy to ask Leasehold", async || {
            let reply = Client::at(200).get(self.proxy.port, "/probe").await;
            let asked = reply.headers.contains_key("x-ratelimit-limit");
            asked.then_some(())
        })
        .await;
    }

    async fn get(&self, client: Client, target: &str) -> Reply {
        client.get(self.proxy.port, target).await
    }
}

/// Remaining units as the client is told, of the limit with the least left.
fn remaining(reply: &Reply) -> u64 {
    let header = reply.header("x-ratelimit-remaining");
    header
        .unwrap_or_else(|| panic!("no x-ratelimit-remaining in {reply:?}"))
        .parse()
        .unwrap()
}

/// A refusal as a client must see it, whichever proxy it stands before.
fn assert_refusal(kind: Kind, reply: &Reply) {
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS, "{reply:?}");
    let wait = reply.header("retry-after").expect("Retry-After");
    assert!(wait.parse::<u64>().unwrap() >= 1, "{reply:?}");
    assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
    let media = reply.header("content-type").unwrap();
    assert_eq!(media, "application/problem+json", "{reply:?}");
    let problem = reply.json();
    assert_eq!(
        problem["type"],
        "https://iana.org/assignments/http-problem-types#quota-exceeded"
    );
    assert_eq!(problem["status"], 429, "{problem}");
    assert!(
        problem["request_id"]
            .as_str()
            .is_some_and(|id| !id.is_empty()),
        "{problem}"
    );
    // Envoy's own body names none.
    if kind != Kind::Envoy {
        let window = problem["window"].as_str().expect("the denying window");
        assert!(!window.is_empty(), "{problem}");
        let detail = problem["detail"].as_str().expect("what happened");
        assert!(detail.contains(window), "{problem}");
    }
    assert_eq!(remaining(reply), 0);
    if kind != Kind::Envoy {
        let policy = reply.header("ratelimit-policy").expect("RateLimit-Policy");
        assert!(policy.contains("q=5"), "{policy}");
        assert!(reply.header("ratelimit").unwrap().contains("r=0"));
    }
}

/// A refusal for want of Leasehold.
fn assert_absence(reply: &Reply) {
    assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{reply:?}");
    assert_eq!(reply.header("retry-after"), Some("1"), "{reply:?}");
    assert_eq!(reply.header("cache-control"), Some("no-store"), "{reply:?}");
    let media = reply.header("content-type").unwrap();
    assert_eq!(media, "application/problem+json", "{reply:?}");
    assert_eq!(reply.json()["status"], 503);
}

fn shipped_files_are_valid(kind: Kind) {
    for failing in [Failing::Open, Failing::Closed] {
        let output = kind.validate(failing);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kind:?} {failing:?}: {said}");
    }
}

/// P1 with nginx: the client gets the true 429 with `Retry-After`, from the shipped configuration. So with all others.
async fn clients_are_limited(kind: Kind, failing: Failing) {
    let stack = Stack::start(kind, failing).await;
    let before = stack.api.requests();
    let (mine, other) = (Client::at(2), Client::at(3));
    for left in (0..5).rev() {
        let reply = stack.get(mine, "/limited").await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        assert_eq!(reply.json()["target"], "/limited");
        assert_eq!(remaining(&reply), left);
        let limit = reply.header("x-ratelimit-limit").unwrap();
        assert!(limit == "5" || limit.starts_with("5, "), "{limit}");
        assert_eq!(reply.header("retry-after"), None);
    }
    for _ in 0..3 {
        assert_refusal(kind, &stack.get(mine, "/limited").await);
    }
    let reply = stack.get(other, "/limited").await;
    assert_eq!((reply.status, remaining(&reply)), (StatusCode::OK, 4));
    let reply = stack.get(mine, "/elsewhere").await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(
        stack.api.requests() - before,
        7,
        "refused requests stay out"
    );
}

/// C1 through a proxy: 60 at once under a limit of 20.
async fn counts_are_exact(kind: Kind, failing: Failing) {
    let stack = Stack::start(kind, failing).await;
    let port = stack.proxy.port;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..60 {
        tasks.spawn(async move { Client::at(4).get(port, "/twenty").await.status });
    }
    let statuses = tasks.join_all().await;
    let count = |status| statuses.iter().filter(|s| **s == status).count();
    let admitted = count(StatusCode::OK);
    assert_eq!((admitted, count(StatusCode::TOO_MANY_REQUESTS)), (20, 40));
}

async fn absence_is_survived(kind: Kind, failing: Failing) {
    let mut stack = Stack::start(kind, failing).await;
    for _ in 0..5 {
        stack.get(Client::at(5), "/limited").await;
    }
    assert_refusal(kind, &stack.get(Client::at(5), "/limited").await);

    stack.node.kill();
    let before = stack.api.requests();
    for _ in 0..10 {
        let reply = stack.get(Client::at(5), "/limited").await;
        match failing {
            Failing::Open => assert_eq!(reply.status, StatusCode::OK, "{reply:?}"),
            Failing::Closed => assert_absence(&reply),
        }
    }
    let reached = stack.api.requests() - before;
    assert_eq!(reached, if failing == Failing::Open { 10 } else { 0 });

    stack.node.up().await;
    stack.wait_until_asked().await;
    let mut admitted = 0;
    let refusal = loop {
        let reply = stack.get(Client::at(5), "/limited").await;
        match reply.status {
            StatusCode::OK => admitted += 1,
            _ => break reply,
        }
        assert!(admitted <= 5, "limits are back");
    };
    assert_refusal(kind, &refusal);
    assert_eq!(admitted, 5, "its table is in memory, so its counts are new");
}

/// A proxy must not wait long for a node that is stuck.
async fn a_stuck_node_is_not_waited_for(kind: Kind, failing: Failing) {
    let mut stack = Stack::start_with(kind, failing, Patience::Shipped, "", &[]).await;
    stack.node.process().freeze().await;
    let asked = tokio::time::timeout(Duration::from_secs(5), stack.get(Client::at(6), "/limited"));
    let reply = asked
        .await
        .expect("an answer long before the client gives up");
    stack.node.process().signal(rustix::process::Signal::CONT);
    match failing {
        Failing::Open => assert_eq!(reply.status, StatusCode::OK, "{reply:?}"),
        Failing::Closed => assert_absence(&reply),
    }
}

/// P2: spellings of one path, as the API behind this proxy would take them.
async fn aliases_do_not_evade(kind: Kind, failing: Failing) {
    let stack = Stack::start(kind, failing).await;
    let aliases = [
        "/limited",
        "/limited?x=1",
        "//limited",
        "/./limited",
        "/%6cimited",
        "/other/../limited",
        "/other/%2e%2e/limited",
        "/%2Flimited",
        "http://api.example/limited",
        "http://api.example//limited?x=1",
    ];
    let mut admitted = 0;
    for target in aliases {
        let reply = stack.get(Client::at(7), target).await;
        // A proxy may refuse what it finds suspicious: that evades nothing.
        match reply.status {
            StatusCode::OK => admitted += 1,
            StatusCode::TOO_MANY_REQUESTS | StatusCode::BAD_REQUEST => {}
            status => panic!("{target}: {status}"),
        }
    }
    assert_eq!(admitted, 5);
    assert_refusal(kind, &stack.get(Client::at(7), "/limited").await);
}

/// A target in absolute form is decided and answered as its path is.
async fn absolute_targets_are_served(kind: Kind, failing: Failing) {
    let stack = Stack::start(kind, failing).await;
    for (target, left) in [
        ("/limited", 4),
        ("http://api.example/limited", 3),
        ("http://api.example/limited?x=1", 2),
        ("/limited", 1),
        ("http://api.example/limited", 0),
    ] {
        let reply = stack.get(Client::at(13), target).await;
        assert_eq!(reply.status, StatusCode::OK, "{target}: {reply:?}");
        assert_eq!(remaining(&reply), left, "{target}");
        let seen = reply.json()["target"].as_str().unwrap().to_owned();
        let path = target.trim_start_matches("http://api.example");
        assert!(seen.ends_with(path), "{target} came as {seen}");
    }
    let reply = stack
        .get(Client::at(13), "http://api.example/limited")
        .await;
    assert_refusal(kind, &reply);
}

/// K4 to K6: a client that lies about who it is and what it asks for.
async fn forged_headers_do_not_evade(kind: Kind, failing: Failing) {
    let stack = Stack::start(kind, failing).await;
    let lies: [&[(&str, &[u8])]; 8] = [
        &[("x-forwarded-for", b"203.0.113.1")],
        &[("x-forwarded-for", b"203.0.113.2:443, 203.0.113.3")],
        &[
            ("x-forwarded-for", b"127.0.0.1"),
            ("x-forwarded-for", b"203.0.113.4"),
        ],
        &[("x-forwarded-for", b", garbage,, \xff")],
        &[
            ("forwarded", b"for=203.0.113.5"),
            ("x-real-ip", b"203.0.113.6"),
        ],
        &[
            ("x-forwarded-uri", b"/elsewhere"),
            ("x-original-uri", b"/elsewhere"),
        ],
        &[
            ("x-forwarded-method", b"OPTIONS"),
            ("x-original-method", b"OPTIONS"),
        ],
        &[("x-forwarded-host", b"elsewhere.example")],
    ];
    let mut admitted = 0;
    for lie in lies {
        let reply = Client::at(8)
            .get_with(stack.proxy.port, "/limited", lie)
            .await;
        match reply.status {
            StatusCode::OK => admitted += 1,
            StatusCode::TOO_MANY_REQUESTS => assert_refusal(kind, &reply),
            status => assert_eq!(status, StatusCode::BAD_REQUEST, "{lie:?}"),
        }
    }
    assert_eq!(admitted, 5, "one bucket, whatever was said");
    // The question's own query is not the client's to choose.
    let reply = stack.get(Client::at(8), "/limited?mode=403").await;
    assert_refusal(kind, &reply);
}

/// C19: the API hangs up once and the proxy tries again.
async fn retries_are_charged_once(kind: Kind, failing: Failing) {
    let edits: &[(&str, &str)] = match kind {
        Kind::Envoy => &[(
            "route: { cluster: api }",
            "route: { cluster: api, retry_policy: { retry_on: reset, num_retries: 2 } }",
        )],
        Kind::Nginx => &[(
            "server 127.0.0.1:9000;",
            "server 127.0.0.1:9000;\n        server 127.0.0.1:9000;",
        )],
        Kind::Caddy => &[(
            "\treverse_proxy 127.0.0.1:9000\n\n",
            "\treverse_proxy 127.0.0.1:9000 127.0.0.1:9000 {\n\t\tlb_retries 2\n\t\tlb_try_duration 2s\n\t}\n\n",
        )],
        Kind::HaProxy => &[(
            "option forwardfor",
            "option forwardfor\n    retries 2\n    retry-on all-retryable-errors",
        )],
    };
    let stack = Stack::start_with(kind, failing, Patience::Long, "", edits).await;
    let before = stack.api.requests();
    let reply = Client::at(9)
        .get_with(stack.proxy.port, "/limited", &[("x-fail-once", b"here")])
        .await;
    assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    assert_eq!(stack.api.requests() - before, 2, "it was tried again");
    assert_eq!(remaining(&reply), 4);
    assert_eq!(remaining(&stack.get(Client::at(9), "/limited").await), 3);
}

/// P3: a browser's own question spends nothing, and its script can read a refusal.
async fn browsers_are_served(kind: Kind, failing: Failing) {
    let settings = "answer.allow_origins = [\"https://app.example\"]";
    let stack = Stack::start_with(kind, failing, Patience::Long, settings, &[]).await;
    let origin: (&str, &[u8]) = ("origin", b"https://app.example");
    for _ in 0..10 {
        let asks = [origin, ("access-control-request-method", b"GET" as &[u8])];
        let reply = Client::at(12)
            .send(
                stack.proxy.port,
                Method::OPTIONS,
                "/limited",
                &asks,
                Bytes::new(),
            )
            .await
            .unwrap();
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    }
    let get = async || {
        Client::at(12)
            .get_with(stack.proxy.port, "/limited", &[origin])
            .await
    };
    for left in (0..5).rev() {
        let reply = get().await;
        assert_eq!(remaining(&reply), left);
        let exposed = reply.header("access-control-expose-headers").unwrap();
        assert!(exposed.contains("ratelimit"), "{exposed}");
        assert_eq!(
            reply.header("access-control-allow-origin"),
            None,
            "the API's to say"
        );
    }
    let reply = get().await;
    assert_refusal(kind, &reply);
    assert_eq!(
        reply.header("access-control-allow-origin"),
        Some("https://app.example")
    );
    let exposed = reply.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("retry-after"), "{exposed}");
    assert!(reply.header("vary").unwrap().eq_ignore_ascii_case("origin"));
}

/// What the API says, and what it is sent, is untouched.
async fn the_api_is_heard(kind: Kind, failing: Failing) {
    let stack = Stack::start(kind, failing).await;
    for status in [201, 400, 401, 403, 404, 429, 500, 502, 503] {
        let text = status.to_string();
        let reply = Client::at(10)
            .get_with(
                stack.proxy.port,
                "/elsewhere",
                &[("x-answer-status", text.as_bytes())],
            )
            .await;
        assert_eq!(reply.status.as_u16(), status);
        assert_eq!(reply.json()["target"], "/elsewhere", "the API's own words");
    }
    let body = Bytes::from("x".repeat(100_000));
    let reply = Client::at(10)
        .send(
            stack.proxy.port,
            Method::POST,
            "/elsewhere",
            &[],
            body.clone(),
        )
        .await
        .unwrap();
    let seen = reply.json();
    assert_eq!(seen["method"], "POST");
    assert_eq!(seen["body"].as_str().map(str::len), Some(body.len()));
}

/// K8, K10, K11: any key is counted or refused, and nothing breaks.
async fn odd_keys_are_counted(kind: Kind, failing: Failing) {
    let stack = Stack::start(kind, failing).await;
    let long = vec![b'k'; 4000];
    let odd: [&[u8]; 6] = [
        b"plain",
        b"\xff\xfe",
        "ключ".as_bytes(),
        b"a\tb",
        &long[..300],
        &long,
    ];
    for key in odd {
        let mut admitted = 0;
        let mut ended = false;
        for _ in 0..4 {
            let reply = Client::at(11)
                .get_with(stack.proxy.port, "/keyed", &[("x-api-key", key)])
                .await;
            match reply.status {
                StatusCode::OK => admitted += 1,
                status if status.is_client_error() => ended = true,
                status => panic!("{key:?}: {status}"),
            }
        }
        assert!(admitted <= 3 && ended, "{key:?}: {admitted} of 3");
    }
    // Twice and different is no key to most, and the first to Envoy: one bucket either way.
    let mut admitted = 0;
    for n in 0..5_u8 {
        let second = [b'0' + n];
        let reply = Client::at(11)
            .get_with(
                stack.proxy.port,
                "/keyed",
                &[("x-api-key", b"one"), ("x-api-key", &second)],
            )
            .await;
        admitted += usize::from(reply.status == StatusCode::OK);
    }
    assert_eq!(admitted, 3);
}

macro_rules! behind {
    ($name:ident, $kind:expr) => {
        mod $name {
            use super::*;

            #[test]
            fn shipped_files_are_valid() {
                super::shipped_files_are_valid($kind);
            }

            behind!(@each $kind,
                clients_are_limited: Failing::Open, Failing::Closed;
                counts_are_exact: Failing::Closed;
                absence_is_survived: Failing::Open, Failing::Closed;
                a_stuck_node_is_not_waited_for: Failing::Open, Failing::Closed;
                aliases_do_not_evade: Failing::Open;
                absolute_targets_are_served: Failing::Closed;
                forged_headers_do_not_evade: Failing::Closed;
                retries_are_charged_once: Failing::Closed;
                the_api_is_heard: Failing::Open, Failing::Closed;
                odd_keys_are_counted: Failing::Open, Failing::Closed;
                excess_does_not_evade: Failing::Open, Failing::Closed;
                browsers_are_served: Failing::Open, Failing::Closed;
            );
        }
    };
    (@each $kind:expr, $($test:ident: $($failing:expr),+;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                $(super::$test($kind, $failing).await;)+
            }
        )+
    };
}

behind!(envoy, Kind::Envoy);
behind!(nginx, Kind::Nginx);
behind!(caddy, Kind::Caddy);
behind!(haproxy, Kind::HaProxy);
