//! The secret that keys are hashed with: where it is kept, and reading or making it.
//!
//! The secret is never in the configuration itself, in an error or in `Debug`.

use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::setting::{Bounds, Raw, Setting, quoted};

const BYTES: usize = 32;

/// Where the secret is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SecretSource {
    /// Made at random: beside a mapped table, or for this process only.
    #[default]
    Generate,
    /// In a file.
    File(PathBuf),
    /// In an environment variable.
    Environment(String),
}

impl Setting for SecretSource {
    fn read(raw: &Raw, _bounds: Bounds) -> Result<Self, String> {
        let text = match raw {
            Raw::Text(text) | Raw::String(text) => text.as_str(),
            Raw::Integer(_) | Raw::Boolean(_) | Raw::List(_) | Raw::Table(_) | Raw::Other(_) => "",
        };
        match text.split_once(':') {
            None if text == "generate" => Ok(Self::Generate),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            Some(("env", name)) if !name.is_empty() => Ok(Self::Environment(name.to_owned())),
            Some(_) | None => Err(
                "\"file:PATH\", \"env:VARIABLE\" or \"generate\", never the \
                                   secret itself"
                    .to_owned(),
            ),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Generate => quoted("generate"),
            Self::File(path) => quoted(&format!("file:{}", path.display())),
            Self::Environment(name) => quoted(&format!("env:{name}")),
        }
    }
}

/// A secret and its version, which API key hashes name (`v1.` ...).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its version.
    pub version: u32,
    /// 32 random bytes.
    pub bytes: [u8; BYTES],
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret(v{}, ..)", self.version)
    }
}

/// Why there is no secret. Nothing of it is told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The file cannot be read or made.
    #[error("secret file {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The variable is not set.
    #[error("`secret` names the environment variable {0}, which is not set")]
    NoVariable(String),
    /// What is there is not a secret.
    #[error(
        "{place}: not a secret: expected 64 hexadecimal digits, with vN. in front if it is not version 1"
    )]
    Malformed {
        /// Where it was.
        place: String,
    },
    /// The system gives no random bytes.
    #[error("no random bytes for a secret: {0}")]
    NoRandomness(getrandom::Error),
}

impl SecretSource {
    /// Reads the secret, or makes it; `table` is the mapped table's file, if there is one.
    ///
    /// # Errors
    /// [`SecretError`].
    pub fn secret(&self, table: Option<&Path>) -> Result<Secret, SecretError> {
        match (self, table) {
            (Self::File(path), _) => read(path),
            (Self::Environment(name), _) => {
                let text =
                    std::env::var(name).map_err(|_| SecretError::NoVariable(name.clone()))?;
                parse(&text, || format!("environment variable {name}"))
            }
            (Self::Generate, None) => Ok(Secret {
                version: 1,
                bytes: random()?,
            }),
            (Self::Generate, Some(table)) => beside(table),
        }
    }
}

/// Reads the secret beside a table, after making it if there is none. Of processes that do so at once, one makes it:
/// it appears whole by a link, which fails where a file is.
fn beside(table: &Path) -> Result<Secret, SecretError> {
    let path = suffixed(table, ".secret");
    if !path.exists() {
        let [a, b, c, d, ..] = random()?;
        let draft = suffixed(table, &format!(".secret.{a:02x}{b:02x}{c:02x}{d:02x}"));
        let made =
            write_new(&draft, &random()?).and_then(|()| match std::fs::hard_link(&draft, &path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
                Ok(()) | Err(_) => Ok(()),
            });
        let removed = std::fs::remove_file(&draft);
        made.and(removed).map_err(|source| SecretError::File {
            path: path.clone(),
            source,
        })?;
    }
    read(&path)
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn write_new(path: &Path, secret: &[u8; BYTES]) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    file.write_all(digits.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

fn read(path: &Path) -> Result<Secret, SecretError> {
    let text = std::fs::read_to_string(path).map_err(|source| SecretError::File {
        path: path.to_owned(),
        source,
    })?;
    parse(&text, || format!("secret file {}", path.display()))
}

fn parse(text: &str, place: impl Fn() -> String) -> Result<Secret, SecretError> {
    let malformed = || SecretError::Malformed { place: place() };
    let text = text.trim();
    let (version, digits) = match text.strip_prefix('v').and_then(|rest| rest.split_once('.')) {
        None => (1, text),
        Some((version, digits)) => (version.parse().map_err(|_| malformed())?, digits),
    };
    if digits.len() != 2 * BYTES || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(malformed());
    }
    let mut bytes = [0; BYTES];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte =
            u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).map_err(|_| malformed())?;
    }
    Ok(Secret { version, bytes })
}

fn random() -> Result<[u8; BYTES], SecretError> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(SecretError::NoRandomness)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_secret_is_read_as_written_and_nothing_else_passes() {
        let digits = "0f".repeat(32);
        let expected = Secret {
            version: 1,
            bytes: [0x0f; 32],
        };
        for text in [
            digits.clone(),
            format!(" {digits}\n"),
            format!("v1.{digits}"),
            digits.to_uppercase(),
        ] {
            assert_eq!(parse(&text, String::new).unwrap(), expected);
        }
        for text in [
            "",
            "0f",
            "v1.",
            "vx.00",
            &"0g".repeat(32),
            &"0f".repeat(33),
            &"é".repeat(32),
        ] {
            let error = parse(text, || "here".to_owned()).unwrap_err().to_string();
            assert!(error.starts_with("here: not a secret"), "{error}");
            assert!(
                text.is_empty() || text.len() < 3 || !error.contains(text),
                "{error}"
            );
        }
    }

    #[test]
    fn a_generated_secret_lasts_beside_its_table_and_is_private() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("table");
        let first = SecretSource::Generate.secret(Some(&table)).unwrap();
        let again = SecretSource::Generate.secret(Some(&table)).unwrap();
        assert!(first == again && first.version == 1);
        let file = dir.path().join("table.secret");
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            1,
            "no draft is left"
        );

        let other = SecretSource::Generate.secret(None).unwrap();
        assert!(first != other);
    }

    #[test]
    fn makers_at_once_agree() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("table");
        let barrier = std::sync::Barrier::new(8);
        let secrets: Vec<Secret> = std::thread::scope(|scope| {
            let make = || {
                barrier.wait();
                SecretSource::Generate.secret(Some(&table)).unwrap()
            };
            let makers: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            makers
                .into_iter()
                .map(|maker| maker.join().unwrap())
                .collect()
        });
        assert!(secrets.iter().all(|secret| *secret == secrets[0]));
        assert_eq!(
            std::fs::read_dir(dir.path()).unwrap().count(),
            1,
            "no draft is left"
        );
    }

    #[test]
    fn debug_shows_nothing_of_it() {
        let secret = Secret {
            version: 2,
            bytes: [0xab; 32],
        };
        assert_eq!(format!("{secret:?}"), "Secret(v2, ..)");
    }

    #[test]
    fn faults_name_the_place() {
        let missing = SecretSource::File("/nonexistent/secret".into())
            .secret(None)
            .unwrap_err();
        assert!(
            missing
                .to_string()
                .starts_with("secret file /nonexistent/secret: ")
        );
        let unset = SecretSource::Environment("LEASEHOLD_TEST_UNSET".into()).secret(None);
        assert!(
            unset
                .unwrap_err()
                .to_string()
                .contains("LEASEHOLD_TEST_UNSET")
        );
    }
}
