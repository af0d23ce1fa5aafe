//! A real nats-server in a folder of its own: started, frozen, restarted, and gone with its test.

// The tests of two crates share it, and neither uses all of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long anything may take before the test has failed. Generous, because the machine may be busy.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Polls until `what` gives something; fails the test after [`DEADLINE`].
pub async fn eventually<T, F: AsyncFnMut() -> Option<T>>(what: &str, mut poll: F) -> T {
    let start = now();
    loop {
        if let Some(found) = poll().await {
            return found;
        }
        assert!(start.elapsed() < DEADLINE, "gave up waiting: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The clock, for deadlines only.
#[expect(
    clippy::disallowed_methods,
    reason = "the tests wait for processes that live in real time"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// A port that nothing listens on, from below the range that connections get theirs from.
pub fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU32, Ordering};
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    // Relaxed: only the count itself matters.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let place = std::process::id().wrapping_mul(61);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = u16::try_from(FIRST + place.wrapping_add(step) % COUNT).unwrap();
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}

fn program() -> PathBuf {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(project.join(".venv/bin"))
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join("nats-server"))
        .find(|file| file.is_file())
        .expect("nats-server is not installed: run `scripts/test setup`")
}

/// The server, on one port for its whole life, restarts included.
pub struct NatsServer {
    pub port: u16,
    child: Option<Child>,
    folder: tempfile::TempDir,
}

impl NatsServer {
    /// Writes the configuration of a server that is not started yet, with JetStream synced at every write, as the
    /// documentation demands. `settings` are more of it.
    pub fn prepare(settings: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = free_port();
        let server = Self {
            port,
            child: None,
            folder,
        };
        server.rewrite(settings);
        server
    }

    /// Writes its configuration anew.
    pub fn rewrite(&self, settings: &str) {
        let port = self.port;
        let store = self.folder().join("jetstream");
        std::fs::write(
            self.folder().join("nats.conf"),
            format!(
                "listen: \"127.0.0.1:{port}\"\n\
                 jetstream {{ store_dir: {store:?}, sync_interval: always }}\n{settings}\n"
            ),
        )
        .unwrap();
    }

    /// Starts one and waits until it answers.
    pub async fn start(settings: &str) -> Self {
        let mut server = Self::prepare(settings);
        server.up().await;
        server
    }

    /// Its folder, for files that its configuration names.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes its whole configuration.
    pub fn replace(&self, config: &str) {
        std::fs::write(self.folder().join("nats.conf"), config).unwrap();
    }

    /// Adds to its configuration.
    pub fn configure(&self, settings: &str) {
        use std::io::Write as _;
        let mut file = std::fs::File::options()
            .append(true)
            .open(self.folder().join("nats.conf"))
            .unwrap();
        writeln!(file, "{settings}").unwrap();
    }

    /// Starts it and waits until it says so.
    pub async fn up(&mut self) {
        let before = self.times_ready();
        self.launch();
        self.until_ready(before).await;
    }

    /// Starts it without waiting.
    pub fn launch(&mut self) {
        let file = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.folder().join("nats.log"))
            .unwrap();
        let child = Command::new(program())
            .arg("--config")
            .arg(self.folder().join("nats.conf"))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// Waits until it has said more than `before` times that it is ready.
    pub async fn until_ready(&self, before: usize) {
        eventually("the server to be ready", async || {
            (self.times_ready() > before).then_some(())
        })
        .await;
    }

    fn times_ready(&self) -> usize {
        self.log().matches("Server is ready").count()
    }

    /// What it has printed.
    pub fn log(&self) -> String {
        let log = std::fs::read(self.folder().join("nats.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the test has started it");
        // An unreaped child keeps its id, so this never hits a stranger.
        kill_process(Pid::from_child(child), signal).unwrap();
    }

    /// Freezes it, and waits until every thread of it stands still.
    pub async fn freeze(&self) {
        self.signal(Signal::STOP);
        let child = self.child.as_ref().expect("the test has started it");
        let tasks = format!("/proc/{}/task", child.id());
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

    pub fn thaw(&self) {
        self.signal(Signal::CONT);
    }
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(100).collect();
            for line in tail.iter().rev() {
                eprintln!("nats-server: {line}");
            }
        }
    }
}
