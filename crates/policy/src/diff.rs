//! Compares two policies: what a reload from one to the other changes, and which counters go on.
//!
//! A counter belongs to a key, a rule, a window and an algorithm. It goes on as long as these stay,
//! whatever becomes of units, costs or conditions. The order of rules means nothing and is no change.

mod change;

use std::collections::{BTreeMap, HashMap};
use std::slice::from_ref;

use crate::file::write;
use crate::model::{
    Amount, DescriptorDomain, DescriptorLimit, DescriptorNode, Limit, Mode, Plan, PlanName, Policy,
    Rule, RuleLimits, RuleName, Sharing, Subject, SubjectId,
};
use crate::rate::Window;

pub use self::change::{Change, Counters, Item, Owner};

/// All differences, settings first, then plans, subjects, rules and descriptors, each by name.
#[must_use]
pub fn diff(from: &Policy, to: &Policy) -> Vec<Change> {
    let mut changes = Vec::new();
    settings(&mut changes, from, to);
    let (old, new): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (from.plans.iter().collect(), to.plans.iter().collect());
    paired(&old, &new, |name, pair| plans(&mut changes, name, pair));
    subjects(&mut changes, &from.subjects, &to.subjects);
    paired(&rules_by_name(from), &rules_by_name(to), |name, pair| {
        rules(&mut changes, name, pair);
    });
    paired(
        &descriptors(&from.domains),
        &descriptors(&to.domains),
        |name, pair| {
            descriptor(&mut changes, name, pair);
        },
    );
    changes
}

/// What two policies have of one name.
enum Pair<T> {
    Old(T),
    New(T),
    Both(T, T),
}

fn paired<'a, K: Ord, T: Copy>(
    old: &BTreeMap<&'a K, T>,
    new: &BTreeMap<&'a K, T>,
    mut each: impl FnMut(&'a K, Pair<T>),
) {
    let mut names: Vec<&K> = old.keys().chain(new.keys()).copied().collect();
    names.sort();
    names.dedup();
    for name in names {
        match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) => each(name, Pair::Both(*old, *new)),
            (Some(old), None) => each(name, Pair::Old(*old)),
            (None, Some(new)) => each(name, Pair::New(*new)),
            (None, None) => {}
        }
    }
}

/// Records a field if it differs.
fn field(
    changes: &mut Vec<Change>,
    item: &Item,
    field: &'static str,
    values: (String, String),
    counters: Counters,
) {
    let (from, to) = values;
    if from != to {
        changes.push(Change::Field {
            item: item.clone(),
            field,
            from,
            to,
            counters,
        });
    }
}

fn settings(changes: &mut Vec<Change>, from: &Policy, to: &Policy) {
    let item = Item::Settings;
    let both = |text: fn(&Policy) -> String| (text(from), text(to));
    let by_path = |policy: &Policy| {
        policy.rules.iter().any(|rule| {
            rule.by
                .iter()
                .any(|part| part.source == crate::model::KeySource::Path)
        })
    };
    let counters = if by_path(from) && by_path(to) {
        Counters::Anew
    } else {
        Counters::Kept
    };
    field(
        changes,
        &item,
        "paths",
        both(|policy| write::paths(&policy.paths)),
        counters,
    );
    let address = both(|policy| write::client_address(&policy.client_address));
    field(changes, &item, "client_address", address, Counters::Anew);
    let identity = both(|policy| write::identity(&policy.identity));
    field(changes, &item, "identity", identity, Counters::Anew);
    let plan = both(|policy| plan_name(policy.default_plan.as_ref()));
    field(changes, &item, "default_plan", plan, Counters::Kept);
}

fn plan_name(name: Option<&PlanName>) -> String {
    name.map_or_else(|| "none".to_owned(), ToString::to_string)
}

fn plans(changes: &mut Vec<Change>, name: &PlanName, pair: Pair<&Plan>) {
    match pair {
        Pair::Old(_) => changes.push(removed(Item::Plan(name.clone()), &[])),
        Pair::New(_) => changes.push(added(Item::Plan(name.clone()), &[])),
        Pair::Both(old, new) => {
            limits(
                changes,
                &Owner::Plan(name.clone()),
                &old.limits,
                &new.limits,
            );
            let owner = |rule: &RuleName| Owner::PlanRule(name.clone(), rule.clone());
            overrides(changes, owner, &old.rules, &new.rules);
        }
    }
}

fn overrides(
    changes: &mut Vec<Change>,
    owner: impl Fn(&RuleName) -> Owner,
    old: &BTreeMap<RuleName, Vec<Limit>>,
    new: &BTreeMap<RuleName, Vec<Limit>>,
) {
    let (old, new): (BTreeMap<_, _>, BTreeMap<_, _>) = (old.iter().collect(), new.iter().collect());
    paired(&old, &new, |rule, pair| {
        let item = Item::Override(owner(rule), rule.clone());
        match pair {
            Pair::Old(old) => changes.push(removed(item, old)),
            Pair::New(new) => changes.push(added(item, new)),
            Pair::Both(old, new) => limits(changes, &owner(rule), old, new),
        }
    });
}

fn subjects(changes: &mut Vec<Change>, old: &[Subject], new: &[Subject]) {
    let known: HashMap<&SubjectId, &Subject> =
        old.iter().map(|subject| (&subject.id, subject)).collect();
    let kept: HashMap<&SubjectId, &Subject> =
        new.iter().map(|subject| (&subject.id, subject)).collect();
    for subject in old.iter().filter(|subject| !kept.contains_key(&subject.id)) {
        changes.push(removed(Item::Subject(subject.id.clone()), &[]));
    }
    for subject in new {
        let item = Item::Subject(subject.id.clone());
        let Some(before) = known.get(&subject.id) else {
            changes.push(added(item, &[]));
            continue;
        };
        let plan = (
            plan_name(before.plan.as_ref()),
            plan_name(subject.plan.as_ref()),
        );
        field(changes, &item, "plan", plan, Counters::Kept);
        let owner = |rule: &RuleName| Owner::SubjectRule(subject.id.clone(), rule.clone());
        overrides(changes, owner, &before.rules, &subject.rules);
    }
}

fn rules_by_name(policy: &Policy) -> BTreeMap<&RuleName, &Rule> {
    policy.rules.iter().map(|rule| (&rule.name, rule)).collect()
}

fn rules(changes: &mut Vec<Change>, name: &RuleName, pair: Pair<&Rule>) {
    let item = Item::Rule(name.clone());
    let (old, new) = match pair {
        Pair::Old(old) => return changes.push(removed(item, own(&old.limits))),
        Pair::New(new) => return changes.push(added(item, own(&new.limits))),
        Pair::Both(old, new) => (old, new),
    };
    let when = (write::when(&old.when), write::when(&new.when));
    field(changes, &item, "when", when, Counters::Kept);
    field(
        changes,
        &item,
        "by",
        (write::by(&old.by), write::by(&new.by)),
        Counters::Anew,
    );
    let on_absent = (
        write::on_absent(old.on_absent),
        write::on_absent(new.on_absent),
    );
    let on_absent = (on_absent.0.to_owned(), on_absent.1.to_owned());
    field(changes, &item, "on_absent", on_absent, Counters::Kept);
    field(
        changes,
        &item,
        "mode",
        modes(old.mode, new.mode),
        Counters::Kept,
    );
    match (&old.limits, &new.limits) {
        (RuleLimits::Own(old), RuleLimits::Own(new)) => {
            limits(changes, &Owner::Rule(name.clone()), old, new);
        }
        (RuleLimits::Plan, RuleLimits::Plan) => {}
        (RuleLimits::Own(_), RuleLimits::Plan) | (RuleLimits::Plan, RuleLimits::Own(_)) => {
            // A window and an algorithm that both have goes on; which, depends on each caller.
            let both = (rule_limits(&old.limits), rule_limits(&new.limits));
            field(changes, &item, "limits", both, Counters::Anew);
        }
    }
}

fn modes(old: Mode, new: Mode) -> (String, String) {
    (write::mode(old).to_owned(), write::mode(new).to_owned())
}

fn rule_limits(limits: &RuleLimits) -> String {
    match limits {
        RuleLimits::Plan => "plan".to_owned(),
        RuleLimits::Own(limits) => written(limits),
    }
}

/// The limits that a rule has without regard to the caller.
const fn own(limits: &RuleLimits) -> &[Limit] {
    match limits {
        RuleLimits::Plan => &[],
        RuleLimits::Own(limits) => limits.as_slice(),
    }
}

fn written(limits: &[Limit]) -> String {
    limits
        .iter()
        .map(write::limit)
        .collect::<Vec<_>>()
        .join(", ")
}

fn added(item: Item, limits: &[Limit]) -> Change {
    Change::Added {
        item,
        limits: written(limits),
    }
}

fn removed(item: Item, limits: &[Limit]) -> Change {
    Change::Removed {
        item,
        limits: written(limits),
    }
}

fn limits(changes: &mut Vec<Change>, owner: &Owner, old: &[Limit], new: &[Limit]) {
    let item = |limit: &Limit| Item::Limit(owner.clone(), limit.name.clone());
    let counted = |list: &[Limit], limit: &Limit| list.iter().position(|other| same(other, limit));
    for limit in old.iter().filter(|limit| counted(new, limit).is_none()) {
        changes.push(removed(item(limit), from_ref(limit)));
    }
    for limit in new {
        match counted(old, limit) {
            None => changes.push(added(item(limit), from_ref(limit))),
            Some(index) => limit_fields(changes, &item(limit), &old[index], limit),
        }
    }
}

/// Whether two limits of one owner are the same limit: the same counter, or none and the same name.
fn same(one: &Limit, other: &Limit) -> bool {
    match (counter(one), counter(other)) {
        (Some(one), Some(other)) => one == other,
        (None, None) => one.name == other.name,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

const fn counter(limit: &Limit) -> Option<(Window, &'static str)> {
    match limit.amount {
        Amount::Metered { rate, algorithm } => Some((rate.window, algorithm.name())),
        Amount::Unlimited | Amount::Deny => None,
    }
}

fn limit_fields(changes: &mut Vec<Change>, item: &Item, old: &Limit, new: &Limit) {
    let mut each = |name, from: String, to: String, counters| {
        field(changes, item, name, (from, to), counters);
    };
    let kept = Counters::Kept;
    let (from, to) = (write::amount(old.amount), write::amount(new.amount));
    each("rate", from, to, kept);
    each("cost", old.cost.to_string(), new.cost.to_string(), kept);
    let degraded = |limit: &Limit| write::on_degraded(limit.on_degraded).to_owned();
    each("on_degraded", degraded(old), degraded(new), kept);
    let sharing = |limit: &Limit| {
        let word = limit.sharing.map_or("as deployed", write::sharing);
        word.to_owned()
    };
    each("sharing", sharing(old), sharing(new), resharing(old, new));
    let (from, to) = (old.disclose.to_string(), new.disclose.to_string());
    each("disclose", from, to, kept);
    each("name", old.name.to_string(), new.name.to_string(), kept);
}

/// What a limit counted at one node is no leased credit, and the other way round.
const fn resharing(old: &Limit, new: &Limit) -> Counters {
    match (old.sharing, new.sharing) {
        (Some(Sharing::Lease | Sharing::Fixed), Some(Sharing::Lease | Sharing::Fixed)) => {
            Counters::Kept
        }
        (Some(Sharing::Local | Sharing::Lease | Sharing::Fixed) | None, _) => Counters::Anew,
    }
}

/// Every limit of the descriptor trees, by the name that its counters have.
fn descriptors(domains: &[DescriptorDomain]) -> BTreeMap<&RuleName, &DescriptorLimit> {
    let mut limits = BTreeMap::new();
    let mut nodes: Vec<&DescriptorNode> = domains
        .iter()
        .flat_map(|domain| &domain.descriptors)
        .collect();
    while let Some(node) = nodes.pop() {
        limits.extend(node.limit.iter().map(|limit| (&limit.rule, limit)));
        nodes.extend(&node.descriptors);
    }
    limits
}

fn descriptor(changes: &mut Vec<Change>, name: &RuleName, pair: Pair<&DescriptorLimit>) {
    let item = Item::Descriptor(name.clone());
    let (old, new) = match pair {
        Pair::Old(old) => return changes.push(removed(item, from_ref(&old.limit))),
        Pair::New(new) => return changes.push(added(item, from_ref(&new.limit))),
        Pair::Both(old, new) => (old, new),
    };
    let owner = Owner::Descriptor(name.clone());
    limits(changes, &owner, from_ref(&old.limit), from_ref(&new.limit));
    field(
        changes,
        &item,
        "shadow_mode",
        modes(old.mode, new.mode),
        Counters::Kept,
    );
    let named = |limit: &DescriptorLimit| format!("{:?}", limit.replaced_as);
    field(
        changes,
        &item,
        "name",
        (named(old), named(new)),
        Counters::Kept,
    );
    let replaces = |limit: &DescriptorLimit| format!("{:?}", limit.replaces);
    field(
        changes,
        &item,
        "replaces",
        (replaces(old), replaces(new)),
        Counters::Kept,
    );
    let quota = (old.quota_mode.to_string(), new.quota_mode.to_string());
    field(changes, &item, "quota_mode", quota, Counters::Kept);
}
