//! The mesh: the conformance tests over TLS and in plain, and the nodes that all its tests start.

mod exchanged;
mod refused;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gate::table::TableStats;
use leasehold_node::clock::{Clock, Hand};
use leasehold_node::metrics::{MOST_LIMITS, Telemetry};
use leasehold_node::peers::{
    ClusterName, Credentials, CredentialsError, Identity, Link, Member, Mesh, MeshError,
    MeshSettings, NodeName, Security, TrafficCounts, Transport, inbox,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};

use super::certificates::{self, Authority, Issued, NOW, Valid, write};
use super::conformance::{self, A, B, BOUNDS, C, Harness, NAMES, STRANGER};
use super::{Station, id, until};
use crate::fixture::START;

const CLUSTER: &str = "test";

fn identity(cluster: &str, node: &str) -> Identity {
    Identity {
        cluster: ClusterName::new(cluster).unwrap(),
        node: NodeName::new(node).unwrap(),
    }
}

fn uri(node: &str) -> String {
    identity(CLUSTER, node).to_string()
}

fn settings() -> MeshSettings {
    MeshSettings {
        connect_timeout: Duration::from_secs(5),
        backoff_least: Duration::from_millis(5),
        backoff_most: Duration::from_millis(50),
        queue: BOUNDS,
        ..MeshSettings::default()
    }
}

fn chance() -> Arc<dyn Fn() -> u64 + Send + Sync> {
    let next = AtomicU64::new(1);
    Arc::new(move || {
        next.fetch_add(1, Ordering::Relaxed)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
    })
}

/// Addresses that stay the same while nodes come and go.
struct Places {
    addresses: BTreeMap<&'static str, SocketAddr>,
}

impl Places {
    fn new() -> Self {
        // Free a moment ago, at an address of this process and these places alone, so that nobody takes it meanwhile.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let [.., high, low] = std::process::id().to_be_bytes();
        let place = NEXT.fetch_add(1, Ordering::Relaxed) % 250 + 1;
        let host = std::net::Ipv4Addr::new(127, high.max(1), low, place as u8);
        let taken: Vec<std::net::TcpListener> = NAMES
            .iter()
            .map(|_| std::net::TcpListener::bind((host, 0)).unwrap())
            .collect();
        let addresses = NAMES
            .into_iter()
            .zip(taken.iter().map(|taken| taken.local_addr().unwrap()))
            .collect();
        Self { addresses }
    }

    fn at(&self, name: &str) -> SocketAddr {
        self.addresses[name]
    }

    fn members(&self) -> Vec<Member> {
        NAMES[..3]
            .iter()
            .map(|name| Member {
                name: NodeName::new(name).unwrap(),
                address: self.at(name).to_string(),
            })
            .collect()
    }

    /// Starts a node. One that was closed at this place lets go of it soon, not at once.
    async fn start(&self, name: &str, security: Security) -> (Arc<Mesh>, Station) {
        let (deliver, inbox) = inbox(BOUNDS);
        let mut started = None;
        until(
            || {
                let (security, deliver) = (security.clone(), deliver.clone());
                let mesh = Mesh::start(self.at(name), security, settings(), deliver, chance());
                started = mesh.ok();
                started.is_some()
            },
            "the address is free",
        )
        .await;
        let mesh = started.unwrap();
        mesh.set_members(&self.members());
        let mesh = Arc::new(mesh);
        let station = Station {
            name: NodeName::new(name).unwrap(),
            transport: Box::new(Shared(Arc::clone(&mesh))),
            inbox,
        };
        (mesh, station)
    }
}

/// A mesh that the test looks into as well.
#[derive(Debug)]
struct Shared(Arc<Mesh>);

impl Transport for Shared {
    fn send(
        &self,
        to: lease::id::NodeId,
        frame: bytes::Bytes,
    ) -> Result<(), leasehold_node::peers::SendError> {
        self.0.send(to, frame)
    }

    fn set_members(&self, members: &[Member]) {
        self.0.set_members(members);
    }

    fn peers(&self) -> Vec<leasehold_node::peers::PeerStatus> {
        self.0.peers()
    }

    fn close(&self) {
        self.0.close();
    }
}

/// Nodes with certificates of one authority.
struct Tls {
    places: Places,
    authority: Authority,
    directory: TempDir,
}

/// A node's credentials, the clock that they are judged by, and the counts.
struct Secure {
    credentials: Arc<Credentials>,
    telemetry: Arc<Telemetry>,
    hand: Hand,
}

impl Tls {
    fn new() -> Self {
        Self {
            places: Places::new(),
            authority: Authority::new(),
            directory: TempDir::new().unwrap(),
        }
    }

    fn directory(&self, name: &str) -> PathBuf {
        let directory = self.directory.path().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        directory
    }

    fn issue(&self, name: &str) -> Issued {
        self.authority.issue(&[&uri(name)], NOW)
    }

    fn credentials_of(
        &self,
        name: &str,
        ca: &str,
        issued: &Issued,
    ) -> Result<Secure, CredentialsError> {
        self.named(&identity(CLUSTER, name), ca, issued)
    }

    fn named(&self, me: &Identity, ca: &str, issued: &Issued) -> Result<Secure, CredentialsError> {
        let files = write(&self.directory(me.node.as_str()), ca, issued);
        let (clock, hand) = Clock::manual(START);
        let telemetry = Arc::new(Telemetry::new(MOST_LIMITS, START));
        let read = Credentials::read(files, me.clone(), clock, Arc::clone(&telemetry))?;
        Ok(Secure {
            credentials: Arc::new(read),
            telemetry,
            hand,
        })
    }

    fn credentials(&self, name: &str) -> Secure {
        let issued = self.issue(name);
        self.credentials_of(name, &self.authority.pem(), &issued)
            .unwrap()
    }

    async fn start(&self, name: &str, secure: &Secure) -> (Arc<Mesh>, Station) {
        let security = Security::Tls(Arc::clone(&secure.credentials));
        self.places.start(name, security).await
    }

    async fn start_default(&self, name: &str) -> (Arc<Mesh>, Station) {
        self.start(name, &self.credentials(name)).await
    }
}

impl Harness for Tls {
    async fn start(&mut self, name: &str) -> Station {
        self.start_default(name).await.1
    }

    /// Takes connections, and reads nothing of them.
    async fn stick(&mut self, name: &str) -> Box<dyn Send> {
        stick(self.places.at(name)).await
    }
}

async fn stick(address: SocketAddr) -> Box<dyn Send> {
    let listener = TcpListener::bind(address).await.unwrap();
    let task = tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            held.push(listener.accept().await.unwrap());
        }
    });
    Box::new(AbortOnDrop(task))
}

struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Nodes that believe each other.
struct Plain(Places);

impl Harness for Plain {
    async fn start(&mut self, name: &str) -> Station {
        let security = Security::Plaintext(identity(CLUSTER, name));
        self.0.start(name, security).await.1
    }

    async fn stick(&mut self, name: &str) -> Box<dyn Send> {
        stick(self.0.at(name)).await
    }
}

/// `from` tries, and `to` hears nothing of it.
async fn is_refused(from: &Station, to: &Station) -> TrafficCounts {
    let name = to.name.as_str();
    until(
        || {
            from.send(name, &b"hear me"[..]);
            from.peer(name).traffic.errors >= 2
        },
        "two attempts fail",
    )
    .await;
    let status = from.peer(name);
    assert_ne!(status.link, Link::Up);
    assert_eq!(status.traffic.frames_out, 0, "{:?}", status.traffic);
    assert_eq!(to.peer(from.name.as_str()).traffic.frames_in, 0);
    status.traffic
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls_it_does_what_every_transport_must() {
    conformance::all(Tls::new).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_plain_it_does_what_every_transport_must() {
    conformance::all(|| Plain(Places::new())).await;
}

#[tokio::test]
async fn it_is_a_transport() {
    let tls = Tls::new();
    let mut nodes = Vec::new();
    for name in [A, B, C] {
        let station = tls.start_default(name).await.1;
        nodes.push(crate::transports::Node {
            name: station.name,
            transport: station.transport,
            inbox: station.inbox,
        });
    }
    crate::transports::suite(nodes, &tls.places.members()).await;
}

#[tokio::test]
async fn a_connection_that_never_greets_is_ended() {
    let tls = Tls::new();
    let secure = tls.credentials(A);
    let (deliver, _inbox) = inbox(BOUNDS);
    let quick = MeshSettings {
        connect_timeout: Duration::from_millis(50),
        ..settings()
    };
    let security = Security::Tls(Arc::clone(&secure.credentials));
    let mesh = Mesh::start(tls.places.at(A), security, quick, deliver, chance()).unwrap();
    let mut stream = TcpStream::connect(mesh.address()).await.unwrap();
    let mut read = [0; 1];
    assert_eq!(stream.read(&mut read).await.unwrap(), 0);
    until(|| mesh.strangers().refused == 1, "it is counted").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_come_and_go() {
    let tls = Tls::new();
    let ((_, a), (_, mut b)) = (tls.start_default(A).await, tls.start_default(B).await);
    a.reach(&mut b, b"there").await;
    // B leaves A's list: A does not reach it, nor hears it any more.
    let without: Vec<Member> = tls
        .places
        .members()
        .into_iter()
        .filter(|member| member.name.as_str() != B)
        .collect();
    a.transport.set_members(&without);
    let nobody = leasehold_node::peers::SendError::NotAMember(id(B));
    assert_eq!(a.transport.send(id(B), bytes::Bytes::new()), Err(nobody));
    until(|| b.peer(A).link != Link::Up, "B is turned away").await;
    // And back.
    a.transport.set_members(&tls.places.members());
    a.reach(&mut b, b"again").await;
    let mut a = a;
    b.reach(&mut a, b"again").await;
}

/// A frame over the bound, from a member whose own mesh would not send it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frame_over_the_bound_is_refused_by_the_receiver() {
    let places = Places::new();
    let security = Security::Plaintext(identity(CLUSTER, A));
    let (_, a) = places.start(A, security).await;
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{}", places.at(A)))
        .unwrap()
        .connect()
        .await
        .unwrap();
    let frame = wire::peer::Frame {
        envelope: vec![0; leasehold_node::peers::MOST_FRAME_BYTES + 100].into(),
    };
    let mut request = tonic::Request::new(tokio_stream::once(frame));
    for (key, name) in [("leasehold-cluster", CLUSTER), ("leasehold-node", B)] {
        request.metadata_mut().insert(key, name.parse().unwrap());
    }
    let mut client = wire::peer::peer_client::PeerClient::new(channel.clone());
    let refused = match client.send(request).await {
        Ok(answer) => answer.into_inner().message().await.map(drop),
        Err(status) => Err(status),
    };
    assert_eq!(refused.unwrap_err().code(), tonic::Code::OutOfRange);
    assert_eq!(a.peer(B).traffic.refused, 1);
    assert_eq!(a.peer(B).traffic.frames_in, 0);
    // And who does not say who it is.
    let nobody = tonic::Request::new(tokio_stream::empty());
    let refused = wire::peer::peer_client::PeerClient::new(channel)
        .send(nobody)
        .await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::InvalidArgument);
}

#[tokio::test]
async fn without_proof_it_keeps_to_the_machine() {
    let start = |address: &str| {
        let security = Security::Plaintext(identity(CLUSTER, A));
        let (deliver, _) = inbox(BOUNDS);
        Mesh::start(
            address.parse().unwrap(),
            security,
            settings(),
            deliver,
            chance(),
        )
    };
    assert!(matches!(
        start("0.0.0.0:0"),
        Err(MeshError::NotLoopback { .. })
    ));
    assert!(matches!(
        start("192.0.2.1:0"),
        Err(MeshError::NotLoopback { .. })
    ));
    let first = start("127.0.0.1:0").unwrap();
    let again = start(&first.address().to_string());
    assert!(matches!(again, Err(MeshError::Bind { .. })));
}
