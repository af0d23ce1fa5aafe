//! What there is to tell of a decision: which limit is shown, which refuse, and how long to wait.
//!
//! It is worked out once and serves fields and body alike, so that they cannot contradict each other.

use std::borrow::Cow;
use std::time::Duration;

use gate::decision::{Decision, LimitFacts, Outcome, Refusal, Verdict};
use policy::model::Mode;
use smallvec::SmallVec;

/// The most policies that one answer lists; more would only swell it.
const MOST_POLICIES: usize = 8;

/// A decision, ready to be told.
#[derive(Clone, Debug)]
pub struct Summary<'d, 's> {
    /// Admit or refuse.
    pub verdict: Verdict,
    /// Whether waiting helps.
    pub retry: Retry,
    /// The limit whose figures are shown: enforcing and disclosed.
    pub shown: Option<&'d Outcome<'s>>,
    /// The limits that are listed as policies: enforcing and disclosed, the shown one first, each once.
    pub policies: SmallVec<[&'d Outcome<'s>; 4]>,
    /// The enforcing limits that had no room, each once. Not all may be disclosed: their figures stay untold.
    pub refusing: SmallVec<[&'d Outcome<'s>; 4]>,
    /// Whether it was made on credit that could not be renewed, so that the figures are this node's alone. A surface
    /// that knows sets it; a node by itself never does.
    pub degraded: bool,
}

/// Whether and when the same request may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// It was not refused.
    NotRefused,
    /// After this wait: the latest among the limits that refused.
    After(Duration),
    /// Not by waiting.
    Never,
}

impl<'d, 's> Summary<'d, 's> {
    /// Sums a decision up.
    #[must_use]
    pub fn of(decision: &'d Decision<'s>) -> Self {
        let enforcing = || {
            decision
                .outcomes
                .iter()
                .filter(|o| o.facts.mode == Mode::Enforce)
        };
        let refused = matches!(decision.verdict, Verdict::Refused(_));

        let mut refusing: SmallVec<[&Outcome<'s>; 4]> = SmallVec::new();
        if refused {
            for outcome in enforcing().filter(|o| !o.has_room) {
                if !refusing
                    .iter()
                    .any(|seen| seen.facts.number == outcome.facts.number)
                {
                    refusing.push(outcome);
                }
            }
        }

        let shown = enforcing()
            .filter(|o| o.facts.disclose && o.remaining.is_some())
            .min_by_key(|o| prominence(o, refused));

        let mut policies: SmallVec<[&Outcome<'s>; 4]> = shown.into_iter().collect();
        for outcome in enforcing().filter(|o| o.facts.disclose && o.remaining.is_some()) {
            if policies.len() == MOST_POLICIES {
                break;
            }
            if !policies
                .iter()
                .any(|seen| seen.facts.number == outcome.facts.number)
            {
                policies.push(outcome);
            }
        }

        let retry = match decision.verdict {
            Verdict::Admitted => Retry::NotRefused,
            Verdict::Refused(Refusal::Never | Refusal::KeyAbsent) => Retry::Never,
            // When the table has room again cannot be known: a second is a start.
            Verdict::Refused(Refusal::Unavailable) => Retry::After(Duration::from_secs(1)),
            // Over all outcomes, not `refusing`, in which a limit that two parts met appears once.
            Verdict::Refused(Refusal::OverLimit) => enforcing()
                .filter(|o| !o.has_room)
                .map(|o| o.retry_after)
                // `None` sorts below any wait, yet means forever: it must win.
                .try_fold(None, |latest: Option<Duration>, wait| {
                    wait.map(|wait| Some(latest.map_or(wait, |latest| latest.max(wait))))
                })
                .flatten()
                .map_or(Retry::Never, Retry::After),
        };

        Self {
            verdict: decision.verdict,
            retry,
            shown,
            policies,
            refusing,
            degraded: false,
        }
    }
}

/// Less is shown first. On a refusal: limits without room, that which holds out longest first. Then the fewest units
/// left, then the later reset. `min_by_key` keeps the first of equals, hence the order of the policy decides ties.
fn prominence(
    outcome: &Outcome<'_>,
    refused: bool,
) -> (
    bool,
    std::cmp::Reverse<Duration>,
    u64,
    std::cmp::Reverse<Duration>,
) {
    let refuses = refused && !outcome.has_room;
    let wait = if refuses {
        outcome.retry_after.unwrap_or(Duration::MAX)
    } else {
        Duration::ZERO
    };
    (
        !refuses,
        std::cmp::Reverse(wait),
        outcome.remaining.unwrap_or(u64::MAX),
        std::cmp::Reverse(outcome.reset_after),
    )
}

/// The name by which answers speak of a limit: `rule/limit`, in printable ASCII (others become `?`, since the fields
/// that carry it allow nothing else).
#[must_use]
pub fn policy_name(facts: &LimitFacts) -> String {
    let rule = facts.rule.as_str().chars().map(printable);
    rule.chain(['/'])
        .chain(facts.name.as_str().chars().map(printable))
        .collect()
}

const fn printable(c: char) -> char {
    if matches!(c, ' '..='~') { c } else { '?' }
}

/// Appends that name as a structured field's string (RFC 9651, 4.1.6).
pub(super) fn push_policy_name(value: &mut String, facts: &LimitFacts) {
    fn push(value: &mut String, text: &str) {
        for c in text.chars().map(printable) {
            if matches!(c, '"' | '\\') {
                value.push('\\');
            }
            value.push(c);
        }
    }
    value.push('"');
    push(value, facts.rule.as_str());
    value.push('/');
    push(value, facts.name.as_str());
    value.push('"');
}

/// The window as text for people (`15m`), if there is one.
pub(super) fn window_text(outcome: &Outcome<'_>) -> Option<Cow<'static, str>> {
    match outcome.amount() {
        policy::model::Amount::Metered { rate, .. } => Some(rate.window.to_string().into()),
        policy::model::Amount::Unlimited | policy::model::Amount::Deny => None,
    }
}
