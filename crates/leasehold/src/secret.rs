//! The node's hash secret, for commands that name API keys as the node does.

use std::path::PathBuf;

use gate::hash::HashSecret;
use node::config::Loaded;
use node::config::secret::SecretSource;

/// Where the node's configuration is.
#[derive(Debug, clap::Args)]
pub struct SecretArguments {
    /// The node's configuration file, for its `secret`; `LEASEHOLD__SECRET` wins over it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// One setting of the node, such as `secret=file:/etc/leasehold/secret`.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

/// Reads the secret that a node so configured would use; none if each process makes its own.
pub fn read(arguments: &SecretArguments) -> anyhow::Result<Option<HashSecret>> {
    let loaded = Loaded::read(
        arguments.config.as_deref(),
        std::env::vars_os(),
        &arguments.settings,
    )?;
    let config = loaded.config;
    let table = config.table.path.as_deref();
    if config.secret == SecretSource::Generate && table.is_none() {
        return Ok(None);
    }
    let secret = config.secret.secret(table)?;
    Ok(Some(HashSecret::new(secret.version, secret.bytes)))
}
