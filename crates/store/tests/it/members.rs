//! A fleet that keeps its own list in JetStream, on a real server and in real time.

use std::sync::Arc;

use lease::id::{Epoch, NodeId};
use lease::time::{Instant, Now, Wall};
use store::members::{Entry, Membership, Roster, Seat, SeatState, Standing};
use store::nats::{Fleet, MembersError, NatsMembers, SharedMembership};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::nats::connect;
use crate::server::{NatsServer, eventually, now};

/// The real time, as the node's clock tells it.
#[expect(
    clippy::disallowed_methods,
    reason = "the server's clock is compared with"
)]
fn clock(started: std::time::Instant) -> Now {
    const BEGINS_S: u64 = 1_735_689_600;
    let wall = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    Now {
        instant: Instant(started.elapsed().as_nanos() as u64),
        wall: Wall(wall.as_nanos() as u64 - BEGINS_S * 1_000_000_000),
    }
}

struct Node {
    membership: SharedMembership,
    fleet: watch::Receiver<Fleet>,
    task: JoinHandle<()>,
}

impl Node {
    async fn start(server: &NatsServer, node: u64, count: u64) -> Self {
        let entry = Entry {
            node: NodeId(node),
            name: format!("node-{node}"),
            address: format!("127.0.0.{node}:7000"),
            epoch: Epoch {
                count,
                nonce: node * 100 + count,
            },
            previous: (count > 1).then(|| Epoch {
                count: count - 1,
                nonce: node * 100 + count - 1,
            }),
            new_fleet: true,
        };
        let membership = SharedMembership::new(Membership::new(entry));
        let (sender, fleet) = watch::channel(Fleet {
            standing: Standing::Unknown,
            views: Vec::new(),
            seats: Vec::new(),
            fault: None,
        });
        let members = NatsMembers::new(&connect(server.url()).await, "c", 1);
        let shared = membership.clone();
        let started = now();
        let task = tokio::spawn(async move {
            members.run(&shared, &move || clock(started), &sender).await;
        });
        Self {
            membership,
            fleet,
            task,
        }
    }

    fn standing(&self) -> Standing {
        self.fleet.borrow().standing
    }

    async fn until(&self, standing: Standing) {
        eventually(&format!("{standing:?}"), async || {
            (self.standing() == standing).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn nodes_join_restart_lose_the_store_and_leave() {
    let mut server = NatsServer::start("").await;
    let first = Node::start(&server, 1, 1).await;
    first.until(Standing::Member).await;
    let mut second = Node::start(&server, 2, 1).await;
    second.until(Standing::Member).await;
    first.until(Standing::Member).await;
    let views = first.fleet.borrow().views.clone();
    assert_eq!(views.last().unwrap().members, [NodeId(1), NodeId(2)]);
    assert_eq!(
        views.last().unwrap().id,
        second.fleet.borrow().views.last().unwrap().id
    );
    let seats = second.fleet.borrow().seats.clone();
    assert_eq!(seats[0].address, "127.0.0.1:7000");

    // A crash and a restart change no list.
    second.task.abort();
    second = Node::start(&server, 2, 2).await;
    second.until(Standing::Member).await;
    assert_eq!(second.fleet.borrow().views.len(), views.len());

    // The store is away, and members are still members.
    server.kill();
    eventually("the fault to be told", async || {
        let fault = first.fleet.borrow().fault.clone();
        matches!(fault, Some(MembersError::Unavailable { .. })).then_some(())
    })
    .await;
    assert_eq!(first.standing(), Standing::Member);
    server.up().await;
    eventually("the fault to end", async || {
        first.fleet.borrow().fault.is_none().then_some(())
    })
    .await;

    // The second leaves; it is a member until the list without it holds.
    second.membership.lock().leave();
    second.until(Standing::Left).await;
    let views = first.fleet.borrow().views.clone();
    assert_eq!(views.last().unwrap().members, [NodeId(1)]);
    first.task.abort();
    second.task.abort();
}

#[tokio::test]
async fn of_two_writers_one_wins_and_a_document_of_others_is_left_alone() {
    let server = NatsServer::start("").await;
    let link = connect(server.url()).await;
    let members = Arc::new(NatsMembers::new(&link, "c", 1));
    assert_eq!(members.read().await, Ok(None));
    let seat = |id| Seat {
        id,
        name: String::new(),
        address: String::new(),
        epoch: 1,
        nonce: 1,
        lease_until: 0,
        probes: 0,
        written_at: 0,
        state: SeatState::Member,
    };
    let (one, other) = (
        Roster::found(seat(1), Wall(1)),
        Roster::found(seat(2), Wall(2)),
    );
    let (a, b) = tokio::join!(members.write(0, &one), members.write(0, &other));
    let (kept, lost) = match (a, b) {
        (Ok(kept), Err(lost)) | (Err(lost), Ok(kept)) => (kept, lost),
        other => panic!("{other:?}"),
    };
    assert_eq!(lost, MembersError::Overtaken);
    let apart = clock(now()).wall.0.abs_diff(kept.stored_at.0);
    assert!(
        apart < 60_000_000_000,
        "the server's time is ours: {apart} ns"
    );
    let (revision, _) = members.read().await.unwrap().unwrap();
    assert_eq!(revision, kept.revision);
    assert_eq!(members.write(7, &one).await, Err(MembersError::Overtaken));
    assert!(members.write(revision, &other).await.is_ok());

    let put = async_nats::jetstream::new(link.client().clone())
        .publish("$KV.leasehold_c_members.roster", "{\"format\":9}".into())
        .await
        .unwrap();
    put.await.unwrap();
    let error = members.read().await.unwrap_err();
    assert!(error.to_string().contains("format 9"), "{error}");
}
