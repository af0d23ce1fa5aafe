//! Reads Leasehold's own policy file, whole or not at all.
//!
//! The format is described in `docs/policy.md` and by [`schema::json_schema`]. All faults of a file are
//! told together; a file with any fault yields no policy, so that no rule is ever lost by accident.

pub mod key;
pub mod limits;
mod names;
pub mod plans;
pub mod rules;
pub mod schema;
pub mod settings;
pub mod write;

use std::collections::BTreeSet;

use crate::fault::{Fault, FaultKind, Faults, PolicyErrors, Read};
use crate::fields::{Fields, Path, Place};
use crate::model::Policy;
use crate::yaml::{self, Content, Node};

/// The version of the format.
pub const VERSION: u64 = 1;

/// The fields of the file.
pub const FILE: [&str; 8] = [
    "version",
    "paths",
    "client_address",
    "identity",
    "plans",
    "default_plan",
    "subjects",
    "rules",
];

/// Reads a policy file.
///
/// # Errors
/// Every fault that was found, each with its place, the problem, and what would be right.
pub fn read(source: &[u8]) -> Result<Policy, PolicyErrors> {
    read_with_warnings(source).map(|(policy, _)| policy)
}

/// Reads a policy file, and tells what in it is allowed but hardly meant.
///
/// # Errors
/// As [`read`].
pub fn read_with_warnings(source: &[u8]) -> Result<(Policy, Vec<Fault>), PolicyErrors> {
    let mut faults = Faults::default();
    let policy = yaml::parse(source, &mut faults).and_then(|root| read_policy(&mut faults, &root));
    faults.finish(policy)
}

/// The names in a file, gathered before anything is read, so that references can be checked in place.
#[derive(Debug, Default)]
pub struct Outline<'n> {
    /// Rules, also those that have faults.
    rules: BTreeSet<&'n str>,
    /// Rules that take their limits from plans.
    rules_by_plan: BTreeSet<&'n str>,
    /// Plans, also those that have faults.
    plans: BTreeSet<&'n str>,
    has_default_plan: bool,
}

impl<'n> Outline<'n> {
    fn of(root: &'n Node) -> Self {
        let mut outline = Self {
            has_default_plan: child(root, "default_plan").is_some(),
            ..Self::default()
        };
        if let Some(Node {
            content: Content::Mapping(plans),
            ..
        }) = child(root, "plans")
        {
            outline
                .plans
                .extend(plans.iter().map(|(key, _)| key.text.as_str()));
        }
        if let Some(Node {
            content: Content::Sequence(rules),
            ..
        }) = child(root, "rules")
        {
            for rule in rules {
                let Some(name) = child(rule, "name").and_then(scalar) else {
                    continue;
                };
                outline.rules.insert(name);
                if child(rule, "limits").and_then(scalar) == Some("plan") {
                    outline.rules_by_plan.insert(name);
                }
            }
        }
        outline
    }
}

fn child<'n>(node: &'n Node, name: &str) -> Option<&'n Node> {
    match &node.content {
        Content::Mapping(entries) => entries
            .iter()
            .find(|(key, _)| key.text == name)
            .map(|(_, node)| node),
        Content::Scalar { .. } | Content::Sequence(_) => None,
    }
}

fn scalar(node: &Node) -> Option<&str> {
    match &node.content {
        Content::Scalar { text, .. } => Some(text),
        Content::Sequence(_) | Content::Mapping(_) => None,
    }
}

fn read_policy(faults: &mut Faults, root: &Node) -> Read<Policy> {
    let place = Place {
        path: &Path::Root,
        node: root,
    };
    if root.is_null() {
        let problem = "the file is empty: nothing would be limited";
        let help = "write `version: 1` and at least one rule".to_owned();
        return Err(place.fault(faults, FaultKind::Empty, problem, help));
    }
    let fields = Fields::open(faults, place, &FILE)?;
    let outline = Outline::of(root);
    let version = fields.required(faults, "version", "1", |faults, place| {
        place.number(faults, VERSION, VERSION)
    });
    let paths = fields.optional(faults, "paths", settings::read_paths);
    let client_address = fields.optional(faults, "client_address", settings::read_client_address);
    let identity = fields.optional(faults, "identity", settings::read_identity);
    let plans = fields.optional(faults, "plans", |faults, place| {
        plans::read_plans(faults, place, &outline)
    });
    let default_plan = fields.optional(faults, "default_plan", |faults, place| {
        plans::read_plan_name(faults, place, &outline)
    });
    let subjects = fields.optional(faults, "subjects", |faults, place| {
        plans::read_subjects(faults, place, &outline)
    });
    // If the way to read paths has a fault, patterns are still read, to find theirs.
    let reading = paths.map(Option::unwrap_or_default).unwrap_or_default();
    let example = "[{name: all, by: address, limits: [100/s]}]";
    let rules = fields.required(faults, "rules", example, |faults, place| {
        rules::read_rules(faults, place, &reading, &outline)
    });
    version?;
    Ok(Policy {
        paths: paths?.unwrap_or_default(),
        client_address: client_address?.unwrap_or_default(),
        identity: identity?.unwrap_or_default(),
        plans: plans?.unwrap_or_default(),
        default_plan: default_plan?,
        subjects: subjects?.unwrap_or_default(),
        rules: rules?,
        domains: Vec::new(),
    })
}
