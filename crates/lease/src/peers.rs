//! Which incarnation of each other node is heard, and which is not any more.

use std::collections::BTreeMap;

use crate::id::{Epoch, NodeId, ViewId};

#[derive(Debug, Default)]
pub(crate) struct Peer {
    /// The newest incarnation heard.
    pub epoch: Option<Epoch>,
    /// Two processes said to be this start of it: none of that number is heard.
    refused: bool,
    /// The view that it last spoke under.
    pub view: Option<ViewId>,
    /// Whether the other view that it speaks under has been told of.
    pub other_view: Option<ViewId>,
    /// The round in which it was last written to.
    pub written: u64,
    /// Something with records came from it, and the acknowledgement is not sent yet.
    pub owed: bool,
}

/// What an envelope's epoch means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// The incarnation that is known.
    Same,
    /// A new one: the one before is dead.
    New,
    /// One before the known one: what it says of itself is still true, but nothing may be answered.
    Old,
    /// Two processes under one name.
    Two,
    /// As before.
    Refused,
}

impl Peer {
    pub fn hear(&mut self, epoch: Epoch) -> Heard {
        let Some(known) = self.epoch else {
            self.epoch = Some(epoch);
            return Heard::New;
        };
        if epoch.count > known.count {
            self.epoch = Some(epoch);
            self.refused = false;
            Heard::New
        } else if epoch.count < known.count {
            Heard::Old
        } else if self.refused {
            Heard::Refused
        } else if epoch.nonce == known.nonce {
            Heard::Same
        } else {
            self.refused = true;
            Heard::Two
        }
    }
}

pub(crate) type Peers = BTreeMap<NodeId, Peer>;
