//! What is timed, and the timing of it: so many decisions by so many threads, processor time over decisions.
//!
//! Each thread's own processor time is taken, because whatever else runs on the machine would otherwise be measured
//! along. A subject that sleeps on a lock is not charged for it, which favours the peers: Leasehold never sleeps.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::draws::Draws;

/// What a subject is to the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The least that any limiter must do, with the clock that most read.
    Floor,
    /// The same with the clock that Leasehold reads.
    FloorOnOurClock,
    /// Another limiter that counts exactly.
    Peer,
    /// Neither: shown, not raced.
    Shown,
    /// Leasehold.
    Ours,
}

/// Something that decides.
pub trait Subject: Sync {
    /// Its name within a row's name.
    fn name(&self) -> &'static str;

    /// What it is to the comparison.
    fn role(&self) -> Role;

    /// A slow subject does one decision for so many of a fast one's, to keep a run's length alike.
    fn slower_by(&self) -> usize {
        1
    }

    /// Makes ready for these draws, one item a thread, before anything is timed.
    fn prepare(&mut self, _draws: &[Draws]) {}

    /// Decides for `draws[from..to]`, its own clock reading included. `thread` counts from 0.
    fn run(&self, thread: usize, draws: &Draws, from: usize, to: usize);
}

/// Times one run of `decisions` by each thread: nanoseconds per decision as a thread sees it, the mean of the threads.
/// `round` moves the place in the sequence, so that rounds do not repeat each other's keys.
pub fn time(subject: &dyn Subject, draws: &[Draws], decisions: usize, round: usize) -> f64 {
    let barrier = Barrier::new(draws.len());
    let decisions = decisions / subject.slower_by();
    let spent: Duration = thread::scope(|scope| {
        let threads: Vec<_> = draws
            .iter()
            .enumerate()
            .map(|(number, draws)| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let length = draws.ids.len();
                    let mut from = (round * decisions) % length;
                    let mut left = decisions;
                    barrier.wait();
                    let start = processor_time();
                    while left > 0 {
                        let to = length.min(from + left);
                        subject.run(number, draws, from, to);
                        left -= to - from;
                        from = if to == length { 0 } else { to };
                    }
                    processor_time() - start
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a subject panicked"))
            .sum()
    });
    spent.as_nanos() as f64 / (decisions * draws.len()) as f64
}

/// What this thread has used so far.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(used.tv_sec as u64, used.tv_nsec as u32)
}
