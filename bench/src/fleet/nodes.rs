//! Nodes to be measured: one that is of no fleet, and five of one, on this machine.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::Failure;
use crate::server::{Server, free_address};
use crate::tools;

/// How many nodes a fleet has.
pub const NODES: usize = 5;

/// `key` too high to be reached, in windows too short to be durable; `hot` low; `many` for many keys.
const POLICY: &str = "version: 1
rules:
  - name: key
    when: {domain: key}
    by: [{descriptor: key}]
    limits: [{rate: 1_000_000_000 per 50m}]
  - name: hot
    when: {domain: hot}
    by: [{descriptor: key}]
    limits: [{rate: 1000 per 1s}]
  - name: many
    when: {domain: many}
    by: [{descriptor: key}]
    limits: [{rate: 100 per 10s}]
";

/// The limit of `hot`, units a second.
pub const HOT_PER_SECOND: f64 = 1000.0;

/// A node.
pub struct Node {
    /// Its process; the address is that of its gRPC surface.
    pub server: Server,
    admin: SocketAddr,
}

/// Nodes, and their files.
pub struct Nodes {
    /// The nodes, in order.
    pub all: Vec<Node>,
    folder: PathBuf,
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // The processes first: they write there until they end.
        self.all.clear();
        // Only files for the run; what is left of them harms nobody.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Nodes {
    /// One node that is of no fleet.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn alone() -> Result<Self, Failure> {
        Self::start("leasehold, one node", &[String::new()])
    }

    /// A fleet over a mesh, well before this returns.
    ///
    /// # Errors
    /// If it cannot be started, or is not well in half a minute.
    pub fn fleet() -> Result<Self, Failure> {
        let addresses: Vec<SocketAddr> = (0..NODES)
            .map(|_| free_address())
            .collect::<io::Result<_>>()?;
        let members: Vec<String> = addresses
            .iter()
            .enumerate()
            .map(|(index, address)| format!("{{ name = \"n{index}\", address = \"{address}\" }}"))
            .collect();
        let settings: Vec<String> = addresses
            .iter()
            .enumerate()
            .map(|(index, address)| {
                format!(
                    "[fleet]\ncluster = \"bench\"\nnode = \"n{index}\"\nmembers = [{}]\n\
                     data_dir = \"FOLDER/n{index}\"\nfirst_start = true\n\
                     [peers]\nlisten = \"{address}\"\ninsecure = true\n",
                    members.join(", ")
                )
            })
            .collect();
        let nodes = Self::start("leasehold, five nodes", &settings)?;
        let program = "leasehold probe";
        let urls = nodes
            .all
            .iter()
            .map(|node| format!("http://{}", node.admin));
        let output = Command::new(tools::leasehold())
            .args(["probe", "--wait=30"])
            .args(urls)
            .output()
            .map_err(|error| Failure::Run { program, error })?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            return Err(Failure::Said { program, said });
        }
        Ok(nodes)
    }

    fn start(name: &'static str, settings: &[String]) -> Result<Self, Failure> {
        let port = free_address()?.port();
        let folder = std::env::temp_dir().join(format!("leasehold-bench-fleet-{port}"));
        fs::create_dir_all(&folder)?;
        let mut nodes = Self {
            all: Vec::new(),
            folder,
        };
        let folder = &nodes.folder;
        let (policy, secret) = (folder.join("policy.yaml"), folder.join("secret"));
        fs::write(&policy, POLICY)?;
        fs::write(&secret, "7".repeat(64))?;
        for (index, settings) in settings.iter().enumerate() {
            let (grpc, http, admin) = (free_address()?, free_address()?, free_address()?);
            let config = nodes.folder.join(format!("n{index}.toml"));
            let settings = settings.replace("FOLDER", &nodes.folder.display().to_string());
            let text = format!(
                "http.listen = \"{http}\"\ngrpc.listen = \"{grpc}\"\nadmin.listen = \"{admin}\"\n\
                 policy.path = {policy:?}\npolicy.watch = false\nsecret = \"file:{}\"\n\
                 log.level = \"warn\"\nlog.access = \"off\"\n{settings}",
                secret.display()
            );
            fs::write(&config, text)?;
            let arguments = ["serve", "--config", &config.display().to_string()];
            let server = Server::start(name, grpc, &tools::leasehold(), &arguments)?;
            nodes.all.push(Node { server, admin });
        }
        Ok(nodes)
    }
}

/// Counters and levels of a node, at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reading {
    /// Frames sent to other nodes.
    pub frames: f64,
    /// Bytes of them.
    pub bytes: f64,
    /// Requests that asked an owner, or would have: whatever came of it.
    pub dry: f64,
    /// Buckets that it holds credit of.
    pub held: f64,
    /// Processor time.
    pub cpu: Duration,
}

impl Node {
    /// Reads it.
    ///
    /// # Errors
    /// If it does not answer.
    pub fn read(&self) -> Result<Reading, Failure> {
        let text = self.metrics()?;
        let sum = |name: &str, label: &str| -> f64 {
            text.lines()
                .filter(|line| {
                    let rest = line.strip_prefix(name);
                    rest.is_some_and(|rest| rest.starts_with(['{', ' '])) && line.contains(label)
                })
                .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
                .sum()
        };
        let out = "direction=\"out\"";
        Ok(Reading {
            frames: sum("throttle_fleet_peer_frames_total", out),
            bytes: sum("throttle_fleet_peer_bytes_total", out),
            dry: sum("throttle_fleet_fast_path_total", ""),
            held: sum("throttle_fleet_held_buckets", ""),
            cpu: self.server.cpu(),
        })
    }

    fn metrics(&self) -> Result<String, Failure> {
        let mut stream = TcpStream::connect(self.admin)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let host = self.admin;
        write!(
            stream,
            "GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
        )?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        if text.starts_with("HTTP/1.1 200") {
            Ok(text)
        } else {
            Err(Failure::Said {
                program: "leasehold",
                said: text.lines().next().unwrap_or_default().to_owned(),
            })
        }
    }
}
