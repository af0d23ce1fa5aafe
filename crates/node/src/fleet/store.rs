//! The protocol's questions to the store of durable limits, asked beside its thread's other work.
//!
//! It never says that a change was kept unless the store did.

use std::sync::Arc;

use lease::bucket::Bucket;
use lease::durable::{self, StoreAnswer};
use lease::node::{Identity, Input};
use store::ledger::{DurableLedger, LedgerError};
use store::record::{Authorized, Change, Fence, Refusal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Asks the store. Needs the runtime of the protocol's thread.
#[derive(Debug)]
pub struct Store {
    ledger: Option<Arc<dyn DurableLedger>>,
    /// One question a bucket at a time is on its way, so this is bounded by the protocol's own bound.
    answers: UnboundedSender<Input>,
}

impl Store {
    /// A store; without a ledger it refuses everything, so that no durable limit is issued only to be forgotten. What
    /// it says comes out of the receiver.
    pub fn new(ledger: Option<Arc<dyn DurableLedger>>) -> (Self, UnboundedReceiver<Input>) {
        let (answers, incoming) = unbounded_channel();
        (Self { ledger, answers }, incoming)
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
