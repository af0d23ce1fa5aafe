//! This node in its fleet: the lease protocol driven by real time, a real network and a real disk.
//!
//! A request that found too little leased credit awaits [`Fleet::ask`], once; nothing else of a request comes here.
//! One thread of its own ([`driver`]) owns the protocol, so that neither a burst of requests nor a slow disk delays a
//! round. Nothing here decides: what may be issued, spent and given up is `lease`'s to say.

mod disk;
mod driver;
mod join;
mod saver;
mod status;
mod store;
mod waiters;

use std::sync::Arc;

use arc_swap::ArcSwap;
use gate::{Decision, Dry, Verdict};
use lease::node::FastPath;
use tokio::sync::{mpsc, oneshot};

pub use self::disk::{DataDir, DataError, State};
pub use self::driver::{Running, Start, StartError};
pub use self::join::{JoinError, Place, join};
pub use self::status::{Figures, Status, StatusQuery};

/// The most requests that may be on their way to the protocol's thread. More are answered at once, as missed.
const MOST_ASKING: usize = 16_384;

/// A handle on this node's place in the fleet. Clones are of the same.
#[derive(Clone, Debug)]
pub struct Fleet {
    asks: mpsc::Sender<Ask>,
    queries: mpsc::Sender<StatusQuery>,
    /// Counters as of the last time they were put up.
    figures: Arc<ArcSwap<Figures>>,
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

/// Decides, and once more if what the first decision lacked was asked for. `decide` is to hand what it lacks to its
/// argument by [`lacks`], if it has one, and its answer is thrown away then.
pub(crate) async fn decide_and_ask<T>(
    fleet: Option<&Fleet>,
    mut decide: impl FnMut(Option<&mut Vec<Dry>>) -> T,
) -> T {
    if let Some(fleet) = fleet {
        let mut dry = Vec::new();
        let answer = decide(Some(&mut dry));
        if dry.is_empty() {
            return answer;
        }
        drop(answer);
        // Whatever comes of it, what counts is what there is now.
        let _ = fleet.ask(dry).await;
    }
    decide(None)
}

/// Whether a decision refuses for want of credit that may still be asked for. If so, that is in `dry` now.
pub(crate) fn lacks(decision: &Decision<'_>, dry: Option<&mut Vec<Dry>>) -> bool {
    match dry {
        Some(dry) if decision.verdict != Verdict::Admitted => {
            dry.clone_from(&decision.dry);
            !dry.is_empty()
        }
        Some(_) | None => false,
    }
}
