//! The mesh: the conformance tests over TLS and in plain, and who is refused.

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

#[tokio::test]
async fn a_node_of_another_authority_is_refused_at_both_ends() {
    let (tls, other) = (Tls::new(), Authority::new());
    let (_, a) = tls.start_default(A).await;
    let issued = other.issue(&[&uri(B)], NOW);
    let foreign = tls.credentials_of(B, &other.pem(), &issued).unwrap();
    let (mesh, b) = tls.start(B, &foreign).await;
    is_refused(&a, &b).await;
    is_refused(&b, &a).await;
    assert!(mesh.strangers().refused > 0);
}

/// It believes in the right authority, and so connects; but its own certificate is of another.
#[tokio::test]
async fn a_client_of_another_authority_is_refused() {
    let (tls, other) = (Tls::new(), Authority::new());
    let (mesh, a) = tls.start_default(A).await;
    let issued = other.issue(&[&uri(B)], NOW);
    let both = tls.authority.pem() + &other.pem();
    let foreign = tls.credentials_of(B, &both, &issued).unwrap();
    let (_, b) = tls.start(B, &foreign).await;
    is_refused(&b, &a).await;
    assert!(mesh.strangers().refused > 0);
}

#[tokio::test]
async fn a_certificate_that_ran_out_is_refused_by_the_clock_of_who_looks_at_it() {
    let tls = Tls::new();
    let soon = Valid {
        from_days: -1,
        until_days: 1,
    };
    let issued = tls.authority.issue(&[&uri(B)], soon);
    let (late, early) = (
        tls.credentials(A),
        tls.credentials_of(B, &tls.authority.pem(), &issued)
            .unwrap(),
    );
    late.hand.advance(Duration::from_secs(2 * 86_400));
    let (mesh, a) = tls.start(A, &late).await;
    let (_, b) = tls.start(B, &early).await;
    is_refused(&a, &b).await;
    is_refused(&b, &a).await;
    assert!(mesh.strangers().refused > 0);
}

#[tokio::test]
async fn a_member_with_another_members_certificate_is_not_taken_for_it() {
    let tls = Tls::new();
    let (_, a) = tls.start_default(A).await;
    // At B's address listens C, as C's certificate says.
    let (deliver, inbox) = inbox(BOUNDS);
    let security = Security::Tls(tls.credentials(C).credentials);
    let mesh = Mesh::start(tls.places.at(B), security, settings(), deliver, chance()).unwrap();
    mesh.set_members(&tls.places.members());
    let impostor = Station {
        name: NodeName::new(C).unwrap(),
        transport: Box::new(mesh),
        inbox,
    };
    until(
        || a.peer(B).traffic.refused >= 2,
        "C is refused at B's address",
    )
    .await;
    assert_eq!(a.peer(B).traffic.frames_out, 0);
    // What C sends to A is C's.
    let mut a = a;
    impostor.reach(&mut a, b"as c").await;
    assert_eq!(a.peer(B).traffic.frames_in, 0);
}

#[tokio::test]
async fn a_node_of_another_cluster_and_a_stranger_are_refused() {
    let tls = Tls::new();
    let (mesh, a) = tls.start_default(A).await;
    let me = identity("other", B);
    let issued = tls.authority.issue(&[&me.to_string()], NOW);
    let other = tls.named(&me, &tls.authority.pem(), &issued).unwrap();
    let (_, b) = tls.start(B, &other).await;
    is_refused(&a, &b).await;
    is_refused(&b, &a).await;
    let refused = mesh.strangers().refused;
    assert!(refused > 0);
    let (_, stranger) = tls.start_default(STRANGER).await;
    until(
        || stranger.peer(A).traffic.errors >= 2,
        "the stranger is refused",
    )
    .await;
    assert!(mesh.strangers().refused > refused);
    assert_eq!(mesh.strangers().frames_in, 0);
}

#[tokio::test]
async fn a_client_without_a_certificate_is_refused() {
    let tls = Tls::new();
    let (mesh, _a) = tls.start_default(A).await;
    let mut roots = rustls::RootCertStore::empty();
    let pem = tls.authority.pem();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyServer))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(tls.places.at(A)).await.unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let name = ServerName::try_from("peer").unwrap();
    // With TLS 1.3 the client learns of it when it reads.
    let mut read = [0; 1];
    let ended = match connector.connect(name, stream).await {
        Ok(mut stream) => stream.read(&mut read).await,
        Err(error) => Err(error),
    };
    assert!(
        ended
            .unwrap_err()
            .to_string()
            .contains("CertificateRequired")
    );
    until(|| mesh.strangers().refused == 1, "it is counted").await;
}

/// Believes any server, to see what the server does.
#[derive(Debug)]
struct AnyServer;

impl rustls::client::danger::ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        rustls::crypto::aws_lc_rs::default_provider()
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// From one authority to another without a node restarting: first both are believed, then the certificates change,
/// then the old authority goes. All the while each node reaches the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_and_authorities_are_exchanged_under_load() {
    let tls = Tls::new();
    let (of_a, of_b) = (tls.credentials(A), tls.credentials(B));
    let ((_, mut a), (_, mut b)) = (tls.start(A, &of_a).await, tls.start(B, &of_b).await);
    a.reach(&mut b, b"at first").await;
    let (before, new) = (tls.authority.pem(), Authority::new());
    let both = before.clone() + &new.pem();
    let connects = a.peer(B).traffic.connects;
    for (ca, certificates) in [(&both, false), (&both, true), (&new.pem(), true)] {
        for (name, secure) in [(A, &of_a), (B, &of_b)] {
            let directory = tls.directory(name);
            std::fs::write(directory.join("ca.pem"), ca).unwrap();
            if certificates {
                write(&directory, ca, &new.issue(&[&uri(name)], NOW));
            }
            assert!(secure.credentials.reload(), "{name}");
            assert!(!secure.credentials.reload(), "nothing changed");
            for _ in 0..50 {
                a.reach(&mut b, b"under load").await;
                b.reach(&mut a, b"under load").await;
            }
        }
    }
    until(
        || a.peer(B).traffic.connects >= connects + 3,
        "new handshakes were made",
    )
    .await;
    // Who still has what was exchanged is refused.
    let issued = tls.issue(C);
    let stale = tls.credentials_of(C, &both, &issued).unwrap();
    let (_, c) = tls.start(C, &stale).await;
    is_refused(&c, &a).await;
}

fn counted(telemetry: &Telemetry) -> bool {
    let text = telemetry.scrape(&TableStats::default());
    text.lines()
        .any(|line| line.contains("peer_credentials") && line.ends_with(" 1"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_files_that_are_not_usable_leave_the_old_in_force() {
    let tls = Tls::new();
    let past = Valid {
        from_days: -10,
        until_days: -1,
    };
    let pem = tls.authority.pem();
    let other_key = tls.issue(A).key;
    let issued = |names: &[&str], valid| tls.authority.issue(names, valid);
    let (of_a, of_b, of_none) = (uri(A), uri(B), "leasehold://test");
    type Change<'a> = (&'a str, Box<dyn Fn(&std::path::Path) + 'a>);
    let changes: Vec<Change<'_>> = vec![
        (
            "ca.pem: cannot be read",
            Box::new(|at| std::fs::remove_file(at.join("ca.pem")).unwrap()),
        ),
        (
            "ca.pem: no certificate in PEM",
            Box::new(|at| std::fs::write(at.join("ca.pem"), "").unwrap()),
        ),
        (
            "cert.pem: no certificate",
            Box::new(|at| std::fs::write(at.join("cert.pem"), "\0\u{ff}").unwrap()),
        ),
        (
            "key.pem: no private key in PEM",
            Box::new(|at| std::fs::write(at.join("key.pem"), "x").unwrap()),
        ),
        (
            "key.pem: not the key of the certificate",
            Box::new(|at| std::fs::write(at.join("key.pem"), &other_key).unwrap()),
        ),
        (
            "cert.pem: peers would refuse this certificate",
            Box::new(|at| drop(write(at, &pem, &issued(&[&of_a], past)))),
        ),
        (
            "cert.pem: peers would refuse this certificate",
            Box::new(|at| drop(write(at, &pem, &Authority::new().issue(&[&of_a], NOW)))),
        ),
        (
            "cert.pem: the certificate is that of leasehold://test/node-b",
            Box::new(|at| drop(write(at, &pem, &issued(&[&of_b], NOW)))),
        ),
        (
            "cert.pem: the certificate names more than one node",
            Box::new(|at| drop(write(at, &pem, &issued(&[&of_a, &of_b], NOW)))),
        ),
        (
            "cert.pem: the certificate names no node",
            Box::new(|at| drop(write(at, &pem, &issued(&["https://a.example"], NOW)))),
        ),
        (
            "cert.pem: the certificate names \"leasehold://test\"",
            Box::new(|at| drop(write(at, &pem, &issued(&[of_none], NOW)))),
        ),
        (
            "bytes are too many",
            Box::new(|at| std::fs::write(at.join("ca.pem"), vec![b'x'; (1 << 20) + 1]).unwrap()),
        ),
    ];
    for (expected, change) in changes {
        let secure = tls.credentials(A);
        let directory = tls.directory(A);
        change(&directory);
        assert!(!secure.credentials.reload());
        assert!(!secure.credentials.reload(), "told once");
        assert!(
            counted(&secure.telemetry),
            "{}",
            secure.telemetry.scrape(&TableStats::default())
        );
        let (clock, _) = Clock::manual(START);
        let files = certificates::files(&directory);
        let me = identity(CLUSTER, A);
        let again = Credentials::read(files, me, clock, Arc::clone(&secure.telemetry));
        let told = again.unwrap_err().to_string();
        assert!(told.contains(expected), "{told}: expected {expected}");
        assert!(!told.contains("PRIVATE"), "{told}");
        // The old ones still make connections.
        let ((first, a), (second, mut b)) =
            (tls.start(A, &secure).await, tls.start_default(B).await);
        a.reach(&mut b, b"as ever").await;
        first.close();
        second.close();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_change_are_noticed() {
    let tls = Tls::new();
    let of_a = tls.credentials(A);
    let looking = tokio::spawn(Arc::clone(&of_a.credentials).keep_fresh(Duration::from_millis(10)));
    let ((_, a), (_, b)) = (tls.start(A, &of_a).await, tls.start_default(B).await);
    a.up(B).await;
    b.up(A).await;
    let connects = a.peer(B).traffic.connects;
    write(&tls.directory(A), &tls.authority.pem(), &tls.issue(A));
    until(
        || a.peer(B).traffic.connects > connects,
        "the new certificate is used",
    )
    .await;
    looking.abort();
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

/// A member of `node-b`, from a configuration alone, whose certificate changes on the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_is_enough() {
    let tls = Tls::new();
    let files = write(&tls.directory(A), &tls.authority.pem(), &tls.issue(A));
    let members: Vec<String> = tls
        .places
        .members()
        .iter()
        .map(|member| format!("{}={}", member.name, member.address))
        .collect();
    let given = [
        format!("fleet.cluster={CLUSTER}"),
        format!("fleet.node={A}"),
        format!("fleet.members={}", members.join(",")),
        format!("peers.listen={}", tls.places.at(A)),
        format!("peers.tls.ca={}", files.ca.display()),
        format!("peers.tls.cert={}", files.cert.display()),
        format!("peers.tls.key={}", files.key.display()),
        "peers.tls.look_every_ms=100".to_owned(),
        "fleet.data_dir=data".to_owned(),
        "secret=file:secret".to_owned(),
    ];
    let config = leasehold_node::config::Loaded::read(None, [], &given)
        .unwrap()
        .config;
    let start = |config: &leasehold_node::config::Config| {
        let (deliver, inbox) = inbox(config.peers.bounds());
        let (clock, _) = Clock::manual(START);
        let telemetry = Arc::new(Telemetry::new(MOST_LIMITS, START));
        let chance = leasehold_node::peers::system_chance();
        let mesh = leasehold_node::peers::start_mesh(config, clock, telemetry, deliver, chance);
        mesh.map(|mesh| (mesh, inbox))
    };
    let (mesh, inbox) = start(&config).unwrap();
    let mut a = Station {
        name: NodeName::new(A).unwrap(),
        transport: Box::new(mesh.unwrap()),
        inbox,
    };
    let (_, mut b) = tls.start_default(B).await;
    a.reach(&mut b, b"from a file").await;
    b.reach(&mut a, b"to a file").await;
    let connects = a.peer(B).traffic.connects;
    write(&tls.directory(A), &tls.authority.pem(), &tls.issue(A));
    until(
        || a.peer(B).traffic.connects > connects,
        "the new certificate is used",
    )
    .await;

    let off = leasehold_node::config::Config::default();
    assert!(start(&off).unwrap().0.is_none());
    std::fs::write(&files.key, "none").unwrap();
    let told = start(&config).unwrap_err().to_string();
    assert!(
        told.starts_with("`peers.tls`: ") && told.contains("key.pem"),
        "{told}"
    );
}
