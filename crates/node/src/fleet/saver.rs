//! The thread that writes the clock floor to disk, so that the protocol's thread never waits for one.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use lease::id::Epoch;
use lease::time::Wall;
use tokio::sync::mpsc::UnboundedSender;

use super::disk::{DataDir, State};

/// After a write that failed the next attempt comes so much later.
const RETRY: Duration = Duration::from_millis(200);

/// Hands floors to the thread. When it is dropped the thread ends, and gives the data directory free.
#[derive(Debug)]
pub struct FloorSaver {
    floors: Sender<Floor>,
    thread: thread::JoinHandle<()>,
}

/// What is to be written.
#[derive(Debug)]
enum Floor {
    /// At least this.
    AtLeast(Wall),
    /// Exactly this, and nothing after it.
    Last(Wall),
}

impl FloorSaver {
    /// Starts the thread. What has been saved comes out of `saved`; of floors that come in faster than the disk is,
    /// only the newest is saved.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub fn start(
        data: DataDir,
        epoch: Epoch,
        saved: UnboundedSender<Wall>,
    ) -> std::io::Result<Self> {
        let (floors, incoming) = channel();
        let thread = thread::Builder::new()
            .name("leasehold-floor".to_owned())
            .spawn(move || save(&data, epoch, &incoming, &saved))?;
        Ok(Self { floors, thread })
    }

    /// Has a floor saved.
    pub fn save(&self, floor: Wall) {
        // The thread ends only after this handle does.
        let _ = self.floors.send(Floor::AtLeast(floor));
    }

    /// Has the latest time that was acted on saved in place of a floor above it, and waits for that: the next start is not
    /// behind it then, however soon it comes. Nothing may be acted on any more.
    pub fn finish(self, used: Wall) {
        let _ = self.floors.send(Floor::Last(used));
        if self.thread.join().is_err() {
            tracing::error!(event = "floor_thread_panicked");
        }
    }
}

fn save(data: &DataDir, epoch: Epoch, incoming: &Receiver<Floor>, saved: &UnboundedSender<Wall>) {
    let state = |floor| State {
        starts: epoch.count,
        nonce: epoch.nonce,
        floor,
    };
    let mut waiting: Option<Wall> = None;
    let mut last: Option<Wall> = None;
    let mut failing = false;
    loop {
        let next = match waiting {
            None => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => incoming.recv_timeout(RETRY),
        };
        match next {
            Ok(Floor::AtLeast(floor)) => waiting = waiting.max(Some(floor)),
            Ok(Floor::Last(used)) => last = Some(used),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        for floor in incoming.try_iter() {
            match floor {
                Floor::AtLeast(floor) => waiting = waiting.max(Some(floor)),
                Floor::Last(used) => last = Some(used),
            }
        }
        if let Some(floor) = last {
            if let Err(error) = data.save(state(floor)) {
                // A floor above it is there: a start that comes at once has to wait for that.
                tracing::warn!(event = "clock_floor_not_saved", error_message = %error);
            }
            return;
        }
        let Some(floor) = waiting else { continue };
        match data.save(state(floor)) {
            Ok(()) => {
                if failing {
                    tracing::info!(event = "clock_floor_saved_again");
                }
                (waiting, failing) = (None, false);
                if saved.send(floor).is_err() {
                    return;
                }
            }
            Err(error) => {
                // Once, not five times a second: what follows from it shows in the metrics.
                if !failing {
                    tracing::error!(
                        event = "clock_floor_not_saved",
                        error_message = %error,
                        "until it can be, this node only uses credit that others issue"
                    );
                }
                failing = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch { count: 3, nonce: 5 };

    #[test]
    fn the_newest_floor_is_on_disk_when_it_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, mut saved) = tokio::sync::mpsc::unbounded_channel();
        let data = DataDir::open(folder.path()).unwrap();
        let saver = FloorSaver::start(data, EPOCH, sender).unwrap();
        for floor in 1..=100 {
            saver.save(Wall(floor));
        }
        let mut last = Wall(0);
        while last != Wall(100) {
            let next = saved.blocking_recv().unwrap();
            assert!(next > last);
            last = next;
        }
        drop(saver);
        assert_eq!(saved.blocking_recv(), None);
        let found = DataDir::open(folder.path()).unwrap().state().unwrap();
        let expected = State {
            starts: 3,
            nonce: 5,
            floor: Wall(100),
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn the_last_floor_is_exact_and_the_directory_free_once_it_is_saved() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, _saved) = tokio::sync::mpsc::unbounded_channel();
        let data = DataDir::open(folder.path()).unwrap();
        let saver = FloorSaver::start(data, EPOCH, sender).unwrap();
        saver.save(Wall(1000));
        saver.finish(Wall(400));
        let found = DataDir::open(folder.path()).unwrap().state().unwrap();
        let expected = State {
            starts: 3,
            nonce: 5,
            floor: Wall(400),
        };
        assert_eq!(found, Some(expected));
    }
}
