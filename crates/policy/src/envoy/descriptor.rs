//! Reads the nodes of a descriptor tree and their limits.
//!
//! Scalars are taken as that project's YAML library takes them (gopkg.in/yaml.v2, YAML 1.1): `yes` and `on` are
//! truth values where one is wanted, and text is text as it stands. Numbers that it would read in another base than
//! ten are refused.

use std::collections::HashMap;

use super::names::RuleNames;
use crate::fault::{Fault, FaultKind, Faults, Quoted, Read};
use crate::fields::{Fields, Path, Place};
use crate::model::{
    Algorithm, Amount, DescriptorLimit, DescriptorNode, DescriptorValue, Limit, LimitName, Mode,
    OnDegraded,
};
use crate::rate::{Rate, Window, WindowMs};
use crate::yaml::Content;

/// More siblings than a file has room for.
const MOST_SIBLINGS: usize = 1_000_000;

/// Units and their lengths in that project (`UnitToDivider`): a month has 30 days, a year 365.
const UNITS: [(&str, u64); 7] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3600),
    ("day", 24 * 3600),
    ("week", 7 * 24 * 3600),
    ("month", 30 * 24 * 3600),
    ("year", 365 * 24 * 3600),
];

/// Reads nodes, and keeps what outlives them.
pub(super) struct Reader<'r> {
    pub(super) warnings: &'r mut Vec<Fault>,
    pub(super) names: &'r mut RuleNames,
    /// The domain, and the composite keys of the nodes that are open.
    pub(super) above: Vec<String>,
}

impl Reader<'_> {
    /// Reads a list of nodes; nothing at all is an empty list.
    pub(super) fn descriptors(
        &mut self,
        faults: &mut Faults,
        place: Place<'_>,
    ) -> Read<Vec<DescriptorNode>> {
        let is_empty = matches!(&place.node.content, Content::Sequence(items) if items.is_empty());
        if is_empty || place.node.is_null() {
            return Ok(Vec::new());
        }
        let mut lines = HashMap::<String, usize>::new();
        place.list(
            faults,
            MOST_SIBLINGS,
            "a list of descriptors",
            |faults, place| {
                let (node, composite) = self.descriptor(faults, place)?;
                let line = place.node.at.line;
                if let Some(first) = lines.insert(composite.clone(), line) {
                    let problem = format!(
                        "the key and value of {} are those of line {first}, under {}",
                        Quoted(&composite),
                        Quoted(&self.above.join("."))
                    );
                    let help = "join the two, or make their keys or values differ".to_owned();
                    return Err(place.fault(faults, FaultKind::DuplicateKey, problem, help));
                }
                Ok(node)
            },
        )
    }

    fn descriptor(
        &mut self,
        faults: &mut Faults,
        place: Place<'_>,
    ) -> Read<(DescriptorNode, String)> {
        const KNOWN: [&str; 10] = [
            "key",
            "value",
            "rate_limit",
            "descriptors",
            "shadow_mode",
            "quota_mode",
            "share_threshold",
            "detailed_metric",
            "value_to_metric",
            "metadata",
        ];
        let fields = Fields::open(faults, place, &KNOWN)?;
        let key = fields.required(faults, "key", "<key of the entry>", |faults, place| {
            place
                .text(faults, "the key of the entry")
                .map(ToOwned::to_owned)
        });
        let value = fields
            .optional(faults, "value", optional_text)
            .map(Option::flatten);
        let shadow = flag(faults, &fields, "shadow_mode");
        let quota_mode = flag(faults, &fields, "quota_mode");
        let share = flag(faults, &fields, "share_threshold");
        let no_effect =
            ["detailed_metric", "value_to_metric"].map(|name| (name, flag(faults, &fields, name)));
        if fields.has("metadata") {
            self.warn(
                place,
                "metadata",
                "has no effect: answers carry no dynamic metadata",
            );
        }

        for (name, is_set) in no_effect {
            if is_set? {
                self.warn(
                    place,
                    name,
                    "has no effect: metrics here are by rule and limit",
                );
            }
        }

        let (key, value) = (key?, value?);
        let composite = match &value {
            Some(value) => format!("{key}_{value}"),
            None => key.clone(),
        };
        let share_threshold = share?;
        if share_threshold && !composite.contains('*') {
            let problem = "shares the threshold of a wildcard, but there is no `*` in the value";
            let help = "put a `*` in the value, or leave share_threshold out".to_owned();
            fields.fault_of(
                faults,
                "share_threshold",
                FaultKind::Conflict,
                problem,
                help,
            );
        }

        self.above.push(composite.clone());
        let limit = fields.optional(faults, "rate_limit", |faults, place| {
            self.limit(faults, place)
        });
        let descriptors = fields.optional(faults, "descriptors", |faults, place| {
            self.descriptors(faults, place)
        });
        self.above.pop();

        let mut limit = limit?;
        let (shadow, quota_mode) = (shadow?, quota_mode?);
        match &mut limit {
            Some(limit) => {
                limit.mode = if shadow { Mode::Shadow } else { Mode::Enforce };
                limit.quota_mode = quota_mode;
            }
            None => {
                for (name, is_set) in [("shadow_mode", shadow), ("quota_mode", quota_mode)] {
                    if is_set {
                        self.warn(place, name, "has no effect without a rate_limit beside it");
                    }
                }
            }
        }
        let node = DescriptorNode {
            key: key.into(),
            value: value.map_or(DescriptorValue::Any, |text| {
                DescriptorValue::Pattern(text.into())
            }),
            share_threshold,
            limit,
            descriptors: descriptors?.unwrap_or_default(),
        };
        Ok((node, composite))
    }

    fn limit(&mut self, faults: &mut Faults, place: Place<'_>) -> Read<DescriptorLimit> {
        const KNOWN: [&str; 5] = ["unit", "requests_per_unit", "unlimited", "name", "replaces"];
        if place.node.is_null() {
            let help = "write `unit` and `requests_per_unit`, or `unlimited: true`, or leave \
                        rate_limit out";
            return Err(place.fault(faults, FaultKind::Empty, "is empty", help.to_owned()));
        }
        let fields = Fields::open(faults, place, &KNOWN)?;
        let name = fields
            .optional(faults, "name", optional_text)
            .map(Option::flatten);
        let replaces = fields.optional(faults, "replaces", replaced_names);
        let amount = self.amount(faults, place, &fields);

        let (name, replaces) = (name?, replaces?.unwrap_or_default());
        if let Some(name) = name.as_ref().filter(|name| replaces.contains(name)) {
            let problem = format!("{} is the name of this very limit", Quoted(name));
            let help = "name the limit that this one replaces".to_owned();
            return Err(fields.fault_of(faults, "replaces", FaultKind::Conflict, problem, help));
        }
        let (amount, label) = amount?;
        Ok(DescriptorLimit {
            rule: self.names.name(&self.above),
            limit: Limit {
                name: LimitName::new(&label),
                amount,
                cost: 1,
                on_degraded: OnDegraded::default(),
                sharing: None,
                // That project tells clients of every limit.
                disclose: true,
            },
            mode: Mode::Enforce,
            quota_mode: false,
            replaced_as: name.map(Into::into),
            replaces: replaces.into_iter().map(Into::into).collect(),
        })
    }

    fn amount(
        &mut self,
        faults: &mut Faults,
        place: Place<'_>,
        fields: &Fields<'_>,
    ) -> Read<(Amount, String)> {
        let unlimited = flag(faults, fields, "unlimited")?;
        let units = fields.optional(faults, "requests_per_unit", requests);
        if unlimited {
            if fields.has("unit") {
                let problem = "an unlimited rate has no unit";
                let help = "leave out `unit`, or `unlimited`".to_owned();
                return Err(fields.fault_of(faults, "unit", FaultKind::Conflict, problem, help));
            }
            if units?.is_some() {
                self.warn(
                    place,
                    "requests_per_unit",
                    "has no effect beside `unlimited: true`",
                );
            }
            return Ok((Amount::Unlimited, "unlimited".to_owned()));
        }
        let wanted = "<second, minute, hour, day, week, month or year>";
        let seconds = fields.required(faults, "unit", wanted, unit);
        let units = match units? {
            Some(units) => units,
            None => return Err(fields.missing(faults, "requests_per_unit", "<whole number>")),
        };
        let refuse = |faults: &mut Faults, error: crate::rate::RateError| {
            let name = "requests_per_unit";
            fields.fault_of(faults, name, FaultKind::OutOfRange, error.to_string(), None)
        };
        let window = WindowMs::new(seconds? * 1000).map_err(|error| refuse(faults, error))?;
        let window = Window::Millis(window);
        let amount = Amount::metered(Rate { units, window }, Algorithm::FixedWindow)
            .map_err(|error| refuse(faults, error))?;
        Ok((amount, window.to_string()))
    }

    fn warn(&mut self, place: Place<'_>, field: &str, problem: &str) {
        let at = match &place.node.content {
            Content::Mapping(entries) => entries.iter().find(|(key, _)| key.text == field),
            Content::Scalar { .. } | Content::Sequence(_) => None,
        };
        self.warnings.push(Fault {
            kind: FaultKind::Conflict,
            path: Path::Field(place.path, field).to_string(),
            at: at.map_or(place.node.at, |(key, _)| key.at),
            problem: problem.to_owned(),
            help: None,
            secret: false,
        });
    }
}

/// Text, or nothing if it is empty or null.
fn optional_text(faults: &mut Faults, place: Place<'_>) -> Read<Option<String>> {
    let is_empty = matches!(&place.node.content, Content::Scalar { text, .. } if text.is_empty());
    if is_empty || place.node.is_null() {
        return Ok(None);
    }
    place.text(faults, "text").map(|text| Some(text.to_owned()))
}

/// A truth value in any of YAML 1.1's spellings; not there, or nothing, is false.
fn flag(faults: &mut Faults, fields: &Fields<'_>, name: &str) -> Read<bool> {
    const TRUE: [&str; 11] = [
        "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y",
    ];
    const FALSE: [&str; 11] = [
        "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N",
    ];
    let read = fields.optional(faults, name, |faults, place| match &place.node.content {
        Content::Scalar { text, plain: true } if TRUE.contains(&text.as_str()) => Ok(true),
        Content::Scalar { text, plain: true } if FALSE.contains(&text.as_str()) => Ok(false),
        _ if place.node.is_null() => Ok(false),
        Content::Scalar { .. } | Content::Sequence(_) | Content::Mapping(_) => place.truth(faults),
    });
    read.map(Option::unwrap_or_default)
}

fn unit(faults: &mut Faults, place: Place<'_>) -> Read<u64> {
    let wanted = "second, minute, hour, day, week, month or year";
    let text = place.text(faults, wanted)?;
    let known = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text));
    known.map(|(_, seconds)| *seconds).ok_or_else(|| {
        let problem = format!("{} is not a unit", Quoted(text));
        place.fault(
            faults,
            FaultKind::Malformed,
            problem,
            format!("write {wanted}"),
        )
    })
}

fn requests(faults: &mut Faults, place: Place<'_>) -> Read<u64> {
    let units = place.number(faults, 0, u64::from(u32::MAX))?;
    match &place.node.content {
        // YAML 1.1 reads such a number in base eight.
        Content::Scalar { text, .. } if text.len() > 1 && text.starts_with('0') => {
            let problem = format!("{} begins with 0", Quoted(text));
            let help = "write a decimal number without leading zeros".to_owned();
            Err(place.fault(faults, FaultKind::Malformed, problem, help))
        }
        Content::Scalar { .. } | Content::Sequence(_) | Content::Mapping(_) => Ok(units),
    }
}

/// The names in a list of mappings with a `name` each; nothing at all is an empty list.
fn replaced_names(faults: &mut Faults, place: Place<'_>) -> Read<Vec<String>> {
    let is_empty = matches!(&place.node.content, Content::Sequence(items) if items.is_empty());
    if is_empty || place.node.is_null() {
        return Ok(Vec::new());
    }
    let wanted = "a list of `name: <name of a limit>`";
    place.list(faults, MOST_SIBLINGS, wanted, |faults, place| {
        let fields = Fields::open(faults, place, &["name"])?;
        fields.required(faults, "name", "<name of a limit>", |faults, place| {
            place
                .text(faults, "the name of a limit")
                .map(ToOwned::to_owned)
        })
    })
}
