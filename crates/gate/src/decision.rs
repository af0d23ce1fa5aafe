//! What was decided, and the figures to tell of it.
//!
//! All figures are of the one instant that the decision was made at: nothing here reads a clock again.

use std::sync::Arc;
use std::time::Duration;

use policy::model::{Amount, LimitName, Mode, OnDegraded, RuleName};
use smallvec::SmallVec;

use crate::fleet::Dry;

/// A limit's number within the gate's life: the same for the same identity across policies, for counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LimitNumber(pub u32);

/// What a surface needs to know of a limit. Shared with the policy snapshot that it came from.
#[derive(Debug, PartialEq, Eq)]
pub struct LimitFacts {
    /// Its number.
    pub number: LimitNumber,
    /// The rule it belongs to.
    pub rule: RuleName,
    /// Its label.
    pub name: LimitName,
    /// The name that Envoy is told, if it is not the label: for limits of descriptor trees, that which their file gives
    /// them, empty if it gives none.
    pub envoy_name: Option<Arc<str>>,
    /// How much it admits.
    pub amount: Amount,
    /// Enforce or only count.
    pub mode: Mode,
    /// What happens when its credit cannot be renewed.
    pub on_degraded: OnDegraded,
    /// Whether clients may be shown its figures.
    pub disclose: bool,
}

/// The answer to a request. It borrows from the policy snapshot that it was made under.
#[derive(Clone, Debug)]
pub struct Decision<'s> {
    /// Admit or refuse.
    pub verdict: Verdict,
    /// Every limit that was met, in the order of parts and rules; shadow ones too.
    pub outcomes: SmallVec<[Outcome<'s>; 4]>,
    /// Credit that this node lacked and that the fleet may have. Of a refused request: each shared limit that refused
    /// it, if nothing but want of credit did, so that it is worth asking for all of them, once, and deciding again. Of
    /// an admitted one: shared limits in shadow mode, to be asked for without waiting. Empty otherwise, and then
    /// nothing was allocated for it.
    pub dry: Vec<Dry>,
}

impl Decision<'_> {
    /// An admission under no limit at all: what [`Gate::check_met_into`](crate::Gate::check_met_into) writes over.
    #[must_use]
    pub fn new() -> Self {
        Self {
            verdict: Verdict::Admitted,
            outcomes: SmallVec::new(),
            dry: Vec::new(),
        }
    }
}

impl Default for Decision<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Admit or refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Admitted, and charged to every limit met.
    Admitted,
    /// Refused, and charged to none.
    Refused(Refusal),
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A limit is used up, for now.
    OverLimit,
    /// A limit denies all, or the cost is more than the limit can ever hold.
    Never,
    /// A rule refuses requests that lack its key.
    KeyAbsent,
    /// A limit could not count it, since the table is full of live buckets, and says to fail closed.
    Unavailable,
}

/// How one limit stood.
#[derive(Clone, Debug)]
pub struct Outcome<'s> {
    /// The part of the request (the descriptor's index) that met it.
    pub part: u16,
    /// The limit.
    pub facts: &'s LimitFacts,
    /// How much it admits for this request where that is not the limit's own amount, but one that the descriptor brought
    /// along: see [`Outcome::amount`].
    pub brought: Option<Amount>,
    /// Whether this limit had room for the request. In shadow mode this may be false of an admitted request.
    pub has_room: bool,
    /// Units that the decision took from it: what the request costs of it if it was admitted, else 0. Also 0 of one
    /// that counts nothing, had no room in shadow mode, or let the request through uncounted because the table was full.
    pub charged: u64,
    /// Units left after the decision, never more than the limit's; `None` if unlimited.
    pub remaining: Option<u64>,
    /// Until the limit is whole again: the end of the window, or the bucket full. Zero if it is.
    pub reset_after: Duration,
    /// If it had no room: until it would have had. `None` if it had room, or will never have it.
    pub retry_after: Option<Duration>,
}

impl Outcome<'_> {
    /// How much the limit admits for this request.
    #[must_use]
    pub fn amount(&self) -> Amount {
        self.brought.unwrap_or(self.facts.amount)
    }
}
