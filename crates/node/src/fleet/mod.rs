//! This node in its fleet: the lease protocol driven by real time, a real network and a real disk.
//!
//! A request that found too little leased credit awaits [`Fleet::ask`], once; nothing else of a request comes here.
//! One thread of its own ([`driver`]) owns the protocol, so that neither a burst of requests nor a slow disk delays a
//! round. Nothing here decides: what may be issued, spent and given up is `lease`'s to say.

mod degraded;
mod disk;
mod driver;
mod join;
mod members;
mod saver;
mod status;
mod store;
mod terms;
mod waiters;

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use gate::{Decision, Dry, Verdict};
use lease::node::FastPath;
use tokio::sync::{Notify, mpsc, oneshot};

use self::degraded::Degraded;
pub(crate) use self::degraded::is_degraded;
pub use self::disk::{DataDir, DataError, State};
pub use self::driver::{Incarnation, Running, Start, StartError};
pub use self::join::{JoinError, Place, join};
pub use self::members::Members;
pub use self::status::{
    Answer, Busy, Contact, Figures, Fold, HeldSum, Ledger, Owned, Peer, Status, StatusQuery,
};

/// The most requests that may be on their way to the protocol's thread. More are answered at once, as missed.
const MOST_ASKING: usize = 16_384;

/// The most wishes of requests that do not wait. More are dropped: the next request of the key has the same.
const MOST_WISHES: usize = 256;

/// A handle on this node's place in the fleet. Clones are of the same.
#[derive(Clone, Debug)]
pub struct Fleet {
    asks: mpsc::Sender<Ask>,
    /// What requests lacked that did not wait for it. Apart from those that do wait, so that they cannot crowd them out.
    wishes: mpsc::Sender<Vec<Dry>>,
    queries: mpsc::Sender<StatusQuery>,
    /// Counters as of the last time they were put up.
    figures: Arc<ArcSwap<Figures>>,
    /// Notified when the gate has another policy.
    policy: Arc<Notify>,
    /// While owners are out of contact for long.
    degraded: Arc<ArcSwapOption<Degraded>>,
}

#[derive(Debug)]
struct Ask {
    dry: Vec<Dry>,
    answer: oneshot::Sender<FastPath>,
}

impl Fleet {
    /// Asks the owners of what a request lacks, for as long as the protocol's deadline allows. If the answer is
    /// [`FastPath::Credit`] the request should be decided again, once.
    pub async fn ask(&self, dry: Vec<Dry>) -> FastPath {
        let (answer, answered) = oneshot::channel();
        match self.asks.try_send(Ask { dry, answer }) {
            Ok(()) => answered.await.unwrap_or(FastPath::Missed),
            Err(_) => FastPath::Missed,
        }
    }

    /// Asks for what an admitted request lacked, for those after it: nobody waits.
    fn wish(&self, dry: &[Dry]) {
        // If too many do, the next request of the key wishes the same.
        let _ = self.wishes.try_send(dry.to_vec());
    }

    /// Says that the gate has another policy, so that what is held of limits that have changed follows at once.
    pub fn policy_changed(&self) {
        self.policy.notify_one();
    }

    /// Counters, for metrics. At most a second old.
    #[must_use]
    pub fn figures(&self) -> Arc<Figures> {
        self.figures.load_full()
    }

    /// Everything about this node's place in the fleet, as of now. `None` if it has left.
    pub async fn status(&self, most_buckets: usize) -> Option<Status> {
        let (answer, answered) = oneshot::channel();
        let query = StatusQuery {
            most_buckets,
            answer,
        };
        self.queries.send(query).await.ok()?;
        answered.await.ok()
    }
}

/// What may be done about credit that a decision lacks.
#[derive(Debug)]
pub(crate) struct Asking<'f> {
    fleet: Option<&'f Fleet>,
    /// Whether it has been asked for: what counts then is what there is.
    asked: bool,
    /// What is to be asked for.
    dry: Vec<Dry>,
}

impl<'f> Asking<'f> {
    const fn new(fleet: Option<&'f Fleet>) -> Self {
        Self {
            fleet,
            asked: false,
            dry: Vec::new(),
        }
    }

    /// Nobody is asked.
    pub(crate) const fn nobody() -> Self {
        Self::new(None)
    }

    /// Whether a decision refuses for want of credit that is to be asked for now: then it does not count. What an
    /// admitted request lacked is asked for as well, without waiting.
    pub(crate) fn takes_up(&mut self, decision: &Decision<'_>) -> bool {
        let Some(fleet) = self.fleet.filter(|_| !decision.dry.is_empty()) else {
            return false;
        };
        match decision.verdict {
            Verdict::Admitted => fleet.wish(&decision.dry),
            Verdict::Refused(_) if self.asked => {}
            Verdict::Refused(_) => self.dry.clone_from(&decision.dry),
        }
        !self.dry.is_empty()
    }
}

/// Decides, and once more if what the first decision lacked was asked for. `decide` is to show its decision to
/// [`Asking::takes_up`], and its answer is thrown away if that says so.
pub(crate) async fn decide_and_ask<T>(
    fleet: Option<&Fleet>,
    mut decide: impl FnMut(&mut Asking<'_>) -> T,
) -> T {
    let mut asking = Asking::new(fleet);
    let answer = decide(&mut asking);
    match fleet {
        Some(fleet) if !asking.dry.is_empty() => {
            drop(answer);
            // Whatever comes of it, what counts is what there is now.
            let _ = fleet.ask(std::mem::take(&mut asking.dry)).await;
            asking.asked = true;
            decide(&mut asking)
        }
        Some(_) | None => answer,
    }
}
