//! How a node takes its place in the fleet that its configuration names: its peers, its disk, its ledger, its thread.
//!
//! A node that cannot take its place does not serve: a limit that a fleet shares would have no credit here.

use std::sync::Arc;

use lease::config::Config as Protocol;
use lease::id::{NodeId, ViewId};
use lease::view::View;
use store::file::FileLedger;
use store::ledger::DurableLedger;
use store::members::Entry;
use store::nats::NatsLedger;

use super::Fleet;
use super::disk::{DataDir, DataError};
use super::driver::{Incarnation, Running, Start, StartError};
use super::members::{Change, Members};
use crate::config::{Config, ListedMembers};
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
    /// There is a list of members to be kept, but nowhere to keep it.
    #[error("`fleet.members` is \"view\", but no `nats.servers` keep the list: name them")]
    NoMembersStore,
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

/// Takes the node's place, if the configuration names members. Where the fleet keeps the list for itself, this waits until
/// the node is in a list that holds; it may be given up then. Needs a Tokio runtime.
///
/// # Errors
/// [`JoinError`].
pub async fn join(config: &Config, core: &Core) -> Result<Option<(Place, Running)>, JoinError> {
    let settings = &config.fleet;
    // A configuration with members and without a name or a directory was refused.
    let (Some(me), Some(folder)) = (settings.identity(), &settings.data_dir) else {
        return Ok(None);
    };
    if settings.members.is_none() {
        return Ok(None);
    }
    let data = DataDir::open(folder)?;
    let incarnation = Incarnation::begin(&data, me.node.id(), settings.first_start)?;
    let (deliver, inbox) = inbox(config.peers.bounds());
    let chance = system_chance();
    let mesh = start_mesh(
        config,
        core.clock.clone(),
        Arc::clone(&core.telemetry),
        deliver.clone(),
        Arc::clone(&chance),
    )?;
    let link = connect_nats(config, &chance).await?;
    let transport: Arc<dyn Transport> = match (mesh, &link) {
        (Some(mesh), _) => Arc::new(mesh),
        (None, Some(link)) => {
            let peers = start_nats(config, link, deliver).ok_or(JoinError::NoTransport)?;
            Arc::new(peers)
        }
        (None, None) => return Err(JoinError::NoTransport),
    };
    let (ledger, views, members): (Arc<dyn DurableLedger>, _, _) = match &settings.members {
        ListedMembers::Fixed(members) => {
            let ledger = FileLedger::open(folder, MOST_DURABLE)?;
            (Arc::new(ledger), vec![view(members)], None)
        }
        ListedMembers::View => {
            let link = link.ok_or(JoinError::NoMembersStore)?;
            // A durable bucket's owner changes with the list, so all of them need the same ledger.
            let ledger = NatsLedger::new(
                &link,
                me.cluster.as_str(),
                config.nats.replicas,
                MOST_DURABLE as u64,
            );
            let entry = Entry {
                node: me.node.id(),
                name: me.node.as_str().to_owned(),
                address: String::new(),
                epoch: incarnation.identity.epoch,
                previous: incarnation.previous,
                new_fleet: settings.first_start,
            };
            let clock = core.clock.clone();
            let mut members = Members::start(&link, &me, config.nats.replicas, entry, clock);
            tracing::info!(event = "fleet_joining", node = me.node.as_str());
            let Change {
                views,
                members: reachable,
            } = members.joined().await;
            transport.set_members(&reachable);
            (Arc::new(ledger), views, Some(members))
        }
    };
    let count = views.last().map_or(0, |view| view.members.len());
    let start = Start {
        config: Protocol {
            degraded_after: settings.degraded_after,
            backstop_multiple: settings.backstop_multiple,
            ..Protocol::default()
        },
        incarnation,
        views,
        members,
        leave_on_stop: settings.leave_on_stop,
        data,
        gate: Arc::clone(&core.gate),
        clock: core.clock.clone(),
        transport: Arc::clone(&transport),
        inbox,
        ledger: Some(ledger),
    };
    let (fleet, running) = start.run()?;
    tracing::info!(
        event = "fleet_joined",
        node = me.node.as_str(),
        members = count
    );
    let place = Place {
        fleet,
        transport,
        identity: me,
    };
    Ok(Some((place, running)))
}
