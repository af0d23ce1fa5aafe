//! The node's configuration: one file, the environment and the command line, each key checked.
//!
//! A [`Config`] exists only if every key in every source was known and every value in range. It holds no secret, only
//! where the secret is kept, so it can be printed whole.

pub mod error;
mod fleet;
pub mod keys;
mod nats;
mod peers;
pub mod reference;
pub mod secret;
mod sections;
pub mod setting;
pub mod sources;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

pub use error::{ConfigError, Fault, Origin};
pub use fleet::{DefaultSharing, Fleet, ListedMembers};
pub use nats::{Nats, NatsSecretError, NatsTls};
pub use peers::{Peers, PeersTls};
pub use secret::SecretSource;
pub use sections::{
    AccessLog, Admin, Answer, Config, Drain, Grpc, Http, Log, LogFormat, PolicyFormat,
    PolicySource, TableSettings,
};
pub use setting::{Choice, Listen};

use self::keys::KEYS;
use self::setting::{Raw, Setting as _};
use self::sources::Assignment;
use crate::render;

/// A configuration and where each of its values was set.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings.
    pub config: Config,
    origins: BTreeMap<&'static str, Origin>,
    /// Variables that were not taken, and what was probably meant.
    nearly_ours: Vec<(String, String)>,
}

impl Loaded {
    /// Reads all sources, the later ones winning: the file, the environment, the command line (`KEY=VALUE`).
    ///
    /// # Errors
    /// [`ConfigError`] with every fault found.
    pub fn read(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        command_line: &[String],
    ) -> Result<Self, ConfigError> {
        let mut faults = Vec::new();
        let mut assignments = Vec::new();
        match file.map(sources::file) {
            None => {}
            Some(Ok(of_file)) => assignments = of_file,
            Some(Err(fault)) => faults.push(fault),
        }
        let environment: Vec<_> = environment.into_iter().collect();
        let names = environment.iter().map(|(name, _)| name);
        let nearly_ours = sources::nearly_ours(names, KEYS.iter().map(|key| key.name));
        let (of_environment, wrong) = sources::environment(environment);
        assignments.extend(of_environment);
        faults.extend(wrong);
        for given in command_line {
            match sources::command_line(given) {
                Ok(assignment) => assignments.push(assignment),
                Err(fault) => faults.push(fault),
            }
        }
        let mut loaded = Self::assemble(assignments, faults)?;
        loaded.nearly_ours = nearly_ours;
        Ok(loaded)
    }

    /// Logs what is set nowhere although someone probably meant to. Values are not told: one may be a secret.
    pub fn warn(&self) {
        for (variable, meant) in &self.nearly_ours {
            tracing::warn!(
                event = "variable_ignored",
                variable,
                meant,
                "an environment variable sets nothing: the one meant has two underscores between its parts"
            );
        }
    }

    /// Reads a file's text alone.
    ///
    /// # Errors
    /// [`ConfigError`] with every fault found.
    pub fn from_text(path: &Path, text: &str) -> Result<Self, ConfigError> {
        match sources::document(path, text) {
            Ok(assignments) => Self::assemble(assignments, Vec::new()),
            Err(fault) => Err(ConfigError(vec![fault])),
        }
    }

    fn assemble(assignments: Vec<Assignment>, mut faults: Vec<Fault>) -> Result<Self, ConfigError> {
        let mut loaded = Self {
            config: Config::default(),
            origins: BTreeMap::new(),
            nearly_ours: Vec::new(),
        };
        for Assignment { key, value, origin } in assignments {
            if keys::is_section(&key) && value == Raw::Table(Vec::new()) {
                continue; // A section with nothing in it.
            }
            let Some(known) = KEYS.iter().find(|known| known.name == key) else {
                let near = keys::nearest(&key).map(str::to_owned);
                faults.push(Fault::UnknownKey { origin, key, near });
                continue;
            };
            match (known.set)(&mut loaded.config, &value, known.bounds) {
                Ok(()) => drop(loaded.origins.insert(known.name, origin)),
                Err(expected) => {
                    let given = if known.secret {
                        "not usable".to_owned()
                    } else {
                        value.shown()
                    };
                    faults.push(Fault::BadValue {
                        origin,
                        key: known.name,
                        given,
                        expected,
                    });
                }
            }
        }
        loaded.check_together(&mut faults);
        if faults.is_empty() {
            Ok(loaded)
        } else {
            Err(ConfigError(faults))
        }
    }

    fn check_together(&self, faults: &mut Vec<Fault>) {
        let config = &self.config;
        let surfaces = [
            ("http.listen", config.http.listen),
            ("grpc.listen", config.grpc.listen),
            ("admin.listen", config.admin.listen),
            ("peers.listen", config.peers.listen),
        ];
        for (index, (key, listen)) in surfaces.iter().enumerate() {
            for (other, other_listen) in &surfaces[index + 1..] {
                if let (Listen::At(one), Listen::At(two)) = (listen, other_listen)
                    && one == two
                    && one.port() != 0
                {
                    let problem = format!("both are {one}: give each a port of its own");
                    faults.push(Fault::Conflict {
                        key,
                        other,
                        problem,
                    });
                }
            }
        }
        if config.http.listen == Listen::Off && config.grpc.listen == Listen::Off {
            faults.push(Fault::Conflict {
                key: "http.listen",
                other: "grpc.listen",
                problem: "both are off, so nobody could ask: give one an address".to_owned(),
            });
        }
        fleet::check(
            &config.fleet,
            &config.peers,
            &config.nats,
            &config.secret,
            faults,
        );
        config
            .nats
            .check(&config.fleet, || self.origin("nats.servers"), faults);
        if let Err(error) = config.answer.options() {
            let key = match error {
                render::CorsError::NotAnOrigin(_) => "answer.allow_origins",
                render::CorsError::CredentialsForAny => "answer.allow_credentials",
            };
            faults.push(Fault::BadValue {
                origin: self.origin(key),
                key,
                given: match key {
                    "answer.allow_origins" => config.answer.allow_origins.show(),
                    _ => config.answer.allow_credentials.show(),
                },
                expected: "origins as scheme://host[:port], or \"*\" alone and without credentials"
                    .to_owned(),
            });
        }
        if !crate::log::is_level(&config.log.level) {
            faults.push(Fault::BadValue {
                origin: self.origin("log.level"),
                key: "log.level",
                given: config.log.level.show(),
                expected:
                    "error, warn, info, debug or trace, or target=level directives separated \
                           by commas"
                        .to_owned(),
            });
        }
    }

    /// Where a key's value was set.
    #[must_use]
    pub fn origin(&self, key: &str) -> Origin {
        self.origins.get(key).cloned().unwrap_or(Origin::Default)
    }

    /// The whole configuration as a file, each value with where it was set. It holds no secret.
    #[must_use]
    pub fn print(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for key in KEYS {
            let (of, name) = key.name.rsplit_once('.').unwrap_or(("", key.name));
            if of != section {
                text += &format!("\n[{of}]\n");
                section = of;
            }
            text += &format!(
                "{name} = {} # {}\n",
                (key.show)(&self.config),
                self.origin(key.name)
            );
        }
        text
    }
}

#[cfg(test)]
mod tests;
