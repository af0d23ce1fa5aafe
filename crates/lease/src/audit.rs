//! What may be read of a node from outside: for checkers, for `probe` and for `top`. Read-only copies of numbers.

use std::time::Duration;

use crate::bucket::Bucket;
use crate::id::{Epoch, NodeId};
use crate::terms::Terms;

/// A bucket in an owner's ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// Which.
    pub bucket: Bucket,
    /// Its terms, as the owner counts.
    pub terms: Terms,
    /// The units that it may admit in all.
    pub allowance: u64,
    /// What is out or held back, by the formula before S5.
    pub charged: u64,
    /// Whether this incarnation may issue for it (S10).
    pub authority: bool,
    /// Per member, in the order of node ids.
    pub accounts: Vec<Account>,
}

/// How one holder stands in an owner's ledger for one bucket, over all its epochs and generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// The holder.
    pub node: NodeId,
    /// Units issued.
    pub granted: u64,
    /// Units that came back.
    pub returned: u64,
    /// Units that it gave itself.
    pub self_granted: u64,
    /// Units kept for it, as it has not pledged.
    pub holdback: u64,
    /// Units spent, as it last said.
    pub spent: u64,
    /// Units that it could still spend, as it last said.
    pub available: u64,
}

/// A bucket that a holder has a record of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Which.
    pub bucket: Bucket,
    /// Its terms.
    pub terms: Terms,
    /// Who issues for it.
    pub owner: NodeId,
    /// Units granted, over all ledgers.
    pub granted: u64,
    /// Units that it gave itself.
    pub self_granted: u64,
    /// Units handed back.
    pub returned: u64,
    /// Units handed to deputies.
    pub given: u64,
    /// Units spent, as of the last look at the table.
    pub spent: u64,
    /// Units that may still be spent, as of the last look.
    pub available: u64,
    /// Whether the owner said that nothing is left.
    pub exhausted: bool,
}

/// How a holder and this owner stand: how old is what the owner knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fold {
    /// The holder.
    pub node: NodeId,
    /// Its incarnation, once heard.
    pub epoch: Option<Epoch>,
    /// Since its last report was stored whole. `None` if none has been.
    pub age: Option<Duration>,
}

/// How this holder and an owner stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The owner.
    pub node: NodeId,
    /// Its incarnation, once heard.
    pub epoch: Option<Epoch>,
    /// Whether it has acknowledged a report lately.
    pub in_contact: bool,
    /// Since the last acknowledged report was sent. `None` if none has been.
    pub age: Option<Duration>,
    /// Whether `on_degraded` applies.
    pub degraded: bool,
}
