//! The ledger in a file of the owner's directory.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use store::file::{FILE, FileLedger, OpenError};
use store::ledger::{DurableLedger, LedgerError};

use crate::conformance::{Store, bucket, change, fence, suite};

struct Files(tempfile::TempDir);

impl Store for Files {
    async fn reopen(&mut self) -> Arc<dyn DurableLedger> {
        Arc::new(FileLedger::open(self.0.path(), 1_000).unwrap())
    }

    async fn beside(&mut self, first: &Arc<dyn DurableLedger>) -> Arc<dyn DurableLedger> {
        let error = FileLedger::open(self.0.path(), 1_000).unwrap_err();
        assert!(matches!(error, OpenError::Locked(_)), "{error}");
        assert!(error.to_string().contains("another process uses it"));
        Arc::clone(first)
    }
}

#[tokio::test]
async fn it_is_a_durable_ledger() {
    suite(&mut Files(tempfile::tempdir().unwrap())).await;
}

#[tokio::test]
async fn its_faults_are_named() {
    let missing = FileLedger::open("/nonexistent".as_ref(), 10).unwrap_err();
    assert!(
        missing
            .to_string()
            .starts_with("ledger file /nonexistent/durable-ledger: "),
        "{missing}"
    );

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(FILE);
    std::fs::write(&file, "not a ledger").unwrap();
    let other = FileLedger::open(folder.path(), 10).unwrap_err();
    assert!(other.to_string().contains("not a ledger file"), "{other}");
    std::fs::remove_file(&file).unwrap();

    let ledger = FileLedger::open(folder.path(), 2).unwrap();
    for window in 0..2 {
        ledger
            .authorize(change(window, None, 1, fence(1, 1)))
            .await
            .unwrap();
    }
    let full = ledger.authorize(change(2, None, 1, fence(1, 1))).await;
    assert!(matches!(full, Err(LedgerError::Full { most: 2, .. })));
    drop(ledger);
    let small = FileLedger::open(folder.path(), 1).unwrap_err();
    assert!(small.to_string().contains("more than the"), "{small}");

    // A copy that is damaged beyond what a crash does.
    let damaged = OpenOptions::new().write(true).open(&file).unwrap();
    damaged.write_all_at(&[0xFF; 3], 256 + 40).unwrap();
    let error = FileLedger::open(folder.path(), 2).unwrap_err();
    assert!(error.to_string().contains("pair 0"), "{error}");
}

/// A disk with no room, for real: the device that refuses every byte.
#[tokio::test]
async fn a_full_disk_is_an_error_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join(FILE)).unwrap();
    let error = FileLedger::open(folder.path(), 10).unwrap_err();
    assert!(error.to_string().contains("No space left"), "{error}");
}

#[tokio::test]
async fn what_was_told_as_kept_is_there_after_the_process_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = FileLedger::open(folder.path(), 10).unwrap();
    let kept = ledger
        .authorize(change(1, None, 5, fence(1, 1)))
        .await
        .unwrap();
    // As a process that is killed: no destructor runs, but its lock goes with it, so look at the bytes in a copy.
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(folder.path().join(FILE), copy.path().join(FILE)).unwrap();
    let next = FileLedger::open(copy.path(), 10).unwrap();
    assert_eq!(next.load(bucket(1)).await, Ok(Some(kept)));
}
