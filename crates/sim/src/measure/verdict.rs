//! Which mode the figures speak for, and why, in words.

use serde::Serialize;

use super::EVEN_ENOUGH;
use super::report::{LimitTried, Shares};

/// The share of keys that may be cut short by fixed shares.
pub const MOST_KEYS_SHORT: f64 = 0.05;

/// The mode to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Fixed shares are enough.
    Fixed,
    /// Credit must move between nodes.
    Lease,
    /// No key had requests enough.
    Undecided,
}

impl Mode {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fixed => "fixed",
            Self::Lease => "lease",
            Self::Undecided => "undecided",
        }
    }
}

/// The mode and its grounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The mode.
    pub mode: Mode,
    /// The p95 over keys that decided: the larger of that over all time and that within slices.
    pub p95: Option<f64>,
    /// Why, one sentence each.
    pub reasons: Vec<String>,
}

/// Decides. `whole` is over all time, `busy` within slices.
#[must_use]
pub fn decide(
    whole: Option<&Shares>,
    busy: Option<&Shares>,
    limit: Option<&LimitTried>,
    slice: &str,
) -> Verdict {
    let mut reasons = Vec::new();
    let p95 = |shares: Option<&Shares>| shares.map(|shares| shares.by_key.p95);
    let (whole, busy) = (p95(whole), p95(busy));
    let Some(worst) = whole.into_iter().chain(busy).reduce(f64::max) else {
        reasons.push(
            "no key had requests enough to tell an uneven spread from chance: measure for longer"
                .to_owned(),
        );
        return Verdict {
            mode: Mode::Undecided,
            p95: None,
            reasons,
        };
    };
    let is_even = worst <= EVEN_ENOUGH;
    if is_even {
        reasons.push(format!(
            "for 95% of keys the largest node has at most {worst:.2} times an even share, which \
             fixed shares can bear ({EVEN_ENOUGH} or less)"
        ));
    } else if whole.is_some_and(|whole| whole > EVEN_ENOUGH) {
        reasons.push(format!(
            "for 1 key in 20 or more the largest node has {:.2} times an even share or above: with \
             fixed shares such a key gets at most the share of that node there",
            whole.unwrap_or(worst)
        ));
    } else {
        reasons.push(format!(
            "keys are spread evenly over all time but not within {slice}: there the largest node has \
             {worst:.2} times an even share or above for 1 key in 20 or more, so they move from node \
             to node"
        ));
    }
    let is_short = limit.is_some_and(|limit| limit.share_of_keys_short > MOST_KEYS_SHORT);
    if is_even && is_short {
        reasons.push(
            "the limit is too low for fixed shares all the same: chance alone often brings a node \
             more of a key's requests than its share. With `lease` such keys wait for the owner in \
             a quarter of requests or more; a central counter is the other way"
                .to_owned(),
        );
    }
    let mode = if is_even && !is_short {
        Mode::Fixed
    } else {
        Mode::Lease
    };
    Verdict {
        mode,
        p95: Some(worst),
        reasons,
    }
}
