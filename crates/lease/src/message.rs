//! What nodes say to each other: reports (holder to owner) and grants (owner to holder), as running totals.
//!
//! Credit fields only grow within their (epoch, generation) or (ledger, generation), so applying a message is a
//! maximum: loss, delay, duplication and reordering cannot make credit. Nothing here does IO; the bytes are `wire`'s.

use crate::bucket::Bucket;
use crate::id::{Epoch, Generation, LedgerId, NodeId, Seq, ViewId};
use crate::terms::Terms;
use crate::time::Wall;

/// The format that this build speaks. A field that safety rests on always raises it.
pub const SCHEMA: u16 = 1;

/// The most records in one envelope; more are sent in several chunks of one `seq`.
pub const MOST_RECORDS: usize = 512;

/// Everything that one node has to say to another at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The format. One that a receiver does not know is rejected whole (S3).
    pub schema: u16,
    /// The view that the sender acts under.
    pub view: ViewId,
    /// The sender: must be who the transport says it is.
    pub from: NodeId,
    /// Its incarnation.
    pub epoch: Epoch,
    /// The receiver.
    pub to: NodeId,
    /// The sender's wall clock, for the skew metric only.
    pub sent_at: Wall,
    /// As holder.
    pub report: Option<Report>,
    /// As owner.
    pub grant: Option<Grant>,
}

/// One piece of a message that is sent in several; all pieces share the `seq` (S4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// This piece, from 0.
    pub index: u32,
    /// How many there are, from 1.
    pub count: u32,
}

/// What a holder tells an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Grows with every report of this incarnation to this owner.
    pub seq: Seq,
    /// Which piece.
    pub chunk: Chunk,
    /// This message has everything that changed since that report. A receiver that has not stored that one may store
    /// this one, but must not acknowledge it: between them lies what it never saw.
    pub since: Seq,
    /// The incarnation of the owner that this is for, as the holder knows it: pledge and acknowledgement count for no
    /// other. `None` before it has been heard.
    pub owner_epoch: Option<Epoch>,
    /// The promise of rule S8.
    pub pledge: Option<Pledge>,
    /// The largest grant `seq` of that incarnation that has been applied.
    pub acked_grant: Seq,
    /// Asked by a request that waits: answer at once.
    pub urgent: bool,
    /// What changed since the owner's last acknowledgement.
    pub records: Vec<ReportRecord>,
}

/// "This incarnation has not given and will not give itself credit for any bucket of yours that starts in
/// `[from, until)`, but for those listed."
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pledge {
    /// The first start that it covers.
    pub from: Wall,
    /// The first start that it does not.
    pub until: Wall,
}

/// Part of a bucket's credit handed to the owner's deputy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The deputy.
    pub to: NodeId,
    /// Its incarnation: no other may issue it.
    pub epoch: Epoch,
    /// Units, in all.
    pub units: u64,
}

/// How one bucket stands at a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportRecord {
    /// Which.
    pub bucket: Bucket,
    /// What the holder thinks the limit is.
    pub terms: Terms,
    /// The holder's record of it.
    pub generation: Generation,
    /// Units spent, in all.
    pub spent: u64,
    /// Units handed back, in all, by the ledger that they had come from.
    pub returned: Vec<(LedgerId, u64)>,
    /// Units that it gave itself, in all.
    pub self_granted: u64,
    /// Units handed to deputies, in all.
    pub given: Vec<Given>,
    /// Units that it expects requests to ask for in the rest of the window, admitted or not; for (L) only.
    pub demand: u64,
    /// Units that it could still spend.
    pub available: u64,
    /// Units that requests wait for right now.
    pub pending: u64,
    /// The cost of one typical request: credit is split in multiples of it.
    pub quantum: u64,
}

/// What an owner tells a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Grows with every grant of this incarnation to this holder.
    pub seq: Seq,
    /// Which piece.
    pub chunk: Chunk,
    /// This message has everything that changed since that grant; as for reports.
    pub since: Seq,
    /// The holder's incarnation that this is for.
    pub holder_epoch: Epoch,
    /// Which ledger counts the totals.
    pub ledger: LedgerId,
    /// Buckets that start earlier are not issued by this incarnation; holders do not pledge below it.
    pub authority_from: Wall,
    /// The largest report `seq` of that holder incarnation that was stored whole.
    pub acked_report: Seq,
    /// What changed since the holder's last acknowledgement.
    pub records: Vec<GrantRecord>,
}

/// How one bucket stands at its owner, for one holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantRecord {
    /// Which.
    pub bucket: Bucket,
    /// The holder's record that it is for: another one ignores it.
    pub generation: Generation,
    /// Units issued to that generation, in all, by this ledger.
    pub granted_total: u64,
    /// Hand back what is available above so many.
    pub recall_to: Option<u64>,
    /// Nothing is left to issue in this window.
    pub exhausted: bool,
    /// What is left of the allowance, fleet-wide, as far as the owner knows: for display only.
    pub fleet_remaining: u64,
    /// The units that the owner counts by, for holders with an older policy.
    pub allowance: u64,
}
