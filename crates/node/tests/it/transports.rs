//! What every transport between members must do: each runs [`suite`].

use std::time::{Duration, Instant};

use bytes::Bytes;
use leasehold_node::peers::{
    Inbox, Link, MOST_FRAME_BYTES, Member, NodeName, SendError, Transport,
};

/// How long anything may take before the test has failed. Generous, because the machine may be busy.
const DEADLINE: Duration = Duration::from_secs(30);

/// A node of a fleet under test.
pub struct Node {
    pub name: NodeName,
    pub transport: Box<dyn Transport>,
    pub inbox: Inbox,
}

/// The clock, for deadlines only.
#[expect(clippy::disallowed_methods, reason = "the tests wait for real sockets")]
pub fn now() -> Instant {
    Instant::now()
}

/// Polls until `what` gives something; fails the test after [`DEADLINE`].
pub async fn until<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let start = now();
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "gave up waiting: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

/// Sends `text` until it arrives: transports may lose frames. What arrives must be from `from`.
pub async fn reaches(from: &Node, to: &mut Node, text: &str) {
    let frame = Bytes::copy_from_slice(text.as_bytes());
    let id = to.name.id();
    until(&format!("{text} from {} to {}", from.name, to.name), || {
        from.transport.send(id, frame.clone()).unwrap();
        while let Some(got) = to.inbox.try_receive() {
            if got.bytes == frame {
                assert_eq!(got.from, from.name.id());
                return Some(());
            }
        }
        None
    })
    .await;
}

/// All of it. `start` makes three nodes; `member` says how others find one.
pub async fn suite(mut nodes: Vec<Node>, members: &[Member]) {
    for node in &nodes {
        node.transport.set_members(members);
    }
    carries_frames_between_all(&mut nodes).await;
    says_how_it_stands(&nodes).await;
    refuses_what_it_cannot_send(&mut nodes).await;
    takes_nothing_from_who_is_no_member(&mut nodes, members).await;
    never_makes_a_sender_wait(&nodes);
    ends(nodes).await;
}

async fn carries_frames_between_all(nodes: &mut [Node]) {
    for from in 0..3 {
        for to in (0..3).filter(|to| *to != from) {
            let [one, other] = nodes.get_disjoint_mut([from, to]).unwrap();
            reaches(one, other, &format!("{from} to {to}")).await;
        }
    }
}

async fn says_how_it_stands(nodes: &[Node]) {
    for node in nodes {
        until("all links to be up", || {
            let peers = node.transport.peers();
            assert_eq!(peers.len(), 2, "itself is no peer");
            assert!(peers.windows(2).all(|pair| pair[0].name < pair[1].name));
            peers.iter().all(|peer| peer.link == Link::Up).then_some(())
        })
        .await;
        for peer in node.transport.peers() {
            let traffic = peer.traffic;
            assert!(traffic.frames_out > 0 && traffic.bytes_out > traffic.frames_out);
            assert!(traffic.frames_in > 0 && traffic.bytes_in > traffic.frames_in);
        }
    }
}

async fn refuses_what_it_cannot_send(nodes: &mut [Node]) {
    let stranger = name("stranger").id();
    let first = &nodes[0];
    assert_eq!(
        first.transport.send(stranger, Bytes::from_static(b"x")),
        Err(SendError::NotAMember(stranger))
    );
    let itself = first.name.id();
    assert_eq!(
        first.transport.send(itself, Bytes::from_static(b"x")),
        Err(SendError::NotAMember(itself))
    );
    let bytes = MOST_FRAME_BYTES + 1;
    let second = nodes[1].name.id();
    assert_eq!(
        first.transport.send(second, Bytes::from(vec![0; bytes])),
        Err(SendError::TooLarge { bytes })
    );
    // The largest arrives, and so does an empty one.
    let [one, other] = nodes.get_disjoint_mut([0, 1]).unwrap();
    for size in [MOST_FRAME_BYTES, 0] {
        let frame = Bytes::from(vec![7; size]);
        one.transport.send(second, frame.clone()).unwrap();
        until("a frame of that size", || {
            std::iter::from_fn(|| other.inbox.try_receive())
                .any(|got| got.bytes == frame)
                .then_some(())
        })
        .await;
    }
}

async fn takes_nothing_from_who_is_no_member(nodes: &mut [Node], members: &[Member]) {
    // Node 2 does not know node 0 any more; node 0 does not know that.
    let without: Vec<Member> = members
        .iter()
        .filter(|member| member.name != nodes[0].name)
        .cloned()
        .collect();
    nodes[2].transport.set_members(&without);
    assert_eq!(nodes[2].transport.peers().len(), 1);
    let first = nodes[0].name.id();
    assert_eq!(
        nodes[2].transport.send(first, Bytes::from_static(b"x")),
        Err(SendError::NotAMember(first))
    );
    while nodes[2].inbox.try_receive().is_some() {}
    // Frames of node 1, sent after those of node 0, arrive alone.
    for round in 0..3 {
        let third = nodes[2].name.id();
        nodes[0]
            .transport
            .send(third, Bytes::from_static(b"unwanted"))
            .unwrap();
        let [one, other] = nodes.get_disjoint_mut([1, 2]).unwrap();
        let frame = Bytes::from(format!("round {round}"));
        until("a frame of a member", || {
            one.transport.send(other.name.id(), frame.clone()).unwrap();
            while let Some(got) = other.inbox.try_receive() {
                assert_eq!(got.from, one.name.id(), "{got:?}");
                if got.bytes == frame {
                    return Some(());
                }
            }
            None
        })
        .await;
    }
    // It comes back.
    nodes[2].transport.set_members(members);
    let [one, other] = nodes.get_disjoint_mut([0, 2]).unwrap();
    reaches(one, other, "welcome back").await;
}

fn never_makes_a_sender_wait(nodes: &[Node]) {
    // More than fits any queue, from a thread that cannot wait: the runtime has no turn meanwhile.
    let second = nodes[1].name.id();
    for _ in 0..2_000 {
        let frame = Bytes::from_static(&[1; 10_000]);
        nodes[0].transport.send(second, frame).unwrap();
    }
    let peers = nodes[0].transport.peers();
    let peer = peers
        .iter()
        .find(|peer| peer.name == nodes[1].name)
        .unwrap();
    assert!(peer.traffic.dropped_out > 0);
}

async fn ends(mut nodes: Vec<Node>) {
    let second = nodes[1].name.id();
    nodes[0].transport.close();
    assert_eq!(
        nodes[0].transport.send(second, Bytes::from_static(b"x")),
        Err(SendError::Closed)
    );
    assert_eq!(nodes[0].inbox.receive().await, None);
    assert!(nodes[0].transport.peers().is_empty());
    // The others go on.
    let [one, other] = nodes.get_disjoint_mut([1, 2]).unwrap();
    reaches(one, other, "without the first").await;
}
