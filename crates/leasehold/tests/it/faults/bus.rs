//! A nats-server that can be killed and started again on the same port.

use tempfile::TempDir;
use tokio::net::TcpStream;

use crate::harness::process::Process;
use crate::harness::{free_port, program};

/// The server.
pub struct Bus {
    pub port: u16,
    // Dropped in this order: the process before its files.
    process: Option<Process>,
    folder: TempDir,
}

impl Bus {
    /// Writes the files of one that is not started yet.
    pub fn prepare() -> Self {
        let (port, folder) = (free_port(), TempDir::new().unwrap());
        let store = folder.path().join("jetstream");
        let config = format!(
            "listen: \"127.0.0.1:{port}\"\n\
             jetstream {{ store_dir: {store:?}, sync_interval: always }}\n"
        );
        std::fs::write(folder.path().join("nats.conf"), config).unwrap();
        Self {
            port,
            process: None,
            folder,
        }
    }

    /// Starts it and waits until it answers.
    pub async fn up(&mut self) {
        let mut command = std::process::Command::new(program("nats-server"));
        command.arg("-c").arg(self.folder.path().join("nats.conf"));
        let process = Process::start("nats-server", &mut command, self.folder.path());
        let port = self.port;
        self.process
            .insert(process)
            .until("it to listen", async || {
                TcpStream::connect(("127.0.0.1", port)).await.is_ok()
            })
            .await;
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.process
            .as_mut()
            .expect("the test has started it")
            .kill();
        self.process = None;
    }
}
