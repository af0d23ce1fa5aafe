//! `leasehold policy show`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use policy::file::write::{Canonical, limit};
use policy::model::{DescriptorNode, DescriptorValue, Mode, Policy};

use super::{faults, print, read_source};
use crate::format::Format;

/// Print a policy with every default spelled out.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// A policy file, or a directory of envoyproxy/ratelimit's files. Without it: the built-in sample.
    path: Option<PathBuf>,
    /// How it is written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Prints a policy of ours as a file of ours, and descriptor trees as lists of their limits.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    match read_source(arguments.path.clone(), arguments.format)? {
        Ok(document) => {
            faults::print_warnings(&document.warnings);
            print(&text(&document.policy))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            faults::print(&error);
            Ok(ExitCode::from(1))
        }
    }
}

fn text(policy: &Policy) -> String {
    if policy.domains.is_empty() {
        return Canonical(policy).to_string();
    }
    let mut text = String::from("# Limits of descriptors, as they are enforced.\n");
    for domain in &policy.domains {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}:", policy::file::write::scalar(&domain.name));
        for node in &domain.descriptors {
            write_node(&mut text, "", node);
        }
    }
    text
}

fn write_node(text: &mut String, above: &str, node: &DescriptorNode) {
    let value = match &node.value {
        DescriptorValue::Any => String::new(),
        DescriptorValue::Pattern(pattern) => format!("={pattern}"),
    };
    let comma = if above.is_empty() { "" } else { ", " };
    let way = format!("{above}{comma}{}{value}", node.key);
    if let Some(found) = &node.limit {
        let mode = match found.mode {
            Mode::Enforce => "",
            Mode::Shadow => ", shadow_mode: true",
        };
        let quota = if found.quota_mode {
            ", quota_mode: true"
        } else {
            ""
        };
        let way = policy::file::write::scalar(&way);
        let _ = writeln!(
            text,
            "  - {{descriptor: {way}, limit: {}{mode}{quota}}}",
            limit(&found.limit)
        );
    }
    for below in &node.descriptors {
        write_node(text, &way, below);
    }
}
