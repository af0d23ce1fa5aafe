//! What every transport must do. A transport's own tests give a harness, and run [`all`] over it.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use leasehold_node::peers::{Bounds, Frame, MOST_FRAME_BYTES, OpenError, SendError, open};
use tokio::time::timeout;

use super::{PATIENCE, Station, envelope, id, until};

/// The names that a harness knows. All are members of one cluster, but for the last, which is in nobody's list.
pub const NAMES: [&str; 4] = [A, B, C, STRANGER];
pub const A: &str = "node-a";
pub const B: &str = "node-b";
pub const C: &str = "node-c";
pub const STRANGER: &str = "stranger";

/// What a station's queues may hold, for each peer and each way.
pub const BOUNDS: Bounds = Bounds {
    frames: 64,
    bytes: 2 << 20,
};

/// Starts nodes over a transport, at the same place each time.
pub trait Harness {
    /// A node, with `node-a`, `node-b` and `node-c` as members and [`BOUNDS`].
    async fn start(&mut self, name: &str) -> Station;

    /// A node that is there and takes nothing. It lasts as long as what is returned.
    async fn stick(&mut self, name: &str) -> Box<dyn Send>;
}

/// Each test has a harness of its own.
pub async fn all<H: Harness>(new: impl Fn() -> H) {
    delivers_both_ways_and_says_who_sent(new()).await;
    counts_what_goes_out_and_comes_in(new()).await;
    refuses_an_envelope_of_another_identity(new()).await;
    refuses_who_is_no_member(new()).await;
    refuses_what_is_too_large(new()).await;
    reaches_a_node_that_started_again(new()).await;
    holds_no_more_than_its_bounds_for_who_is_away(new()).await;
    holds_no_more_than_its_bounds_for_a_slow_reader(new()).await;
    a_stuck_peer_blocks_nobody(new()).await;
    ends_when_it_is_closed(new()).await;
}

async fn delivers_both_ways_and_says_who_sent(mut harness: impl Harness) {
    let (mut a, mut b) = (harness.start(A).await, harness.start(B).await);
    a.reach(&mut b, b"from a").await;
    b.reach(&mut a, b"from b").await;
    // What is sent over a link that is up arrives, from empty to the largest.
    let sizes = [0, 1, 1000, 64 << 10, MOST_FRAME_BYTES];
    for (byte, size) in sizes.into_iter().enumerate() {
        a.send(B, vec![byte as u8; size]);
    }
    let mut missing: BTreeSet<usize> = sizes.into();
    while !missing.is_empty() {
        let frame = timeout(PATIENCE, b.inbox.receive()).await.unwrap().unwrap();
        assert_eq!(frame.from, id(A));
        missing.remove(&frame.bytes.len());
    }
}

async fn counts_what_goes_out_and_comes_in(mut harness: impl Harness) {
    let (a, mut b) = (harness.start(A).await, harness.start(B).await);
    a.reach(&mut b, b"there").await;
    let before = b.peer(A).traffic;
    for _ in 0..10 {
        a.send(B, vec![7; 100]);
    }
    for _ in 0..10 {
        while timeout(PATIENCE, b.inbox.receive())
            .await
            .unwrap()
            .unwrap()
            .bytes
            .len()
            != 100
        {}
    }
    let out = a.peer(B).traffic;
    assert!(out.frames_out >= 11 && out.bytes_out >= 1005, "{out:?}");
    assert!(out.connects >= 1, "{out:?}");
    let counted = || {
        let into = b.peer(A).traffic;
        into.frames_in >= before.frames_in + 10 && into.bytes_in >= before.bytes_in + 1000
    };
    until(counted, "what came in is counted").await;
    assert_eq!(a.peer(C).traffic.frames_out, 0);
}

async fn refuses_an_envelope_of_another_identity(mut harness: impl Harness) {
    let (a, mut b) = (harness.start(A).await, harness.start(B).await);
    a.reach(&mut b, b"there").await;
    a.send(B, envelope(C, B));
    a.send(B, envelope(A, C));
    a.send(B, envelope(A, B));
    a.send(B, &b"\xff"[..]);
    let mut opened = Vec::new();
    while opened.len() < 4 {
        let frame: Frame = timeout(PATIENCE, b.inbox.receive()).await.unwrap().unwrap();
        if frame.bytes != b"there"[..] {
            opened.push(open(&frame, b.id()));
        }
    }
    let claimed = OpenError::NotTheSender {
        claimed: id(C),
        proven: id(A),
    };
    assert!(opened.contains(&Err(claimed)), "{opened:?}");
    assert!(
        opened.contains(&Err(OpenError::NotForThisNode(id(C)))),
        "{opened:?}"
    );
    let right = opened.iter().flatten().count();
    let malformed = opened
        .iter()
        .filter(|opened| matches!(opened, Err(OpenError::Malformed(_))))
        .count();
    assert_eq!((right, malformed), (1, 1), "{opened:?}");
}

async fn refuses_who_is_no_member(mut harness: impl Harness) {
    let (a, mut b) = (harness.start(A).await, harness.start(B).await);
    let stranger = harness.start(STRANGER).await;
    a.reach(&mut b, b"there").await;
    let nobody = SendError::NotAMember(id(STRANGER));
    assert_eq!(a.transport.send(id(STRANGER), Bytes::new()), Err(nobody));
    for turn in 0..20 {
        stranger.send(B, &b"let me in"[..]);
        a.reach(&mut b, b"still there").await;
        if turn > 0 && stranger.peer(B).traffic.errors > 0 {
            break;
        }
    }
    while let Some(frame) = b.inbox.try_receive() {
        assert_eq!(frame.from, id(A), "a stranger was heard");
    }
}

async fn refuses_what_is_too_large(mut harness: impl Harness) {
    let (a, mut b) = (harness.start(A).await, harness.start(B).await);
    a.reach(&mut b, b"there").await;
    let bytes = MOST_FRAME_BYTES + 1;
    assert_eq!(
        a.transport.send(id(B), vec![0; bytes].into()),
        Err(SendError::TooLarge { bytes })
    );
    a.reach(&mut b, b"still there").await;
}

async fn reaches_a_node_that_started_again(mut harness: impl Harness) {
    let (mut a, mut b) = (harness.start(A).await, harness.start(B).await);
    for _ in 0..3 {
        a.reach(&mut b, b"before").await;
        b.reach(&mut a, b"back").await;
        b.transport.close();
        drop(b);
        // Into the void.
        a.send(B, &b"lost"[..]);
        b = harness.start(B).await;
        a.reach(&mut b, b"after").await;
        b.reach(&mut a, b"back again").await;
    }
    assert!(a.peer(B).traffic.connects >= 1);
}

const FLOOD: usize = 1000;
const LARGE: usize = 64 << 10;

async fn holds_no_more_than_its_bounds_for_who_is_away(mut harness: impl Harness) {
    let a = harness.start(A).await;
    for _ in 0..FLOOD {
        a.send(B, vec![1; LARGE]);
    }
    let held = BOUNDS.bytes / LARGE;
    let gone = || {
        let traffic = a.peer(B).traffic;
        traffic.dropped_out + traffic.frames_out >= (FLOOD - held) as u64
    };
    until(gone, "what does not fit is dropped").await;
}

async fn holds_no_more_than_its_bounds_for_a_slow_reader(mut harness: impl Harness) {
    let (a, mut b) = (harness.start(A).await, harness.start(B).await);
    a.reach(&mut b, b"there").await;
    let mut sent = 0;
    while b.peer(A).traffic.dropped_in < 100 {
        a.send(B, vec![2; LARGE]);
        sent += 1;
        assert!(sent < 100_000, "nothing is ever dropped");
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    a.transport.close();
    let mut held = 0;
    while b.inbox.try_receive().is_some() {
        held += 1;
    }
    assert!(held <= BOUNDS.frames, "{held} frames were held");
}

async fn a_stuck_peer_blocks_nobody(mut harness: impl Harness) {
    let (a, mut b) = (harness.start(A).await, harness.start(B).await);
    let _stuck = harness.stick(C).await;
    a.reach(&mut b, b"there").await;
    for turn in 0..FLOOD {
        a.send(C, vec![3; LARGE]);
        if turn % 100 == 0 {
            a.reach(&mut b, b"not blocked").await;
        }
    }
    let dropped = || a.peer(C).traffic.dropped_out > 0;
    until(dropped, "frames for the stuck peer are dropped").await;
    a.reach(&mut b, b"not blocked").await;
}

async fn ends_when_it_is_closed(mut harness: impl Harness) {
    let (mut a, mut b) = (harness.start(A).await, harness.start(B).await);
    a.reach(&mut b, b"there").await;
    a.transport.close();
    let ended = async { while a.inbox.receive().await.is_some() {} };
    timeout(PATIENCE, ended).await.unwrap();
    assert_eq!(
        a.transport.send(id(B), Bytes::new()),
        Err(SendError::Closed)
    );
}
