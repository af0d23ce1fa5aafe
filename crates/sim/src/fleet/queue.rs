//! What happens next: events in order of true time, those of one instant in the order that they were put in. Nothing
//! else may decide the order, or a run could not be replayed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// True time, in nanoseconds from the start of the run. No node ever sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct At(pub u64);

impl At {
    /// Never.
    pub const NEVER: Self = Self(u64::MAX);

    /// Later by so many nanoseconds.
    #[must_use]
    pub const fn plus(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// Something that happens at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A message arrives; the letter's place in [`crate::net::Post`].
    Deliver { letter: u32 },
    /// A process asked to be woken.
    Wake { machine: u16, start: u32 },
    /// A request comes in from a source of traffic.
    Arrival { source: u32 },
    /// A clock floor has reached the disk.
    Written {
        machine: u16,
        start: u32,
        floor: u64,
    },
    /// The next step of the plan of faults.
    Fault { step: u32 },
    /// Nothing is wrong any more.
    Heal,
    /// A question reaches the ledger of durable limits; its place in [`super::durable::Durable`].
    Asked { question: u32 },
    /// Its answer, or the end of the wait for one, reaches who asked.
    Answered { question: u32 },
    /// A process reads the members' document.
    Poll { machine: u16, start: u32 },
    /// A writing of it reaches the store; its place in [`super::members::Document`].
    Put { writing: u32 },
    /// Its answer reaches the writer.
    Stored { writing: u32 },
    /// A process starts on a machine that lost its power.
    Again { machine: u16 },
}

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(At, u64, Event)>>,
    put: u64,
}

impl Queue {
    pub(crate) fn put(&mut self, at: At, event: Event) {
        self.put += 1;
        self.heap.push(Reverse((at, self.put, event)));
    }

    /// The next event, if it comes before `end`.
    pub(crate) fn next(&mut self, end: At) -> Option<(At, Event)> {
        if self.heap.peek()?.0.0 >= end {
            return None;
        }
        self.heap.pop().map(|Reverse((at, _, event))| (at, event))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_of_time_then_of_coming() {
        let mut queue = Queue::default();
        queue.put(At(5), Event::Fault { step: 1 });
        queue.put(At(3), Event::Fault { step: 2 });
        queue.put(At(5), Event::Fault { step: 0 });
        let mut seen = Vec::new();
        while let Some((at, Event::Fault { step })) = queue.next(At(6)) {
            seen.push((at.0, step));
        }
        assert_eq!(seen, [(3, 2), (5, 1), (5, 0)]);
    }

    #[test]
    fn stops_before_the_end() {
        let mut queue = Queue::default();
        queue.put(At(5), Event::Fault { step: 1 });
        assert_eq!(queue.next(At(5)), None);
    }
}
