//! Policies that no gate takes. Readers of files refuse them before; a policy may also be built by hand.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use gate::Gate;
use gate::hash::HashSecret;
use gate::table::Table;
use policy::model::{Plan, PlanName, Policy, RuleLimits, RuleName, Subject, SubjectId};

use crate::fixture::{fixed, policy, rule};

fn refusal(policy: &Policy) -> String {
    let table = Table::anonymous(NonZeroU64::MIN).unwrap();
    Gate::new(table, &HashSecret::new(1, [7; 32]), policy)
        .err()
        .expect("it must be refused")
        .to_string()
}

fn one_rule() -> Policy {
    policy(vec![rule("r", &[], vec![], vec![fixed(1, 60_000)])])
}

#[test]
fn a_name_that_is_there_twice() {
    let mut doubled = one_rule();
    doubled.rules.push(doubled.rules[0].clone());
    assert!(refusal(&doubled).contains("two rules are named `r`"));
}

#[test]
fn a_pattern_of_too_many_segments() {
    let deep = "/a".repeat(2000);
    let policy = policy(vec![rule("r", &[&deep], vec![], vec![fixed(1, 60_000)])]);
    assert!(refusal(&policy).contains("segments: at most"));
}

#[test]
fn a_rule_by_plan_without_a_plan_for_all_others() {
    let mut policy = one_rule();
    policy.rules[0].limits = RuleLimits::Plan;
    assert!(refusal(&policy).contains('r'));
}

#[test]
fn a_rule_without_limits() {
    let mut policy = one_rule();
    policy.rules[0].limits = RuleLimits::Own(vec![]);
    assert!(refusal(&policy).contains("rule `r` has no limits"));
}

#[test]
fn a_plan_or_a_rule_that_is_not_there() {
    let ghost_plan = || PlanName::new("ghost");
    let ghost_rules = || BTreeMap::from([(RuleName::new("ghost"), vec![fixed(1, 60_000)])]);

    let mut policy = one_rule();
    policy.default_plan = Some(ghost_plan());
    assert!(refusal(&policy).contains("`ghost` is not in the policy"));

    let mut policy = one_rule();
    policy.subjects.push(Subject {
        id: SubjectId::User("u".into()),
        plan: Some(ghost_plan()),
        rules: BTreeMap::new(),
    });
    assert!(refusal(&policy).contains("`ghost` is not in the policy"));

    let mut policy = one_rule();
    policy.subjects.push(Subject {
        id: SubjectId::User("u".into()),
        plan: None,
        rules: ghost_rules(),
    });
    assert!(refusal(&policy).contains("`ghost` is not in the policy"));

    let mut policy = one_rule();
    let plan = Plan {
        limits: vec![],
        rules: ghost_rules(),
    };
    policy.plans.insert(PlanName::new("free"), plan);
    assert!(refusal(&policy).contains("`ghost` is not in the policy"));
}
