//! This node's certificate, key and CA: read from files, checked, and read again when the files change.
//!
//! What is in force was whole and valid when it was read. New files that are not keep the old ones in force, with a log
//! line and a count. The key is never logged or shown.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, ServerConfig, SignatureScheme, version,
};
use tokio::sync::watch;

use super::identity::{Identity, IdentityError};
use crate::clock::Clock;
use crate::metrics::{ErrorKind, Telemetry};

/// A PEM file of a few certificates is a few kilobytes.
const MOST_FILE_BYTES: u64 = 1 << 20;

/// Where the three files are, all PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The authorities that peers' certificates must come from.
    pub ca: PathBuf,
    /// This node's certificate, then those between it and the authority.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Why files are not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialsError {
    /// A file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{}: {problem}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// The certificate is no node's.
    #[error("{}: {source}", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// Why.
        source: IdentityError,
    },
    /// The certificate is another node's.
    #[error("{}: the certificate is that of {named}, but this node is {expected}", path.display())]
    OtherNode {
        /// The file.
        path: PathBuf,
        /// Who it names.
        named: Identity,
        /// Who this node is.
        expected: Identity,
    },
    /// Peers would not believe the certificate: expired, not valid yet, of another authority, or not made for both
    /// ends of a connection.
    #[error("{}: peers would refuse this certificate: {source}", path.display())]
    NotBelieved {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// Certificate and key do not belong together, or the key is of a kind that is not supported.
    #[error("{}: not the key of the certificate: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// What handshakes are made with.
pub(super) struct Session {
    pub server: Arc<ServerConfig>,
    pub client: Arc<ClientConfig>,
}

/// The credentials in force.
pub struct Credentials {
    files: TlsFiles,
    me: Identity,
    clock: Clock,
    telemetry: Arc<Telemetry>,
    session: ArcSwap<Session>,
    /// What the files held when they were last read, usable or not; tells of each change.
    seen: watch::Sender<blake3::Hash>,
    /// Grows with each change that was put in force.
    changes: watch::Sender<u64>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("files", &self.files)
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    /// Reads the files.
    ///
    /// # Errors
    /// [`CredentialsError`], with the file at fault.
    pub fn read(
        files: TlsFiles,
        me: Identity,
        clock: Clock,
        telemetry: Arc<Telemetry>,
    ) -> Result<Self, CredentialsError> {
        let contents = Contents::read(&files)?;
        let session = contents.session(&files, &me, &clock)?;
        Ok(Self {
            files,
            me,
            clock,
            telemetry,
            session: ArcSwap::from_pointee(session),
            seen: watch::Sender::new(contents.digest()),
            changes: watch::Sender::new(0),
        })
    }

    /// Who this node is.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.me
    }

    pub(super) fn session(&self) -> Arc<Session> {
        self.session.load_full()
    }

    /// Tells of credentials that were put in force after this call.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Reads the files again if they have changed. True if new ones are in force now; false if nothing changed or the
    /// new ones are not usable, which is logged and counted once for each change.
    pub fn reload(&self) -> bool {
        let read = Contents::read(&self.files);
        let digest = match &read {
            Ok(contents) => contents.digest(),
            Err(error) => blake3::hash(error.to_string().as_bytes()),
        };
        let changed = self.seen.send_if_modified(|seen| {
            let changed = *seen != digest;
            *seen = digest;
            changed
        });
        if !changed {
            return false;
        }
        let session =
            read.and_then(|contents| contents.session(&self.files, &self.me, &self.clock));
        match session {
            Ok(session) => {
                self.session.store(Arc::new(session));
                self.changes.send_modify(|count| *count += 1);
                tracing::info!(event = "peer_credentials_reloaded");
                true
            }
            Err(error) => {
                self.telemetry.error(ErrorKind::PeerCredentials);
                tracing::error!(
                    event = "peer_credentials_refused",
                    error_message = %error,
                    "the credentials that were in force stay in force"
                );
                false
            }
        }
    }

    /// Looks at the files again and again, for as long as it is polled. Looking, not watching: it cannot miss a change
    /// on any file system, and the files are small.
    pub async fn keep_fresh(self: Arc<Self>, every: Duration) {
        let mut look = tokio::time::interval(every);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        look.tick().await;
        loop {
            look.tick().await;
            let credentials = Arc::clone(&self);
            if let Err(error) = tokio::task::spawn_blocking(move || credentials.reload()).await {
                tracing::error!(event = "peer_credentials_reload_failed", error_message = %error);
            }
        }
    }
}

/// The bytes of the three files.
struct Contents {
    ca: Vec<u8>,
    cert: Vec<u8>,
    key: Vec<u8>,
}

fn read_file(path: &Path) -> Result<Vec<u8>, CredentialsError> {
    let unreadable = |source| CredentialsError::Unreadable {
        path: path.to_owned(),
        source,
    };
    let bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if bytes > MOST_FILE_BYTES {
        return Err(CredentialsError::Malformed {
            path: path.to_owned(),
            problem: format!("{bytes} bytes are too many, at most {MOST_FILE_BYTES}"),
        });
    }
    std::fs::read(path).map_err(unreadable)
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Self, CredentialsError> {
        Ok(Self {
            ca: read_file(&files.ca)?,
            cert: read_file(&files.cert)?,
            key: read_file(&files.key)?,
        })
    }

    fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for part in [&self.ca, &self.cert, &self.key] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        hasher.finalize()
    }

    fn session(
        &self,
        files: &TlsFiles,
        me: &Identity,
        clock: &Clock,
    ) -> Result<Session, CredentialsError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.ca, &files.ca)? {
            roots
                .add(authority)
                .map_err(|error| CredentialsError::Malformed {
                    path: files.ca.clone(),
                    problem: format!("not an authority's certificate: {error}"),
                })?;
        }
        let roots = Arc::new(roots);
        let chain = certificates(&self.cert, &files.cert)?;
        let (own, between) = chain
            .split_first()
            .expect("an empty list of certificates was refused");
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(|error| {
            // What the parser says of it names its section, never its content.
            CredentialsError::Malformed {
                path: files.key.clone(),
                problem: format!("no private key in PEM: {error}"),
            }
        })?;
        let named = Identity::of(own).map_err(|source| CredentialsError::Identity {
            path: files.cert.clone(),
            source,
        })?;
        if named != *me {
            return Err(CredentialsError::OtherNode {
                path: files.cert.clone(),
                named,
                expected: me.clone(),
            });
        }
        let time = NodeTime(clock.clone());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let clients =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                .build()
                .map_err(|error| CredentialsError::Malformed {
                    path: files.ca.clone(),
                    problem: error.to_string(),
                })?;
        let servers = Arc::new(ServerVerifier {
            roots,
            provider: Arc::clone(&provider),
        });
        // As peers will look at it, at either end of a connection.
        let now = time.now();
        clients
            .verify_client_cert(own, between, now)
            .and_then(|_| servers.verify_chain(own, between, now))
            .map_err(|source| CredentialsError::NotBelieved {
                path: files.cert.clone(),
                source,
            })?;

        let wrong_key = |source| CredentialsError::Key {
            path: files.key.clone(),
            source,
        };
        let time: Arc<dyn TimeProvider> = Arc::new(time);
        let mut server =
            ServerConfig::builder_with_details(Arc::clone(&provider), Arc::clone(&time))
                .with_protocol_versions(&[&version::TLS13])
                .map_err(wrong_key)?
                .with_client_cert_verifier(clients)
                .with_single_cert(chain.clone(), key.clone_key())
                .map_err(wrong_key)?;
        server.alpn_protocols = vec![b"h2".to_vec()];
        // No resumption: each handshake proves the peer anew, under the authorities of that time.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let mut client = ClientConfig::builder_with_details(provider, time)
            .with_protocol_versions(&[&version::TLS13])
            .map_err(wrong_key)?
            .dangerous()
            .with_custom_certificate_verifier(servers)
            .with_client_auth_cert(chain, key)
            .map_err(wrong_key)?;
        client.alpn_protocols = vec![b"h2".to_vec()];
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        Ok(Session {
            server: Arc::new(server),
            client: Arc::new(client),
        })
    }
}

fn certificates(pem: &[u8], path: &Path) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let malformed = |problem| CredentialsError::Malformed {
        path: path.to_owned(),
        problem,
    };
    let certificates = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| malformed(format!("not certificates in PEM: {error}")))?;
    if certificates.is_empty() {
        return Err(malformed("no certificate in PEM".to_owned()));
    }
    Ok(certificates)
}

/// Certificates are valid or not by the node's clock.
#[derive(Debug)]
struct NodeTime(Clock);

impl NodeTime {
    fn now(&self) -> UnixTime {
        let nanos = self.0.now().unix_nanos();
        UnixTime::since_unix_epoch(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }
}

impl TimeProvider for NodeTime {
    fn current_time(&self) -> Option<UnixTime> {
        Some(self.now())
    }
}

/// Checks that a server's certificate comes from one of the authorities, is valid now, and that the server holds its
/// key. Which node it names is checked by whoever connected, before anything is sent: it is no DNS name.
#[derive(Debug)]
struct ServerVerifier {
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
}

impl ServerVerifier {
    fn verify_chain(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(own)?,
            &self.roots,
            between,
            now,
            self.provider.signature_verification_algorithms.all,
        )
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verify_chain(own, between, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
