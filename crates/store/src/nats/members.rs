//! The members' document in JetStream: read, changed by compare-and-set, and followed.
//!
//! It must never decide anything: [`Membership`] does. It must never take a publication for a change: only what the
//! stream's leader has kept counts.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::context::{ContextBuilder, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{Config, LastRawMessageErrorKind, StorageType, Stream};
use bytes::Bytes;
use futures_util::StreamExt as _;
use lease::time::{Now, Wall};
use lease::view::View;
use thiserror::Error;
use tokio::sync::{OnceCell, watch};

use super::link::NatsLink;
use super::token;
use crate::members::{Membership, Roster, RosterError, Seat, Standing};

/// How long a call may wait for the server.
const DEADLINE: Duration = Duration::from_secs(2);
/// How often the document is looked at when nobody says that it changed.
const TICK: Duration = Duration::from_secs(1);
/// Seconds of 2025-01-01 since 1970: where [`Wall`] begins.
const WALL_BEGINS_S: i128 = 1_735_689_600;
/// Revisions that the stream keeps, so that a writer can read its own back and see the server's time on it.
const KEPT: i64 = 16;

/// Why the document cannot be read or changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MembersError {
    /// Another node changed it first.
    #[error("another node changed the members' document first")]
    Overtaken,
    /// What is there cannot be read.
    #[error("{place}: {source}")]
    Damaged {
        /// Where.
        place: String,
        /// Why.
        source: RosterError,
    },
    /// No answer. Whether a change was kept is not known.
    #[error("{place} does not answer: {reason}")]
    Unavailable {
        /// Where.
        place: String,
        /// What is known about why. No secret is in it.
        reason: String,
    },
}

/// What was kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Which revision.
    pub revision: u64,
    /// When, by the server's clock.
    pub stored_at: Wall,
}

/// The members' document of a cluster.
pub struct NatsMembers {
    link: NatsLink,
    context: Context,
    bucket: String,
    replicas: usize,
    stream: OnceCell<Stream>,
}

impl fmt::Debug for NatsMembers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsMembers")
            .field("bucket", &self.bucket)
            .field("replicas", &self.replicas)
            .finish_non_exhaustive()
    }
}

/// What a node knows about its fleet at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// How this node stands.
    pub standing: Standing,
    /// The lists, oldest first, each with how far this node may act under it.
    pub views: Vec<View>,
    /// Who they are and where to reach them.
    pub seats: Vec<Seat>,
    /// What keeps the document from being read or changed, if anything does.
    pub fault: Option<MembersError>,
}

impl NatsMembers {
    /// The document of a cluster of nodes, in a stream `KV_leasehold_CLUSTER_members` that is made if it is not there,
    /// with so many replicas (1 to 5).
    #[must_use]
    pub fn new(link: &NatsLink, cluster: &str, replicas: usize) -> Self {
        Self {
            link: link.clone(),
            context: ContextBuilder::new()
                .timeout(DEADLINE)
                .ack_timeout(DEADLINE)
                .build(link.client().clone()),
            bucket: format!("leasehold_{}_members", token(cluster)),
            replicas,
            stream: OnceCell::new(),
        }
    }

    fn subject(&self) -> String {
        format!("$KV.{}.roster", self.bucket)
    }

    async fn stream(&self) -> Result<&Stream, MembersError> {
        self.stream
            .get_or_try_init(|| async {
                let wanted = Config {
                    name: format!("KV_{}", self.bucket),
                    description: Some("Leasehold: who the members are".to_owned()),
                    subjects: vec![format!("$KV.{}.>", self.bucket)],
                    storage: StorageType::File,
                    max_messages_per_subject: KEPT,
                    num_replicas: self.replicas,
                    allow_direct: false,
                    deny_delete: true,
                    deny_purge: true,
                    ..Config::default()
                };
                let stream = self
                    .context
                    .get_or_create_stream(wanted)
                    .await
                    .map_err(|error| self.unavailable(error.to_string()))?;
                let found = &stream.cached_info().config;
                if found.storage == StorageType::File && found.max_age.is_zero() {
                    Ok(stream)
                } else {
                    Err(self.unavailable(
                        "its stream may lose the document: it must be kept in files, without an age".to_owned(),
                    ))
                }
            })
            .await
    }

    /// The document and its revision, as the stream's leader has it.
    ///
    /// # Errors
    /// [`MembersError`].
    pub async fn read(&self) -> Result<Option<(u64, Roster)>, MembersError> {
        self.within(async {
            let message = self
                .stream()
                .await?
                .get_last_raw_message_by_subject(&self.subject())
                .await;
            match message {
                Ok(message) => {
                    let roster =
                        Roster::decode(&message.payload).map_err(|source| self.damaged(source))?;
                    Ok(Some((message.sequence, roster)))
                }
                Err(error) => match error.kind() {
                    LastRawMessageErrorKind::NoMessageFound => Ok(None),
                    LastRawMessageErrorKind::InvalidSubject
                    | LastRawMessageErrorKind::JetStream(_)
                    | LastRawMessageErrorKind::Other => Err(self.unavailable(error.to_string())),
                },
            }
        })
        .await
    }

    /// Replaces revision `expected` (0: there must be none) by `roster`.
    ///
    /// # Errors
    /// [`MembersError`].
    pub async fn write(&self, expected: u64, roster: &Roster) -> Result<Kept, MembersError> {
        let bytes = roster.encode().map_err(|source| self.damaged(source))?;
        self.within(async {
            let message = PublishMessage::build()
                .payload(Bytes::from(bytes))
                .expected_last_subject_sequence(expected);
            let stream = self.stream().await?;
            let sent = self.context.send_publish(self.subject(), message).await;
            let answer = match sent {
                Ok(answer) => answer.await,
                Err(error) => Err(error),
            };
            let revision = match answer {
                Ok(answer) => answer.sequence,
                Err(error) => {
                    return Err(match error.kind() {
                        PublishErrorKind::WrongLastSequence => MembersError::Overtaken,
                        PublishErrorKind::StreamNotFound
                        | PublishErrorKind::WrongLastMessageId
                        | PublishErrorKind::TimedOut
                        | PublishErrorKind::BrokenPipe
                        | PublishErrorKind::MaxAckPending
                        | PublishErrorKind::MaxPayloadExceeded
                        | PublishErrorKind::Other => self.unavailable(error.to_string()),
                    });
                }
            };
            // The answer does not say when; the message does.
            let message = stream
                .get_raw_message(revision)
                .await
                .map_err(|error| self.unavailable(error.to_string()))?;
            let unix_ns = message.time.unix_timestamp_nanos();
            let stored_at = u64::try_from(unix_ns - WALL_BEGINS_S * 1_000_000_000).unwrap_or(0);
            Ok(Kept {
                revision,
                stored_at: Wall(stored_at),
            })
        })
        .await
    }

    /// Keeps this node in the list for as long as it is polled: reads, decides, writes, and tells `fleet` what it
    /// knows. Never ends by itself; a store that is away is told and waited for. Set `membership` to leaving to leave.
    pub async fn run(
        &self,
        membership: &SharedMembership,
        clock: &(dyn Fn() -> Now + Send + Sync),
        fleet: &watch::Sender<Fleet>,
    ) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Hints only: a publication that the stream refuses is heard as well.
        let mut hints = None;
        loop {
            if hints.is_none() && self.link.connected() {
                hints = self.link.client().subscribe(self.subject()).await.ok();
            }
            let fault = self.turn(membership, clock).await.err();
            let now = clock();
            let known = {
                let membership = membership.lock();
                Fleet {
                    standing: membership.standing(now),
                    views: membership.views(),
                    seats: membership.seats().cloned().collect(),
                    fault,
                }
            };
            fleet.send_if_modified(|told| {
                let changed = *told != known;
                *told = known;
                changed
            });
            match &mut hints {
                Some(subscription) => {
                    tokio::select! {
                        _ = ticks.tick() => {}
                        heard = subscription.next() => if heard.is_none() { hints = None },
                    }
                }
                None => {
                    ticks.tick().await;
                }
            }
        }
    }

    /// Reads, and writes what is to be changed.
    async fn turn(
        &self,
        membership: &SharedMembership,
        clock: &(dyn Fn() -> Now + Send + Sync),
    ) -> Result<(), MembersError> {
        // Each time that another node comes first there is something new to read; it ends with the fleet at the latest.
        loop {
            let found = self.read().await?;
            let now = clock();
            let wish = {
                let mut membership = membership.lock();
                match found {
                    Some((revision, roster)) => membership.observed(revision, roster),
                    None => membership.observed_none(),
                }
                membership.step(now)
            };
            let Some((expected, roster)) = wish else {
                return Ok(());
            };
            match self.write(expected, &roster).await {
                Ok(kept) => {
                    membership
                        .lock()
                        .written(now, kept.revision, roster, kept.stored_at);
                }
                Err(MembersError::Overtaken) => {}
                Err(error @ (MembersError::Damaged { .. } | MembersError::Unavailable { .. })) => {
                    return Err(error);
                }
            }
        }
    }

    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, MembersError>>,
    ) -> Result<T, MembersError> {
        let unavailable = |reason| self.unavailable(reason);
        self.link.within(DEADLINE, unavailable, work).await
    }

    fn damaged(&self, source: RosterError) -> MembersError {
        MembersError::Damaged {
            place: self.place(),
            source,
        }
    }

    fn unavailable(&self, reason: String) -> MembersError {
        MembersError::Unavailable {
            place: self.place(),
            reason,
        }
    }

    fn place(&self) -> String {
        format!("NATS key-value bucket {}", self.bucket)
    }
}

/// A node's membership, which the task that keeps it and others look at. What others may act on they ask it for at the
/// moment they act, since a lease may be shortened.
#[derive(Clone, Debug)]
pub struct SharedMembership(Arc<Mutex<Membership>>);

impl SharedMembership {
    /// To be shared.
    #[must_use]
    pub fn new(membership: Membership) -> Self {
        Self(Arc::new(Mutex::new(membership)))
    }

    /// The membership. To be held for a moment, never across a wait.
    pub fn lock(&self) -> MutexGuard<'_, Membership> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
