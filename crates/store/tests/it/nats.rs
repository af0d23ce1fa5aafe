//! The ledger in JetStream, on a real server.

use std::sync::Arc;
use std::time::Duration;

use async_nats::jetstream;
use lease::time::Wall;
use store::ledger::{DurableLedger, LedgerError};
use store::nats::{Credentials, NatsLedger, NatsLink, NatsSettings, Secret};

use crate::conformance::{Store, bucket, change, fence, suite};
use crate::relay::Relay;
use crate::server::{NatsServer, eventually, now};

pub fn settings(url: String, credentials: Credentials) -> NatsSettings {
    NatsSettings {
        servers: vec![url],
        name: "test".to_owned(),
        credentials,
        tls: None,
        jitter: 7,
    }
}

pub async fn connect(url: String) -> NatsLink {
    let link = NatsLink::open(&settings(url, Credentials::None))
        .await
        .unwrap();
    up(&link).await;
    link
}

async fn up(link: &NatsLink) {
    eventually("a connection", async || link.connected().then_some(())).await;
}

async fn ledger(server: &NatsServer) -> NatsLedger {
    NatsLedger::new(&connect(server.url()).await, "eu_1.test", 1, 1_000)
}

struct Nats(NatsServer);

impl Store for Nats {
    async fn reopen(&mut self) -> Arc<dyn DurableLedger> {
        // As after a loss of power, as near as a test can come to it.
        self.0.kill();
        self.0.up().await;
        Arc::new(ledger(&self.0).await)
    }

    async fn beside(&mut self, _: &Arc<dyn DurableLedger>) -> Arc<dyn DurableLedger> {
        Arc::new(ledger(&self.0).await)
    }
}

#[tokio::test]
async fn it_is_a_durable_ledger() {
    suite(&mut Nats(NatsServer::prepare(""))).await;
}

#[tokio::test]
async fn a_change_whose_answer_is_lost_on_the_way_is_recognized() {
    let server = NatsServer::start("").await;
    let relay = Relay::start(server.port).await;
    let link = connect(relay.url()).await;
    let ledger = NatsLedger::new(&link, "c", 1, 1_000);
    let direct = NatsLedger::new(&connect(server.url()).await, "c", 1, 1_000);
    let me = fence(1, 1);
    let first = ledger.authorize(change(1, None, 10, me)).await.unwrap();

    // The server hears and does; we do not hear that it did. With no answer let through, the reading fails; with one,
    // the writing, unless the one was of another kind.
    let raise = change(1, Some(first), 20, me);
    for answers in [0, 1, 1, 1, 1, 1] {
        up(&link).await;
        relay.deafen_after(answers);
        let started = now();
        let lost = ledger.authorize(raise).await.unwrap_err();
        assert!(matches!(lost, LedgerError::Unavailable { .. }), "{lost}");
        assert!(
            started.elapsed() < Duration::from_secs(10),
            "its deadline is 2 s"
        );
        relay.heal();
        if direct.load(bucket(1)).await.unwrap().unwrap().total == 20 {
            break;
        }
    }
    let made = direct.load(bucket(1)).await.unwrap().unwrap();
    assert_eq!(made.total, 20, "no answer to a writing was lost");
    let told = eventually("the connection to come back", async || {
        ledger.authorize(raise).await.ok()
    })
    .await;
    assert_eq!(
        (told.total, told.version),
        (20, first.version + 1),
        "made once"
    );
}

#[tokio::test]
async fn without_a_server_each_call_ends_in_time_and_later_ones_work() {
    let mut server = NatsServer::prepare("");
    let link = NatsLink::open(&settings(server.url(), Credentials::None))
        .await
        .unwrap();
    let ledger = NatsLedger::new(&link, "c", 1, 1_000);
    let early = ledger.load(bucket(1)).await.unwrap_err();
    assert!(early.to_string().contains("not connected"), "{early}");
    server.up().await;
    up(&link).await;
    let first = ledger
        .authorize(change(1, None, 10, fence(1, 1)))
        .await
        .unwrap();

    server.freeze().await;
    let raise = change(1, Some(first), 20, fence(1, 1));
    let started = now();
    let error = ledger.authorize(raise).await.unwrap_err();
    assert!(matches!(error, LedgerError::Unavailable { .. }), "{error}");
    let error = ledger.load(bucket(1)).await.unwrap_err();
    assert!(matches!(error, LedgerError::Unavailable { .. }), "{error}");
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "two deadlines of 2 s"
    );
    server.thaw();
    let told = eventually("the server to answer again", async || {
        ledger.authorize(raise).await.ok()
    })
    .await;
    assert_eq!(told.total, 20);

    server.kill();
    eventually("the end to be noticed", async || {
        (!link.connected()).then_some(())
    })
    .await;
    let gone = ledger.load(bucket(1)).await.unwrap_err();
    assert!(gone.to_string().contains("not connected"), "{gone}");
    server.up().await;
    up(&link).await;
    assert_eq!(ledger.load(bucket(1)).await, Ok(Some(told)));
}

#[tokio::test]
async fn wrong_credentials_are_told_without_the_secret_and_tried_again() {
    let mut server = NatsServer::prepare("");
    server.configure("authorization { user: node-1, password: right }");
    server.up().await;
    let credentials = |password: &str| Credentials::User {
        name: "node-1".to_owned(),
        password: Secret::new(password.to_owned()),
    };
    let link = NatsLink::open(&settings(server.url(), credentials("hunter2")))
        .await
        .unwrap();
    let state = eventually("the refusal", async || {
        Some(link.state()).filter(|state| state.last_error.is_some())
    })
    .await;
    let shown = format!("{state:?} {link:?}");
    assert!(shown.to_lowercase().contains("authorization"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(!link.connected());
    let ledger = NatsLedger::new(&link, "c", 1, 10);
    let error = ledger.load(bucket(1)).await.unwrap_err().to_string();
    assert!(
        error.contains("not connected") && !error.contains("hunter2"),
        "{error}"
    );

    // The operator mends the server; nobody restarts the node.
    server.kill();
    let config = server.folder().join("nats.conf");
    let mended = std::fs::read_to_string(&config)
        .unwrap()
        .replace("right", "hunter2");
    std::fs::write(config, mended).unwrap();
    server.up().await;
    up(&link).await;
    assert_eq!(ledger.load(bucket(1)).await, Ok(None));
}

#[tokio::test]
async fn a_full_ledger_refuses_new_buckets_and_serves_those_it_has() {
    let server = NatsServer::start("").await;
    let ledger = NatsLedger::new(&connect(server.url()).await, "c", 1, 2);
    let me = fence(1, 1);
    let first = ledger.authorize(change(1, None, 1, me)).await.unwrap();
    ledger.authorize(change(2, None, 1, me)).await.unwrap();
    let full = ledger.authorize(change(3, None, 1, me)).await;
    assert!(
        matches!(full, Err(LedgerError::Full { most: 2, .. })),
        "{full:?}"
    );
    ledger
        .authorize(change(1, Some(first), 5, me))
        .await
        .unwrap();
    assert_eq!(ledger.sweep(Wall(1_002)).await, Ok(2));
    ledger.authorize(change(3, None, 1, me)).await.unwrap();
}

#[tokio::test]
async fn what_is_damaged_or_could_be_lost_is_not_used() {
    let server = NatsServer::start("").await;
    let link = connect(server.url()).await;
    let context = jetstream::new(link.client().clone());
    // A bucket that drops its oldest.
    context
        .create_stream(jetstream::stream::Config {
            name: "KV_leasehold_old_ledger".to_owned(),
            subjects: vec!["$KV.leasehold_old_ledger.>".to_owned()],
            max_messages: 10,
            ..Default::default()
        })
        .await
        .unwrap();
    let lossy = NatsLedger::new(&link, "old", 1, 10);
    let error = lossy.load(bucket(1)).await.unwrap_err();
    assert!(error.to_string().contains("may lose records"), "{error}");

    let ledger = NatsLedger::new(&link, "c", 1, 10);
    let me = fence(1, 1);
    ledger.authorize(change(1, None, 1, me)).await.unwrap();
    let mut stream = context.get_stream("KV_leasehold_c_ledger").await.unwrap();
    let subject = stream.get_raw_message(1).await.unwrap().subject.to_string();
    let put = context.publish(subject, "someone's".into()).await.unwrap();
    put.await.unwrap();
    let error = ledger.load(bucket(1)).await.unwrap_err();
    assert!(matches!(error, LedgerError::Damaged { .. }), "{error}");
    let error = ledger.authorize(change(1, None, 9, me)).await.unwrap_err();
    assert!(matches!(error, LedgerError::Damaged { .. }), "{error}");
    assert_eq!(ledger.sweep(Wall(u64::MAX)).await, Ok(0), "left as it is");
    assert_eq!(stream.info().await.unwrap().state.messages, 1);

    // A stream that vanishes is not made again while we run.
    context
        .delete_stream("KV_leasehold_c_ledger")
        .await
        .unwrap();
    let error = ledger.authorize(change(2, None, 1, me)).await.unwrap_err();
    assert!(matches!(error, LedgerError::Unavailable { .. }), "{error}");
    assert!(context.get_stream("KV_leasehold_c_ledger").await.is_err());
}
