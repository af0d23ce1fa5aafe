//! Why a request meets the limits that it meets: the same reading, matching and key building as a decision, told step
//! by step. It charges nothing and is not on the decision path.

use std::fmt;
use std::net::IpAddr;

use policy::model::{Amount, KeySource, LimitName, Mode, OnAbsent, RuleName};

use crate::compile::{Compiled, LimitSet, RuleIndex};
use crate::descriptors::TreeMatches;
use crate::gate::Gate;
use crate::key::KeyBuilder;
use crate::matcher::{Unmet, holds};
use crate::reading::{Reading, Scratch};
use crate::request::Request;

/// What a policy makes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The path as rules see it.
    pub path: Option<String>,
    /// The host as rules see it.
    pub host: Option<String>,
    /// The client's address, before it is cut to a prefix.
    pub client_address: Option<IpAddr>,
    /// Whether an API key was found. The key itself is not told.
    pub has_api_key: bool,
    /// The user that was found.
    pub user: Option<String>,
    /// Each rule, in the order of the policy.
    pub rules: Vec<RuleExplanation>,
    /// Limits found in descriptor trees.
    pub trees: Vec<TreeExplanation>,
}

/// What became of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleExplanation {
    /// Its name.
    pub rule: RuleName,
    /// Whether it enforces.
    pub mode: Mode,
    /// What became of it.
    pub fate: RuleFate,
}

/// What became of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleFate {
    /// A condition does not hold.
    Unmet(Unmet),
    /// It applies, and counts by these values.
    Met {
        /// What it counts by.
        by: Vec<KeySource>,
        /// The part of its key that the request lacks, if any, and what the rule does then.
        absent: Option<(KeySource, OnAbsent)>,
        /// Where its limits come from.
        from: LimitsFrom,
        /// Its limits.
        limits: Vec<(LimitName, Amount)>,
    },
}

/// Where a rule's limits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitsFrom {
    /// The rule itself.
    Rule,
    /// The caller's plan.
    Plan,
    /// The caller's own entry.
    Subject,
}

/// A limit found in a descriptor tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeExplanation {
    /// The rule it is counted as.
    pub rule: RuleName,
    /// Its label.
    pub limit: LimitName,
    /// How much it admits.
    pub amount: Amount,
    /// Whether it enforces.
    pub mode: Mode,
}

impl Gate {
    /// Tells which rules and limits a request meets, and why.
    #[must_use]
    pub fn explain(&self, policy: &Compiled, request: &Request<'_>) -> Explanation {
        let mut scratch = Scratch::default();
        let reading = Reading::new(*request, policy, &mut scratch);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let rules = (0..)
            .zip(&policy.rules)
            .map(|(index, rule)| RuleExplanation {
                rule: rule.name.clone(),
                mode: rule.mode,
                fate: match holds(&rule.when, &reading) {
                    Err(unmet) => RuleFate::Unmet(unmet),
                    Ok(()) => self.met(policy, &reading, RuleIndex(index)),
                },
            });
        let mut trees = TreeMatches::default();
        trees.find(&policy.domains, request, 0);
        Explanation {
            path: reading.path().map(text),
            host: reading.host().map(ToOwned::to_owned),
            client_address: reading.client_address(),
            has_api_key: reading.api_key().one().is_some(),
            user: reading.user().one().map(text),
            rules: rules.collect(),
            trees: trees
                .in_force()
                .map(|found| {
                    let facts = &policy.limit(found.limit).facts;
                    TreeExplanation {
                        rule: facts.rule.clone(),
                        limit: facts.name.clone(),
                        amount: facts.amount,
                        mode: facts.mode,
                    }
                })
                .collect(),
        }
    }

    fn met(&self, policy: &Compiled, reading: &Reading<'_>, index: RuleIndex) -> RuleFate {
        let rule = policy.rule(index);
        let mut key = KeyBuilder::new(self.hasher());
        let absent = rule.by.iter().find_map(|part| {
            let lack = reading.push_part(&mut key, part).err()?;
            Some((part.source.clone(), rule.in_want(lack)))
        });
        let (from, set) = policy.limits_of(index, reading.subject(self.hasher()));
        RuleFate::Met {
            by: rule.by.iter().map(|part| part.source.clone()).collect(),
            absent,
            from,
            limits: policy.names_and_amounts(set),
        }
    }
}

impl Compiled {
    fn names_and_amounts(&self, set: LimitSet) -> Vec<(LimitName, Amount)> {
        set.indexes()
            .map(|index| {
                let facts = &self.limit(index).facts;
                (facts.name.clone(), facts.amount)
            })
            .collect()
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Path => "path: no pattern matches",
            Self::Method => "method: not among those of the rule",
            Self::Host => "host: no pattern matches",
            Self::Header => "header: a condition does not hold",
            Self::Domain => "domain: another",
            Self::Descriptor => "descriptor: an entry condition does not hold",
            Self::Address => "address: in none of the ranges",
        })
    }
}
