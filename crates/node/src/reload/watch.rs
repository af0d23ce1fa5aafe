//! When to read the policy again: the file changed, somebody sent SIGHUP, or some time has passed.
//!
//! Directories are watched, never the file alone: editors rename a new file over the old one, and Kubernetes swaps the
//! link `..data` beside it. A change is taken up once it has been quiet for a while and two readings agree, so that a
//! file is not caught half-written. Watching may fail or miss a change (a network file system, a full queue); the
//! regular look finds it then.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, sleep, timeout};

use super::{ReadError, Reloader, Why};
use crate::drain::{Life, Phase};

/// How long the watch waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long a change must be quiet before it is read.
    pub quiet: Duration,
    /// How long after its beginning a change is read though it is not quiet.
    pub at_most: Duration,
    /// How often the source is read though nothing was seen to change.
    pub look_every: Duration,
    /// How long a reading may take before that is a fault: a disk may hang.
    pub read_at_most: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            quiet: Duration::from_millis(100),
            at_most: Duration::from_secs(2),
            look_every: Duration::from_secs(10),
            read_at_most: Duration::from_secs(10),
        }
    }
}

/// Reads the policy again whenever there is reason to, until the node closes. `hangup` is told of SIGHUP.
///
/// If `on_change` is false, changes are not looked for; SIGHUP still is.
pub async fn watch(
    reloader: Arc<Reloader>,
    hangup: Arc<Notify>,
    on_change: bool,
    pace: Pace,
    life: Life,
) {
    let changed = Arc::new(Notify::new());
    let mut watching = on_change.then(|| Watching::start(&reloader, &changed));
    let mut readings = Readings::default();
    let mut look = tokio::time::interval(pace.look_every);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    look.reset();
    let mut closing = std::pin::pin!(life.reached(Phase::Closing));
    loop {
        let why = tokio::select! {
            () = &mut closing => return,
            () = hangup.notified() => Why::Asked,
            () = changed.notified() => {
                settle(&changed, pace).await;
                Why::Noticed
            }
            _ = look.tick(), if on_change => Why::Noticed,
        };
        read_when_still(&reloader, &mut readings, pace, why).await;
        // Not while a reading hangs: this would too.
        if let (Some(watching), None) = (&mut watching, &readings.pending) {
            watching.renew(&reloader);
        }
    }
}

/// Waits until changes have been quiet for a while, or have gone on for too long.
async fn settle(changed: &Notify, pace: Pace) {
    let end = Instant::now() + pace.at_most;
    while Instant::now() < end && timeout(pace.quiet, changed.notified()).await.is_ok() {}
}

/// Reads until two readings in a row agree, and applies them.
async fn read_when_still(reloader: &Arc<Reloader>, readings: &mut Readings, pace: Pace, why: Why) {
    const MOST_READINGS: u32 = 20;
    let mut before = readings.next(reloader, pace.read_at_most).await;
    // What is in force already is certainly not half-written.
    let is_in_force = |reading: &Reading| {
        reading
            .as_ref()
            .is_ok_and(|bytes| reloader.is_in_force(&bytes.version()))
    };
    for _ in 0..MOST_READINGS {
        if is_in_force(&before) {
            break;
        }
        sleep(pace.quiet).await;
        let again = readings.next(reloader, pace.read_at_most).await;
        let same = match (&before, &again) {
            (Ok(one), Ok(other)) => one == other,
            (Err(one), Err(other)) => one.to_string() == other.to_string(),
            (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
        };
        before = again;
        if same {
            break;
        }
    }
    let reloader = Arc::clone(reloader);
    let applied = tokio::task::spawn_blocking(move || reloader.apply(before, why)).await;
    if let Err(error) = applied {
        tracing::error!(event = "policy_reload_failed", error_message = %error);
    }
}

type Reading = Result<super::Bytes, ReadError>;

/// Reads on threads that may wait for a disk, one at a time: one that hangs is waited for, not joined by others.
#[derive(Default)]
struct Readings {
    pending: Option<JoinHandle<Reading>>,
}

impl Readings {
    async fn next(&mut self, reloader: &Reloader, at_most: Duration) -> Reading {
        let mut reading = self.pending.take().unwrap_or_else(|| {
            let source = reloader.source().clone();
            tokio::task::spawn_blocking(move || source.bytes())
        });
        let failed = |source| {
            let path = reloader.source().path();
            Err(ReadError::Unreadable {
                path: path.map(PathBuf::from).unwrap_or_default(),
                source,
            })
        };
        match timeout(at_most, &mut reading).await {
            Ok(Ok(reading)) => reading,
            // The runtime is going down, or reading panicked: there is nothing to apply.
            Ok(Err(error)) => failed(io::Error::other(error)),
            Err(_) => {
                self.pending = Some(reading);
                let problem = format!("not read within {} ms", at_most.as_millis());
                failed(io::Error::new(io::ErrorKind::TimedOut, problem))
            }
        }
    }
}

/// The directories being watched.
struct Watching {
    watcher: Option<RecommendedWatcher>,
    directories: BTreeSet<PathBuf>,
}

impl Watching {
    fn start(reloader: &Reloader, changed: &Arc<Notify>) -> Self {
        let changed = Arc::clone(changed);
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // An error may hide a change.
            if event.as_ref().map_or(true, is_change) {
                changed.notify_one();
            }
        });
        let watcher = watcher.inspect_err(|error| {
            tracing::warn!(
                event = "policy_not_watched",
                error_message = %error,
                "changes of the policy are found by regular looks only"
            );
        });
        let mut watching = Self {
            watcher: watcher.ok(),
            directories: BTreeSet::new(),
        };
        watching.renew(reloader);
        watching
    }

    /// Watches the directories that now lead to the file. Those watched already are watched anew, since another
    /// directory may have taken the path.
    fn renew(&mut self, reloader: &Reloader) {
        let (Some(watcher), Some(path)) = (&mut self.watcher, reloader.source().path()) else {
            return;
        };
        let mut leading = BTreeSet::new();
        for path in [Some(path.to_owned()), std::fs::canonicalize(path).ok()]
            .into_iter()
            .flatten()
        {
            match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => leading.insert(parent.to_owned()),
                Some(_) | None => leading.insert(PathBuf::from(".")),
            };
            if path.is_dir() {
                leading.insert(path);
            }
        }
        for gone in self.directories.difference(&leading) {
            // It may be gone from the disk too, and its watch with it.
            let _ = watcher.unwatch(gone);
        }
        for directory in &leading {
            if let Err(error) = watcher.watch(directory, RecursiveMode::NonRecursive) {
                tracing::debug!(
                    event = "policy_not_watched",
                    directory = %directory.display(),
                    error_message = %error
                );
            }
        }
        self.directories = leading;
    }
}

/// Whether an event may mean that a file is other than it was. Reading a file is none, or our own reading would make
/// us read again.
const fn is_change(event: &Event) -> bool {
    match event.kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}
