//! Requests that wait for the fast path, in one line for each bucket that they wait for.
//!
//! One thread owns this. It must never keep a request waiting that the protocol has answered, nor answer one twice.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use lease::bucket::Bucket;
use lease::node::FastPath;
use tokio::sync::oneshot;

/// Requests that wait.
#[derive(Debug, Default)]
pub struct Waiters {
    by_bucket: BTreeMap<Bucket, VecDeque<Rc<RefCell<Waiting>>>>,
    count: usize,
}

/// One request: it may wait for several buckets, and is answered when all of them are.
#[derive(Debug)]
struct Waiting {
    buckets_left: usize,
    outcome: FastPath,
    answer: Option<oneshot::Sender<FastPath>>,
}

/// The worse of two outcomes: a request goes on only if every bucket has credit.
const fn worse(a: FastPath, b: FastPath) -> FastPath {
    match (a, b) {
        (FastPath::Exhausted, _) | (_, FastPath::Exhausted) => FastPath::Exhausted,
        (FastPath::Missed, _) | (_, FastPath::Missed) => FastPath::Missed,
        (FastPath::Credit, FastPath::Credit) => FastPath::Credit,
    }
}

impl Waiters {
    /// How many answers are outstanding, over all buckets.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Has a request wait for all of these buckets; a bucket may be there twice. With none it is answered at once.
    pub fn wait(
        &mut self,
        buckets: impl ExactSizeIterator<Item = Bucket>,
        answer: oneshot::Sender<FastPath>,
    ) {
        let buckets_left = buckets.len();
        if buckets_left == 0 {
            let _ = answer.send(FastPath::Credit);
            return;
        }
        let waiting = Rc::new(RefCell::new(Waiting {
            buckets_left,
            outcome: FastPath::Credit,
            answer: Some(answer),
        }));
        for bucket in buckets {
            self.by_bucket
                .entry(bucket)
                .or_default()
                .push_back(Rc::clone(&waiting));
            self.count += 1;
        }
    }

    /// Tells the first `count` that wait for a bucket how that ended.
    pub fn wake(&mut self, bucket: Bucket, count: usize, outcome: FastPath) {
        let Some(line) = self.by_bucket.get_mut(&bucket) else {
            return;
        };
        let woken: Vec<_> = line.drain(..count.min(line.len())).collect();
        if line.is_empty() {
            self.by_bucket.remove(&bucket);
        }
        for waiting in woken {
            self.count -= 1;
            let mut waiting = waiting.borrow_mut();
            waiting.outcome = worse(waiting.outcome, outcome);
            waiting.buckets_left -= 1;
            if waiting.buckets_left == 0
                && let Some(answer) = waiting.answer.take()
            {
                // Who gave up waiting hears nothing.
                let _ = answer.send(waiting.outcome);
            }
        }
    }

    /// Ends every wait: the fleet is being left.
    pub fn give_up(&mut self) {
        while let Some(bucket) = self.by_bucket.keys().next().copied() {
            self.wake(bucket, usize::MAX, FastPath::Missed);
        }
    }
}

#[cfg(test)]
mod tests {
    use lease::bucket::{Subject, WindowId};

    use super::*;

    fn bucket(n: u128) -> Bucket {
        Bucket {
            subject: Subject(n),
            window: WindowId(7),
        }
    }

    fn waiting(waiters: &mut Waiters, buckets: &[u128]) -> oneshot::Receiver<FastPath> {
        let (answer, answered) = oneshot::channel();
        waiters.wait(buckets.iter().map(|n| bucket(*n)), answer);
        answered
    }

    #[test]
    fn who_waits_for_a_bucket_is_woken_once_and_in_order() {
        let mut waiters = Waiters::default();
        let mut line = [(); 4].map(|()| waiting(&mut waiters, &[1]));
        let mut other = waiting(&mut waiters, &[2]);
        waiters.wake(bucket(1), 2, FastPath::Credit);
        for (place, answered) in line.iter_mut().enumerate() {
            assert_eq!(
                answered.try_recv().ok(),
                (place < 2).then_some(FastPath::Credit)
            );
        }
        assert_eq!(waiters.count(), 3);
        waiters.wake(bucket(1), 5, FastPath::Exhausted);
        for answered in &mut line[2..] {
            assert_eq!(answered.try_recv(), Ok(FastPath::Exhausted));
        }
        assert!(other.try_recv().is_err());
        assert_eq!(waiters.count(), 1);
        waiters.give_up();
        assert_eq!(other.try_recv(), Ok(FastPath::Missed));
        assert_eq!(waiters.count(), 0);
    }

    #[test]
    fn who_waits_for_several_hears_the_worst_when_all_are_known() {
        for (first, second, expected) in [
            (FastPath::Credit, FastPath::Credit, FastPath::Credit),
            (FastPath::Missed, FastPath::Credit, FastPath::Missed),
            (FastPath::Credit, FastPath::Exhausted, FastPath::Exhausted),
            (FastPath::Exhausted, FastPath::Missed, FastPath::Exhausted),
        ] {
            let mut waiters = Waiters::default();
            let mut answered = waiting(&mut waiters, &[1, 2, 2]);
            waiters.wake(bucket(1), 1, first);
            assert!(answered.try_recv().is_err());
            waiters.wake(bucket(2), 2, second);
            assert_eq!(answered.try_recv(), Ok(expected));
        }
    }

    #[test]
    fn who_waits_for_nothing_or_gave_up_is_no_trouble() {
        let mut waiters = Waiters::default();
        assert_eq!(waiting(&mut waiters, &[]).try_recv(), Ok(FastPath::Credit));
        drop(waiting(&mut waiters, &[3]));
        waiters.wake(bucket(3), 1, FastPath::Credit);
        waiters.wake(bucket(4), 1, FastPath::Credit);
        assert_eq!(waiters.count(), 0);
    }
}
