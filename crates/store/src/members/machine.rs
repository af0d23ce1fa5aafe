//! What one node wants to change in the members' document, and what it may act on by it.
//!
//! Why it is safe (S11), whatever the clocks say and however long the store is away: a node acts only on windows that
//! start before its lease ends, and a list that is added later holds only from when every lease in the document is
//! over. So a list that governs such a window was in the document when the lease was written, and the node knows it.
//! Clocks decide only how soon things happen.

use std::time::Duration;

use lease::id::{Epoch, NodeId};
use lease::time::{Instant, Now, Wall};
use lease::view::View;

use super::roster::{ListedView, MOST_SEATS, Roster, Seat, SeatState};

/// How long a lease is, and so for how long the store may be away without any cost, less a third.
pub const LEASE: Duration = Duration::from_secs(120);
/// How long a lease is while a new list is being made: it can hold only when these are over.
pub const SHORT: Duration = Duration::from_secs(10);
/// How long a new list waits for others to shorten their leases.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a list that leaves out a dead node waits: after the store was away, all look dead until they are back.
const MERCY: Duration = Duration::from_secs(15);
/// How far a shortened lease may be off and still count as short.
const SLACK: Duration = Duration::from_secs(2);
/// A node whose clock differs from the store's by more gets no new lease and makes no list: it would hold up every
/// change of the fleet.
pub const MOST_SKEW: Duration = Duration::from_secs(30);
/// How often clocks are compared while they differ.
const PROBE: Duration = Duration::from_secs(5);

/// Who this node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Where others reach it.
    pub address: String,
    /// This start.
    pub epoch: Epoch,
    /// The start before, as its data directory has it: that one's seat is taken over at once.
    pub previous: Option<Epoch>,
    /// The operator says that this fleet is new: nobody can hold a lease from a document that was lost. Else the first
    /// list holds only after the longest lease.
    pub new_fleet: bool,
}

/// How this node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The document has not been read yet.
    Unknown,
    /// It is not in the list that holds, or not yet.
    Joining,
    /// It is a member, by a lease that holds.
    Member,
    /// It is a member whose lease has ended: the store has been away, or clocks differ, for too long. It begins
    /// nothing new.
    Lapsed,
    /// Its clock differs too much from the store's for a new lease.
    ClockDiffers,
    /// Another process runs under this node's id until its lease ends.
    NameTaken {
        /// When.
        until: Wall,
    },
    /// Another process has taken this node's id. It acts on nothing any more.
    Replaced,
    /// The document was there and has vanished. It is not made again while we run: others may hold leases from it.
    Vanished,
    /// It has left; it acts on windows that began before.
    Left,
}

/// A node's part in keeping the list.
#[derive(Clone, Debug)]
pub struct Membership {
    me: Entry,
    /// The document as last seen, and its revision.
    seen: Option<(u64, Roster)>,
    /// The end of a lease that we are about to shorten: holds until a later revision tells what became of it.
    cap: Option<Wall>,
    /// The store's clock when it last took a writing of ours, and our own clocks then.
    compared: Option<(Instant, Wall)>,
    /// When a writing was last sent that was only to compare clocks.
    probed: Option<Instant>,
    /// Since when a new list is wanted.
    wanted_since: Option<Instant>,
    leaving: bool,
    replaced: bool,
    vanished: bool,
}

impl Membership {
    /// A node that has not read the document yet.
    #[must_use]
    pub const fn new(me: Entry) -> Self {
        Self {
            me,
            seen: None,
            cap: None,
            compared: None,
            probed: None,
            wanted_since: None,
            leaving: false,
            replaced: false,
            vanished: false,
        }
    }

    /// From now on it wants to leave.
    pub const fn leave(&mut self) {
        self.leaving = true;
    }

    /// The document was read: this revision of it. Older ones than were seen already change nothing.
    pub fn observed(&mut self, revision: u64, roster: Roster) {
        if self
            .seen
            .as_ref()
            .is_some_and(|(seen, _)| *seen >= revision)
        {
            return;
        }
        // What we sent was to replace an earlier revision: it is this one, or it has failed for good.
        self.cap = None;
        let was_mine = self.seat().is_some();
        self.seen = Some((revision, roster));
        if was_mine && self.seat().is_none() {
            // A seat that others removed is one whose lease was over; one with another incarnation was taken.
            self.replaced |= self.any_seat().is_some();
        }
        self.vanished = false;
    }

    /// There is no document.
    pub fn observed_none(&mut self) {
        self.vanished = self.seen.is_some();
    }

    /// A writing of ours was kept: `roster`, as `revision`, at `stored_at` by the store's clock.
    pub fn written(&mut self, now: Now, revision: u64, roster: Roster, stored_at: Wall) {
        self.compared = Some((now.instant, stored_at));
        self.observed(revision, roster);
    }

    /// What to write, if anything, and which revision it replaces (0: there must be none). Before it is sent, this node
    /// already keeps to it. To be called after each observation and some times a second.
    pub fn step(&mut self, now: Now) -> Option<(u64, Roster)> {
        if self.vanished || self.replaced {
            return None;
        }
        let Some((revision, seen)) = &self.seen else {
            let wait = if self.me.new_fleet {
                Duration::ZERO
            } else {
                LEASE
            };
            let seat = self.new_seat(Wall(0), now);
            return (!self.leaving).then(|| (0, Roster::found(seat, now.wall.plus(wait))));
        };
        let mut roster = seen.clone();
        let revision = *revision;
        if !self.take_seat(&mut roster, now) {
            return None;
        }
        let wishes = wanted(&roster, now.wall);
        let changes = wishes != roster.latest().members && !wishes.is_empty();
        self.wanted_since = match (changes, self.wanted_since) {
            (false, _) => None,
            (true, None) => Some(now.instant),
            (true, since) => since,
        };
        self.renew(&mut roster, changes, now);
        // Once more, since this node may just have come back to life.
        let wanted = wanted(&roster, now.wall);
        let changes = wanted != roster.latest().members && !wanted.is_empty();
        if changes && self.clock_differs(now) == Some(false) && self.is_time(&roster, now) {
            roster.install(wanted);
        }
        forget_seats(&mut roster, now.wall);
        if roster == *self.seen.as_ref().map(|(_, seen)| seen)? {
            return None;
        }
        // S11: keep to a shorter lease before anybody can read of it.
        let until = roster.seat(self.me.node).map_or(0, |seat| seat.lease_until);
        if Wall(until) < self.lease() {
            self.cap = Some(Wall(until));
        }
        if let Some(seat) = roster.seat_mut(self.me.node) {
            seat.written_at = now.wall.0;
        }
        Some((revision, roster))
    }

    /// Whether a list that is wanted should be made now.
    fn is_time(&self, roster: &Roster, now: Now) -> bool {
        let Some(since) = self.wanted_since else {
            return false;
        };
        let waited = now.instant.since(since);
        let dead = roster.latest().members.iter().any(|member| {
            roster
                .seat(NodeId(*member))
                .is_none_or(|seat| match seat.state {
                    SeatState::Member => seat.lease_until <= now.wall.0,
                    SeatState::Leaving => false,
                })
        });
        if dead {
            return waited >= MERCY;
        }
        let shortened = now.wall.plus(SHORT + SLACK).0;
        let all_short = roster
            .seats
            .iter()
            .all(|seat| seat.lease_until <= shortened);
        all_short || waited >= PATIENCE
    }

    /// Puts this node's seat in, or makes it this incarnation's. `false` if it may not.
    fn take_seat(&self, roster: &mut Roster, now: Now) -> bool {
        let left = self.leaving && !roster.latest().contains(self.me.node);
        let latest = roster.latest().active_from;
        match roster.seat_mut(self.me.node) {
            None if self.leaving => {}
            None => {
                if roster.seats.len() >= MOST_SEATS {
                    return false;
                }
                let seat = self.new_seat(Wall(0), now);
                let at = roster.seats.partition_point(|other| other.id < seat.id);
                roster.seats.insert(at, seat);
            }
            Some(seat) if seat.incarnation() == self.me.epoch => {
                if self.leaving {
                    seat.state = SeatState::Leaving;
                }
                let until = seat.lease_until;
                // Gone for good once a list without us holds and our lease is over, for that list too.
                if left && until <= now.wall.0 && until <= latest {
                    roster.seats.retain(|seat| seat.id != self.me.node.0);
                }
            }
            Some(seat) => {
                let ours = self.me.previous == Some(seat.incarnation());
                if !ours && seat.lease_until > now.wall.0 {
                    return false;
                }
                // The lease that the earlier incarnation had stays in the document until it is over.
                let until = Wall(seat.lease_until);
                *seat = self.new_seat(until, now);
            }
        }
        true
    }

    /// Makes this node's lease as long as it should be; shorter, while a list is being made.
    fn renew(&mut self, roster: &mut Roster, changes: bool, now: Now) {
        let wall = now.wall;
        let trusted = self.clock_differs(now) == Some(false);
        let may_probe = self
            .probed
            .is_none_or(|probed| now.instant.since(probed) >= PROBE);
        let left = self.leaving && !roster.latest().contains(self.me.node);
        let Some(seat) = roster.seat_mut(self.me.node) else {
            return;
        };
        if changes && seat.lease_until > wall.plus(SHORT + SLACK).0 {
            // Shortening needs no comparison of clocks: what was acted on began a moment after now at the latest.
            seat.lease_until = wall.plus(SHORT).0;
            return;
        }
        if left {
            return;
        }
        let (full, at_least) = if changes {
            (SHORT, SHORT / 2)
        } else {
            (LEASE, LEASE * 2 / 3)
        };
        if seat.lease_until >= wall.plus(at_least).0 {
            return;
        }
        if trusted {
            seat.lease_until = wall.plus(full).0;
        } else if may_probe {
            seat.probes = seat.probes.wrapping_add(1);
            self.probed = Some(now.instant);
        }
    }

    /// Whether this node's clock is too far from the store's; `None` if they have not been compared.
    fn clock_differs(&self, now: Now) -> Option<bool> {
        let (then, stored_at) = self.compared?;
        let store = stored_at.plus(now.instant.since(then));
        let apart = now.wall.0.abs_diff(store.0);
        Some(u128::from(apart) > MOST_SKEW.as_nanos())
    }

    fn new_seat(&self, lease_until: Wall, now: Now) -> Seat {
        Seat {
            id: self.me.node.0,
            name: self.me.name.clone(),
            address: self.me.address.clone(),
            epoch: self.me.epoch.count,
            nonce: self.me.epoch.nonce,
            lease_until: lease_until.0,
            probes: 0,
            written_at: now.wall.0,
            state: SeatState::Member,
        }
    }

    fn any_seat(&self) -> Option<&Seat> {
        let (_, roster) = self.seen.as_ref()?;
        roster.seat(self.me.node)
    }

    /// This incarnation's seat.
    fn seat(&self) -> Option<&Seat> {
        self.any_seat()
            .filter(|seat| seat.incarnation() == self.me.epoch)
    }

    /// When this node's lease ends: it acts on windows that start before.
    #[must_use]
    pub fn lease(&self) -> Wall {
        if self.replaced {
            return Wall(0);
        }
        let until = self.seat().map_or(Wall(0), |seat| Wall(seat.lease_until));
        self.cap.map_or(until, |cap| cap.min(until))
    }

    /// The lists that this node knows, oldest first, each with how far this node may act under it.
    #[must_use]
    pub fn views(&self) -> Vec<View> {
        let Some((_, roster)) = &self.seen else {
            return Vec::new();
        };
        let lease = self.lease();
        let ends = roster
            .views
            .iter()
            .skip(1)
            .map(|view| Wall(view.active_from));
        roster
            .views
            .iter()
            .zip(ends.chain([Wall(u64::MAX)]))
            .map(|(view, end)| as_view(view, lease.min(end)))
            .collect()
    }

    /// The list under which this node may act on a window that starts then; `None` if it may not.
    #[must_use]
    pub fn governing(&self, start: Wall) -> Option<&ListedView> {
        let (_, roster) = self.seen.as_ref()?;
        (start < self.lease()).then(|| roster.governing(start))?
    }

    /// Where members are: those of the list that holds, and of the one that will, with their addresses.
    pub fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.seen.iter().flat_map(|(_, roster)| &roster.seats)
    }

    /// How this node stands.
    #[must_use]
    pub fn standing(&self, now: Now) -> Standing {
        if self.replaced {
            return Standing::Replaced;
        }
        if self.vanished {
            return Standing::Vanished;
        }
        let Some((_, roster)) = &self.seen else {
            return Standing::Unknown;
        };
        let holds = roster
            .governing(now.wall)
            .is_some_and(|view| view.contains(self.me.node));
        if self.leaving && !holds && !roster.latest().contains(self.me.node) {
            return Standing::Left;
        }
        match self.any_seat() {
            Some(seat) if seat.incarnation() != self.me.epoch => {
                let until = Wall(seat.lease_until);
                return Standing::NameTaken { until };
            }
            Some(_) | None => {}
        }
        if holds && now.wall < self.lease() {
            Standing::Member
        } else if self.clock_differs(now) == Some(true) {
            Standing::ClockDiffers
        } else if holds {
            Standing::Lapsed
        } else {
            Standing::Joining
        }
    }
}

/// Who should be in the list: whoever wants to, and has a lease that is not over.
fn wanted(roster: &Roster, now: Wall) -> Vec<u64> {
    roster
        .seats
        .iter()
        .filter(|seat| match seat.state {
            SeatState::Leaving => false,
            SeatState::Member => seat.lease_until > now.0,
        })
        .map(|seat| seat.id)
        .collect()
}

/// Removes seats of nodes that have been silent for long and are in no list to come. Their leases were over when the
/// latest list begins, and no later one begins sooner: so nobody misses them, whatever the clock that says "long".
fn forget_seats(roster: &mut Roster, now: Wall) {
    let latest = roster.latest().clone();
    roster.seats.retain(|seat| {
        let silent = seat.lease_until.max(seat.written_at) <= now.minus(2 * LEASE).0;
        let over = seat.lease_until <= latest.active_from;
        !silent || !over || latest.contains(NodeId(seat.id))
    });
}

fn as_view(view: &ListedView, lease_until: Wall) -> View {
    View {
        id: view.id(),
        members: view.members.iter().copied().map(NodeId).collect(),
        active_from: Wall(view.active_from),
        lease_until,
    }
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
