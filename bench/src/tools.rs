//! Where the programs are that this one starts: `scripts/bench` puts them there and says so.

use std::env;

/// A binary built together with this one.
pub fn sibling(name: &str) -> String {
    let this = env::current_exe().unwrap_or_default();
    this.with_file_name(name).display().to_string()
}

/// Leasehold's binary, `LEASEHOLD_BIN`, or else whatever the path has.
pub fn leasehold() -> String {
    env::var("LEASEHOLD_BIN").unwrap_or_else(|_| "leasehold".to_owned())
}

/// throttlecrab's server, `THROTTLECRAB_BIN`, or else whatever the path has.
pub fn throttlecrab() -> String {
    env::var("THROTTLECRAB_BIN").unwrap_or_else(|_| "throttlecrab-server".to_owned())
}

/// Envoy, `ENVOY_BIN`, or else whatever the path has.
pub fn envoy() -> String {
    env::var("ENVOY_BIN").unwrap_or_else(|_| "envoy".to_owned())
}
