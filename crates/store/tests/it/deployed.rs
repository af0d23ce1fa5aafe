//! The server as `deploy/nats/nats.conf` sets it up: with TLS, passwords, and permissions that suffice and no more.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use lease::time::Wall;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use store::ledger::DurableLedger;
use store::members::{Roster, Seat, SeatState};
use store::nats::{
    Credentials, NatsLedger, NatsLink, NatsMembers, NatsSettings, Secret, Tls, token,
};

use crate::conformance::{Store, suite};
use crate::server::{NatsServer, eventually};

/// An authority with a server's certificate and a node's, as files.
struct Certificates {
    authority: PathBuf,
    node: (PathBuf, PathBuf),
}

fn certificates(folder: &Path) -> Certificates {
    let write = |name: &str, text: String| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = write("ca.crt", params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    let issue = |name: &str, hosts: Vec<String>| {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(hosts)
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        (
            write(&format!("{name}.crt"), certificate.pem()),
            write(&format!("{name}.key"), key.serialize_pem()),
        )
    };
    issue("server", vec!["127.0.0.1".to_owned()]);
    let node = issue("node", vec!["node-1".to_owned()]);
    Certificates { authority, node }
}

/// A server with the deployed file; only its ports, paths and passwords are the test's.
fn deployed(verify: bool) -> (NatsServer, Certificates) {
    let server = NatsServer::prepare("");
    let certificates = certificates(server.folder());
    let folder = server.folder().display().to_string();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/nats/nats.conf");
    let mut config = std::fs::read_to_string(file).unwrap();
    let mut put = |from: &str, to: &str| {
        assert!(config.contains(from), "{from} in deploy/nats/nats.conf");
        config = config.replace(from, to);
    };
    put("0.0.0.0:4222", &format!("127.0.0.1:{}", server.port));
    put("/etc/nats/tls", &folder);
    put("/var/lib/nats", &format!("{folder}/jetstream"));
    for node in 1..=3 {
        put(
            &format!("$NODE_{node}_PASSWORD"),
            &format!("\"word {node}\""),
        );
    }
    if verify {
        put("tls {", "tls {\n  verify: true");
    }
    server.replace(&config);
    (server, certificates)
}

fn settings(server: &NatsServer, node: u64, tls: Option<Tls>) -> NatsSettings {
    NatsSettings {
        servers: vec![server.url()],
        name: format!("node-{node}"),
        credentials: Credentials::User {
            name: format!("node-{node}"),
            password: Secret::new(format!("word {node}")),
        },
        tls,
        jitter: node,
    }
}

async fn connect(server: &NatsServer, certificates: &Certificates, node: u64) -> NatsLink {
    let tls = Tls {
        authorities: vec![certificates.authority.clone()],
        identity: None,
    };
    let link = NatsLink::open(&settings(server, node, Some(tls)))
        .await
        .unwrap();
    link.until_connected().await;
    link
}

struct Deployed(NatsServer, Certificates, bool);

impl Deployed {
    async fn ledger(&self, node: u64) -> Arc<dyn DurableLedger> {
        let link = connect(&self.0, &self.1, node).await;
        Arc::new(NatsLedger::new(&link, "main", 1, 1_000))
    }
}

impl Store for Deployed {
    async fn reopen(&mut self) -> Arc<dyn DurableLedger> {
        if !self.2 {
            self.0.up().await;
            self.2 = true;
        }
        self.ledger(1).await
    }

    async fn beside(&mut self, _: &Arc<dyn DurableLedger>) -> Arc<dyn DurableLedger> {
        self.ledger(2).await
    }
}

#[tokio::test]
async fn its_permissions_suffice_for_the_ledger() {
    let (server, certificates) = deployed(false);
    suite(&mut Deployed(server, certificates, false)).await;
}

#[tokio::test]
async fn its_permissions_suffice_for_the_members() {
    let (mut server, certificates) = deployed(false);
    server.up().await;
    let link = connect(&server, &certificates, 3).await;
    let members = NatsMembers::new(&link, "main", 1);
    assert_eq!(members.read().await, Ok(None));
    let seat = Seat {
        id: 3,
        name: "node-3".to_owned(),
        address: String::new(),
        epoch: 1,
        nonce: 1,
        lease_until: 0,
        probes: 0,
        written_at: 0,
        state: SeatState::Member,
    };
    let mut hints = link
        .client()
        .subscribe("$KV.leasehold_main_members.roster")
        .await
        .unwrap();
    let roster = Roster::found(seat, Wall(1));
    members.write(0, &roster).await.unwrap();
    assert_eq!(members.read().await.unwrap().unwrap().1, roster);
    assert!(hints.next().await.is_some(), "changes are heard of");
    assert_eq!(link.state().last_error, None);
}

/// Each node speaks as itself and hears what is said to it; all else the server refuses.
#[tokio::test]
async fn its_permissions_let_no_node_speak_or_hear_as_another() {
    let (mut server, certificates) = deployed(false);
    server.up().await;
    let one = connect(&server, &certificates, 1).await;
    let two = connect(&server, &certificates, 2).await;
    let subject =
        |from: &str, to: &str| format!("leasehold.main.from.{}.to.{}", token(from), token(to));
    let mut heard = two
        .client()
        .subscribe("leasehold.main.from.*.to.node-2")
        .await
        .unwrap();
    two.client().flush().await.unwrap();

    let refused = async |what: &str, errors: u64| {
        eventually(what, async || {
            let state = one.state();
            let error = state.last_error.unwrap_or_default().to_lowercase();
            (state.errors > errors && error.contains("permissions violation")).then_some(())
        })
        .await;
    };
    for forged in [
        subject("node-3", "node-2"),
        subject("node-2", "node-2"),
        "_INBOX_node-2.answer".to_owned(),
        "$JS.API.STREAM.DELETE.KV_leasehold_main_ledger".to_owned(),
        "$JS.API.STREAM.PURGE.KV_leasehold_main_ledger".to_owned(),
        "$JS.API.STREAM.UPDATE.KV_leasehold_main_ledger".to_owned(),
    ] {
        let errors = one.state().errors;
        let client = one.client();
        client
            .publish(forged.clone(), Bytes::from_static(b"forged"))
            .await
            .unwrap();
        refused(&forged, errors).await;
    }
    for secret in [
        subject("node-3", "node-2"),
        "leasehold.>".to_owned(),
        "_INBOX_node-2.>".to_owned(),
        ">".to_owned(),
    ] {
        let errors = one.state().errors;
        let _eavesdropper = one.client().subscribe(secret.clone()).await.unwrap();
        refused(&secret, errors).await;
    }
    one.client()
        .publish(subject("node-1", "node-2"), Bytes::from_static(b"true"))
        .await
        .unwrap();
    let first = heard.next().await.unwrap();
    assert_eq!(first.payload[..], *b"true", "nothing forged came before");
    assert_eq!(
        first.subject.as_str(),
        "leasehold.main.from.node-1.to.node-2"
    );
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_trusted_and_a_nodes_certificate_is_shown() {
    let (mut server, certificates) = deployed(true);
    server.up().await;
    let other = tempfile::tempdir().unwrap();
    let others = self::certificates(other.path());
    let tls = |authority: &Path, identity: Option<&(PathBuf, PathBuf)>| {
        Some(Tls {
            authorities: vec![authority.to_owned()],
            identity: identity.cloned(),
        })
    };
    for wrong in [
        None,
        tls(&others.authority, Some(&certificates.node)),
        tls(&certificates.authority, None),
        tls(&certificates.authority, Some(&others.node)),
        tls(Path::new("/nonexistent.crt"), None),
    ] {
        let link = NatsLink::open(&settings(&server, 1, wrong.clone()))
            .await
            .unwrap();
        let state = eventually("the reason to be told", async || {
            Some(link.state()).filter(|state| state.last_error.is_some())
        })
        .await;
        assert!(!state.connected, "{wrong:?}: {state:?}");
        assert!(!format!("{state:?}").contains("word 1"));
    }
    let right = tls(&certificates.authority, Some(&certificates.node));
    let link = NatsLink::open(&settings(&server, 1, right)).await.unwrap();
    link.until_connected().await;
    let ledger = NatsLedger::new(&link, "main", 1, 10);
    assert_eq!(ledger.load(crate::conformance::bucket(1)).await, Ok(None));
}
