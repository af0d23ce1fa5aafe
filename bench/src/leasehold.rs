//! Leasehold as it is installed: `leasehold serve` with a configuration, a policy and defaults for the rest.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::Failure;
use crate::server::{Server, free_address};
use crate::tools;

/// What the groups ask for, as envoyproxy/ratelimit writes it: `key` too high to be reached, `burst` low, and what
/// Envoy is asked to send.
const POLICY: &str = "\
domain: bench
descriptors:
  - key: key
    rate_limit: {unit: hour, requests_per_unit: 1000000000}
  - key: burst
    rate_limit: {unit: second, requests_per_unit: 2000}
";

/// Starts a node whose gRPC surface listens on `address`.
///
/// # Errors
/// If it cannot be started.
pub fn start(name: &'static str, address: SocketAddr) -> Result<Server, Failure> {
    let (http, admin) = (free_address()?, free_address()?);
    let folder: PathBuf = std::env::temp_dir().join(format!("leasehold-bench-{}", address.port()));
    fs::create_dir_all(&folder)?;
    let (policy, config) = (folder.join("policy.yaml"), folder.join("leasehold.toml"));
    fs::write(&policy, POLICY)?;
    let text = format!(
        "http.listen = \"{http}\"\ngrpc.listen = \"{address}\"\nadmin.listen = \"{admin}\"\n\
         policy.path = {policy:?}\npolicy.format = \"envoy\"\npolicy.watch = false\n\
         log.level = \"warn\"\n"
    );
    fs::write(&config, text)?;
    let arguments = ["serve", "--config", &config.display().to_string()];
    let server = Server::start(name, address, &tools::leasehold(), &arguments);
    // Both files have been read by now, or it has failed.
    fs::remove_dir_all(&folder)?;
    Ok(server?)
}
