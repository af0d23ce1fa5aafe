//! The processes that are measured: started on a free loopback port, read through `/proc`, killed when dropped.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Why a server is not there to be measured.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// It could not be started.
    #[error("cannot start {name}: {error}")]
    Start {
        /// Which.
        name: &'static str,
        /// What the system said.
        error: io::Error,
    },
    /// It ended, or does not listen.
    #[error("{name} does not listen on {address}: see {}", log.display())]
    Silent {
        /// Which.
        name: &'static str,
        /// Where it should listen.
        address: SocketAddr,
        /// What it wrote.
        log: PathBuf,
    },
}

/// How long a server may take to listen.
const START_WITHIN: Duration = Duration::from_secs(20);

/// A running server.
pub struct Server {
    /// Its name in row names.
    pub name: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    child: Child,
}

impl Server {
    /// Starts `program` with `arguments` and waits until it listens on `address`. Its output goes to a file in the
    /// directory for temporary files.
    ///
    /// # Errors
    /// See [`ServerError`].
    pub fn start(
        name: &'static str,
        address: SocketAddr,
        program: &str,
        arguments: &[&str],
    ) -> Result<Self, ServerError> {
        let failed = |error| ServerError::Start { name, error };
        let log = std::env::temp_dir().join(format!("leasehold-bench-{}.log", address.port()));
        let output = fs::File::create(&log).map_err(failed)?;
        // The kernel ends it if this process dies without dropping it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", program])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(output)
            .spawn()
            .map_err(failed)?;
        let mut server = Self {
            name,
            address,
            child,
        };
        let deadline = Instant::now() + START_WITHIN;
        while TcpStream::connect(address).is_err() {
            let ended = server.child.try_wait().is_ok_and(|status| status.is_some());
            if ended || Instant::now() > deadline {
                return Err(ServerError::Silent { name, address, log });
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = fs::remove_file(&log);
        Ok(server)
    }

    /// Processor time that it has used so far, by all of its threads.
    pub fn cpu(&self) -> Duration {
        let threads = fs::read_dir(format!("/proc/{}/task", self.child.id()));
        let nanos: u64 = threads
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
            .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok())
            .sum();
        Duration::from_nanos(nanos)
    }

    /// Resident memory in bytes, mapped files included.
    pub fn resident(&self) -> f64 {
        resident_of(&self.child.id().to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; either way there is nothing to do about an error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Resident memory of a process (or `self`) in bytes; zero if it is gone.
pub fn resident_of(process: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let kilobytes: Option<f64> = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}

/// A loopback address that nothing listens on.
///
/// # Errors
/// If the system has none.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
