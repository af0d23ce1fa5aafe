//! Writes a policy as a canonical file: every default spelled out, one way of writing each thing.
//!
//! Reading the text again gives an equal policy. Descriptor trees of envoyproxy/ratelimit have no
//! place in this format.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;

use crate::model::{
    Algorithm, Amount, ClientAddressReading, ForwardingHeader, IdentitySource, KeyPart, KeySource,
    Limit, Mode, Normalizer, OnAbsent, OnDegraded, PathReading, Policy, Rule, RuleLimits, RuleName,
    Subject, SubjectId, ValueCondition, When,
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
        writeln!(f, "identity:")?;
        writeln!(
            f,
            "  api_key: {}",
            list(policy.identity.api_key.iter().map(identity_source))
        )?;
        writeln!(
            f,
            "  user: {}",
            list(policy.identity.user.iter().map(identity_source))
        )?;
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
    if rule.by.is_empty() {
        writeln!(f, "    by: everyone")?;
    } else {
        writeln!(f, "    by: {}", list(rule.by.iter().map(key_part)))?;
    }
    let on_absent = match rule.on_absent {
        OnAbsent::Share => "share",
        OnAbsent::Skip => "skip",
        OnAbsent::Deny => "deny",
    };
    writeln!(f, "    on_absent: {on_absent}")?;
    let mode = match rule.mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
    };
    writeln!(f, "    mode: {mode}")?;
    match &rule.limits {
        RuleLimits::Plan => writeln!(f, "    limits: plan"),
        RuleLimits::Own(limits) => {
            writeln!(f, "    limits:")?;
            write_limits(f, "      ", limits)
        }
    }
}

fn write_when(f: &mut fmt::Formatter<'_>, when: &When) -> fmt::Result {
    if *when == When::default() {
        return Ok(());
    }
    writeln!(f, "    when:")?;
    let texts = |texts: &[Arc<str>]| list(texts.iter().map(|text| scalar(text)));
    if !when.paths.is_empty() {
        let paths = list(when.paths.iter().map(|pattern| scalar(&pattern.source)));
        writeln!(f, "      path: {paths}")?;
    }
    if !when.methods.is_empty() {
        writeln!(f, "      method: {}", texts(&when.methods))?;
    }
    if !when.hosts.is_empty() {
        writeln!(f, "      host: {}", texts(&when.hosts))?;
    }
    if !when.addresses.is_empty() {
        let ranges = list(
            when.addresses
                .iter()
                .map(|range| scalar(&range.to_string())),
        );
        writeln!(f, "      address: {ranges}")?;
    }
    if !when.headers.is_empty() {
        writeln!(f, "      headers:")?;
        for condition in &when.headers {
            let value = value_condition(&condition.value);
            writeln!(f, "        {}: {value}", scalar(&condition.name))?;
        }
    }
    if let Some(domain) = &when.domain {
        writeln!(f, "      domain: {}", scalar(domain))?;
    }
    if !when.descriptor.is_empty() {
        writeln!(f, "      descriptor:")?;
        for condition in &when.descriptor {
            let value = value_condition(&condition.value);
            writeln!(f, "        {}: {value}", scalar(&condition.key))?;
        }
    }
    Ok(())
}

/// A limit as its file writes it, on one line.
#[must_use]
pub fn limit(limit: &Limit) -> String {
    let mut text = String::from("{rate: ");
    match limit.amount {
        Amount::Unlimited => text += "unlimited",
        Amount::Deny => text += "deny",
        Amount::Metered { rate, algorithm } => {
            text += &format!(
                "{}/{}, algorithm: {}",
                rate.units,
                rate.window,
                algorithm.name()
            );
            match algorithm {
                Algorithm::FixedWindow | Algorithm::SlidingWindow => {}
                Algorithm::TokenBucket { burst } => text += &format!(", burst: {burst}"),
            }
        }
    }
    let on_degraded = match limit.on_degraded {
        OnDegraded::FairShare => "fair_share",
        OnDegraded::FailOpen => "fail_open",
        OnDegraded::FailClosed => "fail_closed",
    };
    text += &format!(
        ", cost: {}, on_degraded: {on_degraded}, disclose: {}, name: {}}}",
        limit.cost,
        limit.disclose,
        scalar(limit.name.as_str())
    );
    text
}

fn paths(paths: &PathReading) -> String {
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

fn client_address(reading: &ClientAddressReading) -> String {
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
fn scalar(text: &str) -> String {
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
