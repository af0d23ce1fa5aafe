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
use leasehold_node::render::Options;
use serde_json::{Value, json};

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
