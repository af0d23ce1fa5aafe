//! A bounded queue of frames that never makes the sender wait: when it is full, the oldest go.
//!
//! For running totals the newest frame is worth most, so dropping the oldest loses least. One task takes frames out.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

/// What a queue may hold. At least one frame always fits, whatever its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The most frames.
    pub frames: usize,
    /// The most bytes in them.
    pub bytes: usize,
}

impl Default for Bounds {
    /// Ten rounds' worth of a busy pair: 4 MiB.
    fn default() -> Self {
        Self {
            frames: 256,
            bytes: 4 << 20,
        }
    }
}

/// Frames in order, without the waiting: see [`Queue`].
#[derive(Debug, Default)]
pub(super) struct Frames {
    frames: VecDeque<Bytes>,
    bytes: usize,
}

impl Frames {
    /// Adds a frame, and says how many others had to go for it.
    pub(super) fn push(&mut self, frame: Bytes, bounds: Bounds) -> u64 {
        let mut dropped = 0;
        while !self.frames.is_empty()
            && (self.frames.len() >= bounds.frames
                || self.bytes.saturating_add(frame.len()) > bounds.bytes)
        {
            self.pop();
            dropped += 1;
        }
        self.bytes = self.bytes.saturating_add(frame.len());
        self.frames.push_back(frame);
        dropped
    }

    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let frame = self.frames.pop_front()?;
        self.bytes -= frame.len();
        Some(frame)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    fn clear(&mut self) -> u64 {
        let dropped = self.frames.len() as u64;
        *self = Self::default();
        dropped
    }
}

/// The queue. Any thread may push; one task at a time may pop.
#[derive(Debug)]
pub struct Queue {
    bounds: Bounds,
    /// Held for a few instructions at a time, never across a wait.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    frames: Frames,
    closed: bool,
    /// Who pops, if it waits.
    waiting: Option<Waker>,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a frame, and says how many had to go: older ones, or this one if the queue is closed.
    pub fn push(&self, frame: Bytes) -> u64 {
        let (dropped, waiting) = {
            let mut state = self.state();
            if state.closed {
                return 1;
            }
            let dropped = state.frames.push(frame, self.bounds);
            (dropped, state.waiting.take())
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        dropped
    }

    /// The oldest frame, when there is one; `None` once the queue is closed.
    pub fn poll_pop(&self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut state = self.state();
        if state.closed {
            return Poll::Ready(None);
        }
        match state.frames.pop() {
            Some(frame) => Poll::Ready(Some(frame)),
            None => {
                state.waiting = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Waits for the oldest frame; `None` once the queue is closed. Loses nothing if the wait is given up.
    pub async fn pop(&self) -> Option<Bytes> {
        poll_fn(|context| self.poll_pop(context)).await
    }

    /// Drops all frames, and says how many there were.
    pub fn clear(&self) -> u64 {
        self.state().frames.clear()
    }

    /// Drops all frames and takes no more.
    pub fn close(&self) {
        let waiting = {
            let mut state = self.state();
            state.closed = true;
            state.frames.clear();
            state.waiting.take()
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SMALL: Bounds = Bounds {
        frames: 3,
        bytes: 10,
    };

    fn frame(byte: u8, length: usize) -> Bytes {
        Bytes::from(vec![byte; length])
    }

    #[tokio::test]
    async fn a_full_queue_drops_the_oldest() {
        let queue = Queue::new(SMALL);
        let dropped: Vec<u64> = (0..5).map(|byte| queue.push(frame(byte, 1))).collect();
        assert_eq!(dropped, [0, 0, 0, 1, 1]);
        for byte in 2..5 {
            assert_eq!(queue.pop().await.unwrap()[..], [byte]);
        }
    }

    #[tokio::test]
    async fn bytes_are_bounded_too_and_a_frame_alone_always_fits() {
        let queue = Queue::new(SMALL);
        assert_eq!(queue.push(frame(0, 5)), 0);
        assert_eq!(queue.push(frame(1, 5)), 0);
        assert_eq!(queue.push(frame(2, 1)), 1);
        assert_eq!(queue.push(frame(3, 100)), 2);
        assert_eq!(queue.pop().await.unwrap().len(), 100);
        assert_eq!(
            queue.push(frame(4, 10)),
            0,
            "what was popped is not counted"
        );
        assert_eq!(queue.clear(), 1);
        assert_eq!(
            queue.push(frame(5, 10)),
            0,
            "what was cleared is not counted"
        );
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_a_frame_and_by_the_end() {
        let queue = Arc::new(Queue::new(SMALL));
        for _ in 0..100 {
            let popped = tokio::spawn({
                let queue = Arc::clone(&queue);
                async move { queue.pop().await }
            });
            tokio::task::yield_now().await;
            queue.push(frame(7, 1));
            assert_eq!(popped.await.unwrap(), Some(frame(7, 1)));
        }
        let popped = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.pop().await }
        });
        tokio::task::yield_now().await;
        queue.close();
        assert_eq!(popped.await.unwrap(), None);
        assert_eq!(queue.push(frame(1, 1)), 1, "a closed queue takes nothing");
    }
}
