//! What can differ between two policies, and how it is told.

use std::fmt;

use crate::model::{LimitName, PlanName, RuleName, SubjectId};

/// One difference between two policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Something is new; its counters start anew.
    Added {
        /// What.
        item: Item,
        /// Limits as files write them; empty for other things.
        limits: String,
    },
    /// Something is gone, and its counters with it.
    Removed {
        /// What.
        item: Item,
        /// Limits as files write them; empty for other things.
        limits: String,
    },
    /// One field of something is different.
    Field {
        /// Of what.
        item: Item,
        /// The field, as files name it.
        field: &'static str,
        /// Its value before, as files write it.
        from: String,
        /// Its value after.
        to: String,
        /// Whether counters go on.
        counters: Counters,
    },
}

/// What becomes of the counters that a change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counters {
    /// They go on where they are.
    Kept,
    /// They start anew, for all keys or for some.
    Anew,
}

/// A part of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// The file's own settings.
    Settings,
    /// A plan.
    Plan(PlanName),
    /// A subject.
    Subject(SubjectId),
    /// A rule.
    Rule(RuleName),
    /// The limits that a plan or a subject has for a rule.
    Override(Owner, RuleName),
    /// The limit of an Envoy descriptor.
    Descriptor(RuleName),
    /// A limit.
    Limit(Owner, LimitName),
}

/// Who has limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A rule.
    Rule(RuleName),
    /// A plan, for rules that take theirs from it.
    Plan(PlanName),
    /// A plan, for one rule.
    PlanRule(PlanName, RuleName),
    /// A subject, for one rule.
    SubjectRule(SubjectId, RuleName),
    /// An Envoy descriptor.
    Descriptor(RuleName),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added { item, limits } if limits.is_empty() => write!(f, "+ {item}"),
            Self::Added { item, limits } => write!(f, "+ {item}: {limits}"),
            Self::Removed { item, limits } if limits.is_empty() => write!(f, "- {item}"),
            Self::Removed { item, limits } => write!(f, "- {item}: {limits}"),
            Self::Field {
                item,
                field,
                from,
                to,
                counters,
            } => {
                write!(f, "~ {item}: {field}: {from} -> {to}")?;
                match counters {
                    Counters::Kept => Ok(()),
                    Counters::Anew => f.write_str(" (counters start anew)"),
                }
            }
        }
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings => f.write_str("settings"),
            Self::Plan(name) => write!(f, "plan {name}"),
            Self::Subject(id) => write!(f, "{}", Named(id)),
            Self::Rule(name) => write!(f, "rule {name}"),
            Self::Override(owner, _) => write!(f, "{owner}"),
            Self::Descriptor(name) => write!(f, "descriptor {name}"),
            Self::Limit(owner, name) => write!(f, "{owner}: limit {name}"),
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(name) => write!(f, "rule {name}"),
            Self::Plan(name) => write!(f, "plan {name}"),
            Self::PlanRule(plan, rule) => write!(f, "plan {plan} for rule {rule}"),
            Self::SubjectRule(id, rule) => write!(f, "{} for rule {rule}", Named(id)),
            Self::Descriptor(name) => write!(f, "descriptor {name}"),
        }
    }
}

/// A subject in a message: its name, or the beginning of its key's hash.
struct Named<'a>(&'a SubjectId);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            SubjectId::ApiKeyHash(hash) => write!(f, "subject {hash:?}"),
            SubjectId::User(name) => write!(f, "subject {}", crate::fault::Quoted(name)),
        }
    }
}
