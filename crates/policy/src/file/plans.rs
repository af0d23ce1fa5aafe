//! Reads plans, and the callers that have a plan or limits of their own.
//!
//! Every name must refer to something: an override for a rule that is not there would silently be
//! no override. A subject's API key hash is never repeated in a fault.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::fault::{FaultKind, Faults, Quoted, Read};
use crate::fields::{Fields, Path, Place, suggestion};
use crate::file::Outline;
use crate::file::limits::read_limits;
use crate::file::names::{check_name, read_name};
use crate::file::rules::MAX_RULES;
use crate::model::{ApiKeyHash, Limit, Plan, PlanName, RuleName, Subject, SubjectId};

/// The most plans in a file.
pub const MAX_PLANS: usize = 1000;

/// The most subjects in a file.
pub const MAX_SUBJECTS: usize = 1_000_000;

/// The fields of a plan.
pub const PLAN: [&str; 2] = ["limits", "rules"];

/// The fields of a subject.
pub const SUBJECT: [&str; 4] = ["api_key_hash", "user", "plan", "rules"];

/// Reads `plans`.
pub fn read_plans(
    faults: &mut Faults,
    place: Place<'_>,
    outline: &Outline<'_>,
) -> Read<BTreeMap<PlanName, Plan>> {
    let wanted = "plans by name such as `{free: {limits: [10/s]}}`";
    let entries = place.entries(faults, MAX_PLANS, wanted)?;
    let mut plans = BTreeMap::new();
    let mut failed = None;
    for (key, node) in entries {
        let path = Path::Field(place.path, &key.text);
        let place = Place { path: &path, node };
        let name = check_name(faults, place, &key.text);
        match (name, read_plan(faults, place, outline)) {
            (Ok(name), Ok(plan)) => {
                plans.insert(PlanName::new(name), plan);
            }
            (Err(reported), _) | (_, Err(reported)) => failed = Some(reported),
        }
    }
    failed.map_or(Ok(plans), Err)
}

fn read_plan(faults: &mut Faults, place: Place<'_>, outline: &Outline<'_>) -> Read<Plan> {
    let fields = Fields::open(faults, place, &PLAN)?;
    let limits = fields.optional(faults, "limits", read_limits);
    let rules = fields.optional(faults, "rules", |faults, place| {
        read_overrides(faults, place, outline)
    });
    let (limits, rules) = (limits?, rules?.unwrap_or_default());
    if limits.is_none() && rules.is_empty() {
        return Err(fields.missing(faults, "limits", "[10/s]"));
    }
    if limits.is_none() {
        let own: HashSet<&str> = rules.keys().map(RuleName::as_str).collect();
        let without = |rule: &&&str| !own.contains(**rule);
        if let Some(rule) = outline.rules_by_plan.iter().find(without) {
            let problem = format!(
                "has no limits for the rule {}, which takes them from here",
                Quoted(rule)
            );
            let help = "write `limits`, or the rule's limits under `rules`".to_owned();
            return Err(fields.fault(faults, FaultKind::MissingField, problem, help));
        }
    }
    Ok(Plan {
        limits: limits.unwrap_or_default(),
        rules,
    })
}

/// Reads limits that replace those of the named rules.
fn read_overrides(
    faults: &mut Faults,
    place: Place<'_>,
    outline: &Outline<'_>,
) -> Read<BTreeMap<RuleName, Vec<Limit>>> {
    let wanted = "limits by rule such as `{login: [20/min]}`";
    let entries = place.entries(faults, MAX_RULES, wanted)?;
    let mut overrides = BTreeMap::new();
    let mut failed = None;
    for (key, node) in entries {
        let path = Path::Field(place.path, &key.text);
        let place = Place { path: &path, node };
        if !outline.rules.contains(key.text.as_str()) {
            let problem = format!("no rule is named {}", Quoted(&key.text));
            failed = Some(unknown_name(
                faults,
                place,
                &key.text,
                &outline.rules,
                problem,
            ));
        }
        match read_limits(faults, place) {
            Ok(limits) => {
                overrides.insert(RuleName::new(&key.text), limits);
            }
            Err(reported) => failed = Some(reported),
        }
    }
    failed.map_or(Ok(overrides), Err)
}

fn unknown_name(
    faults: &mut Faults,
    place: Place<'_>,
    name: &str,
    known: &BTreeSet<&str>,
    problem: String,
) -> crate::fault::Reported {
    // Looking for the nearest of thousands of names is for faults that are told only.
    let known: Vec<&str> = if faults.is_full() {
        Vec::new()
    } else {
        known.iter().copied().collect()
    };
    let help = suggestion(name, &known).map(|near| format!("did you mean `{near}`?"));
    place.fault(faults, FaultKind::UnknownReference, problem, help)
}

/// Reads the name of a plan that must be there.
pub fn read_plan_name(
    faults: &mut Faults,
    place: Place<'_>,
    outline: &Outline<'_>,
) -> Read<PlanName> {
    let name = read_name(faults, place, "a plan's name")?;
    if outline.plans.contains(name) {
        return Ok(PlanName::new(name));
    }
    let problem = format!("no plan is named {}", Quoted(name));
    Err(unknown_name(faults, place, name, &outline.plans, problem))
}

/// Reads `subjects`.
pub fn read_subjects(
    faults: &mut Faults,
    place: Place<'_>,
    outline: &Outline<'_>,
) -> Read<Vec<Subject>> {
    let wanted = "a list of callers such as `- {user: alice, plan: pro}`";
    let mut first_lines: HashMap<SubjectId, usize> = HashMap::new();
    place.list(faults, MAX_SUBJECTS, wanted, |faults, place| {
        let subject = read_subject(faults, place, outline)?;
        let line = place.node.at.line;
        if let Some(first) = first_lines.insert(subject.id.clone(), line) {
            let problem = format!("is the caller of line {first} again");
            let help = "say all of one caller in one item".to_owned();
            return Err(place.fault(faults, FaultKind::Conflict, problem, help));
        }
        Ok(subject)
    })
}

fn read_subject(faults: &mut Faults, place: Place<'_>, outline: &Outline<'_>) -> Read<Subject> {
    let fields = Fields::open(faults, place, &SUBJECT)?;
    let key = fields
        .optional(faults, "api_key_hash", read_api_key_hash)
        .map(|hash| hash.map(SubjectId::ApiKeyHash));
    let user = fields
        .optional(faults, "user", |faults, place| {
            place.text(faults, "a user's name").map(Into::into)
        })
        .map(|name| name.map(SubjectId::User));
    let plan = fields.optional(faults, "plan", |faults, place| {
        read_plan_name(faults, place, outline)
    });
    let rules = fields.optional(faults, "rules", |faults, place| {
        read_overrides(faults, place, outline)
    });
    let id = match (key?, user?) {
        (Some(id), None) | (None, Some(id)) => id,
        (Some(_), Some(_)) => {
            let problem = "has both `api_key_hash` and `user`";
            let help = "write one item for each".to_owned();
            return Err(fields.fault(faults, FaultKind::Conflict, problem, help));
        }
        (None, None) => {
            let hint = "v1.<64 hexadecimal digits>` or `user: alice";
            return Err(fields.missing(faults, "api_key_hash", hint));
        }
    };
    let (plan, rules) = (plan?, rules?.unwrap_or_default());
    if plan.is_none() && rules.is_empty() {
        let problem = "says nothing of this caller";
        let help = "write its `plan`, or limits of its own under `rules`".to_owned();
        return Err(fields.fault(faults, FaultKind::MissingField, problem, help));
    }
    Ok(Subject { id, plan, rules })
}

fn read_api_key_hash(faults: &mut Faults, place: Place<'_>) -> Read<ApiKeyHash> {
    let wanted = "an API key's keyed hash, as `leasehold policy hash-key` prints it";
    let text = place.text(faults, wanted)?;
    text.parse().map_err(|_| {
        // Someone may have put the key itself here: the text is not repeated.
        let problem = "is not the keyed hash of an API key";
        let help = format!("write {wanted}: `v1.` and 64 hexadecimal digits; never a key");
        place.fault(faults, FaultKind::Malformed, problem, help)
    })
}
