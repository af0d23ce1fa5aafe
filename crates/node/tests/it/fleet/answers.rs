//! What clients of a fleet are answered, over HTTP and by Envoy's service.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use lease::config::Config;
use leasehold_node::check::Check;
use leasehold_node::config;
use leasehold_node::log::{AccessLog, Redactor};
use leasehold_node::metrics::{MOST_LIMITS, Telemetry};
use leasehold_node::peers::Transport;
use leasehold_node::render::Options;
use leasehold_node::rls::{Fields, Rls};
use serde_json::{Value, json};
use wire::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use wire::rls::rate_limit_descriptor::Entry;
use wire::rls::{Code, Overrides, RateLimitRequest};

use super::{Node, in_contact, start_under, stop};
use crate::fixture;

/// The HTTP surface of a node.
fn check(node: &Node) -> Check {
    let telemetry = Arc::new(Telemetry::new(MOST_LIMITS, node.clock.now()));
    telemetry.learn(node.gate.snapshot().limits());
    let log = config::Log {
        access: config::AccessLog::Off,
        ..config::Log::default()
    };
    Check {
        gate: Arc::clone(&node.gate),
        fleet: Some(node.fleet.clone()),
        clock: node.clock.clone(),
        telemetry: Arc::clone(&telemetry),
        options: Options::default(),
        access: AccessLog::new(&log, Redactor::new(&[7; 32]), telemetry),
        most_body_bytes: 1000,
        body_timeout: Duration::from_secs(1),
    }
}

/// Envoy's service of a node, with the same gate and fleet.
fn service(node: &Node) -> Rls {
    let Check {
        gate,
        fleet,
        clock,
        telemetry,
        options,
        access,
        ..
    } = check(node);
    Rls {
        gate,
        fleet,
        clock,
        telemetry,
        options,
        access,
        fields: Fields::All,
        overrides: Overrides::Ignore,
    }
}

/// Asks as a program does.
async fn ask(check: &Check, path: &str) -> Response<Bytes> {
    let request = Request::post("/v1/check")
        .header("content-type", "application/json")
        .body(())
        .unwrap();
    let (head, ()) = request.into_parts();
    let question = json!({"method": "GET", "path": path}).to_string();
    let answer = check.answer_in_fleet(&head, None, Ok(question.as_bytes()));
    fixture::soon("an answer", answer).await
}

fn body(response: &Response<Bytes>) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

/// Whether the rule `trial` had room for a request.
fn room_on_trial(answer: &Value) -> bool {
    let limits = answer["limits"].as_array().unwrap();
    let trial = limits.iter().find(|limit| limit["rule"] == "trial");
    trial.unwrap()["has_room"] == true
}

/// A limit on trial refuses nobody, so no request waits for its credit; but it gets credit, or its trial says nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shadow_limit_gets_credit_and_nobody_waits_for_it() {
    const POLICY: &str = "version: 1
rules:
  - name: trial
    mode: shadow
    by: everyone
    limits: [{rate: 10 per 50m, disclose: true}]
  - name: real
    by: everyone
    limits: [{rate: 1000 per 50m}]
";
    let folder = tempfile::tempdir().unwrap();
    let nodes = start_under(folder.path(), POLICY, Config::default());
    in_contact(&nodes).await;
    let surface = check(&nodes[0]);
    // Fewer requests than the other limit admits.
    let counted = async {
        let mut had_room = 0;
        for _ in 0..900 {
            let answer = body(&ask(&surface, "/").await);
            assert_eq!(answer["allowed"], true, "{answer}");
            had_room += u64::from(room_on_trial(&answer));
            if had_room == 10 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        had_room
    };
    let counted = fixture::soon("the shadow limit to count to its end", counted).await;
    assert_eq!(counted, 10);
    for _ in 0..20 {
        let answer = body(&ask(&surface, "/").await);
        assert!(!room_on_trial(&answer), "{answer}");
    }
    stop(nodes);
}

/// A rule for each `on_degraded`, by the descriptor's user; windows so long that none ends.
const ON_DEGRADED: &str = "version: 1
rules:
  - {name: open, when: {domain: open}, by: {descriptor: user},
     limits: [{rate: 30 per 50m, on_degraded: fail_open}]}
  - {name: closed, when: {domain: closed}, by: {descriptor: user},
     limits: [{rate: 30 per 50m, on_degraded: fail_closed}]}
  - {name: fair, when: {domain: fair}, by: {descriptor: user},
     limits: [{rate: 30 per 2s, on_degraded: fair_share, disclose: true}]}
";

/// Asks for a user in a domain over HTTP.
async fn ask_for(check: &Check, domain: &str, user: &str) -> Response<Bytes> {
    let request = Request::post("/v1/check")
        .header("content-type", "application/json")
        .body(())
        .unwrap();
    let (head, ()) = request.into_parts();
    let question =
        json!({"domain": domain, "entries": [{"key": "user", "value": user}]}).to_string();
    let answer = check.answer_in_fleet(&head, None, Ok(question.as_bytes()));
    fixture::soon("an answer", answer).await
}

/// The same over Envoy's service: whether it is admitted, and what the field says.
async fn ask_envoy(service: &Rls, domain: &str, user: &str) -> (bool, Option<String>) {
    let message = RateLimitRequest {
        domain: domain.to_owned(),
        descriptors: vec![RateLimitDescriptor {
            entries: vec![Entry {
                key: "user".to_owned(),
                value: user.as_bytes().to_vec(),
            }],
            ..RateLimitDescriptor::default()
        }],
        hits_addend: 0,
    };
    let answer = service.decide_in_fleet(&message);
    let response = fixture::soon("an answer", answer).await.unwrap();
    let field = response
        .response_headers_to_add
        .iter()
        .find(|field| field.key == "x-ratelimit-degraded")
        .map(|field| field.value.clone());
    (response.overall_code() == Code::Ok, field)
}

fn says_degraded(response: &Response<Bytes>) -> bool {
    response
        .headers()
        .get("x-ratelimit-degraded")
        .is_some_and(|value| value == "true")
}

const USERS: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

/// Two of three nodes are gone for good. What the third owned itself is as before; of the rest each limit says what it
/// does, and answers say that it is so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_owner_each_limit_does_as_it_says_and_answers_tell() {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        degraded_after: Duration::from_millis(300),
        backstop_multiple: 2,
        ..Config::default()
    };
    let mut nodes = start_under(folder.path(), ON_DEGRADED, config);
    in_contact(&nodes).await;
    let left = nodes.remove(0);
    let (surface, envoy) = (check(&left), service(&left));
    // Nothing is degraded yet.
    for user in USERS {
        let response = ask_for(&surface, "closed", user).await;
        assert_eq!(response.status(), 200, "{response:?}");
        assert!(!says_degraded(&response));
    }
    // By a crash, not by leaving.
    for node in &nodes {
        Transport::close(&*node.mesh);
    }
    fixture::until("both others are given up", || async {
        left.fleet.figures().stats.degraded_owners == 2
    })
    .await;

    let mut closed = 0;
    for user in USERS {
        // What it holds is spent first.
        let mut last = None;
        for _ in 0..31 {
            let response = ask_for(&surface, "closed", user).await;
            let refused = response.status() != 200;
            last = Some(response);
            if refused {
                break;
            }
        }
        let last = last.unwrap();
        if says_degraded(&last) {
            closed += 1;
            assert_eq!(last.status(), 503, "{last:?}");
            assert_eq!(last.headers()["retry-after"], "1");
            let told = ask_envoy(&envoy, "closed", user).await;
            assert_eq!(told, (false, Some("true".to_owned())));
        } else {
            assert_eq!(last.status(), 429, "{last:?}");
            assert_eq!(ask_envoy(&envoy, "closed", user).await, (false, None));
        }
    }
    assert!((1..12).contains(&closed), "{closed} of 12 owned elsewhere");

    let mut open = 0;
    for user in USERS {
        let first = ask_for(&surface, "open", user).await;
        if !says_degraded(&first) {
            continue;
        }
        open += 1;
        assert_eq!(first.status(), 200);
        let (admitted, field) = ask_envoy(&envoy, "open", user).await;
        assert!(admitted && field.as_deref() == Some("true"));
        let mut admitted = 2;
        for _ in 0..70 {
            admitted += u64::from(ask_for(&surface, "open", user).await.status() == 200);
        }
        assert_eq!(admitted, 60, "twice the limit, the backstop");
    }
    assert!(open > 0, "no key is owned elsewhere");

    // A window of which the node knows from its start that nobody can have its share but itself.
    let mut users = USERS.iter().cycle();
    let alone = async {
        loop {
            tokio::time::sleep(Duration::from_millis(1)).await;
            let user = users.next().unwrap();
            let first = ask_for(&surface, "fair", user).await;
            let limits = &body(&first)["limits"];
            let left_ms = limits[0]["reset_after_ms"].as_u64();
            let whole = left_ms.is_none_or(|left_ms| left_ms > 1500);
            if says_degraded(&first) && first.status() == 200 && whole {
                break user;
            }
        }
    };
    let user = fixture::soon("a window of a lost owner", alone).await;
    let mut admitted = 1;
    for _ in 0..60 {
        let response = ask_for(&surface, "fair", user).await;
        admitted += u64::from(response.status() == 200);
        assert!(says_degraded(&response));
        if response.status() != 200 {
            assert_eq!(response.status(), 429);
            break;
        }
    }
    assert_eq!(admitted, 10, "a third of the limit");
    for node in nodes {
        node.running.stop();
    }
    stop(vec![left]);
}
