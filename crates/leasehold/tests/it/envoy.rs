//! What only Envoy does: costs, gRPC callers, and turning away from a node that goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Method, StatusCode};

use crate::harness::client::Client;
use crate::harness::eventually;
use crate::harness::leasehold::Leasehold;
use crate::harness::proxy::{Failing, Kind, Neighbours, Patience};
use crate::harness::upstream::Upstream;
use crate::policies::per_client;

/// A cost that the route states, and one that the request does.
#[tokio::test(flavor = "multi_thread")]
async fn requests_may_cost_more_than_one() {
    for (addend, costs) in [
        ("{ number: 3 }", [("x-ignored", "1"), ("x-ignored", "1")]),
        (
            "{ format: \"%REQ(x-cost)%\" }",
            [("x-cost", "3"), ("x-cost", "3")],
        ),
    ] {
        let api = Upstream::start().await;
        let node = Leasehold::start(&per_client(8)).await;
        let to = Neighbours {
            check: node.http,
            rls: node.grpc,
            api: api.port,
        };
        // Envoy heeds costs only of limits that are set for the filter by name.
        let edit = format!(
            "                      typed_per_filter_config:
                       envoy.filters.http.ratelimit:
                        \"@type\": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute
                        rate_limits:
                        - hits_addend: {addend}
                          actions:"
        );
        let shipped = "                      rate_limits:\n                        - actions:";
        let envoy = Kind::Envoy
            .start_edited(Failing::Closed, Patience::Long, to, &[(shipped, &edit)])
            .await;
        for (left, (name, cost)) in ["5", "2"].into_iter().zip(costs) {
            let reply = Client::at(2)
                .get_with(envoy.port, "/limited", &[(name, cost.as_bytes())])
                .await;
            assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
            assert_eq!(reply.header("x-ratelimit-remaining"), Some(left));
        }
        let reply = Client::at(2)
            .get_with(envoy.port, "/limited", &[("x-cost", b"3")])
            .await;
        assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
        let rule = ["rule=\"limited\""];
        let admitted = node.metric("throttle_limit_admitted_total", &rule).await;
        assert_eq!(admitted, 2.0, "requests, not units");
    }
}

/// A rule in shadow mode counts, and refuses nobody.
#[tokio::test(flavor = "multi_thread")]
async fn shadow_rules_refuse_nobody() {
    let api = Upstream::start().await;
    let policy = per_client(2).replace(
        "  - name: limited\n",
        "  - name: limited\n    mode: shadow\n",
    );
    let node = Leasehold::start(&policy).await;
    let to = Neighbours {
        check: node.http,
        rls: node.grpc,
        api: api.port,
    };
    let envoy = Kind::Envoy.start(Failing::Closed, to).await;
    for _ in 0..5 {
        let reply = Client::at(2).get(envoy.port, "/limited").await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
    }
    let exceeded = node
        .metric("throttle_rate_limit_exceeded_total", &["rule=\"limited\""])
        .await;
    assert_eq!(exceeded, 3.0);
}

/// G1: a gRPC caller of the API gets RESOURCE_EXHAUSTED.
#[tokio::test(flavor = "multi_thread")]
async fn grpc_callers_get_their_status() {
    let api = Upstream::start().await;
    let node = Leasehold::start(&per_client(0)).await;
    let to = Neighbours {
        check: node.http,
        rls: node.grpc,
        api: api.port,
    };
    let envoy = Kind::Envoy.start(Failing::Closed, to).await;
    let reply = Client::at(2)
        .send(
            envoy.port,
            Method::POST,
            "/limited",
            &[("content-type", b"application/grpc"), ("te", b"trailers")],
            Bytes::from_static(&[0; 5]),
        )
        .await
        .unwrap();
    assert_eq!(reply.header("grpc-status"), Some("8"), "{reply:?}");
    assert_eq!(api.requests(), 0);
}

/// G3: with two nodes and health checks, one node's going is noticed by nobody, though Envoy fails closed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_draining_node_costs_no_request() {
    let api = Upstream::start().await;
    let settings = "drain.grace_ms = 2000";
    let policy = per_client(1_000_000);
    let mut one = Leasehold::start_with(&policy, settings).await;
    let other = Leasehold::start_with(&policy, settings).await;
    let to = Neighbours {
        check: one.http,
        rls: one.grpc,
        api: api.port,
    };
    let second = format!(
        "      health_checks:
        - timeout: 0.5s
          interval: 0.1s
          no_traffic_interval: 0.1s
          unhealthy_threshold: 1
          healthy_threshold: 1
          grpc_health_check: {{}}
      load_assignment:
        cluster_name: leasehold
        endpoints:
          - lb_endpoints:
              - endpoint:
                  address:
                    socket_address: {{ address: 127.0.0.1, port_value: {} }}
",
        other.grpc
    );
    let shipped = "      load_assignment:
        cluster_name: leasehold
        endpoints:
          - lb_endpoints:
";
    let envoy = Kind::Envoy
        .start_edited(Failing::Closed, Patience::Long, to, &[(shipped, &second)])
        .await;
    let asked = async |node: &Leasehold| node.metric("throttle_requests_total", &[]).await;
    eventually("both nodes to be asked", async || {
        Client::at(2).get(envoy.port, "/limited").await;
        (asked(&one).await > 0.0 && asked(&other).await > 0.0).then_some(())
    })
    .await;

    // Relaxed: sums, read after the tasks have been joined; the flag only ends them.
    let failed = Arc::new(AtomicUsize::new(0));
    let answered = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (failed, answered, done) = (failed.clone(), answered.clone(), done.clone());
        let port = envoy.port;
        tasks.spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let reply = Client::at(2).get(port, "/limited").await;
                answered.fetch_add(1, Ordering::Relaxed);
                if reply.status != StatusCode::OK {
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
    }
    let more = async |count: usize| {
        let target = answered.load(Ordering::Relaxed) + count;
        eventually("traffic", async || {
            (answered.load(Ordering::Relaxed) >= target).then_some(())
        })
        .await;
    };
    more(50).await;
    one.stop().await;
    more(50).await;
    done.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    assert_eq!(failed.load(Ordering::Relaxed), 0);
}
