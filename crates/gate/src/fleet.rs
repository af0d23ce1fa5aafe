//! What the gate knows of a fleet: how its limits are shared, and what to ask for when credit runs out.
//!
//! A limit that is shared becomes [`Terms`] of the lease protocol. One that cannot be is refused when its policy is
//! installed; it is never counted at each node instead, which would multiply it.

use lease::bucket::{Bucket, WindowId};
use lease::terms::{Mode, OnDegraded, Shape, Terms};
use policy::model::{self, Algorithm, Amount, Sharing};
use policy::rate::{Rate, Window};

use crate::bucket::BucketId;
use crate::leased::subject;
use crate::meter::{Meter, phase};
use crate::table::Level;

/// The least window of a limit whose issued credit is kept in a store that outlives the owner: an hour.
pub const DURABLE_FROM_NS: u64 = 3600 * 1_000_000_000;

/// How a gate that belongs to a fleet counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fleet {
    /// How limits are shared that do not say.
    pub sharing: Sharing,
    /// The policy's number: of two nodes' terms those with the larger one hold. A node that installs a changed policy
    /// gives it a larger one.
    pub revision: u64,
}

/// Which of a policy's limits counts a key, whatever its units: by this it is found again in a later policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lineage {
    /// The hash of rule, window and algorithm.
    pub(crate) limit: u64,
    /// The hash of that and of whose it is: the rule's own, a plan's or a subject's.
    pub(crate) whose: u64,
}

impl Lineage {
    /// Whether both are of one rule, window and algorithm, whoever has them.
    #[must_use]
    pub const fn is_kin(self, other: Self) -> bool {
        self.limit == other.limit
    }
}

/// Credit that a request lacked at this node, and that the protocol may be asked for:
/// [`Input::Need`](lease::node::Input::Need) has these fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dry {
    /// Whose, and of which window.
    pub bucket: Bucket,
    /// Under which terms.
    pub terms: Terms,
    /// Units that the request wants.
    pub cost: u64,
    /// Which limit of the policy it is; `None` if the request brought its own.
    pub lineage: Option<Lineage>,
}

impl Dry {
    /// What a bucket lacked that stood so.
    pub(crate) fn new(
        id: BucketId,
        terms: &Terms,
        meter: &Meter,
        level: &Level,
        cost: u64,
        lineage: Option<Lineage>,
    ) -> Self {
        // The end of a window is a multiple of its length after the phase.
        let number = level.end.saturating_sub(phase(id, meter)) / meter.window_ns;
        Self {
            bucket: Bucket {
                subject: subject(id),
                window: WindowId(number),
            },
            terms: *terms,
            cost,
            lineage,
        }
    }
}

/// Why a limit cannot be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unshareable {
    /// It never renews: there are no windows to lease credit for.
    #[error("it never renews: write `sharing: local`, or give it a window")]
    Forever,
    /// More units than a table holds for one window.
    #[error(
        "its {units} units are more than a node's table holds: at most {most}, or write `sharing: local`"
    )]
    TooManyUnits {
        /// The units, or the burst.
        units: u64,
        /// The most that can be held.
        most: u64,
    },
    /// The bucket holds less than what flows into it in the time that credit is issued for.
    #[error(
        "its burst of {burst} is less than what flows in within 100 ms: at least {least}, or write `sharing: local`"
    )]
    SmallBurst {
        /// The burst.
        burst: u64,
        /// The least that is possible.
        least: u64,
    },
}

/// A limit as the lease protocol sees it; `None` if it is counted at each node.
pub(crate) fn terms(
    rate: Rate,
    algorithm: Algorithm,
    on_degraded: model::OnDegraded,
    sharing: Sharing,
    revision: u64,
) -> Result<Option<Terms>, Unshareable> {
    let mode = match sharing {
        Sharing::Local => return Ok(None),
        Sharing::Lease => Mode::Lease,
        Sharing::Fixed => Mode::Fixed,
    };
    let Window::Millis(window) = rate.window else {
        return Err(Unshareable::Forever);
    };
    let terms = Terms {
        units: rate.units,
        window_ns: window.nanos(),
        shape: match algorithm {
            Algorithm::FixedWindow => Shape::FixedWindow,
            Algorithm::SlidingWindow => Shape::SlidingWindow,
            Algorithm::TokenBucket { burst } => Shape::TokenBucket { burst },
        },
        durable: window.nanos() >= DURABLE_FROM_NS,
        on_degraded: match on_degraded {
            model::OnDegraded::FairShare => OnDegraded::FairShare,
            model::OnDegraded::FailOpen => OnDegraded::FailOpen,
            model::OnDegraded::FailClosed => OnDegraded::FailClosed,
        },
        mode,
        revision,
    };
    let meter = Meter::leased(&terms);
    let most = meter.most_leased();
    if meter.most() > most {
        return Err(Unshareable::TooManyUnits {
            units: meter.most(),
            most,
        });
    }
    if let Shape::TokenBucket { burst } = terms.shape {
        let inflow = u128::from(terms.units) * u128::from(terms.slot_ns());
        let least = inflow.div_ceil(u128::from(terms.window_ns));
        if u128::from(burst) < least {
            return Err(Unshareable::SmallBurst {
                burst,
                least: u64::try_from(least).unwrap_or(u64::MAX),
            });
        }
    }
    Ok(Some(terms))
}

/// The same for a limit that a request brings along, which nobody can correct: too many units are the most that can
/// be shared, and what cannot be shared at all is refused.
pub(crate) fn terms_of_brought(
    amount: Amount,
    sharing: Sharing,
    revision: u64,
) -> (Amount, Option<Terms>) {
    let Amount::Metered { rate, algorithm } = amount else {
        return (amount, None);
    };
    let on_degraded = model::OnDegraded::FairShare;
    let terms_of = |rate| terms(rate, algorithm, on_degraded, sharing, revision);
    let fewer = |error| match error {
        Unshareable::TooManyUnits { most, .. } => terms_of(Rate {
            units: rate.units.min(most),
            ..rate
        }),
        Unshareable::Forever | Unshareable::SmallBurst { .. } => Err(error),
    };
    match terms_of(rate).or_else(fewer) {
        Ok(terms) => (amount, terms),
        Err(_) => (Amount::Deny, None),
    }
}
