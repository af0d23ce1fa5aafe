//! Who is refused by a mesh with mutual TLS, and by what.

use super::*;

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
