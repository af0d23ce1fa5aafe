//! What a real fleet tells of itself.

use http::StatusCode;

use super::{Over, Three, UNITS};
use crate::harness::client::Client;
use crate::harness::eventually;

/// Every figure that docs/operating.md tells operators to watch is there, and says what has happened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_that_was_asked_says_so_in_its_metrics() {
    let three = Three::start(Over::Mesh).await;
    let admitted = three.admitted(&[0, 1, 2], UNITS, "/shared").await;
    assert!(admitted > 0);
    let sum = async |name: &str, labels: &[&str]| {
        let mut sum = 0.0;
        for node in &three.nodes {
            sum += node.metric(name, labels).await;
        }
        sum
    };
    // Figures are put up four times a second.
    eventually("what was issued to be told", async || {
        (sum("throttle_fleet_issued_units_total", &[]).await > 0.0).then_some(())
    })
    .await;
    for (name, labels) in [
        ("reconciliation_freshness_p99", &[][..]),
        ("reports_received_per_node_per_round", &[]),
        ("throttle_fleet_fast_path_share", &[]),
        // What becomes of questions depends on how busy the machine is; not that they are asked.
        ("throttle_fleet_fast_path_total", &[]),
        ("throttle_fleet_asked_total", &[]),
        ("throttle_fleet_credit_outstanding_units", &[]),
        ("throttle_fleet_clock_skew_seconds", &[]),
        ("throttle_fleet_envelopes_sent_total", &[]),
        ("throttle_fleet_envelopes_received_total", &[]),
        ("throttle_fleet_reports_received_total", &[]),
        ("throttle_fleet_peer_frames_total", &["direction=\"out\""]),
        ("throttle_fleet_peer_bytes_total", &["direction=\"in\""]),
    ] {
        let told = sum(name, labels).await;
        assert!(told > 0.0 && told.is_finite(), "{name} {labels:?}: {told}");
    }
    for node in &three.nodes {
        let freshness = node.metric("reconciliation_freshness_p99", &[]).await;
        assert!(freshness < 10.0, "{freshness} s");
        let share = node.metric("throttle_fleet_fast_path_share", &[]).await;
        assert!((0.0..=1.0).contains(&share), "{share}");
    }
    // These are there, and all is well.
    let text = Client::at_proxy()
        .get(three.nodes[0].admin, "/metrics")
        .await;
    assert_eq!(text.status, StatusCode::OK);
    let text = String::from_utf8(text.body.to_vec()).unwrap();
    for name in [
        "enforcement_degraded 0",
        "throttle_fleet_holdback_units ",
        "throttle_fleet_self_grants_total 0",
        "throttle_fleet_self_granted_units_total 0",
        "throttle_fleet_fast_path_total{outcome=\"credit\"} ",
        "throttle_fleet_fast_path_total{outcome=\"exhausted\"} ",
        "throttle_fleet_fast_path_total{outcome=\"missed\"} ",
        "throttle_fleet_invariant_broken_total 0",
        "throttle_fleet_peer_dropped_frames_total{",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(name)),
            "no {name} in {text}"
        );
    }
}
