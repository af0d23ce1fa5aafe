//! The ledger in SQLite.

use std::path::PathBuf;
use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, Row as _};
use store::ledger::{DurableLedger, LedgerError};
use store::sqlite::SqliteLedger;

use crate::conformance::{Store, bucket, change, fence, suite};

struct Database(tempfile::TempDir);

impl Database {
    fn path(&self) -> PathBuf {
        self.0.path().join("ledger.sqlite")
    }

    async fn raw(&self) -> SqliteConnection {
        let options = SqliteConnectOptions::new().filename(self.path());
        SqliteConnection::connect_with(&options).await.unwrap()
    }
}

impl Store for Database {
    async fn reopen(&mut self) -> Arc<dyn DurableLedger> {
        Arc::new(SqliteLedger::open(&self.path(), 1_000).await.unwrap())
    }

    async fn beside(&mut self, _: &Arc<dyn DurableLedger>) -> Arc<dyn DurableLedger> {
        self.reopen().await
    }
}

fn database() -> Database {
    Database(tempfile::tempdir().unwrap())
}

/// Case C16 is part of it: two handles that write at once are never told "database is locked".
#[tokio::test]
async fn it_is_a_durable_ledger() {
    suite(&mut database()).await;
}

#[tokio::test]
async fn it_logs_ahead_and_syncs_every_commit() {
    let database = database();
    let ledger = SqliteLedger::open(&database.path(), 10).await.unwrap();
    let settings = ledger.settings().await.unwrap();
    // 2 is FULL.
    assert_eq!(settings, ("wal".to_owned(), 2));
    ledger.close().await;
}

#[tokio::test]
async fn a_writer_that_does_not_end_is_waited_for_up_to_the_deadline() {
    let database = database();
    let ledger = SqliteLedger::open(&database.path(), 10).await.unwrap();
    let first = ledger
        .authorize(change(1, None, 5, fence(1, 1)))
        .await
        .unwrap();
    let mut holder = database.raw().await;
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut holder)
        .await
        .unwrap();
    let raise = change(1, Some(first), 9, fence(1, 1));
    let waited = ledger.authorize(raise).await.unwrap_err();
    assert!(
        matches!(waited, LedgerError::Unavailable { .. }),
        "{waited}"
    );
    assert!(waited.to_string().contains("locked"), "{waited}");
    // Readers do not wait for writers.
    assert_eq!(ledger.load(bucket(1)).await, Ok(Some(first)));
    sqlx::query("ROLLBACK").execute(&mut holder).await.unwrap();
    assert_eq!(ledger.authorize(raise).await.unwrap().total, 9);
}

#[tokio::test]
async fn a_call_that_is_given_up_leaves_no_half() {
    let database = database();
    let ledger = SqliteLedger::open(&database.path(), 10).await.unwrap();
    let mut expected = None;
    for to in 1..60 {
        let wish = change(1, expected, to, fence(1, 1));
        // Polled some times, then dropped.
        let mut call = ledger.authorize(wish);
        for _ in 0..to % 6 {
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(call.as_mut().poll(context).is_ready())
            });
            if polled.await {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(call);
        // Either it was done or it was not: asking again tells, and both are the same.
        let told = ledger.authorize(wish).await.unwrap();
        assert_eq!(told.total, to);
        assert_eq!(ledger.load(bucket(1)).await, Ok(Some(told)));
        expected = Some(told);
    }
}

#[tokio::test]
async fn its_faults_are_named() {
    let database = database();
    std::fs::write(
        database.path(),
        "This is no database, only a text that is long.",
    )
    .unwrap();
    let text = SqliteLedger::open(&database.path(), 10).await.unwrap_err();
    assert!(text.to_string().contains("not a database"), "{text}");
    std::fs::remove_file(database.path()).unwrap();

    let ledger = SqliteLedger::open(&database.path(), 1).await.unwrap();
    ledger
        .authorize(change(1, None, 5, fence(1, 1)))
        .await
        .unwrap();
    let full = ledger.authorize(change(2, None, 5, fence(1, 1))).await;
    assert!(matches!(full, Err(LedgerError::Full { most: 1, .. })));

    let mut raw = database.raw().await;
    let bytes: Vec<u8> = sqlx::query("SELECT record FROM durable_ledger")
        .fetch_one(&mut raw)
        .await
        .unwrap()
        .get(0);
    let mut damaged = bytes.clone();
    damaged[35] ^= 1;
    sqlx::query("UPDATE durable_ledger SET record = ?")
        .bind(damaged)
        .execute(&mut raw)
        .await
        .unwrap();
    for answer in [
        ledger.load(bucket(1)).await.map(|_| ()),
        ledger
            .authorize(change(1, None, 7, fence(1, 1)))
            .await
            .map(|_| ()),
    ] {
        let error = answer.unwrap_err();
        assert!(matches!(error, LedgerError::Damaged { .. }), "{error}");
    }

    sqlx::query("PRAGMA user_version = 7")
        .execute(&mut raw)
        .await
        .unwrap();
    drop(ledger);
    let later = SqliteLedger::open(&database.path(), 10).await.unwrap_err();
    assert!(later.to_string().contains("version 7"), "{later}");
    let nowhere = SqliteLedger::open("/nonexistent/x".as_ref(), 10).await;
    assert!(matches!(nowhere, Err(LedgerError::Unavailable { .. })));
}
