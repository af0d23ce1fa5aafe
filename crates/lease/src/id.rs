//! Who is who: nodes, their incarnations, views, ledgers. Newtypes only; nothing here decides.

use crate::node::Identity;

/// A node's stable name, as 64 bits: the first eight bytes of the BLAKE3 hash of the name in the configuration. The
/// same after every restart; a node whose disk was lost takes a new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u64);

/// One incarnation of a node. `count` grows at every start; `nonce` is random, so that two processes that were given
/// one name by mistake are told apart. Never made from the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch {
    /// The start's number, from 1.
    pub count: u64,
    /// 64 random bits of this start.
    pub nonce: u64,
}

/// The agreed list of members, by number. With a fixed list it is the list's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewId(pub u64);

/// One ledger of an owner: kept while the ledger is continued, new when it starts anew. Holders sum over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LedgerId(pub u64);

/// A message's number within (sender's epoch, receiver), from 1; separate for reports and for grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// A holder's record of a bucket, by a node-wide counter: a bucket that was forgotten and comes back has a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

impl LedgerId {
    /// A ledger that begins with this incarnation. The nonce is random, so no two are the same.
    pub(crate) const fn new(me: Identity) -> Self {
        Self(me.epoch.nonce ^ me.epoch.count.rotate_left(32) ^ me.node.0.rotate_left(17))
    }
}
