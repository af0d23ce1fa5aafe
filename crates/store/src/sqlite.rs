//! The durable ledger in SQLite, for all processes of one machine.
//!
//! It must never answer before the change would survive a loss of power: write-ahead log with `synchronous=FULL`. Each
//! change is one transaction that takes the write lock at its start (`BEGIN IMMEDIATE`), so two writers wait for each
//! other, up to the deadline, and none is told "database is locked" in the middle.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lease::bucket::Bucket;
use lease::time::Wall;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Row as _, SqliteConnection};

use crate::ledger::{Answer, DurableLedger, LedgerError};
use crate::record::{self, Authorized, Change, Decision, Record};

/// How long a call may wait, for other writers and for the disk.
const DEADLINE: Duration = Duration::from_secs(2);
/// How many records one sweep removes at most.
const SWEEP: i64 = 5_000;
/// `PRAGMA user_version` of the tables below.
const VERSION: i64 = 1;

/// A ledger in a SQLite database.
#[derive(Debug)]
pub struct SqliteLedger {
    path: PathBuf,
    pool: SqlitePool,
    most: i64,
}

impl SqliteLedger {
    /// Opens a database, or makes it, with room for `most` buckets. Other processes may have it open too. The disk must
    /// be a local one: SQLite's log needs memory that is shared by all that use it.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`], if it is no database, or one of a later release.
    pub async fn open(path: &Path, most: u32) -> Result<Self, LedgerError> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(DEADLINE);
        // One connection: SQLite has one writer at a time anyway, and waiting in the pool is fairer than in SQLite.
        let pool = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(DEADLINE)
            .connect_lazy_with(options);
        let ledger = Self {
            path: path.to_owned(),
            pool,
            most: most.into(),
        };
        ledger.within(ledger.prepare()).await?;
        Ok(ledger)
    }

    async fn prepare(&self) -> Result<(), LedgerError> {
        let fault = |error| self.fault(&error);
        let mut tx = self
            .pool
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map_err(fault)?;
        let version: i64 = sqlx::query("PRAGMA user_version")
            .fetch_one(&mut *tx)
            .await
            .and_then(|row| row.try_get(0))
            .map_err(fault)?;
        match version {
            VERSION => return Ok(()),
            0 => {}
            later => {
                return Err(self.unavailable(format!(
                    "its tables are of version {later}, this release knows version {VERSION}"
                )));
            }
        }
        for statement in [
            "CREATE TABLE durable_ledger (bucket BLOB PRIMARY KEY, keep_until INTEGER NOT NULL, \
             record BLOB NOT NULL) WITHOUT ROWID",
            "CREATE INDEX durable_ledger_keep_until ON durable_ledger (keep_until)",
            "PRAGMA user_version = 1",
        ] {
            sqlx::query(statement)
                .execute(&mut *tx)
                .await
                .map_err(fault)?;
        }
        tx.commit().await.map_err(fault)
    }

    /// How it keeps its promise: SQLite's `journal_mode` and `synchronous`, as they are in force.
    ///
    /// # Errors
    /// [`LedgerError::Unavailable`].
    pub async fn settings(&self) -> Result<(String, i64), LedgerError> {
        let fault = |error| self.fault(&error);
        let mut connection = self.pool.acquire().await.map_err(fault)?;
        let mode = sqlx::query("PRAGMA journal_mode")
            .fetch_one(&mut *connection)
            .await
            .and_then(|row| row.try_get(0))
            .map_err(fault)?;
        let synchronous = sqlx::query("PRAGMA synchronous")
            .fetch_one(&mut *connection)
            .await
            .and_then(|row| row.try_get(0))
            .map_err(fault)?;
        Ok((mode, synchronous))
    }

    /// Ends the use of the database.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    async fn find(
        &self,
        connection: &mut SqliteConnection,
        bucket: Bucket,
    ) -> Result<Option<Record>, LedgerError> {
        let row = sqlx::query("SELECT record FROM durable_ledger WHERE bucket = ?")
            .bind(record::key(bucket).to_vec())
            .fetch_optional(connection)
            .await
            .map_err(|error| self.fault(&error))?;
        let Some(row) = row else { return Ok(None) };
        let bytes: Vec<u8> = row.try_get(0).map_err(|error| self.fault(&error))?;
        let record = Record::decode_of(bucket, &bytes).map_err(|source| LedgerError::Damaged {
            place: self.place(),
            source,
        })?;
        Ok(Some(record))
    }

    async fn change(&self, change: &Change) -> Result<Authorized, LedgerError> {
        let fault = |error| self.fault(&error);
        let mut tx = self
            .pool
            .begin_with("BEGIN IMMEDIATE")
            .await
            .map_err(fault)?;
        let found = self.find(&mut tx, change.bucket).await?;
        let record = match record::decide(found.as_ref(), change) {
            Decision::Done(authorized) => return Ok(authorized),
            Decision::Refuse(refusal) => return Err(refusal.into()),
            Decision::Write(record) => record,
        };
        if found.is_none() {
            let count: i64 = sqlx::query("SELECT count(*) FROM durable_ledger")
                .fetch_one(&mut *tx)
                .await
                .and_then(|row| row.try_get(0))
                .map_err(fault)?;
            if count >= self.most {
                return Err(LedgerError::Full {
                    place: self.place(),
                    most: self.most.unsigned_abs(),
                });
            }
        }
        sqlx::query(
            "INSERT INTO durable_ledger (bucket, keep_until, record) VALUES (?, ?, ?) \
             ON CONFLICT (bucket) DO UPDATE SET keep_until = excluded.keep_until, record = excluded.record",
        )
        .bind(record::key(record.bucket).to_vec())
        .bind(as_integer(record.keep_until))
        .bind(record.encode().to_vec())
        .execute(&mut *tx)
        .await
        .map_err(fault)?;
        tx.commit().await.map_err(fault)?;
        Ok(record.authorized)
    }

    /// If the wait is over, the connection rolls back what it has begun before it does anything else.
    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, LedgerError>>,
    ) -> Result<T, LedgerError> {
        match tokio::time::timeout(2 * DEADLINE, work).await {
            Ok(result) => result,
            Err(_) => {
                Err(self.unavailable(format!("no answer within {} ms", 2 * DEADLINE.as_millis())))
            }
        }
    }

    fn fault(&self, error: &sqlx::Error) -> LedgerError {
        self.unavailable(error.to_string())
    }

    fn unavailable(&self, reason: String) -> LedgerError {
        LedgerError::Unavailable {
            place: self.place(),
            reason,
        }
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// SQLite's integers are signed. Times beyond the year 2317 are kept as the last of them.
fn as_integer(time: Wall) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

impl DurableLedger for SqliteLedger {
    fn load(&self, bucket: Bucket) -> Answer<'_, Option<Authorized>> {
        Box::pin(self.within(async move {
            let mut connection = self
                .pool
                .acquire()
                .await
                .map_err(|error| self.fault(&error))?;
            let record = self.find(&mut connection, bucket).await?;
            Ok(record.map(|record| record.authorized))
        }))
    }

    fn authorize(&self, change: Change) -> Answer<'_, Authorized> {
        Box::pin(self.within(async move { self.change(&change).await }))
    }

    fn sweep(&self, now: Wall) -> Answer<'_, u64> {
        Box::pin(self.within(async move {
            sqlx::query(
                "DELETE FROM durable_ledger WHERE bucket IN \
                 (SELECT bucket FROM durable_ledger WHERE keep_until <= ? LIMIT ?)",
            )
            .bind(as_integer(now))
            .bind(SWEEP)
            .execute(&self.pool)
            .await
            .map(|done| done.rows_affected())
            .map_err(|error| self.fault(&error))
        }))
    }
}
