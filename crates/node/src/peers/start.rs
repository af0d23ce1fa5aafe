//! From the configuration to a mesh that runs.

use std::sync::Arc;

use super::Transport as _;
use super::credentials::Credentials;
use super::inbox::Deliver;
use super::mesh::{Chance, Mesh, MeshError, Security};
use crate::clock::Clock;
use crate::config::{Config, Listen};
use crate::metrics::Telemetry;

/// Random bits from the operating system.
#[must_use]
pub fn system_chance() -> Chance {
    // They only spread waits: without them all would wait the shortest time.
    Arc::new(|| getrandom::u64().unwrap_or_default())
}

/// Starts the mesh that `peers.listen` names, with the members of `fleet.members`, and keeps its certificates fresh.
/// `None` if it is off. What comes in goes to `deliver`, whose inbox should have [`crate::config::Peers::bounds`].
/// Needs a Tokio runtime.
///
/// # Errors
/// [`MeshError`]; nothing is left running.
pub fn start_mesh(
    config: &Config,
    clock: Clock,
    telemetry: Arc<Telemetry>,
    deliver: Deliver,
    chance: Chance,
) -> Result<Option<Mesh>, MeshError> {
    let (Listen::At(listen), Some(me)) = (config.peers.listen, config.fleet.identity()) else {
        // A configuration with `peers.listen` and without a name was refused.
        return Ok(None);
    };
    let tls = &config.peers.tls;
    let (security, credentials) = match tls.files() {
        Some(files) => {
            let credentials = Arc::new(Credentials::read(files, me, clock, telemetry)?);
            (Security::Tls(Arc::clone(&credentials)), Some(credentials))
        }
        // A configuration without files and without `peers.insecure` was refused, and the mesh keeps to loopback.
        None => (Security::Plaintext(me), None),
    };
    let mut mesh = Mesh::start(listen, security, config.peers.mesh(), deliver, chance)?;
    if let Some(credentials) = credentials {
        mesh.ends_with_it(tokio::spawn(credentials.keep_fresh(tls.look_every)).abort_handle());
    }
    mesh.set_members(&config.fleet.members);
    Ok(Some(mesh))
}
