//! What came of a run.

use std::time::Duration;

use lease::bucket::Bucket;
use lease::node::StartError;
use lease::terms::Shape;

use super::World;
use super::clock::START;
use super::limits::Limits;
use super::setup::Setup;
use super::tally::Tally;
use crate::check::{Accounts, OverAdmission, OverSpan, Starved, TwoIssuers, starved};

/// What a checker found.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Failure {
    /// Rule S6 is broken.
    #[error(transparent)]
    OverAdmission(#[from] OverAdmission),
    /// The bound of a sliding window or a token bucket is broken.
    #[error(transparent)]
    OverSpan(#[from] OverSpan),
    /// Rule S11 is broken.
    #[error(transparent)]
    TwoIssuers(#[from] TwoIssuers),
    /// A node cannot start: the setup is wrong.
    #[error("a node does not start: {0}")]
    Start(StartError),
    /// What a store keeps cannot be used, though no more than power was lost.
    #[error("what the store keeps: {0}")]
    Ledger(String),
    /// A node says what cannot be written.
    #[error("a message cannot be written: {0}")]
    Unwritable(wire::peer::EncodeError),
    /// A node cannot read what another of the same build wrote.
    #[error("a message cannot be read: {0}")]
    Unreadable(wire::peer::DecodeError),
    /// A request has waited past its deadline.
    #[error("a request for bucket {bucket:?} waits for {waited_ns} ns, past its deadline")]
    Waits {
        /// Which bucket.
        bucket: Bucket,
        /// How long it has waited.
        waited_ns: u64,
    },
    /// After all was well again, a key's windows admitted less than they should.
    #[error(transparent)]
    Starved(#[from] Starved),
}

/// One measured window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The key's place in the setup.
    pub key: usize,
    /// The window.
    pub bucket: Bucket,
    /// Units asked for, but no more than the allowance.
    pub due: u64,
    /// Units admitted.
    pub admitted: u64,
    /// The allowance.
    pub allowance: u64,
}

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The first fault found.
    pub failure: Option<Failure>,
    /// A digest of all events: two runs with the same digest did the same.
    pub digest: u64,
    /// What was done.
    pub tally: Tally,
    /// The windows that began and ended within the measured time and were asked for, in order.
    pub shares: Vec<Share>,
}

impl Outcome {
    pub(super) fn of(world: World<'_>) -> Self {
        let shares = shares(world.setup, &world.limits, &world.accounts);
        let failure = world.failure.or_else(|| {
            let judged = world.setup.judged;
            judged
                .then(|| starved(&shares))
                .flatten()
                .map(Failure::Starved)
        });
        Self {
            failure,
            digest: world.digest.value(),
            tally: world.tally,
            shares,
        }
    }
}

/// The measured windows of a run, in order.
pub(crate) fn shares(setup: &Setup, limits: &Limits, accounts: &Accounts) -> Vec<Share> {
    let first = START.plus(Duration::from_nanos(setup.measure.0));
    let last = START.plus(Duration::from_nanos(setup.end.0));
    let mut shares: Vec<Share> = accounts
        .iter()
        .filter(|(_, account)| account.asked > 0)
        .filter_map(|(&bucket, account)| {
            let key = limits.place(bucket.subject)?;
            let terms = setup.keys[key].terms;
            if terms.shape != Shape::FixedWindow {
                // What is due in one slot depends on the slots before it.
                return None;
            }
            let window_ns = terms.window_ns;
            let whole = bucket.start(window_ns) >= first && bucket.end(window_ns) <= last;
            whole.then(|| Share {
                key,
                bucket,
                due: account.asked.min(account.allowance),
                admitted: account.admitted,
                allowance: account.allowance,
            })
        })
        .collect();
    shares.sort_unstable_by_key(|share| (share.key, share.bucket.window));
    shares
}
