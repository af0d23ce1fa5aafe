//! What came in, from whichever member: a bounded queue for each, and one task that takes from all in turn.
//!
//! A member that sends more than is taken loses its own oldest frames, never those of others.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use lease::id::NodeId;

use super::queue::{Bounds, Frames};

/// A frame and who sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Who the transport proved to have sent it.
    pub from: NodeId,
    /// What was sent, not looked at yet: see [`super::open()`].
    pub bytes: Bytes,
}

/// An inbox: the end that transports put frames in, and the end that the protocol's task takes them out of.
///
/// `bounds` hold for each sender.
#[must_use]
pub fn inbox(bounds: Bounds) -> (Deliver, Inbox) {
    let shared = Arc::new(Shared {
        bounds,
        state: Mutex::default(),
    });
    (Deliver(Arc::clone(&shared)), Inbox(shared))
}

#[derive(Debug)]
struct Shared {
    bounds: Bounds,
    /// Held for a few instructions at a time, never across a wait.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    senders: BTreeMap<NodeId, Frames>,
    /// Those with frames, each once, in the order in which they have their turn.
    turns: VecDeque<NodeId>,
    closed: bool,
    waiting: Option<Waker>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts frames in. Never waits.
#[derive(Clone, Debug)]
pub struct Deliver(Arc<Shared>);

impl Deliver {
    /// Puts a frame in. `from` must be proven, and a member, since each sender has a queue of its own.
    ///
    /// Says how many frames had to go: older ones of this sender, or this one if the inbox is closed.
    pub fn deliver(&self, from: NodeId, bytes: Bytes) -> u64 {
        let (dropped, waiting) = {
            let mut state = self.0.state();
            let State {
                senders,
                turns,
                closed,
                waiting,
            } = &mut *state;
            if *closed {
                return 1;
            }
            let frames = senders.entry(from).or_default();
            if frames.is_empty() {
                turns.push_back(from);
            }
            (frames.push(bytes, self.0.bounds), waiting.take())
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        dropped
    }

    /// Forgets a sender that is no member any more, and its frames.
    pub fn forget(&self, sender: NodeId) {
        let mut state = self.0.state();
        state.senders.remove(&sender);
        state.turns.retain(|turn| *turn != sender);
    }

    /// Drops all frames and takes no more.
    pub fn close(&self) {
        let waiting = {
            let mut state = self.0.state();
            *state = State {
                closed: true,
                waiting: state.waiting.take(),
                ..State::default()
            };
            state.waiting.take()
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

/// Takes frames out.
#[derive(Debug)]
pub struct Inbox(Arc<Shared>);

impl Inbox {
    /// Waits for the next frame, of each sender in turn; `None` once the inbox is closed. Loses nothing if the wait is
    /// given up.
    pub async fn receive(&mut self) -> Option<Frame> {
        poll_fn(|context| self.poll_receive(context)).await
    }

    /// The next frame, if one is there; `None` if not, or if the inbox is closed.
    pub fn try_receive(&mut self) -> Option<Frame> {
        next(&mut self.0.state())
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        let mut state = self.0.state();
        match next(&mut state) {
            Some(frame) => Poll::Ready(Some(frame)),
            None if state.closed => Poll::Ready(None),
            None => {
                state.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

fn next(state: &mut State) -> Option<Frame> {
    let from = state.turns.pop_front()?;
    let frames = state.senders.get_mut(&from)?;
    let bytes = frames.pop()?;
    if !frames.is_empty() {
        state.turns.push_back(from);
    }
    Some(Frame { from, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Bounds = Bounds {
        frames: 3,
        bytes: 100,
    };
    const A: NodeId = NodeId(1);
    const B: NodeId = NodeId(2);

    fn bytes(byte: u8) -> Bytes {
        Bytes::from(vec![byte])
    }

    fn all(inbox: &mut Inbox) -> Vec<(NodeId, u8)> {
        std::iter::from_fn(|| inbox.try_receive())
            .map(|frame| (frame.from, frame.bytes[0]))
            .collect()
    }

    #[test]
    fn a_loud_sender_loses_its_own_oldest_and_others_have_their_turn() {
        let (deliver, mut inbox) = inbox(SMALL);
        let dropped: u64 = (0..100).map(|byte| deliver.deliver(A, bytes(byte))).sum();
        assert_eq!(dropped, 97);
        assert_eq!(deliver.deliver(B, bytes(1)), 0);
        assert_eq!(all(&mut inbox), [(A, 97), (B, 1), (A, 98), (A, 99)]);
        // And again, from empty.
        deliver.deliver(B, bytes(2));
        assert_eq!(all(&mut inbox), [(B, 2)]);
    }

    #[test]
    fn who_is_forgotten_has_no_turn() {
        let (deliver, mut inbox) = inbox(SMALL);
        for sender in [A, B, A] {
            deliver.deliver(sender, bytes(3));
        }
        deliver.forget(A);
        assert_eq!(all(&mut inbox), [(B, 3)]);
        deliver.deliver(A, bytes(4));
        assert_eq!(all(&mut inbox), [(A, 4)]);
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_a_frame_and_by_the_end() {
        let (deliver, mut inbox) = inbox(SMALL);
        let taking = tokio::spawn(async move {
            let first = inbox.receive().await;
            (first, inbox.receive().await)
        });
        tokio::task::yield_now().await;
        deliver.deliver(B, bytes(5));
        tokio::task::yield_now().await;
        deliver.close();
        let (first, second) = taking.await.unwrap();
        let expected = Frame {
            from: B,
            bytes: bytes(5),
        };
        assert_eq!((first, second), (Some(expected), None));
        assert_eq!(
            deliver.deliver(A, bytes(6)),
            1,
            "a closed inbox takes nothing"
        );
    }
}
