//! How a node takes its place in the fleet that its configuration names: its peers, its disk, its ledger, its thread.
//!
//! A node that cannot take its place does not serve: a limit that a fleet shares would have no credit here.

use std::sync::Arc;

use lease::config::Config as Protocol;
use lease::id::{NodeId, ViewId};
use lease::view::View;
use store::file::FileLedger;

use super::Fleet;
use super::disk::{DataDir, DataError};
use super::driver::{Running, Start, StartError};
use crate::config::Config;
use crate::peers::{
    Identity, Member, MeshError, NatsStartError, Transport, connect_nats, inbox, start_mesh,
    start_nats, system_chance,
};
use crate::serve::Core;

/// The most buckets of durable limits that the ledger file has room for, 256 bytes each.
const MOST_DURABLE: usize = 1 << 20;

/// Why a node did not take its place. Nothing of it runs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The mesh.
    #[error("`peers`: {0}")]
    Mesh(#[from] MeshError),
    /// NATS.
    #[error("`nats`: {0}")]
    Nats(#[from] NatsStartError),
    /// There are members, but no way to reach them.
    #[error(
        "`fleet.members` lists others, but neither `peers.listen` nor `nats.servers` says how to reach them: set one"
    )]
    NoTransport,
    /// Its data directory.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Its ledger of durable limits.
    #[error("`fleet.data_dir`: {0}")]
    Ledger(#[from] store::file::OpenError),
    /// The protocol.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A node's place in its fleet.
#[derive(Clone, Debug)]
pub struct Place {
    /// Asks for credit.
    pub fleet: Fleet,
    /// Reaches the others.
    pub transport: Arc<dyn Transport>,
    /// Which node of which fleet this is.
    pub identity: Identity,
}

/// The list of members as all of them have it, whatever the order it was written in.
fn view(members: &[Member]) -> View {
    let mut ids: Vec<NodeId> = members.iter().map(|member| member.name.id()).collect();
    ids.sort_unstable();
    let mut hasher = blake3::Hasher::new();
    for id in &ids {
        hasher.update(&id.0.to_be_bytes());
    }
    let mut first = [0; 8];
    hasher.finalize_xof().fill(&mut first);
    View::fixed(ViewId(u64::from_be_bytes(first)), ids)
}

/// Takes the node's place, if the configuration names members. Needs a Tokio runtime.
///
/// # Errors
/// [`JoinError`].
pub async fn join(config: &Config, core: &Core) -> Result<Option<(Place, Running)>, JoinError> {
    let settings = &config.fleet;
    // A configuration with members and without a name or a directory was refused.
    let (Some(me), Some(folder)) = (settings.identity(), &settings.data_dir) else {
        return Ok(None);
    };
    if settings.members.is_empty() {
        return Ok(None);
    }
    let data = DataDir::open(folder)?;
    let ledger = FileLedger::open(folder, MOST_DURABLE)?;
    let (deliver, inbox) = inbox(config.peers.bounds());
    let chance = system_chance();
    let mesh = start_mesh(
        config,
        core.clock.clone(),
        Arc::clone(&core.telemetry),
        deliver.clone(),
        Arc::clone(&chance),
    )?;
    let transport: Arc<dyn Transport> = match mesh {
        Some(mesh) => Arc::new(mesh),
        None => {
            let link = connect_nats(config, &chance).await?;
            let link = link.ok_or(JoinError::NoTransport)?;
            let peers = start_nats(config, &link, deliver).ok_or(JoinError::NoTransport)?;
            Arc::new(peers)
        }
    };
    let start = Start {
        config: Protocol {
            degraded_after: settings.degraded_after,
            backstop_multiple: settings.backstop_multiple,
            ..Protocol::default()
        },
        node: me.node.id(),
        view: view(&settings.members),
        data,
        first: settings.first_start,
        gate: Arc::clone(&core.gate),
        clock: core.clock.clone(),
        transport: Arc::clone(&transport),
        inbox,
        ledger: Some(Arc::new(ledger)),
    };
    let (fleet, running) = start.run()?;
    tracing::info!(
        event = "fleet_joined",
        node = me.node.as_str(),
        members = settings.members.len()
    );
    let place = Place {
        fleet,
        transport,
        identity: me,
    };
    Ok(Some((place, running)))
}
