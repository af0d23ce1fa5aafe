//! What is told of runs with faults: of many seeds together, and of one that is looked at again.

pub mod replay;
pub mod seeds;

use crate::fleet::Failure;

/// What kind of fault a checker found, in a word or two.
#[must_use]
pub(crate) const fn kind(failure: &Failure) -> &'static str {
    match failure {
        Failure::OverAdmission(_) => "over-admission",
        Failure::OverSpan(_) => "over-admission in a stretch",
        Failure::Ledger(_) => "unusable ledger",
        Failure::TwoIssuers(_) => "two issuers",
        Failure::Start(_) => "no start",
        Failure::Unwritable(_) => "unwritable message",
        Failure::Unreadable(_) => "unreadable message",
        Failure::Waits { .. } => "late answer",
        Failure::Starved(_) => "starvation",
    }
}
