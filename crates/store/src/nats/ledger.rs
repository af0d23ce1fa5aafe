//! The durable ledger in JetStream, for a fleet: a stream in the shape of a key-value bucket, one message a record.
//!
//! A change is a publication that names the sequence of the message that it replaces, so the server refuses one that
//! was overtaken. It must never read from a replica, which may be behind, and never make a stream again that vanished
//! while it was in use: the quotas in it would begin anew.

use std::fmt;
use std::time::Duration;

use async_nats::jetstream::context::{ContextBuilder, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, StorageType, Stream,
};
use async_nats::jetstream::{Context, ErrorCode};
use bytes::Bytes;
use lease::bucket::Bucket;
use lease::time::Wall;
use tokio::sync::OnceCell;

use super::link::NatsLink;
use super::token;
use crate::ledger::{Answer, DurableLedger, LedgerError};
use crate::record::{self, Authorized, Change, Decision, Record};

/// How long a call may wait for the server.
const DEADLINE: Duration = Duration::from_secs(2);
/// How long a sweep may take, which reads all records.
const SWEEP_DEADLINE: Duration = Duration::from_secs(20);
/// How many records one sweep removes at most.
const SWEEP: usize = 2_000;
/// How often a change is tried again after another one came between.
const TRIES: u32 = 4;

/// A ledger in JetStream.
pub struct NatsLedger {
    link: NatsLink,
    context: Context,
    bucket: String,
    replicas: usize,
    most: u64,
    stream: OnceCell<Stream>,
}

impl fmt::Debug for NatsLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsLedger")
            .field("bucket", &self.bucket)
            .field("replicas", &self.replicas)
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

impl NatsLedger {
    /// A ledger of a cluster of nodes. Nothing is asked of the server yet; its stream, `KV_leasehold_CLUSTER_ledger`,
    /// is made with the first call, if it is not there, with so many replicas (1 to 5) and room for `most` buckets.
    #[must_use]
    pub fn new(link: &NatsLink, cluster: &str, replicas: usize, most: u64) -> Self {
        Self {
            link: link.clone(),
            context: ContextBuilder::new()
                .timeout(DEADLINE)
                .ack_timeout(DEADLINE)
                .build(link.client().clone()),
            bucket: format!("leasehold_{}_ledger", token(cluster)),
            replicas,
            most,
            stream: OnceCell::new(),
        }
    }

    async fn stream(&self) -> Result<&Stream, LedgerError> {
        self.stream
            .get_or_try_init(|| async {
                let wanted = Config {
                    name: format!("KV_{}", self.bucket),
                    description: Some("Leasehold: how far durable limits were issued".to_owned()),
                    subjects: vec![format!("$KV.{}.>", self.bucket)],
                    storage: StorageType::File,
                    retention: RetentionPolicy::Limits,
                    // A full ledger refuses new buckets; it never drops one.
                    discard: DiscardPolicy::New,
                    max_messages: i64::try_from(self.most).unwrap_or(i64::MAX),
                    max_messages_per_subject: 1,
                    num_replicas: self.replicas,
                    allow_direct: false,
                    allow_rollup: false,
                    deny_purge: true,
                    ..Config::default()
                };
                let stream = self
                    .context
                    .get_or_create_stream(wanted)
                    .await
                    .map_err(|error| self.unavailable(error.to_string()))?;
                let found = &stream.cached_info().config;
                let keeps = found.storage == StorageType::File
                    && found.retention == RetentionPolicy::Limits
                    && found.discard == DiscardPolicy::New
                    && found.max_age.is_zero()
                    && found.max_messages_per_subject == 1;
                if keeps {
                    Ok(stream)
                } else {
                    Err(self.unavailable(
                        "its stream may lose records: it must be kept in files, by limits, without an age, \
                         one message a subject, discarding new ones"
                            .to_owned(),
                    ))
                }
            })
            .await
    }

    fn subject(&self, bucket: Bucket) -> String {
        let key: String = record::key(bucket)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        format!("$KV.{}.{key}", self.bucket)
    }

    /// The record and the sequence of its message; 0 if there is none. The stream's leader answers.
    async fn find(&self, bucket: Bucket) -> Result<(Option<Record>, u64), LedgerError> {
        let stream = self.stream().await?;
        let message = stream
            .get_last_raw_message_by_subject(&self.subject(bucket))
            .await;
        match message {
            Ok(message) => {
                let record = Record::decode_of(bucket, &message.payload).map_err(|source| {
                    LedgerError::Damaged {
                        place: self.place(),
                        source,
                    }
                })?;
                Ok((Some(record), message.sequence))
            }
            Err(error) => match error.kind() {
                LastRawMessageErrorKind::NoMessageFound => Ok((None, 0)),
                LastRawMessageErrorKind::InvalidSubject
                | LastRawMessageErrorKind::JetStream(_)
                | LastRawMessageErrorKind::Other => Err(self.unavailable(error.to_string())),
            },
        }
    }

    async fn change(&self, change: &Change) -> Result<Authorized, LedgerError> {
        for _ in 0..TRIES {
            let (found, sequence) = self.find(change.bucket).await?;
            let record = match record::decide(found.as_ref(), change) {
                Decision::Done(authorized) => return Ok(authorized),
                Decision::Refuse(refusal) => return Err(refusal.into()),
                Decision::Write(record) => record,
            };
            let message = PublishMessage::build()
                .payload(Bytes::copy_from_slice(&record.encode()))
                .expected_last_subject_sequence(sequence);
            let sent = self
                .context
                .send_publish(self.subject(change.bucket), message)
                .await;
            let error = match sent {
                Ok(answer) => match answer.await {
                    Ok(_) => return Ok(record.authorized),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            match error.kind() {
                // Something came between: look again.
                PublishErrorKind::WrongLastSequence => {}
                PublishErrorKind::StreamNotFound
                | PublishErrorKind::WrongLastMessageId
                | PublishErrorKind::TimedOut
                | PublishErrorKind::BrokenPipe
                | PublishErrorKind::MaxAckPending
                | PublishErrorKind::MaxPayloadExceeded
                | PublishErrorKind::Other => {
                    return Err(if is_full(&error) {
                        LedgerError::Full {
                            place: self.place(),
                            most: self.most,
                        }
                    } else {
                        self.unavailable(error.to_string())
                    });
                }
            }
        }
        Err(self.unavailable("the bucket is changed all the time".to_owned()))
    }

    async fn remove(&self, now: Wall) -> Result<u64, LedgerError> {
        let stream = self.stream().await?;
        let fault = |error: String| self.unavailable(error);
        let info = stream
            .get_info()
            .await
            .map_err(|error| fault(error.to_string()))?;
        let mut removed = 0;
        let mut sequence = info.state.first_sequence;
        let mut left = info.state.messages;
        // Message by message, by its place in the stream: gaps are passed over by asking for the next one.
        while left > 0 && removed < SWEEP as u64 && sequence <= info.state.last_sequence {
            let message = stream
                .raw_message_builder()
                .sequence(sequence)
                .next_by_subject(format!("$KV.{}.>", self.bucket))
                .send()
                .await;
            let message = match message {
                Ok(message) => message,
                Err(error) => match error.kind() {
                    LastRawMessageErrorKind::NoMessageFound => break,
                    LastRawMessageErrorKind::InvalidSubject
                    | LastRawMessageErrorKind::JetStream(_)
                    | LastRawMessageErrorKind::Other => return Err(fault(error.to_string())),
                },
            };
            left -= 1;
            sequence = message.sequence + 1;
            // What cannot be read is left for whoever looks after it: removing it would begin its quota anew.
            let over =
                Record::decode(&message.payload).is_ok_and(|record| record.keep_until <= now);
            if over {
                // Exactly this message: if the record has been changed since, the message is gone already.
                let deleted = stream.delete_message(message.sequence).await;
                removed += u64::from(deleted.is_ok_and(|deleted| deleted));
            }
        }
        Ok(removed)
    }

    async fn within<T>(
        &self,
        deadline: Duration,
        work: impl Future<Output = Result<T, LedgerError>>,
    ) -> Result<T, LedgerError> {
        let unavailable = |reason| self.unavailable(reason);
        self.link.within(deadline, unavailable, work).await
    }

    fn unavailable(&self, reason: String) -> LedgerError {
        LedgerError::Unavailable {
            place: self.place(),
            reason,
        }
    }

    fn place(&self) -> String {
        format!("NATS key-value bucket {}", self.bucket)
    }
}

/// Whether the server has no room for another record.
fn is_full(error: &async_nats::jetstream::context::PublishError) -> bool {
    const MAXIMUM_MESSAGES: &str = "maximum messages exceeded";
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>())
        .is_some_and(|error| {
            error.error_code() == ErrorCode::STREAM_STORE_FAILED
                && error.to_string().contains(MAXIMUM_MESSAGES)
        })
}

impl DurableLedger for NatsLedger {
    fn load(&self, bucket: Bucket) -> Answer<'_, Option<Authorized>> {
        Box::pin(self.within(DEADLINE, async move {
            let (record, _) = self.find(bucket).await?;
            Ok(record.map(|record| record.authorized))
        }))
    }

    fn authorize(&self, change: Change) -> Answer<'_, Authorized> {
        Box::pin(self.within(DEADLINE, async move { self.change(&change).await }))
    }

    fn sweep(&self, now: Wall) -> Answer<'_, u64> {
        Box::pin(self.within(SWEEP_DEADLINE, self.remove(now)))
    }
}
