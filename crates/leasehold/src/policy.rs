//! `leasehold policy`: checking, showing, comparing and explaining policies without running a node.
//!
//! What is read here is read by the same code as by a node, so that what passes here starts there.

mod check;
mod explain;
mod faults;
mod hash_key;
mod show;

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use gate::Gate;
use gate::hash::HashSecret;
use gate::table::Table;
use node::config::PolicySource;
use node::reload::{Document, ReadError, Source};
use policy::model::Policy;

use crate::format::Format;
use crate::output::print;

/// What to do with policies.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tell whether policies are right; if not, every fault with its place and what would be right.
    Check(check::Arguments),
    /// Print a policy with every default spelled out.
    Show(show::Arguments),
    /// Tell what differs between two policies, and which counters would go on.
    Diff(Diff),
    /// Tell which rules and limits a request meets, and why.
    Explain(explain::Arguments),
    /// Print the JSON Schema of Leasehold's policy files, for editors.
    Schema,
    /// Read an API key from standard input and print its keyed hash, for `subjects`.
    HashKey(hash_key::Arguments),
}

/// Tell what differs between two policies.
#[derive(Debug, clap::Args)]
pub struct Diff {
    /// The policy before.
    from: PathBuf,
    /// The policy after.
    to: PathBuf,
    /// How both are written.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Does it.
pub fn run(command: &Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Check(arguments) => check::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Diff(arguments) => diff(arguments),
        Command::Explain(arguments) => explain::run(arguments),
        Command::Schema => {
            let schema = policy::file::schema::json_schema();
            print(&format!("{}\n", serde_json::to_string_pretty(&schema)?))?;
            Ok(ExitCode::SUCCESS)
        }
        Command::HashKey(arguments) => hash_key::run(arguments),
    }
}

fn diff(arguments: &Diff) -> anyhow::Result<ExitCode> {
    let (from, to) = (
        read(&arguments.from, arguments.format),
        read(&arguments.to, arguments.format),
    );
    let (from, to) = match (from?, to?) {
        (Ok(from), Ok(to)) => (from.policy, to.policy),
        (from, to) => {
            for error in [from.err(), to.err()].into_iter().flatten() {
                faults::print(&error);
            }
            return Ok(ExitCode::from(1));
        }
    };
    let changes = policy::diff::diff(&from, &to);
    if changes.is_empty() {
        print("no difference\n")?;
    }
    let lines: String = changes.iter().map(|change| format!("{change}\n")).collect();
    print(&lines)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a policy as a node would. The outer error is the disk's or the caller's, the inner one the policy's.
fn read(path: &Path, format: Format) -> anyhow::Result<Result<Document, ReadError>> {
    read_source(Some(path.to_owned()), format)
}

fn read_source(
    path: Option<PathBuf>,
    format: Format,
) -> anyhow::Result<Result<Document, ReadError>> {
    let settings = PolicySource {
        // As most programs have it.
        path: path.map(|path| match path.as_os_str() == "-" {
            true => PathBuf::from("/dev/stdin"),
            false => path,
        }),
        format: format.into(),
        watch: false,
    };
    match Source::once(&settings).read() {
        Ok(document) => Ok(match gate(&document.policy, &HashSecret::new(1, [0; 32])) {
            Ok(_) => Ok(document),
            Err(GateError::Policy(error)) => Err(ReadError::NotEnforceable(error)),
            Err(GateError::Table(error)) => return Err(error.into()),
        }),
        Err(error) if error.is_unreadable() => Err(error.into()),
        Err(error) => Ok(Err(error)),
    }
}

/// Why there is no gate.
#[derive(Debug, thiserror::Error)]
enum GateError {
    #[error(transparent)]
    Policy(#[from] gate::CompileError),
    #[error("the bucket table: {0}")]
    Table(#[from] gate::table::TableError),
}

/// A gate that nothing will be charged to.
fn gate(policy: &Policy, secret: &HashSecret) -> Result<Gate, GateError> {
    let table = Table::anonymous(NonZeroU64::MIN)?;
    Ok(Gate::new(table, secret, policy)?)
}
