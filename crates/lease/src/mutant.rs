//! Safety rules that can be switched off one at a time, so that the simulator proves that its checkers see each. Only the
//! feature `mutants`, which the product never has, can choose one.

/// One rule broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// S8: nothing is held back for nodes that have not pledged.
    NoHoldback,
    /// S2: a new epoch's totals replace the old one's.
    NoEpochSum,
    /// S9: a bucket that starts before the last pledge's end is self-granted.
    NoPledgeFloor,
    /// S9: a bucket that starts before `boot + H + skew` is self-granted.
    NoBootFloor,
    /// S9: a share is taken again each time that it is spent.
    SelfGrantTwice,
    /// S10: a restarted owner issues for buckets of the incarnation before.
    NoAuthority,
    /// S2: a grant's total is added, not applied as a maximum.
    GrantsAsDeltas,
    /// S2: what came back is added, not applied as a maximum.
    ReturnsAsDeltas,
    /// S5: what is sent is charged when it is acknowledged, not before it is sent.
    SendBeforeCharge,
    /// S4: a report to another incarnation of the owner counts here.
    NoEpochCheck,
    /// A forgotten bucket comes back under the same generation.
    NoGenerations,
    /// Section 2: a restarted node believes its clock, whatever the floor says.
    NoFloor,
    /// S4: a report's pledge counts as soon as its first chunk has come.
    FirstChunkCounts,
    /// S7: a ledger entry of which nothing is out unspent is dropped before the bucket has ended.
    DropEarly,
    /// Section 7: who takes a durable limit over counts nothing of what was authorized before as issued.
    NoBase,
    /// S11: a bucket is acted on under whatever view is newest.
    NewestView,
    /// Section 7: what came back counts whichever ledger it had come from.
    ReturnsOfAnyLedger,
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// Every one.
    pub const ALL: [Self; 17] = [
        Self::NoHoldback,
        Self::NoEpochSum,
        Self::NoPledgeFloor,
        Self::NoBootFloor,
        Self::SelfGrantTwice,
        Self::NoAuthority,
        Self::GrantsAsDeltas,
        Self::ReturnsAsDeltas,
        Self::SendBeforeCharge,
        Self::NoEpochCheck,
        Self::NoGenerations,
        Self::NoFloor,
        Self::FirstChunkCounts,
        Self::DropEarly,
        Self::ReturnsOfAnyLedger,
        Self::NewestView,
        Self::NoBase,
    ];
}
