//! The protocol's questions to the store of durable limits, asked beside its thread's other work.
//!
//! It never says that a change was kept unless the store did. Records of windows that are over are removed now and then,
//! or the store would be full one day and refuse new ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lease::bucket::Bucket;
use lease::durable::{self, StoreAnswer};
use lease::node::{Identity, Input};
use lease::time::Wall;
use store::ledger::{DurableLedger, LedgerError};
use store::record::{Authorized, Change, Fence, Refusal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Asks the store. Needs the runtime of the protocol's thread.
#[derive(Debug)]
pub struct Store {
    ledger: Option<Arc<dyn DurableLedger>>,
    /// One question a bucket at a time is on its way, so this is bounded by the protocol's own bound.
    answers: UnboundedSender<Input>,
    sweeping: Arc<AtomicBool>,
}

impl Store {
    /// A store; without a ledger it refuses everything, so that no durable limit is issued only to be forgotten. What
    /// it says comes out of the receiver.
    pub fn new(ledger: Option<Arc<dyn DurableLedger>>) -> (Self, UnboundedReceiver<Input>) {
        let (answers, incoming) = unbounded_channel();
        let store = Self {
            ledger,
            answers,
            sweeping: Arc::default(),
        };
        (store, incoming)
    }

    /// Asks what lies there for a bucket.
    pub fn load(&self, bucket: Bucket) {
        self.ask(bucket, move |ledger| async move {
            match ledger.load(bucket).await {
                Ok(found) => StoreAnswer::Is(found.map(known)),
                Err(error) => failed(&error),
            }
        });
    }

    /// Asks it to change that.
    pub fn authorize(&self, change: durable::Change, me: Identity) {
        let bucket = change.bucket;
        let change = Change {
            bucket,
            expected: change.expected.map(kept),
            to: change.to,
            fence: Fence {
                node: me.node,
                epoch: me.epoch,
            },
            keep_until: change.keep_until,
        };
        self.ask(bucket, move |ledger| async move {
            match ledger.authorize(change).await {
                Ok(made) => StoreAnswer::Kept(known(made)),
                Err(error) => failed(&error),
            }
        });
    }

    /// Removes what may be removed at `now`, unless that is under way.
    pub fn sweep(&self, now: Wall) {
        let Some(ledger) = self.ledger.clone() else {
            return;
        };
        // Relaxed, here and below: the flag guards nothing but itself.
        if self.sweeping.swap(true, Ordering::Relaxed) {
            return;
        }
        let sweeping = Arc::clone(&self.sweeping);
        tokio::spawn(async move {
            // Each call removes some thousands at most.
            let swept = loop {
                match ledger.sweep(now).await {
                    Ok(0) => break Ok(()),
                    Ok(_) => {}
                    Err(error) => break Err(error),
                }
            };
            if let Err(error) = swept {
                tracing::warn!(event = "ledger_not_swept", error_message = %error);
            }
            sweeping.store(false, Ordering::Relaxed);
        });
    }

    fn ask<A>(&self, bucket: Bucket, question: impl FnOnce(Arc<dyn DurableLedger>) -> A)
    where
        A: Future<Output = StoreAnswer> + Send + 'static,
    {
        let answers = self.answers.clone();
        let Some(ledger) = self.ledger.clone() else {
            let answer = StoreAnswer::Refused;
            let _ = answers.send(Input::Store { bucket, answer });
            return;
        };
        let asked = question(ledger);
        tokio::spawn(async move {
            let answer = asked.await;
            // The thread may have ended.
            let _ = answers.send(Input::Store { bucket, answer });
        });
    }
}

fn failed(error: &LedgerError) -> StoreAnswer {
    match error {
        LedgerError::Refused(Refusal::Changed { found }) => StoreAnswer::Is(found.map(known)),
        LedgerError::Unavailable { .. } => StoreAnswer::Unknown,
        LedgerError::Refused(_) | LedgerError::Damaged { .. } | LedgerError::Full { .. } => {
            tracing::error!(event = "ledger_refused", error_message = %error);
            StoreAnswer::Refused
        }
    }
}

fn known(kept: Authorized) -> durable::Authorized {
    durable::Authorized {
        total: kept.total,
        base: kept.base,
        fence: Identity {
            node: kept.fence.node,
            epoch: kept.fence.epoch,
        },
        version: kept.version,
    }
}

fn kept(known: durable::Authorized) -> Authorized {
    Authorized {
        total: known.total,
        base: known.base,
        fence: Fence {
            node: known.fence.node,
            epoch: known.fence.epoch,
        },
        version: known.version,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use lease::bucket::{Subject, WindowId};
    use lease::id::{Epoch, NodeId};
    use store::file::FileLedger;

    use super::*;

    #[tokio::test]
    async fn records_of_windows_that_are_over_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let ledger: Arc<dyn DurableLedger> = Arc::new(FileLedger::open(folder.path(), 10).unwrap());
        let (store, mut answers) = Store::new(Some(Arc::clone(&ledger)));
        let me = Identity {
            node: NodeId(1),
            epoch: Epoch { count: 1, nonce: 2 },
        };
        let bucket = |window| Bucket {
            subject: Subject(7),
            window: WindowId(window),
        };
        for window in [1, 2] {
            let change = durable::Change {
                bucket: bucket(window),
                expected: None,
                to: 5,
                keep_until: Wall(window * 100),
            };
            store.authorize(change, me);
            let answer = answers.recv().await.unwrap();
            assert!(
                matches!(
                    answer,
                    Input::Store {
                        answer: StoreAnswer::Kept(_),
                        ..
                    }
                ),
                "{answer:?}"
            );
        }
        store.sweep(Wall(150));
        let swept = async {
            while ledger.load(bucket(1)).await.unwrap().is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), swept)
            .await
            .expect("the first window's record goes");
        assert!(ledger.load(bucket(2)).await.unwrap().is_some());
    }
}
