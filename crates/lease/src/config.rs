//! Settings of the protocol that are liveness and accuracy only (L), and the constants of the schema that safety rests
//! on. No setting here may be able to make two nodes disagree about what is safe.

use std::time::Duration;

use thiserror::Error;

use crate::message::MOST_RECORDS;
use crate::mutant::Mutant;

/// How far ahead a pledge reaches (S8). A constant of the schema: all nodes count with the same one.
pub const PLEDGE_AHEAD: Duration = Duration::from_millis(100);

/// The longest time before a window's start at which its credit may be issued (S10). Below [`PLEDGE_AHEAD`] less a
/// round, or nothing could be issued ahead.
pub const LEAD: Duration = Duration::from_millis(50);

/// The second belt around times that cross a restart (S9, S10); the clock floor is the first.
pub const SKEW: Duration = Duration::from_millis(50);

/// How far above the clock the saved floor is put, and so how long a node may run before it must save the next one.
pub const FLOOR_AHEAD: Duration = Duration::from_secs(1);

/// What may be tuned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How often a node tells its owners how it stands. 5 ms to 1 s.
    pub round: Duration,
    /// A pair of nodes with nothing new to say speaks every so many rounds. 1 to 3: a pledge must reach past the gap.
    pub idle_pace: u32,
    /// How long a request that waits for credit may wait.
    pub fast_path_deadline: Duration,
    /// After a missed deadline nothing is asked about that bucket for so long.
    pub fast_path_backoff: Duration,
    /// Rounds without a request before unspent credit is given back, at least; scaled up for slow keys.
    pub idle_rounds: u32,
    /// Of what is free, the part that each round hands out to several askers, in percent. 1 to 100.
    pub issue_percent: u32,
    /// The same when one node alone asks.
    pub lone_issue_percent: u32,
    /// Of the allowance, what is only given to requests that wait, in percent. 0 to 50.
    pub reserve_percent: u32,
    /// Out of contact with an owner for so long: the limit's `on_degraded` applies.
    pub degraded_after: Duration,
    /// Under `fail_open`, a degraded node admits so many times the allowance.
    pub backstop_multiple: u32,
    /// The most buckets that this node holds credit for at once.
    pub most_held: usize,
    /// The most buckets that it keeps a ledger for at once.
    pub most_owned: usize,
    /// A durable limit is authorized in tranches of so much of its allowance, in percent. 1 to 100.
    pub tranche_percent: u32,
    /// The most records in one envelope; more go in several. 1 to 512.
    pub most_records: usize,
    /// How many of the busiest buckets of an owner are folded apart from the rest.
    pub busiest: usize,
    /// A safety rule switched off, to see that the checkers notice.
    #[cfg(feature = "mutants")]
    pub mutant: Option<Mutant>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            round: Duration::from_millis(25),
            idle_pace: 2,
            fast_path_deadline: Duration::from_millis(1),
            fast_path_backoff: Duration::from_millis(2),
            idle_rounds: 8,
            issue_percent: 50,
            lone_issue_percent: 75,
            reserve_percent: 0,
            degraded_after: Duration::from_secs(30),
            backstop_multiple: 1,
            most_held: 1 << 20,
            most_owned: 1 << 20,
            tranche_percent: 5,
            most_records: MOST_RECORDS,
            busiest: 16,
            #[cfg(feature = "mutants")]
            mutant: None,
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{name} is {value}; it must be {want}")]
pub struct ConfigError {
    /// The setting.
    pub name: &'static str,
    /// What was given.
    pub value: u128,
    /// What would do.
    pub want: &'static str,
}

impl Config {
    /// Whether this rule is switched off. Never, in the product.
    #[cfg(feature = "mutants")]
    pub(crate) fn broken(&self, rule: Mutant) -> bool {
        self.mutant == Some(rule)
    }

    /// Whether this rule is switched off. Never, in the product.
    #[cfg(not(feature = "mutants"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) const fn broken(&self, _rule: Mutant) -> bool {
        false
    }

    /// Whether some rule is switched off, and so nothing may be asserted.
    #[cfg(feature = "mutants")]
    pub(crate) fn any_broken(&self) -> bool {
        self.mutant.is_some()
    }

    /// Whether some rule is switched off, and so nothing may be asserted.
    #[cfg(not(feature = "mutants"))]
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) const fn any_broken(&self) -> bool {
        false
    }

    /// Checks every range.
    ///
    /// # Errors
    /// Names the first setting that cannot be used.
    pub fn check(&self) -> Result<(), ConfigError> {
        let in_range = [
            (
                "round",
                self.round.as_millis(),
                5,
                1000,
                "5 to 1000 milliseconds",
            ),
            ("idle_pace", self.idle_pace.into(), 1, 3, "1 to 3 rounds"),
            (
                "fast_path_deadline",
                self.fast_path_deadline.as_micros(),
                50,
                1_000_000,
                "50 to 1000000 microseconds",
            ),
            (
                "idle_rounds",
                self.idle_rounds.into(),
                2,
                10_000,
                "2 to 10000 rounds",
            ),
            (
                "issue_percent",
                self.issue_percent.into(),
                1,
                100,
                "1 to 100 percent",
            ),
            (
                "lone_issue_percent",
                self.lone_issue_percent.into(),
                1,
                100,
                "1 to 100 percent",
            ),
            (
                "reserve_percent",
                self.reserve_percent.into(),
                0,
                50,
                "0 to 50 percent",
            ),
            (
                "backstop_multiple",
                self.backstop_multiple.into(),
                1,
                1000,
                "1 to 1000",
            ),
            (
                "most_held",
                self.most_held as u128,
                1,
                1 << 28,
                "1 to 2^28 buckets",
            ),
            (
                "most_owned",
                self.most_owned as u128,
                1,
                1 << 28,
                "1 to 2^28 buckets",
            ),
            (
                "tranche_percent",
                self.tranche_percent.into(),
                1,
                100,
                "1 to 100 percent",
            ),
            (
                "most_records",
                self.most_records as u128,
                1,
                MOST_RECORDS as u128,
                "1 to 512 records",
            ),
        ];
        for (name, value, least, most, want) in in_range {
            if value < least || value > most {
                return Err(ConfigError { name, value, want });
            }
        }
        Ok(())
    }
}
