//! The thread that writes the clock floor to disk, so that the protocol's thread never waits for one.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use lease::time::Wall;
use tokio::sync::mpsc::UnboundedSender;

use super::disk::{DataDir, State};

/// After a write that failed the next attempt comes so much later.
const RETRY: Duration = Duration::from_millis(200);

/// Hands floors to the thread. When it is dropped the thread ends, and gives the data directory free.
#[derive(Debug)]
pub struct FloorSaver(Sender<Wall>);

impl FloorSaver {
    /// Starts the thread. What has been saved comes out of `saved`; of floors that come in faster than the disk is,
    /// only the newest is saved.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub fn start(
        data: DataDir,
        starts: u64,
        saved: UnboundedSender<Wall>,
    ) -> std::io::Result<Self> {
        let (floors, incoming) = channel();
        thread::Builder::new()
            .name("leasehold-floor".to_owned())
            .spawn(move || save(&data, starts, &incoming, &saved))?;
        Ok(Self(floors))
    }

    /// Has a floor saved.
    pub fn save(&self, floor: Wall) {
        // The thread ends only after this handle does.
        let _ = self.0.send(floor);
    }
}

fn save(data: &DataDir, starts: u64, incoming: &Receiver<Wall>, saved: &UnboundedSender<Wall>) {
    let mut waiting: Option<Wall> = None;
    let mut failing = false;
    loop {
        let next = match waiting {
            None => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(_) => incoming.recv_timeout(RETRY),
        };
        match next {
            Ok(floor) => waiting = waiting.max(Some(floor)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        waiting = incoming.try_iter().map(Some).fold(waiting, Option::max);
        let Some(floor) = waiting else { continue };
        match data.save(State { starts, floor }) {
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

    #[test]
    fn the_newest_floor_is_on_disk_when_it_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let (sender, mut saved) = tokio::sync::mpsc::unbounded_channel();
        let data = DataDir::open(folder.path()).unwrap();
        let saver = FloorSaver::start(data, 3, sender).unwrap();
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
            floor: Wall(100),
        };
        assert_eq!(found, Some(expected));
    }
}
