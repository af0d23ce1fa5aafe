//! Writes a policy as a canonical file: every default spelled out, one way of writing each thing.
//!
//! Reading the text again gives an equal policy. Descriptor trees of envoyproxy/ratelimit have no
//! place in this format.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;

use ipnet::IpNet;

use crate::model::{
    Algorithm, Amount, ClientAddressReading, ForwardingHeader, IdentityReading, IdentitySource,
    KeyPart, KeySource, Limit, Mode, Normalizer, OnAbsent, OnDegraded, PathReading, Policy, Rule,
    RuleLimits, RuleName, Sharing, Subject, SubjectId, ValueCondition, When,
};

/// A policy as the text of a file.
#[derive(Clone, Copy)]
pub struct Canonical<'p>(pub &'p Policy);

impl fmt::Display for Canonical<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let policy = self.0;
        writeln!(f, "version: {}", super::VERSION)?;
        writeln!(f, "paths: {}", paths(&policy.paths))?;
        writeln!(
            f,
            "client_address: {}",
            client_address(&policy.client_address)
        )?;
        writeln!(f, "identity: {}", identity(&policy.identity))?;
        if !policy.plans.is_empty() {
            writeln!(f, "plans:")?;
        }
        for (name, plan) in &policy.plans {
            writeln!(f, "  {}:", scalar(name.as_str()))?;
            if !plan.limits.is_empty() {
                writeln!(f, "    limits:")?;
                write_limits(f, "      ", &plan.limits)?;
            }
            write_overrides(f, "    ", &plan.rules)?;
        }
        if let Some(name) = &policy.default_plan {
            writeln!(f, "default_plan: {}", scalar(name.as_str()))?;
        }
        if !policy.subjects.is_empty() {
            writeln!(f, "subjects:")?;
        }
        for subject in &policy.subjects {
            write_subject(f, subject)?;
        }
        writeln!(f, "rules:")?;
        policy.rules.iter().try_for_each(|rule| write_rule(f, rule))
    }
}

fn write_subject(f: &mut fmt::Formatter<'_>, subject: &Subject) -> fmt::Result {
    match &subject.id {
        SubjectId::ApiKeyHash(hash) => writeln!(f, "  - api_key_hash: {hash}")?,
        SubjectId::User(name) => writeln!(f, "  - user: {}", scalar(name))?,
    }
    if let Some(name) = &subject.plan {
        writeln!(f, "    plan: {}", scalar(name.as_str()))?;
    }
    write_overrides(f, "    ", &subject.rules)
}

fn write_overrides(
    f: &mut fmt::Formatter<'_>,
    indent: &str,
    overrides: &BTreeMap<RuleName, Vec<Limit>>,
) -> fmt::Result {
    if !overrides.is_empty() {
        writeln!(f, "{indent}rules:")?;
    }
    overrides.iter().try_for_each(|(rule, limits)| {
        writeln!(f, "{indent}  {}:", scalar(rule.as_str()))?;
        write_limits(f, &format!("{indent}    "), limits)
    })
}

fn write_limits(f: &mut fmt::Formatter<'_>, indent: &str, limits: &[Limit]) -> fmt::Result {
    limits
        .iter()
        .try_for_each(|one| writeln!(f, "{indent}- {}", limit(one)))
}

fn write_rule(f: &mut fmt::Formatter<'_>, rule: &Rule) -> fmt::Result {
    writeln!(f, "  - name: {}", scalar(rule.name.as_str()))?;
    write_when(f, &rule.when)?;
    writeln!(f, "    by: {}", by(&rule.by))?;
    writeln!(f, "    on_absent: {}", on_absent(rule.on_absent))?;
    writeln!(f, "    mode: {}", mode(rule.mode))?;
    match &rule.limits {
        RuleLimits::Plan => writeln!(f, "    limits: plan"),
        RuleLimits::Own(limits) => {
            writeln!(f, "    limits:")?;
            write_limits(f, "      ", limits)
        }
    }
}

fn write_when(f: &mut fmt::Formatter<'_>, when: &When) -> fmt::Result {
    let fields = conditions(when);
    if !fields.is_empty() {
        writeln!(f, "    when:")?;
    }
    for (name, value) in fields {
        match value {
            Conditions::Inline(text) => writeln!(f, "      {name}: {text}")?,
            Conditions::Named(pairs) => {
                writeln!(f, "      {name}:")?;
                for (name, value) in pairs {
                    writeln!(f, "        {name}: {value}")?;
                }
            }
        }
    }
    Ok(())
}

/// A limit as its file writes it, on one line.
#[must_use]
pub fn limit(limit: &Limit) -> String {
    format!(
        "{{rate: {}, cost: {}, on_degraded: {}, {}disclose: {}, name: {}}}",
        amount(limit.amount),
        limit.cost,
        on_degraded(limit.on_degraded),
        // Left out where the deployment decides: there is no word for that.
        limit
            .sharing
            .map_or_else(String::new, |how| format!("sharing: {}, ", sharing(how))),
        limit.disclose,
        scalar(limit.name.as_str())
    )
}

/// A rate and how it is counted.
#[must_use]
pub fn amount(amount: Amount) -> String {
    match amount {
        Amount::Unlimited => "unlimited".to_owned(),
        Amount::Deny => "deny".to_owned(),
        Amount::Metered { rate, algorithm } => {
            let text = format!(
                "{}/{}, algorithm: {}",
                rate.units,
                rate.window,
                algorithm.name()
            );
            match algorithm {
                Algorithm::FixedWindow | Algorithm::SlidingWindow => text,
                Algorithm::TokenBucket { burst } => format!("{text}, burst: {burst}"),
            }
        }
    }
}

pub(crate) const fn on_degraded(on_degraded: OnDegraded) -> &'static str {
    match on_degraded {
        OnDegraded::FairShare => "fair_share",
        OnDegraded::FailOpen => "fail_open",
        OnDegraded::FailClosed => "fail_closed",
    }
}

/// The word of a policy file for it.
#[must_use]
pub const fn sharing(sharing: Sharing) -> &'static str {
    match sharing {
        Sharing::Local => "local",
        Sharing::Lease => "lease",
        Sharing::Fixed => "fixed",
    }
}

pub(crate) const fn on_absent(on_absent: OnAbsent) -> &'static str {
    match on_absent {
        OnAbsent::Share => "share",
        OnAbsent::Skip => "skip",
        OnAbsent::Deny => "deny",
    }
}

pub(crate) const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
    }
}

/// What buckets are keyed by.
#[must_use]
pub fn by(parts: &[KeyPart]) -> String {
    if parts.is_empty() {
        "everyone".to_owned()
    } else {
        list(parts.iter().map(key_part))
    }
}

/// Conditions on one line; `{}` for none.
#[must_use]
pub fn when(when: &When) -> String {
    let fields = conditions(when)
        .into_iter()
        .map(|(name, value)| match value {
            Conditions::Inline(text) => format!("{name}: {text}"),
            Conditions::Named(pairs) => {
                let pairs: Vec<_> = pairs
                    .into_iter()
                    .map(|(name, value)| format!("{name}: {value}"))
                    .collect();
                format!("{name}: {{{}}}", pairs.join(", "))
            }
        });
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

/// The value of a field of `when`.
enum Conditions {
    Inline(String),
    Named(Vec<(String, String)>),
}

fn conditions(when: &When) -> Vec<(&'static str, Conditions)> {
    let texts = |texts: &[Arc<str>]| list(texts.iter().map(|text| scalar(text)));
    let ranges = |ranges: &[IpNet]| list(ranges.iter().map(|range| scalar(&range.to_string())));
    let mut fields = Vec::new();
    let mut inline = |name, given: bool, text: String| {
        if given {
            fields.push((name, Conditions::Inline(text)));
        }
    };
    let paths = list(when.paths.iter().map(|pattern| scalar(&pattern.source)));
    inline("path", !when.paths.is_empty(), paths);
    inline("method", !when.methods.is_empty(), texts(&when.methods));
    inline("host", !when.hosts.is_empty(), texts(&when.hosts));
    inline(
        "address",
        !when.addresses.is_empty(),
        ranges(&when.addresses),
    );
    let domain = when.domain.as_deref().map(scalar);
    inline("domain", domain.is_some(), domain.unwrap_or_default());
    let mut named = |name, pairs: Vec<(String, String)>| {
        if !pairs.is_empty() {
            fields.push((name, Conditions::Named(pairs)));
        }
    };
    let headers = when.headers.iter();
    named(
        "headers",
        headers
            .map(|c| (scalar(&c.name), value_condition(&c.value)))
            .collect(),
    );
    let entries = when.descriptor.iter();
    named(
        "descriptor",
        entries
            .map(|c| (scalar(&c.key), value_condition(&c.value)))
            .collect(),
    );
    fields
}

pub(crate) fn paths(paths: &PathReading) -> String {
    let trailing = if paths.trailing_slash_significant {
        "significant"
    } else {
        "ignore"
    };
    format!(
        "{{case_sensitive: {}, trailing_slash: {trailing}, merge_slashes: {}, decode_slashes: {}, \
         strip_parameters: {}}}",
        paths.case_sensitive, paths.merge_slashes, paths.decode_slashes, paths.strip_parameters
    )
}

pub(crate) fn client_address(reading: &ClientAddressReading) -> String {
    let mut text = String::from("{");
    if !reading.trusted.is_empty() {
        let header = match &reading.header {
            ForwardingHeader::XForwardedFor => "x-forwarded-for",
            ForwardingHeader::Forwarded => "forwarded",
            ForwardingHeader::Single(name) => name,
        };
        let trusted = list(
            reading
                .trusted
                .iter()
                .map(|range| scalar(&range.to_string())),
        );
        text += &format!("trusted: {trusted}, header: {}, ", scalar(header));
    }
    let (v6, v4) = (reading.ipv6_prefix, reading.ipv4_prefix);
    text += &format!("ipv6_prefix: {v6}, ipv4_prefix: {v4}}}");
    text
}

pub(crate) fn identity(reading: &IdentityReading) -> String {
    let sources = |sources: &[IdentitySource]| list(sources.iter().map(identity_source));
    format!(
        "{{api_key: {}, user: {}}}",
        sources(&reading.api_key),
        sources(&reading.user)
    )
}

fn identity_source(source: &IdentitySource) -> String {
    match source {
        IdentitySource::Bearer => "bearer".into(),
        IdentitySource::Header(name) => format!("{{header: {}}}", scalar(name)),
        IdentitySource::Descriptor(key) => format!("{{descriptor: {}}}", scalar(key)),
    }
}

fn value_condition(value: &ValueCondition) -> String {
    match value {
        ValueCondition::Present => "{present: true}".into(),
        ValueCondition::Absent => "{present: false}".into(),
        ValueCondition::Is(text) => format!("{{is: {}}}", scalar(text)),
        ValueCondition::Prefix(text) => format!("{{prefix: {}}}", scalar(text)),
    }
}

/// A part of a key as its file writes it.
#[must_use]
pub fn key_part(part: &KeyPart) -> String {
    let (field, text) = match &part.source {
        KeySource::ApiKey => ("source", "api_key".into()),
        KeySource::User => ("source", "user".into()),
        KeySource::ClientAddress => ("source", "address".into()),
        KeySource::Path => ("source", "path".into()),
        KeySource::Method => ("source", "method".into()),
        KeySource::Host => ("source", "host".into()),
        KeySource::Header(name) => ("header", scalar(name)),
        KeySource::Descriptor(key) => ("descriptor", scalar(key)),
    };
    let Normalizer {
        trim,
        lowercase,
        nfc,
    } = part.normalize;
    let folds: Vec<String> = [(trim, "trim"), (lowercase, "lowercase"), (nfc, "nfc")]
        .into_iter()
        .filter(|(on, _)| *on)
        .map(|(_, name)| name.to_owned())
        .collect();
    if !folds.is_empty() {
        return format!(
            "{{{field}: {text}, normalize: {}}}",
            list(folds.into_iter())
        );
    }
    if field == "source" {
        text
    } else {
        format!("{{{field}: {text}}}")
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(", "))
}

/// Text as a scalar that every YAML reader takes for text.
#[must_use]
pub fn scalar(text: &str) -> String {
    const READ_AS_OTHER: [&str; 11] = [
        "null", "true", "false", "yes", "no", "on", "off", "y", "n", "nan", "inf",
    ];
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '-');
    let lower = text.to_ascii_lowercase();
    if text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(plain)
        && !READ_AS_OTHER.contains(&lower.as_str())
    {
        return text.to_owned();
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            '"' | '\\' => write!(quoted, "\\{c}"),
            ' '..='~' => write!(quoted, "{c}"),
            _ if c.is_alphanumeric() => write!(quoted, "{c}"),
            '\0'..='\u{ff}' => write!(quoted, "\\x{:02x}", u32::from(c)),
            _ => write!(quoted, "\\U{:08x}", u32::from(c)),
        };
    }
    quoted.push('"');
    quoted
}
