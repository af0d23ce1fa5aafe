//! The durable ledger in the owner's own directory, for a fleet without a shared store.
//!
//! Only the same node goes on from it after a crash. It must never be opened by two processes at once: a lock on the
//! file sees to that. See [`crate::slots`] for what lies in it.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lease::bucket::Bucket;
use lease::time::Wall;
use thiserror::Error;
use tokio::sync::Semaphore;

use crate::ledger::{Answer, DurableLedger, LedgerError};
use crate::record::{Authorized, Change};
use crate::slots::{Disk, Slots, SlotsError};

/// The file's name in the directory.
pub const FILE: &str = "durable-ledger";

/// How long a call may wait for the disk.
const DEADLINE: Duration = Duration::from_secs(2);

/// A ledger file, opened and locked.
#[derive(Debug)]
pub struct FileLedger {
    path: PathBuf,
    slots: Arc<Mutex<Slots<FileDisk>>>,
    /// One call works on the disk at a time, so a disk that hangs holds up one thread, not all.
    turn: Arc<Semaphore>,
    deadline: Duration,
}

/// Why a ledger file cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The directory or the file cannot be used.
    #[error("ledger file {}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it.
    #[error("ledger file {}: another process uses it; each node needs a data directory of its own", .0.display())]
    Locked(PathBuf),
    /// What is in it cannot be used.
    #[error("ledger file {}: {source}", path.display())]
    Content {
        /// Which.
        path: PathBuf,
        /// Why.
        source: SlotsError,
    },
}

impl FileLedger {
    /// Opens the ledger file of a directory, or makes it, with room for `most` buckets (256 bytes each).
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(directory: &Path, most: usize) -> Result<Self, OpenError> {
        let path = directory.join(FILE);
        let fault = |source| OpenError::File {
            path: path.clone(),
            source,
        };
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(fault)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(path)),
            Err(TryLockError::Error(source)) => return Err(fault(source)),
        }
        // The file's name must survive a loss of power as well.
        File::open(directory)
            .and_then(|directory| directory.sync_all())
            .map_err(fault)?;
        let slots = Slots::open(FileDisk(file), most).map_err(|source| OpenError::Content {
            path: path.clone(),
            source,
        })?;
        Ok(Self {
            path,
            slots: Arc::new(Mutex::new(slots)),
            turn: Arc::new(Semaphore::new(1)),
            deadline: DEADLINE,
        })
    }

    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Slots<FileDisk>) -> Result<T, SlotsError> + Send + 'static,
    ) -> Answer<'_, T> {
        Box::pin(async move {
            let worked = tokio::time::timeout(self.deadline, async {
                let turn = Arc::clone(&self.turn).acquire_owned().await;
                let slots = Arc::clone(&self.slots);
                tokio::task::spawn_blocking(move || {
                    let _turn = turn;
                    // A panic in the middle of a change leaves the file broken or as it was, never wrong.
                    work(&mut slots.lock().unwrap_or_else(PoisonError::into_inner))
                })
                .await
            });
            match worked.await {
                Ok(Ok(result)) => result.map_err(|error| self.fault(error)),
                Ok(Err(_)) => Err(self.unavailable("the call was broken off".to_owned())),
                Err(_) => Err(self.unavailable(format!(
                    "no answer from the disk within {} ms",
                    self.deadline.as_millis()
                ))),
            }
        })
    }

    fn fault(&self, error: SlotsError) -> LedgerError {
        match error {
            SlotsError::Refused(refusal) => refusal.into(),
            SlotsError::Full(most) => LedgerError::Full {
                place: self.place(),
                most: most as u64,
            },
            SlotsError::Damaged { source, .. } => LedgerError::Damaged {
                place: self.place(),
                source,
            },
            other @ (SlotsError::Disk(_) | SlotsError::Broken | SlotsError::NotALedger) => {
                self.unavailable(other.to_string())
            }
        }
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

impl DurableLedger for FileLedger {
    fn load(&self, bucket: Bucket) -> Answer<'_, Option<Authorized>> {
        self.call(move |slots| slots.load(bucket))
    }

    fn authorize(&self, change: Change) -> Answer<'_, Authorized> {
        self.call(move |slots| slots.authorize(&change))
    }

    fn sweep(&self, now: Wall) -> Answer<'_, u64> {
        self.call(move |slots| slots.sweep(now))
    }
}

#[derive(Debug)]
struct FileDisk(File);

impl Disk for FileDisk {
    fn read(&mut self, most: usize) -> io::Result<Vec<u8>> {
        let length = self.0.metadata()?.len();
        if length > most as u64 {
            return Err(io::Error::other(format!(
                "has {length} bytes, more than the {most} that its limit on buckets allows"
            )));
        }
        let mut bytes = Vec::new();
        self.0.rewind()?;
        (&self.0).take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        // The length counts as data that reading needs, so it is synced too.
        self.0.sync_data()
    }
}
