//! What the tests share: processes that end with their test, free ports, a client, and an API to protect.
//!
//! Nothing here sleeps until something has probably happened: it polls for what it waits for, with a deadline.

pub mod client;
pub mod leasehold;
pub mod process;
pub mod proxy;
pub mod upstream;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

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
        tokio::time::sleep(Duration::from_millis(10)).await;
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

/// The folder of the project.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// A program by name: of the virtual environment that `scripts/test setup` makes, or of the path.
pub fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::iter::once(project().join(".venv/bin"))
        .chain(std::env::split_paths(&path))
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .unwrap_or_else(|| panic!("{name} is not installed: run `scripts/test setup`"))
}

/// A port that nothing listens on. Chosen from below the range that connections get theirs from, and from another
/// place in each test process, so that nobody else takes it before its process does.
pub fn free_port() -> u16 {
    use std::sync::atomic::{AtomicU32, Ordering};
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    // Relaxed: only the count itself matters.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let place = std::process::id().wrapping_mul(61);
    for _ in 0..COUNT {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = FIRST + place.wrapping_add(step) % COUNT;
        let port = u16::try_from(port).unwrap();
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port between {FIRST} and {}", FIRST + COUNT);
}
