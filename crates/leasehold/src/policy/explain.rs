//! `leasehold policy explain`: the gate's own account of a request, in words.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use gate::explain::{Explanation, LimitsFrom, RuleExplanation, RuleFate};
use gate::hash::HashSecret;
use gate::request::{Headers, Request};
use policy::fault::Quoted;
use policy::file::write::{amount, by};
use policy::model::{KeyPart, KeySource, Mode, Normalizer, OnAbsent, Policy, SubjectId};

use super::{GateError, faults, gate, print, read};
use crate::format::Format;
use crate::secret;

/// Tell which rules and limits a request meets, and why.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The policy.
    policy: PathBuf,
    /// How it is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The request's method.
    #[arg(long)]
    method: Option<String>,
    /// Its path, as it is sent.
    #[arg(long)]
    path: Option<String>,
    /// Its host.
    #[arg(long)]
    host: Option<String>,
    /// A header of it. Several are given one by one.
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// The address that connects to the proxy.
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<IpAddr>,
    /// The domain of an Envoy filter.
    #[arg(long)]
    domain: Option<String>,
    /// An entry of an Envoy descriptor. Several are given in order.
    #[arg(long = "entry", value_name = "KEY=VALUE", value_parser = entry)]
    entries: Vec<(String, String)>,
    #[command(flatten)]
    secret: secret::SecretArguments,
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        }
        Some(_) | None => Err("write a header as `x-tenant: acme`".to_owned()),
    }
}

fn entry(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err("write an entry as `key=value`".to_owned()),
    }
}

/// Explains. Nothing is charged anywhere.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let secret = secret::read(&arguments.secret)?;
    let document = match read(&arguments.policy, arguments.format)? {
        Ok(document) => document,
        Err(error) => {
            faults::print(&error);
            return Ok(ExitCode::from(1));
        }
    };
    faults::print_warnings(&document.warnings);
    let knows_keys = secret.is_some();
    let secret = secret.unwrap_or_else(|| HashSecret::new(1, [0; 32]));
    let gate = gate(&document.policy, &secret).map_err(|error| match error {
        GateError::Policy(error) => anyhow::Error::from(error),
        GateError::Table(error) => error.into(),
    })?;
    let headers: Vec<(&str, &[u8])> = arguments
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    let headers = headers.as_slice();
    let entries: Vec<(&str, &str)> = arguments
        .entries
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    let request = Request {
        method: arguments.method.as_deref(),
        host: arguments.host.as_deref(),
        path: arguments.path.as_deref().map(str::as_bytes),
        peer: arguments.peer,
        headers: Headers::new(&headers),
        domain: arguments.domain.as_deref(),
        entries: &entries,
        ..Request::default()
    };
    let explanation = gate.explain(&gate.snapshot(), &request);
    print(&told(&explanation))?;
    if explanation.has_api_key && !knows_keys && names_keys(&document.policy) {
        eprintln!(
            "note: the policy names API keys, but without the node's `secret` none is known here: \
             give --config, or --set secret=file:PATH"
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn names_keys(policy: &Policy) -> bool {
    policy
        .subjects
        .iter()
        .any(|subject| matches!(subject.id, SubjectId::ApiKeyHash(_)))
}

/// The explanation as text.
fn told(explanation: &Explanation) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |name: &str, value: Option<String>| {
        let _ = writeln!(
            text,
            "{name:<16}{}",
            value.unwrap_or_else(|| "none".to_owned())
        );
    };
    let shown = |value: &Option<String>| value.as_deref().map(|value| Quoted(value).to_string());
    line("path", shown(&explanation.path));
    line("host", shown(&explanation.host));
    line(
        "client address",
        explanation
            .client_address
            .map(|address| address.to_string()),
    );
    line(
        "API key",
        explanation.has_api_key.then(|| "given".to_owned()),
    );
    line("user", shown(&explanation.user));
    for rule in &explanation.rules {
        text.push('\n');
        write_rule(&mut text, rule);
    }
    for found in &explanation.trees {
        let _ = writeln!(text, "\n{}: applies{}", found.rule, shadow(found.mode));
        let _ = writeln!(text, "  limit {}: {}", found.limit, amount(found.amount));
    }
    let applies = !explanation.trees.is_empty()
        || explanation.rules.iter().any(|rule| match &rule.fate {
            RuleFate::Unmet(_) => false,
            RuleFate::Met { absent, .. } => !matches!(absent, Some((_, OnAbsent::Skip))),
        });
    if !applies {
        text += "\nNo rule applies: the request is admitted and charged to nothing.\n";
    }
    text
}

const fn shadow(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "",
        Mode::Shadow => " in shadow mode: it counts and never refuses",
    }
}

fn write_rule(text: &mut String, rule: &RuleExplanation) {
    let (keyed_by, absent, from, limits) = match &rule.fate {
        RuleFate::Unmet(unmet) => {
            let _ = writeln!(text, "{}: does not apply ({unmet})", rule.rule);
            return;
        }
        RuleFate::Met {
            by,
            absent,
            from,
            limits,
        } => (by, absent, from, limits),
    };
    match absent {
        Some((source, OnAbsent::Skip)) => {
            let _ = writeln!(
                text,
                "{}: does not apply (the request has no {}, and on_absent is skip)",
                rule.rule,
                source_text(source)
            );
            return;
        }
        Some((source, OnAbsent::Deny)) => {
            let _ = writeln!(
                text,
                "{}: refuses (the request has no {}, and on_absent is deny){}",
                rule.rule,
                source_text(source),
                shadow(rule.mode)
            );
            return;
        }
        Some((_, OnAbsent::Share)) | None => {
            let _ = writeln!(text, "{}: applies{}", rule.rule, shadow(rule.mode));
        }
    }
    let parts: Vec<KeyPart> = keyed_by
        .iter()
        .map(|source| KeyPart {
            source: source.clone(),
            normalize: Normalizer::default(),
        })
        .collect();
    let _ = write!(text, "  by {}", by(&parts));
    if let Some((source, _)) = absent {
        let _ = write!(
            text,
            "; the request has no {}, and shares one bucket with all such",
            source_text(source)
        );
    }
    let from = match from {
        LimitsFrom::Rule => "",
        LimitsFrom::Plan => " of the caller's plan",
        LimitsFrom::Subject => " of the caller's own",
    };
    text.push('\n');
    for (name, much) in limits {
        let _ = writeln!(text, "  limit {name}{from}: {}", amount(*much));
    }
}

fn source_text(source: &KeySource) -> String {
    policy::file::write::key_part(&KeyPart {
        source: source.clone(),
        normalize: Normalizer::default(),
    })
}
