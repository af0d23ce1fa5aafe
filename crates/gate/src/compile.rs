//! From a checked policy to what the decision path reads: flat lists, indexes and meters.
//!
//! A compiled policy never changes. It is built whole, beside the one in force, and swapped in at once.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use lease::terms::Terms;
use policy::model::{
    Algorithm, Amount, ApiKeyHash, ClientAddressReading, IdentityReading, KeyPart, Limit,
    LimitName, Mode, OnAbsent, PathReading, PlanName, Policy, RuleLimits, RuleName, Sharing,
    SubjectId, When,
};
use policy::rate::Window;

use crate::decision::{LimitFacts, LimitNumber};
use crate::descriptors::Domains;
use crate::explain::LimitsFrom;
use crate::fleet::{self, Fleet, Lineage, Unshareable};
use crate::hash::{KeyHash, KeyHasher, LimitIdentity};
use crate::key::KeyBuilder;
use crate::matcher::Matcher;
use crate::meter::Meter;
use crate::reading::Lack;
use crate::trie::MOST_SEGMENTS;

/// A rule's place in the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RuleIndex(pub(crate) u32);

/// A limit's place in the compiled list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitIndex(pub(crate) u32);

/// A run of limits in the compiled list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LimitSet {
    start: u32,
    end: u32,
}

impl LimitSet {
    pub(crate) fn indexes(self) -> impl Iterator<Item = LimitIndex> {
        (self.start..self.end).map(LimitIndex)
    }
}

/// A policy ready to decide with.
#[derive(Debug)]
pub struct Compiled {
    pub(crate) paths: PathReading,
    pub(crate) client_address: ClientAddressReading,
    pub(crate) identity: IdentityReading,
    pub(crate) rules: Vec<CompiledRule>,
    pub(crate) matcher: Matcher,
    pub(crate) limits: Vec<CompiledLimit>,
    pub(crate) subjects: Subjects,
    pub(crate) domains: Domains,
    pub(crate) absent_key: KeyHash,
    pub(crate) revision: u64,
    /// How a limit that a request brings along is shared.
    pub(crate) sharing: Sharing,
}

/// One rule.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    pub(crate) name: RuleName,
    pub(crate) when: When,
    pub(crate) by: Vec<KeyPart>,
    pub(crate) on_absent: OnAbsent,
    pub(crate) mode: Mode,
    /// For callers whom no plan or subject gives others.
    pub(crate) own: LimitSet,
    /// By plan, where the rule's limits depend on it.
    pub(crate) by_plan: Vec<LimitSet>,
}

impl CompiledRule {
    /// What it does with a request that lacks a value of its key. A client can make a value disputed at will, so that
    /// never lets it past the rule.
    pub(crate) fn in_want(&self, lack: Lack) -> OnAbsent {
        match (self.on_absent, lack) {
            (OnAbsent::Skip, Lack::Disputed) => OnAbsent::Share,
            (on_absent, Lack::Absent | Lack::Disputed) => on_absent,
        }
    }
}

/// One limit.
#[derive(Debug)]
pub(crate) struct CompiledLimit {
    pub(crate) facts: LimitFacts,
    pub(crate) meter: Option<Meter>,
    /// If the limit is shared in a fleet: then the meter is that of its credit.
    pub(crate) terms: Option<Terms>,
    pub(crate) identity: LimitIdentity,
    pub(crate) lineage: Lineage,
    pub(crate) cost: u32,
    /// Refuses only if all limits of this kind that a request meets have no room.
    pub(crate) quota_mode: bool,
}

/// Who has limits or a plan of its own.
#[derive(Debug, Default)]
pub(crate) struct Subjects {
    pub(crate) by_api_key: HashMap<ApiKeyHash, CompiledSubject, RandomState>,
    pub(crate) by_user: HashMap<Arc<str>, CompiledSubject, RandomState>,
    /// The plan of all others.
    pub(crate) default_plan: Option<usize>,
}

/// One subject.
#[derive(Debug)]
pub(crate) struct CompiledSubject {
    pub(crate) plan: Option<usize>,
    pub(crate) rules: Vec<(RuleIndex, LimitSet)>,
}

/// Why a policy cannot be installed. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// A name that refers to nothing.
    #[error("{what} `{name}` is not in the policy")]
    Unknown {
        /// What kind of thing was named.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A rule takes its limits from plans, but a caller may have none.
    #[error(
        "rule `{rule}` takes its limits from the caller's plan, so the policy needs a `default_plan`"
    )]
    NoDefaultPlan {
        /// The rule.
        rule: RuleName,
    },
    /// A rule, plan or subject with no limit would be no limit at all.
    #[error("rule `{rule}` has no limits: at least one is needed (`unlimited` says so in words)")]
    NoLimits {
        /// The rule.
        rule: RuleName,
    },
    /// A pattern too deep to walk.
    #[error("path pattern `{pattern}` has {segments} segments: at most {MOST_SEGMENTS}")]
    PatternTooDeep {
        /// The pattern.
        pattern: Arc<str>,
        /// How many segments it has.
        segments: usize,
    },
    /// Two limits would share their counters.
    #[error(
        "two limits of rule `{rule}` have the same window and algorithm and would share a counter"
    )]
    SharedCounter {
        /// The rule.
        rule: RuleName,
    },
    /// Two rules would share their counters.
    #[error("two rules are named `{rule}` and would share counters")]
    DuplicateRule {
        /// The name.
        rule: RuleName,
    },
    /// A limit cannot be shared in a fleet as it asks.
    #[error("limit `{limit}` of rule `{rule}` cannot be shared: {why}")]
    Unshareable {
        /// The rule.
        rule: RuleName,
        /// The limit.
        limit: LimitName,
        /// Why.
        why: Unshareable,
    },
    /// More of something than the compiled form can number.
    #[error("the policy has too many limits")]
    TooLarge,
}

/// Gives each (rule, limit) its number, the same in every policy.
pub(crate) type Numbering<'n> = dyn FnMut(&RuleName, &Limit) -> LimitNumber + 'n;

impl Compiled {
    /// Compiles a policy.
    pub(crate) fn new(
        policy: &Policy,
        hasher: &KeyHasher,
        fleet: Option<Fleet>,
        number: &mut Numbering<'_>,
    ) -> Result<Self, CompileError> {
        let mut compiler = Compiler {
            hasher,
            fleet,
            number,
            limits: Vec::new(),
        };
        let plan_names: Vec<&PlanName> = policy.plans.keys().collect();
        let plan_index = |name: &PlanName| {
            plan_names
                .binary_search(&name)
                .map_err(|_| unknown("plan", name.as_str()))
        };
        let default_plan = policy.default_plan.as_ref().map(plan_index).transpose()?;

        let mut rules = Vec::with_capacity(policy.rules.len());
        let mut index_of = HashMap::new();
        for (index, rule) in policy.rules.iter().enumerate() {
            let index = RuleIndex(u32::try_from(index).map_err(|_| CompileError::TooLarge)?);
            if index_of.insert(&rule.name, index).is_some() {
                return Err(CompileError::DuplicateRule {
                    rule: rule.name.clone(),
                });
            }
            for pattern in &rule.when.paths {
                if pattern.segments.len() > MOST_SEGMENTS {
                    return Err(CompileError::PatternTooDeep {
                        pattern: Arc::clone(&pattern.source),
                        segments: pattern.segments.len(),
                    });
                }
            }
            rules.push(compiler.rule(rule, policy, default_plan)?);
        }
        let rule_index = |name: &RuleName| {
            index_of
                .get(name)
                .copied()
                .ok_or_else(|| unknown("rule", name.as_str()))
        };
        for plan in policy.plans.values() {
            for name in plan.rules.keys() {
                rule_index(name)?;
            }
        }

        let mut subjects = Subjects {
            default_plan,
            ..Subjects::default()
        };
        for subject in &policy.subjects {
            let plan = subject
                .plan
                .as_ref()
                .map(plan_index)
                .transpose()?
                .or(default_plan);
            let mut own = Vec::with_capacity(subject.rules.len());
            for (name, limits) in &subject.rules {
                let index = rule_index(name)?;
                let mode = rules[index.0 as usize].mode;
                let set = compiler.set(name, mode, limits, Whose::Subject(&subject.id))?;
                own.push((index, set));
            }
            let compiled = CompiledSubject { plan, rules: own };
            match &subject.id {
                SubjectId::ApiKeyHash(hash) => {
                    subjects.by_api_key.insert(*hash, compiled);
                }
                SubjectId::User(name) => {
                    subjects.by_user.insert(Arc::clone(name), compiled);
                }
            }
        }

        let domains = Domains::new(&policy.domains, &mut compiler)?;
        Ok(Self {
            paths: policy.paths,
            client_address: policy.client_address.clone(),
            identity: policy.identity.clone(),
            matcher: Matcher::new(
                policy
                    .rules
                    .iter()
                    .zip(0..)
                    .map(|(rule, index)| (RuleIndex(index), &rule.when)),
            ),
            rules,
            limits: compiler.limits,
            subjects,
            domains,
            absent_key: KeyBuilder::absent(hasher),
            revision: fleet.map_or(0, |fleet| fleet.revision),
            sharing: fleet.map_or(Sharing::Local, |fleet| fleet.sharing),
        })
    }

    /// The limits that a rule puts on a caller: the caller's own before its plan's before the rule's.
    #[inline]
    pub(crate) fn limits_of(
        &self,
        index: RuleIndex,
        subject: Option<&CompiledSubject>,
    ) -> (LimitsFrom, LimitSet) {
        let rule = self.rule(index);
        if let Some(subject) = subject
            && let Some((_, set)) = subject.rules.iter().find(|(of, _)| *of == index)
        {
            return (LimitsFrom::Subject, *set);
        }
        let plan = subject.map_or(self.subjects.default_plan, |subject| subject.plan);
        match plan.and_then(|plan| rule.by_plan.get(plan)) {
            Some(set) if *set != rule.own => (LimitsFrom::Plan, *set),
            Some(_) | None => (LimitsFrom::Rule, rule.own),
        }
    }

    pub(crate) fn rule(&self, index: RuleIndex) -> &CompiledRule {
        &self.rules[index.0 as usize]
    }

    pub(crate) fn limit(&self, index: LimitIndex) -> &CompiledLimit {
        &self.limits[index.0 as usize]
    }
}

fn unknown(what: &'static str, name: &str) -> CompileError {
    CompileError::Unknown {
        what,
        name: name.to_owned(),
    }
}

/// Whose limits a set is.
#[derive(Clone, Copy)]
pub(crate) enum Whose<'p> {
    /// The rule's own.
    Rule,
    /// A plan's.
    Plan(&'p PlanName),
    /// A subject's.
    Subject(&'p SubjectId),
}

impl Whose<'_> {
    fn lineage(self, hasher: &KeyHasher, identity: LimitIdentity) -> Lineage {
        let (kind, name): (&[u8], &[u8]) = match self {
            Self::Rule => (b"rule", b""),
            Self::Plan(name) => (b"plan", name.as_str().as_bytes()),
            Self::Subject(SubjectId::ApiKeyHash(hash)) => (b"api key", &hash.digest),
            Self::Subject(SubjectId::User(name)) => (b"user", name.as_bytes()),
        };
        let limit = identity.group();
        let whose = hasher.identity(&[b"whose", kind, name, &limit.to_le_bytes()]);
        Lineage {
            limit,
            whose: whose.group(),
        }
    }
}

/// Collects limits into the flat list.
pub(crate) struct Compiler<'c, 'n> {
    pub(crate) hasher: &'c KeyHasher,
    fleet: Option<Fleet>,
    number: &'c mut Numbering<'n>,
    pub(crate) limits: Vec<CompiledLimit>,
}

impl Compiler<'_, '_> {
    fn rule(
        &mut self,
        rule: &policy::model::Rule,
        policy: &Policy,
        default_plan: Option<usize>,
    ) -> Result<CompiledRule, CompileError> {
        let own = match &rule.limits {
            RuleLimits::Own(limits) => {
                Some(self.set(&rule.name, rule.mode, limits, Whose::Rule)?)
            }
            RuleLimits::Plan => None,
        };
        let depends_on_plan = own.is_none()
            || policy
                .plans
                .values()
                .any(|plan| plan.rules.contains_key(&rule.name));
        let mut by_plan = Vec::new();
        if depends_on_plan {
            for (name, plan) in &policy.plans {
                let whose = Whose::Plan(name);
                by_plan.push(match (plan.rules.get(&rule.name), own) {
                    (Some(limits), _) => self.set(&rule.name, rule.mode, limits, whose)?,
                    (None, Some(own)) => own,
                    (None, None) => self.set(&rule.name, rule.mode, &plan.limits, whose)?,
                });
            }
        }
        let own = match (own, default_plan) {
            (Some(own), _) => own,
            (None, Some(plan)) => by_plan[plan],
            (None, None) => {
                return Err(CompileError::NoDefaultPlan {
                    rule: rule.name.clone(),
                });
            }
        };
        Ok(CompiledRule {
            name: rule.name.clone(),
            when: rule.when.clone(),
            by: rule.by.clone(),
            on_absent: rule.on_absent,
            mode: rule.mode,
            own,
            by_plan,
        })
    }

    /// A limit as the fleet shares it; `None` if this node counts it by itself. A node alone has nobody to share with,
    /// but refuses what could not be shared all the same.
    fn terms(&self, rule: &RuleName, limit: &Limit) -> Result<Option<Terms>, CompileError> {
        let Amount::Metered { rate, algorithm } = limit.amount else {
            return Ok(None);
        };
        let Fleet { sharing, revision } = self.fleet.unwrap_or_default();
        let sharing = limit.sharing.unwrap_or(sharing);
        let terms = fleet::terms(rate, algorithm, limit.on_degraded, sharing, revision);
        let terms = terms.map_err(|why| CompileError::Unshareable {
            rule: rule.clone(),
            limit: limit.name.clone(),
            why,
        })?;
        Ok(terms.filter(|_| self.fleet.is_some()))
    }

    /// Adds limits that apply together.
    pub(crate) fn set(
        &mut self,
        rule: &RuleName,
        mode: Mode,
        limits: &[Limit],
        whose: Whose<'_>,
    ) -> Result<LimitSet, CompileError> {
        if limits.is_empty() {
            return Err(CompileError::NoLimits { rule: rule.clone() });
        }
        let start = self.limits.len();
        for limit in limits {
            let terms = self.terms(rule, limit)?;
            let identity =
                limit_identity(self.hasher, rule.as_str(), limit.amount, terms.is_some());
            let metered = matches!(limit.amount, Amount::Metered { .. });
            if metered
                && self.limits[start..]
                    .iter()
                    .any(|other| other.identity == identity)
            {
                return Err(CompileError::SharedCounter { rule: rule.clone() });
            }
            let compiled = CompiledLimit {
                facts: LimitFacts {
                    number: (self.number)(rule, limit),
                    rule: rule.clone(),
                    name: limit.name.clone(),
                    envoy_name: None,
                    amount: limit.amount,
                    mode,
                    on_degraded: limit.on_degraded,
                    disclose: limit.disclose,
                },
                meter: match &terms {
                    Some(terms) => Some(Meter::leased(terms)),
                    None => Meter::of(limit.amount),
                },
                terms,
                identity,
                lineage: whose.lineage(self.hasher, identity),
                cost: limit.cost,
                quota_mode: false,
            };
            self.limits.push(compiled);
        }
        let number = |index: usize| u32::try_from(index).map_err(|_| CompileError::TooLarge);
        Ok(LimitSet {
            start: number(start)?,
            end: number(self.limits.len())?,
        })
    }
}

/// The identity of a limit: rule, window and algorithm, whatever its units and burst; and whether it is shared, since
/// what one node counted is no credit.
pub(crate) fn limit_identity(
    hasher: &KeyHasher,
    rule: &str,
    amount: Amount,
    shared: bool,
) -> LimitIdentity {
    let Amount::Metered { rate, algorithm } = amount else {
        return hasher.identity(&[b"unmetered", rule.as_bytes()]);
    };
    let window_ms = match rate.window {
        Window::Forever => u64::MAX,
        Window::Millis(ms) => ms.get(),
    };
    let algorithm: &[u8] = match algorithm {
        Algorithm::FixedWindow => b"fixed_window",
        Algorithm::SlidingWindow => b"sliding_window",
        Algorithm::TokenBucket { .. } => b"token_bucket",
    };
    hasher.identity(&[
        if shared { b"shared" } else { b"metered" },
        rule.as_bytes(),
        &window_ms.to_le_bytes(),
        algorithm,
    ])
}

impl Meter {
    /// The meter of an amount; `None` for what is not counted.
    pub(crate) fn of(amount: Amount) -> Option<Self> {
        match amount {
            Amount::Metered { rate, algorithm } => Some(Self::new(rate, algorithm)),
            Amount::Unlimited | Amount::Deny => None,
        }
    }
}
