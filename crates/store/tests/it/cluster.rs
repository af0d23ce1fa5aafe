//! Three servers, three replicas, and a server that is killed again and again while owners change the ledger.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use store::ledger::{DurableLedger, LedgerError};
use store::nats::{Credentials, NatsLedger, NatsLink, NatsSettings};
use store::record::{Authorized, Refusal};

use crate::conformance::{bucket, change, fence};
use crate::server::{NatsServer, eventually, free_port};

async fn cluster() -> Vec<NatsServer> {
    let ports: Vec<u16> = (0..3).map(|_| free_port()).collect();
    let routes: Vec<String> = ports
        .iter()
        .map(|port| format!("\"nats://127.0.0.1:{port}\""))
        .collect();
    let mut servers: Vec<NatsServer> = ports
        .iter()
        .map(|port| {
            NatsServer::prepare(&format!(
                "server_name: \"n{port}\"\n\
                 cluster {{ name: \"c\", listen: \"127.0.0.1:{port}\", routes: [{}] }}",
                routes.join(", ")
            ))
        })
        .collect();
    for server in &mut servers {
        server.launch();
    }
    for server in &servers {
        server.until_ready(0).await;
    }
    servers
}

async fn ledger(servers: &[NatsServer]) -> Arc<NatsLedger> {
    let link = NatsLink::open(&NatsSettings {
        servers: servers.iter().map(NatsServer::url).collect(),
        name: "test".to_owned(),
        credentials: Credentials::None,
        tls: None,
        jitter: 3,
    })
    .await
    .unwrap();
    link.until_connected().await;
    Arc::new(NatsLedger::new(&link, "c", 3, 1_000))
}

/// Raises by 7, until it is told that it did.
async fn raise(
    ledger: &NatsLedger,
    expected: &mut Option<Authorized>,
    node: u64,
) -> Option<(u64, u64)> {
    let from = expected.map_or(0, |found| found.total);
    match ledger
        .authorize(change(1, *expected, from + 7, fence(node, 1)))
        .await
    {
        Ok(authorized) => {
            *expected = Some(authorized);
            Some((from, authorized.total))
        }
        Err(LedgerError::Refused(Refusal::Changed { found })) => {
            *expected = found;
            None
        }
        Err(LedgerError::Unavailable { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn no_confirmed_change_is_lost_with_a_server_and_no_unit_is_given_twice() {
    let mut servers = cluster().await;
    let one = ledger(&servers).await;
    let other = ledger(&servers).await;
    eventually("the cluster to have a leader", async || {
        one.load(bucket(1)).await.ok()
    })
    .await;

    let stop = Arc::new(AtomicBool::new(false));
    let owners: Vec<_> = [(one.clone(), 1), (other, 2)]
        .into_iter()
        .map(|(ledger, node)| {
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut expected = None;
                let mut ranges = Vec::new();
                // Sequentially consistent, as this is a test.
                while ranges.len() < 40 || !stop.load(Ordering::SeqCst) {
                    match raise(&ledger, &mut expected, node).await {
                        Some(range) => ranges.push(range),
                        None => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
                ranges
            })
        })
        .collect();
    // Whatever server leads: each is killed in turn, and comes back.
    for server in &mut servers {
        server.kill();
        server.up().await;
        eventually("the ledger to answer", async || {
            one.load(bucket(1)).await.ok()
        })
        .await;
    }
    stop.store(true, Ordering::SeqCst);
    let mut ranges = Vec::new();
    for owner in owners {
        ranges.extend(owner.await.unwrap());
    }
    ranges.sort_unstable();
    assert!(ranges.len() >= 80);
    for pair in ranges.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{pair:?} overlap");
    }
    let last = eventually("the ledger to answer", async || {
        one.load(bucket(1)).await.ok().flatten()
    })
    .await;
    assert!(
        last.total >= ranges.last().unwrap().1,
        "what was confirmed is there"
    );
}
