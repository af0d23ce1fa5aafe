//! The section of NATS: which servers, and how this node proves to them who it is.
//!
//! What each key means to an operator is in [`super::keys`]. Secrets lie in files, never in the configuration, and are
//! never shown.

use std::io;
use std::path::{Path, PathBuf};

use store::nats::{Credentials, NatsSettings, Secret, Tls, check_servers};

use super::error::{Fault, Origin};
use super::fleet::Fleet;

/// The most bytes of a file with one secret.
const MOST_SECRET_BYTES: u64 = 4096;

/// NATS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nats {
    /// The servers; none: NATS is not used.
    pub servers: Vec<String>,
    /// The user.
    pub user: String,
    /// The file with its password.
    pub password_file: Option<PathBuf>,
    /// The file with a token.
    pub token_file: Option<PathBuf>,
    /// The file with an nkey's seed.
    pub nkey_file: Option<PathBuf>,
    /// The credentials file.
    pub credentials_file: Option<PathBuf>,
    /// Whether the connection is not encrypted.
    pub plaintext: bool,
    /// Certificates.
    pub tls: NatsTls,
    /// How many servers keep the ledger and the list of members.
    pub replicas: usize,
}

/// Certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatsTls {
    /// The authorities that a server's certificate may come from.
    pub ca: Option<PathBuf>,
    /// This node's certificate.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
}

impl Default for Nats {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            user: String::new(),
            password_file: None,
            token_file: None,
            nkey_file: None,
            credentials_file: None,
            plaintext: false,
            tls: NatsTls::default(),
            replicas: 1,
        }
    }
}

/// A file with a secret that cannot be used. Nothing of the secret is told.
#[derive(Debug, thiserror::Error)]
#[error("`{key}`: {}: {source}", path.display())]
pub struct NatsSecretError {
    /// Which key names the file.
    pub key: &'static str,
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub source: io::Error,
}

impl Nats {
    /// How to reach NATS, with the secrets read; `None` if it is not used. `jitter` is any number of this node's own.
    ///
    /// # Errors
    /// [`NatsSecretError`].
    pub fn settings(
        &self,
        fleet: &Fleet,
        jitter: u64,
    ) -> Result<Option<NatsSettings>, NatsSecretError> {
        let Some(node) = fleet.node.as_ref().filter(|_| !self.servers.is_empty()) else {
            return Ok(None);
        };
        let credentials = if let Some(path) = &self.password_file {
            Credentials::User {
                name: self.user.clone(),
                password: secret("nats.password_file", path)?,
            }
        } else if let Some(path) = &self.token_file {
            Credentials::Token(secret("nats.token_file", path)?)
        } else if let Some(path) = &self.nkey_file {
            Credentials::Nkey(secret("nats.nkey_file", path)?)
        } else {
            self.credentials_file
                .clone()
                .map_or(Credentials::None, Credentials::File)
        };
        let tls = Tls {
            authorities: self.tls.ca.clone().into_iter().collect(),
            identity: self.tls.cert.clone().zip(self.tls.key.clone()),
        };
        Ok(Some(NatsSettings {
            servers: self.servers.clone(),
            name: node.as_str().to_owned(),
            credentials,
            tls: (!self.plaintext).then_some(tls),
            jitter,
        }))
    }

    /// What the keys demand of each other and of the fleet's.
    pub(super) fn check(
        &self,
        fleet: &Fleet,
        origin: impl Fn() -> Origin,
        faults: &mut Vec<Fault>,
    ) {
        if self.servers.is_empty() {
            return;
        }
        if let Err(error) = check_servers(&self.servers) {
            faults.push(Fault::BadValue {
                origin: origin(),
                key: "nats.servers",
                // A password may be in it.
                given: "a list that is not shown".to_owned(),
                expected: format!("servers as nats://HOST:PORT; {error}"),
            });
        }
        let mut conflict = |key, other, problem: &str| {
            faults.push(Fault::Conflict {
                key,
                other,
                problem: problem.to_owned(),
            });
        };
        if fleet.node.is_none() {
            conflict(
                "nats.servers",
                "fleet.node",
                "on NATS this node needs a name: give it one",
            );
        }
        if fleet.cluster.is_none() {
            conflict(
                "nats.servers",
                "fleet.cluster",
                "on NATS the fleet needs a name: give it one",
            );
        }
        let proofs: Vec<&'static str> = [
            ("nats.password_file", &self.password_file),
            ("nats.token_file", &self.token_file),
            ("nats.nkey_file", &self.nkey_file),
            ("nats.credentials_file", &self.credentials_file),
        ]
        .into_iter()
        .filter_map(|(key, file)| file.is_some().then_some(key))
        .collect();
        for pair in proofs.windows(2) {
            conflict(
                pair[0],
                pair[1],
                "a node proves who it is in one way: take one away",
            );
        }
        if self.password_file.is_some() == self.user.is_empty() {
            conflict(
                "nats.user",
                "nats.password_file",
                "a user and its password go together: give both or none",
            );
        }
        if self.tls.cert.is_some() != self.tls.key.is_some() {
            conflict(
                "nats.tls.cert",
                "nats.tls.key",
                "a certificate and its key go together: give both or none",
            );
        }
        if self.plaintext && self.tls != NatsTls::default() {
            conflict(
                "nats.plaintext",
                "nats.tls.ca",
                "certificates are for encrypted connections: take one away",
            );
        }
    }
}

fn secret(key: &'static str, path: &Path) -> Result<Secret, NatsSecretError> {
    let fault = |source| NatsSecretError {
        key,
        path: path.to_owned(),
        source,
    };
    let bytes = std::fs::metadata(path).map_err(fault)?.len();
    if bytes > MOST_SECRET_BYTES {
        return Err(fault(io::Error::other(format!(
            "{bytes} bytes are too many for a secret, at most {MOST_SECRET_BYTES}"
        ))));
    }
    let text = std::fs::read_to_string(path).map_err(fault)?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(fault(io::Error::other(
            "it is empty: expected the secret alone",
        ))),
        text => Ok(Secret::new(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Loaded;

    fn load(set: &[&str]) -> Result<Nats, String> {
        let given: Vec<String> = ["fleet.node=a", "fleet.cluster=c"]
            .iter()
            .chain(set)
            .map(|text| (*text).to_owned())
            .collect();
        Loaded::read(None, [], &given)
            .map(|loaded| loaded.config.nats)
            .map_err(|error| error.to_string())
    }

    fn fleet() -> Fleet {
        let given = ["fleet.node=a".to_owned(), "fleet.cluster=c".to_owned()];
        Loaded::read(None, [], &given).unwrap().config.fleet
    }

    #[test]
    fn secrets_are_read_from_their_files_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        std::fs::write(&file, "hunter2\n").unwrap();
        let server = "nats.servers=nats://h:4222";
        assert_eq!(load(&[]).unwrap().settings(&fleet(), 1).unwrap(), None);

        let file = file.display();
        let nats = load(&[
            server,
            "nats.user=me",
            &format!("nats.password_file={file}"),
        ])
        .unwrap();
        let settings = nats.settings(&fleet(), 1).unwrap().unwrap();
        let password = Secret::new("hunter2".to_owned());
        let name = "me".to_owned();
        assert_eq!(settings.credentials, Credentials::User { name, password });
        assert_eq!(settings.name, "a");
        assert!(settings.tls.is_some(), "encrypted unless told otherwise");
        assert!(!format!("{settings:?} {nats:?}").contains("hunter2"));

        let token = load(&[
            server,
            &format!("nats.token_file={file}"),
            "nats.plaintext=true",
        ])
        .unwrap();
        let settings = token.settings(&fleet(), 1).unwrap().unwrap();
        assert_eq!(settings.tls, None);
        assert!(matches!(settings.credentials, Credentials::Token(_)));
    }

    #[test]
    fn files_that_hold_no_secret_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        for (content, expected) in [
            (None, "No such file"),
            (Some(0), "empty"),
            (Some(5000), "5000 bytes"),
        ] {
            if let Some(bytes) = content {
                std::fs::write(&file, "x".repeat(bytes)).unwrap();
            }
            let set = format!("nats.nkey_file={}", file.display());
            let nats = load(&["nats.servers=nats://h:4222", &set]).unwrap();
            let error = nats.settings(&fleet(), 1).unwrap_err().to_string();
            assert!(
                error.starts_with("`nats.nkey_file`: ") && error.contains(expected),
                "{error}"
            );
        }
    }

    #[test]
    fn keys_that_contradict_each_other_are_named() {
        let server = "nats.servers=nats://h:4222";
        for (set, expected) in [
            (
                &["nats.servers=nats://me:hunter2@h:1"][..],
                "has a user or a password",
            ),
            (&["nats.servers=ftp://h:1"], "nats.servers[0]"),
            (
                &[server, "nats.user=a"],
                "`nats.user` and `nats.password_file`",
            ),
            (
                &[server, "nats.password_file=/p"],
                "`nats.user` and `nats.password_file`",
            ),
            (
                &[server, "nats.token_file=/t", "nats.nkey_file=/n"],
                "`nats.token_file` and `nats.nkey_file`",
            ),
            (
                &[server, "nats.tls.cert=/c"],
                "`nats.tls.cert` and `nats.tls.key`",
            ),
            (
                &[server, "nats.plaintext=true", "nats.tls.ca=/c"],
                "`nats.plaintext` and `nats.tls.ca`",
            ),
            (&[server, "fleet.node="], "`nats.servers` and `fleet.node`"),
            (
                &[server, "fleet.cluster="],
                "`nats.servers` and `fleet.cluster`",
            ),
        ] {
            let error = load(set).unwrap_err();
            assert!(error.contains(expected), "{set:?}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
