//! What a node answers when the two others of its fleet are gone.

use http::StatusCode;

use super::{Over, Three};
use crate::harness::client::{Client, Reply};
use crate::harness::eventually;

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

const ON_DEGRADED: &str = "version: 1
rules:
  - {name: open, when: {path: /open}, by: {header: x-key},
     limits: [{rate: 30 per 50m, on_degraded: fail_open}]}
  - {name: closed, when: {path: /closed}, by: {header: x-key},
     limits: [{rate: 30 per 50m, on_degraded: fail_closed}]}
  - {name: fair, when: {path: /fair}, by: {header: x-key},
     limits: [{rate: 30 per 3s}]}
";

/// The owners of most keys are killed: each limit does as it says, and answers say that it is so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_owners_leave_limits_that_do_as_they_say() {
    let setting = "degraded_after_ms = 500";
    let mut three = Three::start_with(Over::Mesh, ON_DEGRADED, setting).await;
    three.nodes[1].kill();
    three.nodes[2].kill();
    let left = &three.nodes[0];
    eventually("the killed to be given up", async || {
        (left.metric("enforcement_degraded", &[]).await == 2.0).then_some(())
    })
    .await;
    let degraded = |reply: &Reply| reply.header("x-ratelimit-degraded") == Some("true");
    let (mut closed, mut open) = (0, 0);
    for number in 0..12 {
        let key = format!("key-{number}");
        let reply = ask(left.http, "/closed", &key).await;
        if degraded(&reply) {
            closed += 1;
            // Of a window that it has never had credit of.
            assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE, "{reply:?}");
        }
        if degraded(&ask(left.http, "/open", &key).await) {
            open += 1;
            let mut admitted = 1;
            for _ in 0..40 {
                let reply = ask(left.http, "/open", &key).await;
                assert!(degraded(&reply));
                admitted += u32::from(reply.status == StatusCode::OK);
            }
            assert_eq!(admitted, 30, "the whole limit at this node");
        }
    }
    assert!((1..12).contains(&closed), "{closed} of 12 owned elsewhere");
    assert!((1..12).contains(&open), "{open} of 12 owned elsewhere");
    eventually(
        "a share of a window that begins without its owner",
        async || {
            for number in 0..12 {
                let reply = ask(left.http, "/fair", &format!("key-{number}")).await;
                if degraded(&reply) && reply.status == StatusCode::OK {
                    return Some(());
                }
            }
            None
        },
    )
    .await;
}
