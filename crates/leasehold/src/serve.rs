//! `leasehold serve`: a node, from the command line to its end.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use node::config::Loaded;
use node::serve::{Core, Exit, welcome};

use crate::format::Format;

/// Run a node. Without any option: on embedded defaults, with a sample policy.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration file (docs/configuration.md); `LEASEHOLD__SECTION__KEY` variables win over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The policy: a file, or a directory of envoyproxy/ratelimit files. Short for `--set policy.path=PATH`.
    #[arg(long, value_name = "PATH")]
    policy: Option<PathBuf>,
    /// How the policy is written. Short for `--set policy.format=FORMAT`.
    #[arg(long, value_name = "FORMAT", value_enum)]
    policy_format: Option<Format>,
    /// One setting; wins over the file and the environment.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Print the whole configuration, each value with where it was set, and exit.
    #[arg(long)]
    print_config: bool,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut settings = Vec::new();
    if let Some(path) = &arguments.policy {
        let path = path.to_str().context("--policy: the path is not UTF-8")?;
        settings.push(format!("policy.path={path}"));
    }
    if let Some(format) = arguments.policy_format {
        settings.push(format!("policy.format={}", format.name()));
    }
    settings.extend(arguments.settings.iter().cloned());
    let loaded = Loaded::read(arguments.config.as_deref(), std::env::vars_os(), &settings)?;
    if arguments.print_config {
        #[allow(clippy::print_stdout)]
        {
            print!("{}", loaded.print());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("the async runtime cannot be started")?;
    let log = |core: &Core| {
        node::log::init(
            &loaded.config.log,
            core.clock.clone(),
            core.redactor.clone(),
        )
        .inspect(|()| loaded.warn())
    };
    let exit = runtime.block_on(node::serve::run(&loaded.config, log, |addresses| {
        // Who has not written a policy yet is told what to try, even through a pipe; the log has its own stream.
        if loaded.config.policy.path.is_none() || std::io::stdout().is_terminal() {
            #[allow(clippy::print_stdout)]
            {
                print!("{}", welcome::text(addresses));
            }
        }
    }));
    // A thread that waits for a disk that hangs must not keep the process from ending. The node has drained by now.
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(match exit? {
        Exit::Drained { cut_off: 0 } => ExitCode::SUCCESS,
        // What was cut off is in the log.
        Exit::Drained { .. } | Exit::Hurried => ExitCode::from(1),
    })
}
