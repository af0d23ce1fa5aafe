//! The sections of the configuration: plain values, with the defaults that an empty configuration means.
//!
//! What each key means to an operator is in [`super::keys`].

use std::path::PathBuf;
use std::time::Duration;

use gate::table::OnDamage;

use super::fleet::Fleet;
use super::nats::Nats;
use super::peers::Peers;
use super::secret::SecretSource;
use super::setting::{Choice, Listen};
use crate::render;
use crate::rls::Fields;

/// All settings. `Default` is what an empty configuration means. Each key is described in [`super::keys`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// `http.*`
    pub http: Http,
    /// `grpc.*`
    pub grpc: Grpc,
    /// `admin.*`
    pub admin: Admin,
    /// `policy.*`
    pub policy: PolicySource,
    /// `table.*`
    pub table: TableSettings,
    /// `secret`
    pub secret: SecretSource,
    /// `answer.*`
    pub answer: Answer,
    /// `drain.*`
    pub drain: Drain,
    /// `log.*`
    pub log: Log,
    /// `fleet.*`
    pub fleet: Fleet,
    /// `peers.*`
    pub peers: Peers,
    /// `nats.*`
    pub nats: Nats,
}

/// The HTTP surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Http {
    /// Where it listens.
    pub listen: Listen,
    /// The largest request body.
    pub max_body_bytes: usize,
    /// The largest request head.
    pub max_header_bytes: usize,
    /// The most header fields of a request.
    pub max_headers: usize,
    /// How long a client may take to send a request's head.
    pub header_timeout: Duration,
    /// How long it may take to send the body after it.
    pub body_timeout: Duration,
    /// The most connections at once.
    pub max_connections: usize,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            listen: Listen::At(([127, 0, 0, 1], 8080).into()),
            max_body_bytes: 65_536,
            max_header_bytes: 65_536,
            max_headers: 200,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(10),
            max_connections: 10_000,
        }
    }
}

/// The gRPC surface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grpc {
    /// Where it listens.
    pub listen: Listen,
    /// The largest request message.
    pub max_message_bytes: usize,
    /// The most connections at once.
    pub max_connections: usize,
    /// The most calls at once on one connection.
    pub max_streams: u32,
    /// The most calls that a client may have cancelled before they were looked at.
    pub max_reset_streams: usize,
    /// How often a silent connection is pinged; zero for never.
    pub keepalive_interval: Duration,
    /// How long a ping may go unanswered.
    pub keepalive_timeout: Duration,
    /// Whether reflection is served.
    pub reflection: bool,
    /// Whether limits that descriptors bring along are taken.
    pub accept_overrides: bool,
    /// Which response fields Envoy is told to add.
    pub fields: Fields,
}

impl Default for Grpc {
    fn default() -> Self {
        Self {
            listen: Listen::At(([127, 0, 0, 1], 8081).into()),
            max_message_bytes: 1 << 20,
            max_connections: 10_000,
            max_streams: 4096,
            max_reset_streams: 4096,
            keepalive_interval: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            reflection: true,
            accept_overrides: false,
            fields: Fields::default(),
        }
    }
}

/// The surface for operators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub listen: Listen,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: Listen::At(([127, 0, 0, 1], 8082).into()),
        }
    }
}

/// Where the policy comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicySource {
    /// The file, or a directory of envoyproxy/ratelimit files. None: the built-in sample.
    pub path: Option<PathBuf>,
    /// How it is written.
    pub format: PolicyFormat,
    /// Whether it is read again when it changes.
    pub watch: bool,
}

impl Default for PolicySource {
    fn default() -> Self {
        Self {
            path: None,
            format: PolicyFormat::default(),
            watch: true,
        }
    }
}

/// How a policy file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PolicyFormat {
    /// envoyproxy/ratelimit's if it has a `domain` at its top or is a directory, otherwise Leasehold's.
    #[default]
    Auto,
    /// Leasehold's.
    Leasehold,
    /// envoyproxy/ratelimit's.
    Envoy,
}

impl Choice for PolicyFormat {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("leasehold", Self::Leasehold),
        ("envoy", Self::Envoy),
    ];
}

/// The bucket table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSettings {
    /// How many live buckets it is made for.
    pub live_buckets: u64,
    /// The file it is mapped from. None: anonymous memory.
    pub path: Option<PathBuf>,
    /// What happens if that file is damaged.
    pub on_damage: OnDamage,
}

impl Choice for OnDamage {
    const WORDS: &'static [(&'static str, Self)] =
        &[("start-anew", Self::StartAnew), ("refuse", Self::Refuse)];
}

impl Default for TableSettings {
    fn default() -> Self {
        Self {
            live_buckets: 1_000_000,
            path: None,
            on_damage: OnDamage::default(),
        }
    }
}

/// How answers are worded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Which fields tell of limits.
    pub dialect: render::Dialect,
    /// Which body a refusal has.
    pub body: render::BodyForm,
    /// What `Retry-After` says of less than a second.
    pub sub_second: render::SubSecond,
    /// Origins whose scripts may read refusals.
    pub allow_origins: Vec<String>,
    /// Whether they may send credentials.
    pub allow_credentials: bool,
}

impl Answer {
    /// The options for rendering.
    ///
    /// # Errors
    /// If the origins are not origins; never for an [`Answer`] of a loaded [`Config`].
    pub fn options(&self) -> Result<render::Options, render::CorsError> {
        Ok(render::Options {
            dialect: self.dialect,
            body: self.body,
            sub_second: self.sub_second,
            cors: render::Cors::new(self.allow_origins.clone(), self.allow_credentials)?,
        })
    }
}

impl Choice for render::Dialect {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("draft-11", Self::Draft11),
        ("draft-03", Self::Draft03),
        ("github", Self::GitHub),
        ("none", Self::None),
    ];
}

impl Choice for render::BodyForm {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("problem", Self::Problem),
        ("error-object", Self::ErrorObject),
    ];
}

impl Choice for render::SubSecond {
    const WORDS: &'static [(&'static str, Self)] =
        &[("zero-with-ms", Self::ZeroWithMs), ("one", Self::One)];
}

/// How the node goes away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    /// How long it still takes new requests after it has said that it goes.
    pub grace: Duration,
    /// How long it then waits for calls under way.
    pub timeout: Duration,
}

impl Default for Drain {
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(2),
            timeout: Duration::from_secs(20),
        }
    }
}

/// Logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// What lines look like.
    pub format: LogFormat,
    /// What is logged: a level, or `target=level` directives separated by commas.
    pub level: String,
    /// Which requests are logged.
    pub access: AccessLog,
    /// Of admitted requests, one in so many is logged.
    pub access_one_in: u64,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::default(),
            level: "info".to_owned(),
            access: AccessLog::default(),
            access_one_in: 1,
        }
    }
}

/// What log lines look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, otherwise JSON.
    #[default]
    Auto,
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

impl Choice for LogFormat {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("json", Self::Json),
        ("text", Self::Text),
    ];
}

/// Which requests are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccessLog {
    /// None.
    Off,
    /// Those that were refused.
    #[default]
    Refused,
    /// All.
    All,
}

impl Choice for AccessLog {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("off", Self::Off),
        ("refused", Self::Refused),
        ("all", Self::All),
    ];
}
