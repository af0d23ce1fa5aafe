//! What three nodes do when their policy changes.

use http::StatusCode;
use rustix::process::Signal;

use super::{Over, Three};
use crate::harness::client::{Client, Reply};
use crate::harness::eventually;

fn policy(units: u64) -> String {
    format!(
        "version: 1
rules:
  - name: shared
    by: everyone
    limits: [{{rate: {units} per 50m, disclose: true}}]
"
    )
}

/// One request of a client with this key.
async fn ask(port: u16, path: &str, key: &str) -> Reply {
    let headers: [(&str, &[u8]); 3] = [
        ("x-forwarded-method", b"GET"),
        ("x-forwarded-uri", path.as_bytes()),
        ("x-key", key.as_bytes()),
    ];
    Client::at_proxy()
        .get_with(port, "/v1/check", &headers)
        .await
}

/// F3, F6: a limit is lowered by its file from 1,000,000 to 10 while credit of it is out at three nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lowered_limit_holds_at_once_where_credit_is_out() {
    let mut three = Three::start_with(Over::Mesh, &policy(1_000_000), "").await;
    for node in &three.nodes {
        eventually("a node to admit 20 requests", async || {
            for _ in 0..20 {
                if ask(node.http, "/", "").await.status != StatusCode::OK {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }
    for node in &mut three.nodes {
        node.write_policy(&policy(10));
        node.process().signal(Signal::HUP);
    }
    // More than 10 were spent: nothing is left, at no node, though each held far more.
    for node in &three.nodes {
        eventually("the node to admit nothing more", async || {
            for _ in 0..10 {
                let reply = ask(node.http, "/", "").await;
                if reply.status == StatusCode::OK {
                    return None;
                }
                assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);
                let left: u64 = reply
                    .header("x-ratelimit-remaining")
                    .map_or(0, |left| left.parse().unwrap());
                assert!(left <= 10, "{left} of 10");
            }
            Some(())
        })
        .await;
    }
    for node in &three.nodes {
        for _ in 0..20 {
            let reply = ask(node.http, "/", "").await;
            assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS, "{reply:?}");
        }
    }
}
