//! `leasehold policy check`.

use std::path::PathBuf;
use std::process::ExitCode;

use policy::model::{DescriptorNode, Policy, RuleLimits};

use super::{faults, print, read};
use crate::format::Format;

/// Tell whether policies are right.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Policy files; a directory is read as one policy of envoyproxy/ratelimit's files.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// How they are written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Checks every path, whatever is wrong with others.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let (mut faulty, mut unreadable) = (false, false);
    for path in &arguments.paths {
        match read(path, arguments.format) {
            Ok(Ok(document)) => {
                faults::print_warnings(&document.warnings);
                print(&format!(
                    "{}: ok, {}\n",
                    path.display(),
                    summary(&document.policy)
                ))?;
            }
            Ok(Err(error)) => {
                faulty = true;
                faults::print(&error);
            }
            Err(error) => {
                unreadable = true;
                eprintln!("{error:#}");
            }
        }
    }
    Ok(match (unreadable, faulty) {
        (true, _) => ExitCode::from(2),
        (false, true) => ExitCode::from(1),
        (false, false) => ExitCode::SUCCESS,
    })
}

/// What there is in a policy.
fn summary(policy: &Policy) -> String {
    let own = policy.rules.iter().map(|rule| match &rule.limits {
        RuleLimits::Own(limits) => limits.len(),
        RuleLimits::Plan => 0,
    });
    let of_plans = policy
        .plans
        .values()
        .map(|plan| plan.limits.len() + plan.rules.values().map(Vec::len).sum::<usize>());
    let of_subjects = policy
        .subjects
        .iter()
        .map(|subject| subject.rules.values().map(Vec::len).sum::<usize>());
    let in_trees = policy
        .domains
        .iter()
        .flat_map(|domain| &domain.descriptors)
        .map(limits_below);
    let limits: usize = own.chain(of_plans).chain(of_subjects).chain(in_trees).sum();
    let counts = [
        (policy.rules.len(), "rule"),
        (policy.domains.len(), "domain"),
        (limits, "limit"),
        (policy.plans.len(), "plan"),
        (policy.subjects.len(), "subject"),
    ];
    let counts = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
    counts.collect::<Vec<_>>().join(", ")
}

fn limits_below(node: &DescriptorNode) -> usize {
    usize::from(node.limit.is_some()) + node.descriptors.iter().map(limits_below).sum::<usize>()
}
