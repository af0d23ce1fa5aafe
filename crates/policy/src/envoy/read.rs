//! Reads envoyproxy/ratelimit's configuration files, each of which holds one domain.
//!
//! What that project refuses is refused here. What it accepts either means the same here, or is named by a warning
//! if it has no effect on decisions, or is refused: a file never decides otherwise without a word. This module must
//! never make "no limit" of a limit that it could not read.

use std::collections::{HashMap, HashSet};

use super::descriptor;
use super::names::RuleNames;
use crate::fault::{Fault, FaultKind, Faults, PolicyErrors, Quoted, Read};
use crate::fields::{Fields, Path, Place};
use crate::model::{DescriptorDomain, DescriptorNode};
use crate::yaml::{self, Node};

/// A file to be read.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Its name, for messages.
    pub name: &'a str,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// What files say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains {
    /// One a file, in their order.
    pub domains: Vec<DescriptorDomain>,
    /// What was read and has no effect, or another effect, by file name.
    pub warnings: Vec<(String, Fault)>,
}

impl Domains {
    /// Whether no descriptor of any has a limit.
    #[must_use]
    pub fn limit_nothing(&self) -> bool {
        self.domains
            .iter()
            .all(|domain| !has_limit(&domain.descriptors))
    }
}

/// Files were refused, all of them, for what is wrong in some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileErrors {
    /// The faults, by file name. At least one.
    pub files: Vec<(String, PolicyErrors)>,
}

impl std::fmt::Display for FileErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (file, errors)) in self.files.iter().enumerate() {
            let line_break = if index > 0 { "\n" } else { "" };
            write!(f, "{line_break}{file}:\n{errors}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FileErrors {}

/// Reads files, each with a domain of its own.
///
/// # Errors
/// All faults of all files, among them a domain that an earlier file has. Then nothing is read. A file without limits is
/// no fault, since there are such, but a warning; see [`Domains::limit_nothing`].
pub fn read_files(files: &[File<'_>]) -> Result<Domains, FileErrors> {
    let mut read = Domains::default();
    let mut refused = Vec::new();
    let mut names = RuleNames::default();
    let mut seen = HashMap::<String, &str>::new();
    for file in files {
        let mut faults = Faults::default();
        let mut warnings = Vec::new();
        let domain = read_domain(file, &mut faults, &mut warnings, &mut names, &mut seen);
        match faults.finish(domain) {
            Ok((domain, _)) => {
                read.domains.push(domain);
                let named = warnings
                    .into_iter()
                    .map(|fault| (file.name.to_owned(), fault));
                read.warnings.extend(named);
            }
            Err(errors) => refused.push((file.name.to_owned(), errors)),
        }
    }
    if refused.is_empty() {
        Ok(read)
    } else {
        Err(FileErrors { files: refused })
    }
}

fn read_domain<'f>(
    file: &File<'f>,
    faults: &mut Faults,
    warnings: &mut Vec<Fault>,
    names: &mut RuleNames,
    seen: &mut HashMap<String, &'f str>,
) -> Read<DescriptorDomain> {
    let root = yaml::parse(file.bytes, faults)?;
    let place = Place {
        path: &Path::Root,
        node: &root,
    };
    let fields = Fields::open(faults, place, &["domain", "descriptors"])?;
    let name = fields.required(faults, "domain", "<name of the domain>", |faults, place| {
        place
            .text(faults, "the name of the domain")
            .map(ToOwned::to_owned)
    })?;
    if let Some(first) = seen.get(&name) {
        let problem = format!("the domain {} is in {first} too", Quoted(&name));
        let help = "put all descriptors of a domain in one file".to_owned();
        fields.fault_of(faults, "domain", FaultKind::DuplicateKey, problem, help);
    }
    seen.entry(name.clone()).or_insert(file.name);
    let mut reader = descriptor::Reader {
        warnings,
        names,
        above: vec![name.clone()],
    };
    let descriptors = fields
        .optional(faults, "descriptors", |faults, place| {
            reader.descriptors(faults, place)
        })?
        .unwrap_or_default();
    if !has_limit(&descriptors) {
        warnings.push(Fault {
            kind: FaultKind::Empty,
            path: "descriptors".into(),
            at: root.at,
            problem: format!(
                "no descriptor here has a limit: nothing in {} is limited",
                Quoted(&name)
            ),
            help: Some("give a descriptor a `rate_limit`, or remove the file".into()),
            secret: false,
        });
    }
    warn_of_unknown_names(place.node, &descriptors, warnings);
    Ok(DescriptorDomain {
        name: name.as_str().into(),
        descriptors,
    })
}

/// Warns of `replaces` with names that no limit of the domain bears.
fn warn_of_unknown_names(root: &Node, nodes: &[DescriptorNode], warnings: &mut Vec<Fault>) {
    let mut limits = Vec::new();
    collect_limits(nodes, &mut limits);
    let borne: HashSet<_> = limits
        .iter()
        .filter_map(|limit| limit.replaced_as.as_ref())
        .collect();
    let replaced: HashSet<_> = limits.iter().flat_map(|limit| &limit.replaces).collect();
    let mut unknown: Vec<_> = replaced.difference(&borne).collect();
    unknown.sort();
    for name in unknown {
        warnings.push(Fault {
            kind: FaultKind::UnknownReference,
            path: "descriptors".into(),
            at: root.at,
            problem: format!(
                "`replaces` names {}, which no limit here bears",
                Quoted(name)
            ),
            help: Some("give the limit that is to be replaced this `name`".into()),
            secret: false,
        });
    }
}

fn has_limit(nodes: &[DescriptorNode]) -> bool {
    nodes
        .iter()
        .any(|node| node.limit.is_some() || has_limit(&node.descriptors))
}

fn collect_limits<'n>(
    nodes: &'n [DescriptorNode],
    limits: &mut Vec<&'n crate::model::DescriptorLimit>,
) {
    for node in nodes {
        limits.extend(&node.limit);
        collect_limits(&node.descriptors, limits);
    }
}
