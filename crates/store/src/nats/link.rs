//! One connection to a NATS server or cluster, which is made again whenever it is lost.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use thiserror::Error;
use tokio::sync::watch;

use super::token;

/// The server is asked for a sign of life so often; after three without an answer the connection counts as lost.
const PING: Duration = Duration::from_secs(2);
/// How long one attempt to connect may take.
const CONNECT: Duration = Duration::from_secs(3);
/// Pauses between attempts grow from the first to the last of these.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(4);
/// How often it is looked at whether a lost connection is back, should nothing tell.
const LOOK: Duration = Duration::from_millis(250);
/// Commands that wait for the connection, at most: more would only grow stale.
const WAITING: usize = 128;
/// Messages that wait for one subscriber, at most; the server's newer ones are dropped beyond.
const UNREAD: usize = 4_096;

/// Something that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps a text from being shown.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// How this node proves who it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// Not, or by its TLS certificate.
    #[default]
    None,
    /// A token, the same for all who have it.
    Token(Secret),
    /// A user and its password.
    User {
        /// The user.
        name: String,
        /// The password.
        password: Secret,
    },
    /// An nkey's seed (`SU...`).
    Nkey(Secret),
    /// A credentials file (`.creds`: a JWT and its seed), read again for each connection.
    File(PathBuf),
}

/// How the connection is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates (PEM) that may sign the server's; the system's if there is none.
    pub authorities: Vec<PathBuf>,
    /// This node's certificate and key (PEM), if the server asks for one. Both are read again for each connection.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// How to reach NATS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsSettings {
    /// Servers, `nats://host:port` or `tls://host:port`. One of them is taken, others of its cluster are learned.
    pub servers: Vec<String>,
    /// This node's name. The server's own pages call the connection so, and answers come to subjects under
    /// `_INBOX_NAME.`, which permissions can keep from others.
    pub name: String,
    /// Who we are.
    pub credentials: Credentials,
    /// Encryption; without it the connection is open to be read and changed, unless the server is `tls://`.
    pub tls: Option<Tls>,
    /// Any number, different for each node: chooses the pauses between attempts, so that all nodes of a fleet do not
    /// come back at one moment.
    pub jitter: u64,
}

/// Settings that cannot be used.
#[derive(Debug, Error)]
pub enum LinkError {
    /// No server is named.
    #[error("nats.servers is empty: name at least one server, as in \"nats://nats.example:4222\"")]
    NoServer,
    /// A server is not an address.
    #[error(
        "nats.servers[{index}] is no server address; write it like \"nats://nats.example:4222\""
    )]
    Server {
        /// Which, from 0.
        index: usize,
    },
    /// A server's address has a user or a password in it, which logs would show.
    #[error("nats.servers[{index}] has a user or a password in it; give them by nats.credentials")]
    SecretInAddress {
        /// Which, from 0.
        index: usize,
    },
    /// The credentials file cannot be read, or the seed is none. Nothing of them is told.
    #[error("nats.credentials: {0}")]
    Credentials(String),
    /// The client refuses its options.
    #[error("nats: {0}")]
    Client(String),
}

/// How the connection stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// Whether it is up.
    pub connected: bool,
    /// How often it came up.
    pub connects: u64,
    /// How often the server found that we read too slowly, or an error was told.
    pub errors: u64,
    /// The last error that was told, without secrets.
    pub last_error: Option<String>,
}

/// The connection. Clones share it.
#[derive(Clone, Debug)]
pub struct NatsLink {
    client: Client,
    told: Arc<Mutex<LinkState>>,
    up: watch::Receiver<bool>,
}

impl NatsLink {
    /// Begins to connect, and goes on for as long as a clone lives. That the server is down, or refuses us, is no
    /// error: see [`Self::state`].
    ///
    /// # Errors
    /// [`LinkError`], if the settings cannot be used at all.
    pub async fn open(settings: &NatsSettings) -> Result<Self, LinkError> {
        let servers = addresses(&settings.servers)?;
        let told = Arc::new(Mutex::new(LinkState {
            connected: false,
            connects: 0,
            errors: 0,
            last_error: None,
        }));
        let jitter = settings.jitter;
        let listener = Arc::clone(&told);
        let (up_sender, up) = watch::channel(false);
        let mut options = ConnectOptions::new()
            .name(&settings.name)
            .custom_inbox_prefix(format!("_INBOX_{}", token(&settings.name)))
            .retry_on_initial_connect()
            .max_reconnects(None)
            .connection_timeout(CONNECT)
            .ping_interval(PING)
            .client_capacity(WAITING)
            .subscription_capacity(UNREAD)
            .reconnect_delay_callback(move |attempts| pause(attempts, jitter))
            .event_callback(move |event| {
                listen(&listener, &up_sender, &event);
                async {}
            });
        if let Some(tls) = &settings.tls {
            options = options.require_tls(true);
            for authority in &tls.authorities {
                options = options.add_root_certificates(authority.clone());
            }
            if let Some((certificate, key)) = &tls.identity {
                options = options.add_client_certificate(certificate.clone(), key.clone());
            }
        }
        let options = match &settings.credentials {
            Credentials::None => options,
            Credentials::Token(token) => options.token(token.0.clone()),
            Credentials::User { name, password } => {
                options.user_and_password(name.clone(), password.0.clone())
            }
            Credentials::Nkey(seed) => {
                if !seed.0.starts_with('S') || seed.0.len() != SEED_BYTES {
                    return Err(LinkError::Credentials(
                        "not an nkey seed: expected 58 letters and digits that begin with SU"
                            .to_owned(),
                    ));
                }
                options.nkey(seed.0.clone())
            }
            Credentials::File(path) => options.credentials_file(path).await.map_err(|error| {
                LinkError::Credentials(format!(
                    "credentials file {}: {}",
                    path.display(),
                    error.kind()
                ))
            })?,
        };
        let client = options
            .connect(servers)
            .await
            .map_err(|error| LinkError::Client(error.kind().to_string()))?;
        Ok(Self { client, told, up })
    }

    /// The client, to publish and subscribe with.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// How it stands.
    #[must_use]
    pub fn state(&self) -> LinkState {
        let mut state = lock(&self.told).clone();
        state.connected = self.connected();
        state
    }

    /// Waits until it is up; at once if it is.
    pub async fn until_connected(&self) {
        let mut up = self.up.clone();
        while !self.connected() {
            // Events may be lost when there are many, so it is looked at now and then as well.
            let _ = tokio::time::timeout(LOOK, up.changed()).await;
        }
    }

    /// Whether it is up, as far as is known: a server that froze is found out after some seconds.
    #[must_use]
    pub fn connected(&self) -> bool {
        match self.client.connection_state() {
            State::Connected => true,
            State::Pending | State::Disconnected => false,
        }
    }

    /// Does what needs the server, for so long at most. If it is not connected, or does not answer in time, the error
    /// is what `unavailable` makes of the reason.
    pub(super) async fn within<T, E>(
        &self,
        deadline: Duration,
        unavailable: impl Fn(String) -> E,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if !self.connected() {
            let reason = self.state().last_error.map(|error| format!(": {error}"));
            return Err(unavailable(format!(
                "not connected{}",
                reason.unwrap_or_default()
            )));
        }
        match tokio::time::timeout(deadline, work).await {
            Ok(result) => result,
            Err(_) => Err(unavailable(format!(
                "no answer within {} ms",
                deadline.as_millis()
            ))),
        }
    }
}

/// The length of an nkey's seed in base 32.
const SEED_BYTES: usize = 58;

/// Checks server addresses without connecting.
///
/// # Errors
/// [`LinkError`] for the first that cannot be used.
pub fn check_servers(servers: &[String]) -> Result<(), LinkError> {
    addresses(servers).map(|_| ())
}

fn addresses(servers: &[String]) -> Result<Vec<ServerAddr>, LinkError> {
    if servers.is_empty() {
        return Err(LinkError::NoServer);
    }
    servers
        .iter()
        .enumerate()
        .map(|(index, server)| {
            let address: ServerAddr = server.parse().map_err(|_| LinkError::Server { index })?;
            let named = address.username().is_some() || address.password().is_some();
            if named {
                return Err(LinkError::SecretInAddress { index });
            }
            Ok(address)
        })
        .collect()
}

fn lock(told: &Mutex<LinkState>) -> std::sync::MutexGuard<'_, LinkState> {
    // Nothing panics while it is locked.
    told.lock().unwrap_or_else(PoisonError::into_inner)
}

fn listen(told: &Mutex<LinkState>, up: &watch::Sender<bool>, event: &Event) {
    let mut state = lock(told);
    let error = match event {
        Event::Connected => {
            state.connects += 1;
            state.last_error = None;
            up.send_replace(true);
            return;
        }
        Event::Disconnected | Event::Closed => {
            up.send_replace(false);
            return;
        }
        Event::LameDuckMode | Event::Draining => return,
        Event::SlowConsumer(_) => "messages came faster than they were read".to_owned(),
        Event::ServerError(error) => error.to_string(),
        Event::ClientError(error) => error.to_string(),
    };
    state.errors += 1;
    state.last_error = Some(error);
}

/// How long to wait before an attempt, from 1: doubling, and of each step a random half, so that a fleet spreads out
/// (Brooker, "Exponential Backoff And Jitter", 2015: equal jitter).
fn pause(attempts: usize, jitter: u64) -> Duration {
    let doublings = attempts.saturating_sub(1).min(16) as u32;
    let full = FIRST_PAUSE.saturating_mul(1 << doublings).min(LAST_PAUSE);
    let bits = mixed(jitter ^ (attempts as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let half = full / 2;
    half + half.mul_f64(bits as f64 / u64::MAX as f64)
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood 2014).
const fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_differ_between_nodes() {
        for attempts in [0, 1, 2, 5, 20, usize::MAX] {
            let pauses: Vec<Duration> = (0..50).map(|jitter| pause(attempts, jitter)).collect();
            let (least, most) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
            assert!(
                *least >= FIRST_PAUSE / 2 && *most <= LAST_PAUSE,
                "{attempts}: {pauses:?}"
            );
            assert!(*most - *least > *most / 4, "{attempts}: {pauses:?}");
        }
        assert!(pause(1, 7) <= FIRST_PAUSE);
        assert!(pause(20, 7) >= LAST_PAUSE / 2);
    }

    #[test]
    fn nothing_secret_is_shown() {
        let settings = NatsSettings {
            servers: vec!["nats://127.0.0.1:1".to_owned()],
            name: "n".to_owned(),
            credentials: Credentials::User {
                name: "node-1".to_owned(),
                password: Secret::new("hunter2".to_owned()),
            },
            tls: None,
            jitter: 0,
        };
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[tokio::test]
    async fn settings_that_cannot_be_used_are_named() {
        let with = |servers: &[&str], credentials| NatsSettings {
            servers: servers.iter().map(|server| (*server).to_owned()).collect(),
            name: "n".to_owned(),
            credentials,
            tls: None,
            jitter: 0,
        };
        let good = "nats://127.0.0.1:1";
        for (settings, expected) in [
            (with(&[], Credentials::None), "nats.servers is empty"),
            (
                with(&[good, "http://x"], Credentials::None),
                "nats.servers[1]",
            ),
            (
                with(&["nats://me:hunter2@h:1"], Credentials::None),
                "nats.servers[0] has a user",
            ),
            (
                with(
                    &[good],
                    Credentials::Nkey(Secret::new("hunter2".to_owned())),
                ),
                "nkey seed",
            ),
            (
                with(&[good], Credentials::File("/nonexistent.creds".into())),
                "/nonexistent.creds",
            ),
        ] {
            let error = NatsLink::open(&settings).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
