//! Prometheus metrics with bounded series: what was decided, how fast, and how the policy fares.
//!
//! Labels name surfaces, verdicts, rules and limits, never a key, path, method or address, so that no caller can
//! make series. Rules and limits beyond a fixed number share one series. What the decision path counts goes to
//! cells of the thread's own shard; nothing on that path locks or allocates.

mod cells;
mod fleet;
mod scrape;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gate::decision::{Decision, LimitFacts, LimitNumber, Refusal, Verdict};
use gate::request::Hits;
use gate::table::TableStats;
use gate::time::Now;
use policy::model::{Algorithm, Amount, LimitName, Mode, RuleName};

use crate::render::Summary;
use cells::Shards;
pub use fleet::FleetScrape;
pub use scrape::CONTENT_TYPE;

/// The most limits with series of their own, unless the configuration says otherwise.
pub const MOST_LIMITS: usize = 1000;

macro_rules! label_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $label:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$vdoc])* $variant,)+
        }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The label's value.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self {
                    $(Self::$variant => $label,)+
                }
            }
        }
    };
}

label_enum!(
    /// Where a request came in.
    Surface {
        /// Envoy's rate limit service.
        Rls = "rls",
        /// `/v1/check`.
        Http = "http",
    }
);

label_enum!(
    /// How a request was answered.
    Answer {
        /// Admitted and charged.
        Admitted = "admitted",
        /// Refused: a limit is used up.
        OverLimit = "over_limit",
        /// Refused: no wait would help.
        Never = "never",
        /// Refused: it lacks a rule's key.
        KeyAbsent = "key_absent",
        /// Nothing was asked for but how things stand; nothing was charged, whatever the verdict.
        Looked = "looked",
        /// Hits were given back.
        GivenBack = "given_back",
        /// A CORS preflight: admitted and not charged.
        Preflight = "preflight",
        /// No decision could be made.
        Unavailable = "unavailable",
    }
);

label_enum!(
    /// What went wrong.
    ErrorKind {
        /// A request with a field that is missing, malformed or out of range.
        BadRequest = "bad_request",
        /// A body over the bound.
        BodyTooLarge = "body_too_large",
        /// A method or path that is not served.
        NotServed = "not_served",
        /// A policy file that was refused.
        PolicyRefused = "policy_refused",
        /// The policy file could not be watched or read.
        PolicyUnreadable = "policy_unreadable",
        /// New certificates for peers that were refused; the old ones stay.
        PeerCredentials = "peer_credentials",
        /// A fault of the node's own.
        Internal = "internal",
    }
);

/// What a request took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charge {
    /// Hits, at least one.
    Taken,
    /// Nothing.
    Looked,
    /// Less than nothing.
    GivenBack,
}

impl Charge {
    /// What the parts of a request take together: hits if any part takes some.
    #[must_use]
    pub fn of(parts: impl IntoIterator<Item = Hits>) -> Self {
        let mut charge = Self::Looked;
        for hits in parts {
            match hits {
                Hits::Take(0) => {}
                Hits::Take(_) => return Self::Taken,
                Hits::GiveBack(_) => charge = Self::GivenBack,
            }
        }
        charge
    }
}

/// What became of a policy that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reload {
    /// Put in force.
    Applied,
    /// The same as before: nothing was done.
    Unchanged,
    /// Refused whole; the last good one stays.
    Refused,
}

/// Everything that the node counts.
#[derive(Debug)]
pub struct Telemetry {
    shards: Shards,
    /// Locked when a policy is installed and at a scrape, never by a decision.
    names: Mutex<BTreeMap<LimitNumber, (RuleName, LimitName)>>,
    policy: PolicyState,
    /// Whether the node began with a table whose file was damaged. Only a flag: it orders nothing.
    counts_lost: AtomicBool,
    /// Log records not written because of their rate.
    log_records_dropped: AtomicU64,
    /// Seconds since 1970 at which the node started, in milliseconds.
    started_unix_ms: u64,
}

#[derive(Debug, Default)]
struct PolicyState {
    /// Whether the file on disk is refused. Only a flag: it orders nothing.
    refused: AtomicBool,
    applied: AtomicU64,
    unchanged: AtomicU64,
    refusals: AtomicU64,
    loaded_unix_ms: AtomicU64,
    version: Mutex<String>,
}

impl Telemetry {
    /// Starts at zero, with series for at most `most_limits` limits.
    #[must_use]
    pub fn new(most_limits: usize, started: Now) -> Self {
        Self {
            shards: Shards::new(most_limits),
            names: Mutex::default(),
            policy: PolicyState::default(),
            counts_lost: AtomicBool::new(false),
            log_records_dropped: AtomicU64::new(0),
            started_unix_ms: unix_ms(started),
        }
    }

    /// Learns which labels the limits of a policy have. A limit that was never learnt counts as one of the many
    /// that share a series. Labels once learnt are kept: a number is never given to another limit.
    pub fn learn<'a>(&self, limits: impl IntoIterator<Item = &'a LimitFacts>) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        for facts in limits {
            if self.shards.has_own_series(facts.number) {
                names
                    .entry(facts.number)
                    .or_insert_with(|| (facts.rule.clone(), facts.name.clone()));
            }
        }
    }

    /// Counts a decision, made at `now` on `surface` in `elapsed`. Call it once for each request.
    pub fn record(
        &self,
        decision: &Decision<'_>,
        charge: Charge,
        surface: Surface,
        now: Now,
        elapsed: Duration,
    ) {
        let answer = match charge {
            Charge::Looked => Answer::Looked,
            Charge::GivenBack => Answer::GivenBack,
            Charge::Taken => match decision.verdict {
                Verdict::Admitted => Answer::Admitted,
                Verdict::Refused(Refusal::OverLimit) => Answer::OverLimit,
                Verdict::Refused(Refusal::Never) => Answer::Never,
                Verdict::Refused(Refusal::KeyAbsent) => Answer::KeyAbsent,
                Verdict::Refused(Refusal::Unavailable) => Answer::Unavailable,
            },
        };
        let shard = self.shards.of_thread();
        shard.request(surface, answer, elapsed);

        for outcome in &decision.outcomes {
            let cells = shard.limit(outcome.facts.number);
            if let Some(used) = used_permille(outcome.amount(), outcome.remaining) {
                cells.saw_usage(unix_ms(now), used);
            }
            if charge == Charge::Taken {
                if outcome.remaining.is_some() {
                    shard.looked_up();
                }
                if decision.verdict == Verdict::Admitted {
                    cells.admitted();
                }
                if outcome.charged > 0 {
                    cells.charged(outcome.charged);
                }
                if !outcome.has_room {
                    match outcome.facts.mode {
                        Mode::Enforce => cells.exceeded_enforced(),
                        Mode::Shadow => cells.exceeded_in_shadow(),
                    }
                }
            }
        }
        if charge == Charge::Taken && matches!(decision.verdict, Verdict::Refused(_)) {
            // Each refused request blocks once: at the limit that its client is told to wait for.
            let summary = Summary::of(decision);
            let blocking = summary
                .refusing
                .iter()
                .max_by_key(|o| o.retry_after.unwrap_or(Duration::MAX))
                .map(|o| o.facts.number);
            match blocking {
                Some(number) => shard.limit(number).blocked(),
                None => shard.blocked_by_no_limit(),
            }
        }
    }

    /// Counts a request that was answered without asking the gate.
    pub fn record_undecided(&self, answer: Answer, surface: Surface, elapsed: Duration) {
        self.shards.of_thread().request(surface, answer, elapsed);
    }

    /// Counts an error.
    pub fn error(&self, kind: ErrorKind) {
        self.shards.of_thread().error(kind);
    }

    /// Counts log records that were left out because of their rate.
    pub fn log_records_dropped(&self, count: u64) {
        self.log_records_dropped.fetch_add(count, Relaxed);
    }

    /// Tells that the table's file was damaged, and begun anew.
    pub fn counts_lost(&self) {
        // Relaxed: a scrape reads it alone and decides nothing by it.
        self.counts_lost.store(true, Relaxed);
    }

    /// Tells what became of the policy file. `version` is its digest, of an applied one.
    pub fn policy(&self, outcome: Reload, version: &str, now: Now) {
        let state = &self.policy;
        // Relaxed throughout: a scrape reads each alone and decides nothing by them.
        match outcome {
            Reload::Applied => {
                version
                    .clone_into(&mut state.version.lock().unwrap_or_else(PoisonError::into_inner));
                state.loaded_unix_ms.store(unix_ms(now), Relaxed);
                state.applied.fetch_add(1, Relaxed);
                state.refused.store(false, Relaxed);
            }
            Reload::Unchanged => {
                state.unchanged.fetch_add(1, Relaxed);
                state.refused.store(false, Relaxed);
            }
            Reload::Refused => {
                state.refusals.fetch_add(1, Relaxed);
                state.refused.store(true, Relaxed);
            }
        }
    }

    /// Whether the policy file on disk is refused and an older policy is in force.
    #[must_use]
    pub fn policy_is_refused(&self) -> bool {
        self.policy.refused.load(Relaxed)
    }

    /// The text of a scrape, with the figures of the table at that time: see [`CONTENT_TYPE`].
    #[must_use]
    pub fn scrape(&self, table: &TableStats) -> String {
        scrape::text(self, table, None)
    }

    /// Requests answered, however.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let answers = Surface::ALL
            .iter()
            .flat_map(|surface| Answer::ALL.iter().map(move |answer| (*surface, *answer)));
        answers
            .map(|(surface, answer)| self.shards.answers(surface, answer))
            .sum()
    }

    /// The same at a node of a fleet.
    #[must_use]
    pub fn scrape_in_fleet(&self, table: &TableStats, fleet: FleetScrape) -> String {
        scrape::text(self, table, Some(fleet))
    }
}

/// The share of a limit that is used, in thousandths. None of a limit that meters nothing.
fn used_permille(amount: Amount, remaining: Option<u64>) -> Option<u16> {
    let Amount::Metered { rate, algorithm } = amount else {
        return None;
    };
    let capacity = match algorithm {
        Algorithm::FixedWindow | Algorithm::SlidingWindow => rate.units,
        Algorithm::TokenBucket { burst } => burst,
    };
    let remaining = u128::from(remaining?.min(capacity));
    let used = u128::from(capacity) - remaining;
    u16::try_from(used * 1000 / u128::from(capacity.max(1))).ok()
}

fn unix_ms(now: Now) -> u64 {
    u64::try_from(now.unix_nanos() / 1_000_000).unwrap_or(u64::MAX)
}
