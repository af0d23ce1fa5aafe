//! From the configuration to a transport that runs.

use std::sync::Arc;

use store::nats::{LinkError, NatsLink};

use super::Transport as _;
use super::credentials::Credentials;
use super::identity::Identity;
use super::inbox::Deliver;
use super::mesh::{Chance, Mesh, MeshError, Security};
use super::nats::{NatsPeers, NatsPeersSettings};
use crate::clock::Clock;
use crate::config::{Config, Listen, NatsSecretError};
use crate::metrics::Telemetry;

/// Random bits from the operating system.
#[must_use]
pub fn system_chance() -> Chance {
    // They only spread waits: without them all would wait the shortest time.
    Arc::new(|| getrandom::u64().unwrap_or_default())
}

/// Why NATS cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NatsStartError {
    /// A secret cannot be read.
    #[error(transparent)]
    Secret(#[from] NatsSecretError),
    /// The settings cannot be used.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// Begins to connect to the servers that `nats.servers` names; `None` if there are none. That no server is there yet is
/// no error: see [`NatsLink::state`]. Needs a Tokio runtime.
///
/// # Errors
/// [`NatsStartError`]; nothing is left running.
pub async fn connect_nats(
    config: &Config,
    chance: &Chance,
) -> Result<Option<NatsLink>, NatsStartError> {
    match config.nats.settings(&config.fleet, chance())? {
        Some(settings) => Ok(Some(NatsLink::open(&settings).await?)),
        None => Ok(None),
    }
}

/// Starts to carry frames over a connection of [`connect_nats`], with the members of `fleet.members`. What comes in goes
/// to `deliver`, whose inbox should have [`crate::config::Peers::bounds`]. Needs a Tokio runtime.
#[must_use]
pub fn start_nats(config: &Config, link: &NatsLink, deliver: Deliver) -> Option<NatsPeers> {
    let Identity { cluster, node } = config.fleet.identity()?;
    let settings = NatsPeersSettings {
        cluster,
        name: node,
        bounds: config.peers.bounds(),
    };
    let peers = NatsPeers::start(settings, link.clone(), deliver);
    peers.set_members(config.fleet.members.fixed());
    Some(peers)
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
    mesh.set_members(config.fleet.members.fixed());
    Ok(Some(mesh))
}
