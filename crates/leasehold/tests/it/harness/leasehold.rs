//! Leasehold itself: `leasehold serve` with a configuration and a policy in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use http::StatusCode;
use rustix::process::Signal;
use tempfile::TempDir;

use super::client::Client;
use super::free_port;
use super::process::Process;

/// A node. It can be ended and started again on the same ports and files.
pub struct Leasehold {
    pub http: u16,
    pub grpc: u16,
    pub admin: u16,
    // Dropped in this order: the process before its files.
    process: Option<Process>,
    folder: TempDir,
}

impl Leasehold {
    /// Starts a node with this policy, and waits until it is ready.
    pub async fn start(policy: &str) -> Self {
        Self::start_with(policy, "").await
    }

    /// Starts a node with this policy and more configuration (TOML), and waits until it is ready.
    pub async fn start_with(policy: &str, settings: &str) -> Self {
        let mut node = Self::prepare(policy, settings);
        node.up().await;
        node
    }

    /// Writes the files of a node that is not started yet.
    pub fn prepare(policy: &str, settings: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let node = Self {
            http: free_port(),
            grpc: free_port(),
            admin: free_port(),
            folder,
            process: None,
        };
        node.write_policy(policy);
        let policy = node.policy_file();
        let config = format!(
            "http.listen = \"127.0.0.1:{}\"\n\
             grpc.listen = \"127.0.0.1:{}\"\n\
             admin.listen = \"127.0.0.1:{}\"\n\
             policy.path = {policy:?}\n\
             {settings}\n",
            node.http, node.grpc, node.admin
        );
        std::fs::write(node.config_file(), config).unwrap();
        node
    }

    /// The folder of its files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its policy file.
    pub fn policy_file(&self) -> PathBuf {
        self.folder().join("policy.yaml")
    }

    /// Its configuration file.
    pub fn config_file(&self) -> PathBuf {
        self.folder().join("leasehold.toml")
    }

    /// Writes its policy file anew.
    pub fn write_policy(&self, policy: &str) {
        std::fs::write(self.policy_file(), policy).unwrap();
    }

    /// The command that starts it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
        command.arg("serve").arg("--config").arg(self.config_file());
        command.env("NO_COLOR", "1");
        command
    }

    /// Starts it without waiting.
    pub fn spawn(&mut self) -> &mut Process {
        let process = Process::start("leasehold", &mut self.command(), self.folder());
        self.process.insert(process)
    }

    /// Starts it and waits until it is ready.
    pub async fn up(&mut self) {
        self.spawn();
        self.ready().await;
    }

    /// Waits until it is ready.
    pub async fn ready(&mut self) {
        let admin = self.admin;
        self.process()
            .until("it to be ready", async || is_ready(admin).await)
            .await;
    }

    /// The running process.
    pub fn process(&mut self) -> &mut Process {
        self.process.as_mut().expect("the test has started it")
    }

    /// Ends it as a crash would.
    pub fn kill(&mut self) {
        self.process().kill();
        self.process = None;
    }

    /// Ends it as a supervisor would; fails the test if it does not end well.
    pub async fn stop(&mut self) {
        self.process().signal(Signal::TERM);
        let status = self.process().wait().await;
        assert!(status.success(), "after SIGTERM: {status}");
        self.process = None;
    }

    /// What it has printed.
    pub fn output(&self) -> String {
        let log = self.folder().join("leasehold.log");
        String::from_utf8_lossy(&std::fs::read(log).unwrap_or_default()).into_owned()
    }

    /// A value of `/metrics`: the sum over all series of `name` that have all of `labels` (`key="value"`).
    pub async fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        let reply = Client::at_proxy().get(self.admin, "/metrics").await;
        assert_eq!(reply.status, StatusCode::OK);
        let text = String::from_utf8(reply.body.to_vec()).unwrap();
        text.lines()
            .filter_map(|line| {
                let (series, value) = line.rsplit_once(' ')?;
                let (series_name, series_labels) = series.split_once('{').unwrap_or((series, ""));
                let all = labels.iter().all(|label| series_labels.contains(label));
                (series_name == name && all).then(|| value.parse::<f64>().unwrap())
            })
            .sum()
    }
}

async fn is_ready(admin: u16) -> bool {
    Client::at_proxy()
        .send(admin, http::Method::GET, "/ready", &[], bytes::Bytes::new())
        .await
        .is_ok_and(|reply| reply.status == StatusCode::OK)
}
