//! A child process that never outlives its test, and whose output is shown if the test fails.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::{DEADLINE, eventually, now};

/// A running child.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, with all that it prints going to `<folder>/<name>.log`.
    pub fn start(name: &str, command: &mut Command, folder: &Path) -> Self {
        let log = folder.join(format!("{name}.log"));
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
        Self {
            name: name.to_owned(),
            child,
            log,
        }
    }

    /// What it has printed so far, and what earlier processes of that name in that folder have.
    pub fn output(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        // An unreaped child keeps its id, so this never hits a stranger.
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Freezes it, and waits until every thread of it stands still. [`Signal::CONT`] thaws it.
    pub async fn freeze(&self) {
        self.signal(Signal::STOP);
        let tasks = format!("/proc/{}/task", self.child.id());
        eventually("every thread to stand still", async || {
            let mut threads = std::fs::read_dir(&tasks).unwrap();
            let still = threads.all(|thread| {
                let stat = std::fs::read_to_string(thread.unwrap().path().join("stat"));
                // "id (name) state ...", where the name may be anything.
                let stopped = |stat: &str| stat.rsplit(") ").next()?.chars().next();
                stat.is_ok_and(|stat| stopped(&stat) == Some('T'))
            });
            still.then_some(())
        })
        .await;
    }

    /// Its status, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for its end.
    pub async fn wait(&mut self) -> ExitStatus {
        let what = format!("{} to end", self.name);
        eventually(&what, async || self.child.try_wait().unwrap()).await
    }

    /// Waits for its end by itself or until something holds.
    pub async fn until(&mut self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        let what = format!("{}: {what}", self.name);
        eventually(&what, async || {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("{what}: it ended with {status}");
            }
            holds().await.then_some(())
        })
        .await;
    }

    /// Ends it at once, without its having a say.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ask first: nginx's workers would outlive a killed master.
        if self.ended().is_none() {
            self.signal(Signal::TERM);
            let start = now();
            while self.ended().is_none() && start.elapsed() < DEADLINE / 6 {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        self.kill();
        if std::thread::panicking() {
            let output = self.output();
            let lines: Vec<_> = output.lines().collect();
            let tail = lines[lines.len().saturating_sub(400)..].join("\n");
            eprintln!("--- {} printed:\n{tail}", self.name);
        }
    }
}
