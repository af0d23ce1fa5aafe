//! Reads rules: which requests, counted by what, under which limits.
//!
//! A rule that fails to read fails the file; no part of it is dropped or widened.

use std::collections::HashMap;
use std::sync::Arc;

use crate::fault::{FaultKind, Faults, Quoted, Read};
use crate::fields::{Fields, Path, Place};
use crate::file::Outline;
use crate::file::key::read_by;
use crate::file::limits::read_limits;
use crate::file::names::{MAX_NAME, check_header_name, read_host, read_method, read_name};
use crate::file::settings::read_ranges;
use crate::model::{
    EntryCondition, HeaderCondition, Mode, OnAbsent, PathPattern, PathReading, Rule, RuleLimits,
    RuleName, ValueCondition, When,
};
use crate::yaml::Content;

/// The most rules in a file.
pub const MAX_RULES: usize = 10_000;

/// The most values in one list of conditions.
pub const MAX_CONDITIONS: usize = 256;

/// The fields of a rule.
pub const RULE: [&str; 6] = ["name", "when", "by", "on_absent", "mode", "limits"];

/// The fields of `when`.
pub const WHEN: [&str; 7] = [
    "path",
    "method",
    "host",
    "address",
    "headers",
    "domain",
    "descriptor",
];

/// The fields of a condition on a value.
pub const VALUE: [&str; 3] = ["is", "prefix", "present"];

const VALUE_WANTED: &str = "a value, `{prefix: v1-}`, or `{present: true}`";

const ON_ABSENT: [(&str, OnAbsent); 3] = [
    ("share", OnAbsent::Share),
    ("skip", OnAbsent::Skip),
    ("deny", OnAbsent::Deny),
];

const MODES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];

/// Reads `rules`.
pub fn read_rules(
    faults: &mut Faults,
    place: Place<'_>,
    paths: &PathReading,
    outline: &Outline<'_>,
) -> Read<Vec<Rule>> {
    let wanted = "a list of rules such as `- {name: all, by: address, limits: [100/s]}`";
    let mut first_lines: HashMap<String, usize> = HashMap::new();
    place.list(faults, MAX_RULES, wanted, |faults, place| {
        read_rule(faults, place, paths, outline, &mut first_lines)
    })
}

fn read_rule(
    faults: &mut Faults,
    place: Place<'_>,
    paths: &PathReading,
    outline: &Outline<'_>,
    first_lines: &mut HashMap<String, usize>,
) -> Read<Rule> {
    let fields = Fields::open(faults, place, &RULE)?;
    let name = fields.required(faults, "name", "login", |faults, place| {
        let name = read_name(faults, place, "a name for the rule")?;
        if let Some(line) = first_lines.insert(name.to_owned(), place.node.at.line) {
            let problem = format!(
                "another rule is named {} already, in line {line}",
                Quoted(name)
            );
            let help = "give each rule a name of its own: counters are kept by it".to_owned();
            return Err(place.fault(faults, FaultKind::Conflict, problem, help));
        }
        Ok(RuleName::new(name))
    });
    let when = fields.optional(faults, "when", |faults, place| {
        read_when(faults, place, paths)
    });
    let by = fields.required(faults, "by", "address", read_by);
    let on_absent = fields.optional(faults, "on_absent", |faults, place| {
        place.word(faults, &ON_ABSENT)
    });
    let mode = fields.optional(faults, "mode", |faults, place| place.word(faults, &MODES));
    let limits = fields.required(faults, "limits", "[100/s]", |faults, place| {
        read_rule_limits(faults, place, outline)
    });
    Ok(Rule {
        name: name?,
        when: when?.unwrap_or_default(),
        by: by?,
        on_absent: on_absent?.unwrap_or_default(),
        mode: mode?.unwrap_or_default(),
        limits: limits?,
    })
}

fn read_rule_limits(
    faults: &mut Faults,
    place: Place<'_>,
    outline: &Outline<'_>,
) -> Read<RuleLimits> {
    let Content::Scalar { text, .. } = &place.node.content else {
        return read_limits(faults, place).map(RuleLimits::Own);
    };
    if text != "plan" {
        let wanted = "a list of limits such as `[100/s]`, or `plan` for those of the caller's plan";
        return Err(place.wrong_type(faults, wanted));
    }
    if !outline.has_default_plan {
        let problem = "takes its limits from the caller's plan, but a caller may have none";
        let help = "write `default_plan:` and a plan's name at the top of the file".to_owned();
        return Err(place.fault(faults, FaultKind::Conflict, problem, help));
    }
    Ok(RuleLimits::Plan)
}

fn read_when(faults: &mut Faults, place: Place<'_>, paths: &PathReading) -> Read<When> {
    let fields = Fields::open(faults, place, &WHEN)?;
    if fields.is_empty() {
        let help = "write conditions such as `{path: /login}`, or leave `when` out to match every \
                    request"
            .to_owned();
        return Err(place.fault(faults, FaultKind::Empty, "is empty", help));
    }
    let path = fields.optional(faults, "path", |faults, place| {
        let wanted = "a path pattern such as `/users/{id}`, or a list of them";
        place.one_or_list(faults, MAX_CONDITIONS, wanted, |faults, place| {
            let text = place.text(faults, wanted)?;
            PathPattern::parse(paths, text).map_err(|error| {
                let problem = format!("{} {error}", Quoted(text));
                place.fault(
                    faults,
                    FaultKind::Malformed,
                    problem,
                    error.help().to_owned(),
                )
            })
        })
    });
    let method = fields.optional(faults, "method", |faults, place| {
        place.one_or_list(
            faults,
            MAX_CONDITIONS,
            "a method such as `POST`",
            read_method,
        )
    });
    let host = fields.optional(faults, "host", |faults, place| {
        place.one_or_list(
            faults,
            MAX_CONDITIONS,
            "a host such as `*.example.com`",
            read_host,
        )
    });
    let address = fields.optional(faults, "address", read_ranges);
    let headers = fields.optional(faults, "headers", |faults, place| {
        let conditions = read_conditions(faults, place, check_header_name)?;
        let named = |(name, value)| HeaderCondition { name, value };
        Ok(conditions.into_iter().map(named).collect::<Vec<_>>())
    });
    let domain = fields.optional(faults, "domain", |faults, place| {
        place
            .text(faults, "the domain of an Envoy filter")
            .map(Into::into)
    });
    let descriptor = fields.optional(faults, "descriptor", |faults, place| {
        let conditions = read_conditions(faults, place, check_entry_key)?;
        let keyed = |(key, value)| EntryCondition { key, value };
        Ok(conditions.into_iter().map(keyed).collect::<Vec<_>>())
    });
    Ok(When {
        paths: path?.unwrap_or_default(),
        methods: method?.unwrap_or_default(),
        hosts: host?.unwrap_or_default(),
        headers: headers?.unwrap_or_default(),
        domain: domain?,
        descriptor: descriptor?.unwrap_or_default(),
        addresses: address?.unwrap_or_default(),
    })
}

fn check_entry_key(faults: &mut Faults, place: Place<'_>, key: &str) -> Read<Arc<str>> {
    if key.len() <= MAX_NAME {
        return Ok(key.into());
    }
    let problem = format!("has a name of {} bytes: at most {MAX_NAME}", key.len());
    Err(place.fault(faults, FaultKind::OutOfRange, problem, None))
}

/// Reads names and the conditions on their values.
fn read_conditions(
    faults: &mut Faults,
    place: Place<'_>,
    check_key: impl Fn(&mut Faults, Place<'_>, &str) -> Read<Arc<str>>,
) -> Read<Vec<(Arc<str>, ValueCondition)>> {
    let wanted = "a mapping such as `{x-tenant: acme}`";
    let entries = place.entries(faults, MAX_CONDITIONS, wanted)?;
    let mut conditions: Vec<(Arc<str>, ValueCondition)> = Vec::with_capacity(entries.len());
    let mut failed = None;
    for (key, node) in entries {
        let path = Path::Field(place.path, &key.text);
        let place = Place { path: &path, node };
        let name = if key.text.is_empty() {
            let help = "write the name in front of the colon".to_owned();
            Err(place.fault(faults, FaultKind::Empty, "has an empty name", help))
        } else {
            check_key(faults, place, &key.text)
        };
        match (name, read_value(faults, place)) {
            (Ok(name), Ok(_)) if conditions.iter().any(|(known, _)| *known == name) => {
                let problem = "is given twice, in different case";
                failed = Some(place.fault(faults, FaultKind::DuplicateKey, problem, None));
            }
            (Ok(name), Ok(value)) => conditions.push((name, value)),
            (Err(reported), _) | (_, Err(reported)) => failed = Some(reported),
        }
    }
    failed.map_or(Ok(conditions), Err)
}

fn read_value(faults: &mut Faults, place: Place<'_>) -> Read<ValueCondition> {
    match &place.node.content {
        Content::Scalar { .. } => place
            .text(faults, VALUE_WANTED)
            .map(|text| ValueCondition::Is(text.into())),
        Content::Sequence(_) => Err(place.wrong_type(faults, VALUE_WANTED)),
        Content::Mapping(_) => {
            let fields = Fields::open(faults, place, &VALUE)?;
            let is = fields.optional(faults, "is", |faults, place| {
                place
                    .text(faults, "the value")
                    .map(|text| ValueCondition::Is(text.into()))
            });
            let prefix = fields.optional(faults, "prefix", |faults, place| {
                place
                    .text(faults, "a prefix")
                    .map(|text| ValueCondition::Prefix(text.into()))
            });
            let present = fields.optional(faults, "present", |faults, place| {
                let present = place.truth(faults)?;
                Ok(if present {
                    ValueCondition::Present
                } else {
                    ValueCondition::Absent
                })
            });
            let mut given = [is?, prefix?, present?].into_iter().flatten();
            match (given.next(), given.next()) {
                (Some(one), None) => Ok(one),
                (Some(_), Some(_)) => {
                    let problem = "has more than one of `is`, `prefix` and `present`";
                    let help = "write one of them".to_owned();
                    Err(fields.fault(faults, FaultKind::Conflict, problem, help))
                }
                (None, _) => Err(fields.missing(faults, "prefix", "v1-")),
            }
        }
    }
}
