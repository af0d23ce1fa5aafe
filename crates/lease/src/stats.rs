//! What a node has done, as plain counters. The process around it exports them; nothing here decides.

/// Counters since the start, and a few levels as of the last round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Rounds gone through.
    pub rounds: u64,
    /// Envelopes sent to other nodes.
    pub envelopes_sent: u64,
    /// Envelopes of other nodes that were applied.
    pub envelopes_received: u64,
    /// Envelopes rejected whole (S3).
    pub envelopes_rejected: u64,
    /// Reports (chunks) received from other nodes.
    pub reports_received: u64,
    /// Grants (chunks) received from other nodes.
    pub grants_received: u64,
    /// Records in reports sent, to others and to itself.
    pub report_records_sent: u64,
    /// Records in grants sent, to others and to itself.
    pub grant_records_sent: u64,
    /// Requests that found too little credit and asked here.
    pub needs: u64,
    /// Questions sent to owners by the fast path.
    pub fast_path_asked: u64,
    /// Questions that brought credit.
    pub fast_path_credit: u64,
    /// Questions answered with "exhausted".
    pub fast_path_exhausted: u64,
    /// Questions without an answer in time.
    pub fast_path_missed: u64,
    /// Requests turned down without asking: exhausted, backing off, or nobody to ask.
    pub fast_path_refused: u64,
    /// Units issued as owner.
    pub issued_units: u64,
    /// Units that holders gave back to this owner.
    pub returned_units: u64,
    /// Recalls sent.
    pub recalls: u64,
    /// Buckets that this node gave itself a share of.
    pub self_grants: u64,
    /// Units so given.
    pub self_granted_units: u64,
    /// Buckets opened by `fail_open` while degraded.
    pub opened: u64,
    /// Buckets that were refused because the node holds as many as it may.
    pub held_refused: u64,
    /// Records refused because the ledger holds as many as it may.
    pub owned_refused: u64,
    /// Times that a ledger did not add up, and stopped issuing.
    pub invariant_broken: u64,
    /// Times that the table and the protocol disagreed about a bucket's credit.
    pub table_mismatch: u64,
    /// Buckets that this node holds a record of, now.
    pub held: u64,
    /// Buckets that it keeps a ledger for, now.
    pub owned: u64,
    /// Units out at holders for buckets that this node owns, as of the last round.
    pub credit_outstanding: u64,
    /// Units held back for nodes that have not pledged, as of the last round.
    pub holdback_units: u64,
    /// Owners out of contact for longer than the degraded time, now.
    pub degraded_owners: u64,
    /// The largest difference seen between another node's wall clock and ours, in nanoseconds, delay included.
    pub largest_skew_ns: u64,
}
