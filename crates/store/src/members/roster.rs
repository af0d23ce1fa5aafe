//! The document that members share, and its bytes.
//!
//! It must hold every lease that was handed out and is not over: that is what makes a new list safe (S11).

use lease::id::{Epoch, NodeId, ViewId};
use lease::time::Wall;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

/// The most nodes in the document.
pub const MOST_SEATS: usize = 1_000;
/// The most bytes of the document.
pub const MOST_BYTES: usize = 512 << 10;
/// The most lists that it keeps, the last ones. Buckets that started under an earlier one are acted on by nobody who
/// has not heard of it before.
const MOST_VIEWS: usize = 16;
const MOST_TEXT: usize = 256;
const FORMAT: u16 = 1;

/// All that members agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roster {
    format: u16,
    /// Lists, in the order in which they hold.
    pub views: Vec<ListedView>,
    /// Whoever holds a lease, wants one, or has just left.
    pub seats: Vec<Seat>,
}

/// A list of members, and from when it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedView {
    /// Its number, from 1.
    pub number: u64,
    /// Node ids, in ascending order.
    pub members: Vec<u64>,
    /// It governs windows that start at this time or later, up to the next list's; in nanoseconds as [`Wall`] counts.
    pub active_from: u64,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seat {
    /// Its id.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Where other members reach it.
    pub address: String,
    /// Its incarnation.
    pub epoch: u64,
    /// The incarnation's nonce.
    pub nonce: u64,
    /// It acts on windows that start before this time, and on no later one; in nanoseconds as [`Wall`] counts.
    pub lease_until: u64,
    /// Grows with each writing that is only to compare clocks.
    pub probes: u64,
    /// When it last changed its seat, by its own clock.
    pub written_at: u64,
    /// What it wants.
    pub state: SeatState,
}

/// What a node wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeatState {
    /// To be a member.
    Member,
    /// To leave as soon as a list without it holds.
    Leaving,
}

/// Bytes that are no such document.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RosterError {
    /// Too long, or too many.
    #[error("the members' document has {found} {what}, at most {most}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
        /// The bound.
        most: usize,
    },
    /// Written by a later release.
    #[error("the members' document is of format {0}; this release knows format {FORMAT}")]
    Format(u16),
    /// Not of its form.
    #[error("the members' document cannot be read: {0}")]
    Malformed(String),
    /// Of its form, but no node writes such a one.
    #[error("the members' document contradicts itself: {0}")]
    Contradiction(&'static str),
}

impl Seat {
    /// Its incarnation.
    #[must_use]
    pub const fn incarnation(&self) -> Epoch {
        Epoch {
            count: self.epoch,
            nonce: self.nonce,
        }
    }
}

impl ListedView {
    /// The id that nodes of this list know each other by.
    #[must_use]
    pub fn id(&self) -> ViewId {
        let mut hash = Xxh3::new();
        hash.update(b"leasehold view 1");
        for number in [self.number, self.active_from].iter().chain(&self.members) {
            hash.update(&number.to_be_bytes());
        }
        ViewId(hash.digest())
    }

    /// Whether a node is in it.
    #[must_use]
    pub fn contains(&self, node: NodeId) -> bool {
        self.members.binary_search(&node.0).is_ok()
    }
}

impl Roster {
    /// The first document: one list of one node.
    #[must_use]
    pub fn found(seat: Seat, active_from: Wall) -> Self {
        Self {
            format: FORMAT,
            views: vec![ListedView {
                number: 1,
                members: vec![seat.id],
                active_from: active_from.0,
            }],
            seats: vec![seat],
        }
    }

    /// A node's seat.
    #[must_use]
    pub fn seat(&self, node: NodeId) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.id == node.0)
    }

    pub(super) fn seat_mut(&mut self, node: NodeId) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|seat| seat.id == node.0)
    }

    /// The list that was made last, whether it holds already or not.
    #[must_use]
    pub fn latest(&self) -> &ListedView {
        self.views
            .last()
            .expect("decoding and founding see to one view")
    }

    /// The list that governs windows that start at `start`.
    #[must_use]
    pub fn governing(&self, start: Wall) -> Option<&ListedView> {
        self.views
            .iter()
            .rev()
            .find(|view| view.active_from <= start.0)
    }

    /// Adds a list. It holds from when every lease that was handed out is over, and not before the one before it.
    pub(super) fn install(&mut self, members: Vec<u64>) {
        let leases = self.seats.iter().map(|seat| seat.lease_until);
        let latest = self.latest();
        let active_from = leases.fold(latest.active_from, u64::max);
        let number = latest.number.saturating_add(1);
        self.views.push(ListedView {
            number,
            members,
            active_from,
        });
        let forgotten = self.views.len().saturating_sub(MOST_VIEWS);
        self.views.drain(..forgotten);
    }

    /// Its bytes: JSON, so that an operator can read it.
    ///
    /// # Errors
    /// [`RosterError::TooMany`].
    pub fn encode(&self) -> Result<Vec<u8>, RosterError> {
        self.check()?;
        let bytes =
            serde_json::to_vec(self).map_err(|error| RosterError::Malformed(error.to_string()))?;
        bounded("bytes", bytes.len(), MOST_BYTES)?;
        Ok(bytes)
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`RosterError`]; nothing of it may be used.
    pub fn decode(bytes: &[u8]) -> Result<Self, RosterError> {
        #[derive(Deserialize)]
        struct Header {
            format: u16,
        }
        bounded("bytes", bytes.len(), MOST_BYTES)?;
        let malformed = |error: serde_json::Error| RosterError::Malformed(error.to_string());
        let Header { format } = serde_json::from_slice(bytes).map_err(malformed)?;
        if format != FORMAT {
            return Err(RosterError::Format(format));
        }
        let roster: Self = serde_json::from_slice(bytes).map_err(malformed)?;
        roster.check()?;
        Ok(roster)
    }

    fn check(&self) -> Result<(), RosterError> {
        bounded("seats", self.seats.len(), MOST_SEATS)?;
        bounded("views", self.views.len(), MOST_VIEWS)?;
        let ascending = |numbers: &mut dyn Iterator<Item = u64>| {
            let numbers: Vec<u64> = numbers.collect();
            numbers.windows(2).all(|pair| pair[0] < pair[1])
        };
        let contradiction = |what| Err(RosterError::Contradiction(what));
        if self.views.is_empty() {
            return contradiction("no view");
        }
        for view in &self.views {
            bounded("members", view.members.len(), MOST_SEATS)?;
            if view.members.is_empty() {
                return contradiction("a view without members");
            }
            if !ascending(&mut view.members.iter().copied()) {
                return contradiction("members out of order or twice");
            }
        }
        if !ascending(&mut self.views.iter().map(|view| view.number)) {
            return contradiction("views out of order");
        }
        if self
            .views
            .windows(2)
            .any(|pair| pair[0].active_from > pair[1].active_from)
        {
            return contradiction("a view that holds before the one before it");
        }
        if !ascending(&mut self.seats.iter().map(|seat| seat.id)) {
            return contradiction("seats out of order or twice");
        }
        for seat in &self.seats {
            bounded("bytes of a name", seat.name.len(), MOST_TEXT)?;
            bounded("bytes of an address", seat.address.len(), MOST_TEXT)?;
        }
        Ok(())
    }
}

fn bounded(what: &'static str, found: usize, most: usize) -> Result<(), RosterError> {
    if found > most {
        return Err(RosterError::TooMany { what, found, most });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seat(id: u64, lease_until: u64) -> Seat {
        Seat {
            id,
            name: format!("node-{id}"),
            address: "10.0.0.1:7".to_owned(),
            epoch: 1,
            nonce: u64::MAX,
            lease_until,
            probes: 0,
            written_at: 0,
            state: SeatState::Member,
        }
    }

    #[test]
    fn what_was_encoded_is_decoded() {
        let mut roster = Roster::found(seat(u64::MAX, 5), Wall(3));
        roster.install(vec![1, u64::MAX]);
        roster.seats.insert(0, seat(1, 0));
        let bytes = roster.encode().unwrap();
        assert_eq!(Roster::decode(&bytes), Ok(roster));
    }

    #[test]
    fn a_new_list_holds_after_every_lease_and_every_list() {
        let mut roster = Roster::found(seat(1, 50), Wall(3));
        roster.install(vec![1, 2]);
        assert_eq!(roster.latest().active_from, 50);
        roster.seats[0].lease_until = 20;
        roster.install(vec![1]);
        assert_eq!(roster.latest().active_from, 50);
        roster.seats[0].lease_until = 60;
        roster.install(vec![1]);
        assert_eq!(roster.latest().active_from, 60);
        assert_ne!(roster.views[0].id(), roster.views[2].id());
        for (start, number) in [(3, 1), (49, 1), (50, 3), (59, 3), (60, 4), (u64::MAX, 4)] {
            assert_eq!(roster.governing(Wall(start)).unwrap().number, number);
        }
        assert_eq!(roster.governing(Wall(2)), None);
        for _ in 0..100 {
            roster.install(vec![1]);
        }
        assert_eq!(roster.views.len(), MOST_VIEWS);
        assert!(roster.encode().is_ok());
    }

    #[test]
    fn documents_that_no_node_writes_are_refused() {
        let good = Roster::found(seat(1, 5), Wall(3));
        let with = |change: &dyn Fn(&mut Roster)| {
            let mut roster = good.clone();
            change(&mut roster);
            let bytes = serde_json::to_vec(&roster).unwrap();
            assert!(
                Roster::decode(&bytes).is_err() && (roster.encode().is_err() || roster.format != 1)
            );
            Roster::decode(&bytes).unwrap_err().to_string()
        };
        for (error, expected) in [
            (with(&|roster| roster.views.clear()), "no view"),
            (
                with(&|roster| roster.views[0].members.clear()),
                "without members",
            ),
            (
                with(&|roster| roster.views[0].members = vec![2, 1]),
                "out of order",
            ),
            (with(&|roster| roster.seats.push(seat(1, 1))), "twice"),
            (with(&|roster| roster.format = 9), "format 9"),
            (
                with(&|roster| roster.seats[0].name = "n".repeat(257)),
                "257 bytes of a name",
            ),
            (
                with(&|roster| roster.seats = (0..1_001).map(|id| seat(id, 0)).collect()),
                "1001 seats",
            ),
        ] {
            assert!(error.contains(expected), "{error}");
        }
        for bytes in [
            &b""[..],
            b"{}",
            b"[]",
            b"\xFF",
            b"{\"format\":1}",
            b"{\"format\":-1}",
        ] {
            assert!(matches!(
                Roster::decode(bytes),
                Err(RosterError::Malformed(_))
            ));
        }
        let huge = vec![b' '; MOST_BYTES + 1];
        assert!(matches!(
            Roster::decode(&huge),
            Err(RosterError::TooMany { .. })
        ));
    }
}
