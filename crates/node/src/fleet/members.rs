//! Members that come and go: this node's seat in the list that the fleet keeps for itself, and what follows from it.
//!
//! `store::members` decides, and a task of its own keeps the document. The protocol's thread asks here, before it does
//! anything, under which lists it may act and for how long: a lease can be cut short, and then at once (S11).

use std::time::Duration;

use lease::time::{Now, Wall};
use lease::view::View;
use store::members::{Entry, Membership, Seat, Standing};
use store::nats::{Fleet as Known, NatsLink, NatsMembers, SharedMembership};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::clock::Clock;
use crate::peers::{Identity, Member, NodeName};

/// How long a node that is told to stop waits for a list without it. It takes two thirds of that when all is well.
pub const LEAVE_PATIENCE: Duration = Duration::from_secs(15);

/// This node's part in the list of members.
#[derive(Debug)]
pub struct Members {
    membership: SharedMembership,
    known: watch::Receiver<Known>,
    /// This node's lease when it was last asked about.
    lease: Wall,
    task: AbortHandle,
}

/// What has changed of the list.
#[derive(Debug)]
pub struct Change {
    /// The lists, oldest first, each with how far this node may act under it.
    pub views: Vec<View>,
    /// All that have a seat.
    pub members: Vec<Member>,
}

/// Both of the protocol's clocks. The node's clock never goes back, so it serves as both.
pub fn read(clock: &Clock) -> Now {
    let now = clock.now().nanos();
    Now {
        instant: lease::time::Instant(now),
        wall: Wall(now),
    }
}

impl Members {
    /// Begins to keep a seat. Needs a Tokio runtime.
    pub fn start(
        link: &NatsLink,
        me: &Identity,
        replicas: usize,
        entry: Entry,
        clock: Clock,
    ) -> Self {
        let membership = SharedMembership::new(Membership::new(entry));
        let (sender, known) = watch::channel(Known {
            standing: Standing::Unknown,
            views: Vec::new(),
            seats: Vec::new(),
            fault: None,
        });
        let members = NatsMembers::new(link, me.cluster.as_str(), replicas);
        let shared = membership.clone();
        let task = tokio::spawn(async move {
            members.run(&shared, &move || read(&clock), &sender).await;
        });
        tokio::spawn(tell(known.clone()));
        Self {
            membership,
            known,
            lease: Wall(0),
            task: task.abort_handle(),
        }
    }

    /// Waits until this node is a member by a list that holds.
    pub async fn joined(&mut self) -> Change {
        // The task that sends ends with this.
        let _ = self
            .known
            .wait_for(|known| known.standing == Standing::Member)
            .await;
        self.change()
    }

    /// What has changed since it was last asked, if anything has. To be asked before anything is done.
    pub fn changed(&mut self) -> Option<Change> {
        let lease = self.membership.lock().lease();
        let changed = lease != self.lease || self.known.has_changed().unwrap_or(false);
        changed.then(|| self.change())
    }

    fn change(&mut self) -> Change {
        let seats = self.known.borrow_and_update().seats.clone();
        // Lists and lease of one moment: a longer lease may come with a list that bounds it.
        let membership = self.membership.lock();
        self.lease = membership.lease();
        Change {
            views: membership.views(),
            members: seats.iter().filter_map(member).collect(),
        }
    }

    /// What tells that the list may have changed.
    pub fn news(&self) -> watch::Receiver<Known> {
        self.known.clone()
    }

    /// From now on it wants to leave.
    pub fn leave(&self) {
        self.membership.lock().leave();
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        self.known.borrow().standing
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A seat as transports know members. A seat under a name that is none, or under the number of another name, is nobody's
/// whom this node could hear.
fn member(seat: &Seat) -> Option<Member> {
    let name = NodeName::new(&seat.name).ok()?;
    (name.id().0 == seat.id).then(|| Member {
        name,
        address: seat.address.clone(),
    })
}

/// The word for a standing, for logs and status pages.
pub const fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Unknown => "unknown",
        Standing::Joining => "joining",
        Standing::Member => "member",
        Standing::Lapsed => "lapsed",
        Standing::ClockDiffers => "clock_differs",
        Standing::NameTaken { .. } => "name_taken",
        Standing::Replaced => "replaced",
        Standing::Vanished => "vanished",
        Standing::Left => "left",
    }
}

/// Logs what an operator should hear of the list.
async fn tell(mut known: watch::Receiver<Known>) {
    let (mut standing, mut fault, mut members) = (Standing::Unknown, None, 0);
    while known.changed().await.is_ok() {
        let now = known.borrow_and_update().clone();
        let count = now.views.last().map_or(0, |view| view.members.len());
        if count != members {
            members = count;
            tracing::info!(event = "members_changed", members);
        }
        if now.standing != standing {
            standing = now.standing;
            let word = word(standing);
            match standing {
                Standing::Unknown | Standing::Joining | Standing::Member | Standing::Left => {
                    tracing::info!(event = "standing_changed", standing = word);
                }
                Standing::NameTaken { .. } => tracing::error!(
                    event = "standing_changed",
                    standing = word,
                    "another process has this node's name, by a lease that has not ended: this one waits for that"
                ),
                Standing::Lapsed
                | Standing::ClockDiffers
                | Standing::Replaced
                | Standing::Vanished => tracing::error!(
                    event = "standing_changed",
                    standing = word,
                    "this node is no member by any lease that holds: it begins nothing new for shared limits"
                ),
            }
        }
        if now.fault != fault {
            fault = now.fault;
            match &fault {
                Some(error) => {
                    tracing::warn!(event = "members_unavailable", error_message = %error);
                }
                None => tracing::info!(event = "members_available"),
            }
        }
    }
}
