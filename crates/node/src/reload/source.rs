//! Where the policy is read from: a file of ours, a file or a directory of envoyproxy/ratelimit's, or the sample.
//!
//! What is read is read whole and checked whole. A directory without files, a file without rules and files without a
//! limit are faults, never a policy that limits nothing.

use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use gate::CompileError;
use policy::envoy::{self, FileErrors};
use policy::fault::{Fault, Faults, PolicyErrors};
use policy::file;
use policy::model::Policy;
use policy::yaml::{self, Content};

use crate::config::{PolicyFormat, PolicySource};

const SAMPLE: &str = include_str!("sample.yaml");

/// The most files of a directory.
const MOST_FILES: usize = 10_000;

/// Why there is no policy. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It cannot be read from the disk.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A directory has no policy files.
    #[error("{}: no file ends in .yaml or .yml: nothing would be limited", path.display())]
    NoFiles {
        /// The directory.
        path: PathBuf,
    },
    /// A directory has too many files.
    #[error("{}: more than {MOST_FILES} files", path.display())]
    TooManyFiles {
        /// The directory.
        path: PathBuf,
    },
    /// Our format cannot be a directory.
    #[error("{}: a directory is read as envoyproxy/ratelimit's files only; set policy.format to envoy or auto", path.display())]
    DirectoryOfOurs {
        /// The directory.
        path: PathBuf,
    },
    /// A file of ours has faults.
    #[error("{}:{errors}", path.display())]
    Faulty {
        /// The file.
        path: PathBuf,
        /// The faults.
        errors: PolicyErrors,
    },
    /// Files of envoyproxy/ratelimit's have faults.
    #[error(transparent)]
    EnvoyFaulty(#[from] FileErrors),
    /// Files of envoyproxy/ratelimit's have no limit at all, as if they were half written.
    #[error("{}: no descriptor has a rate_limit: nothing would be limited", path.display())]
    NothingLimited {
        /// The file or directory.
        path: PathBuf,
    },
    /// It is of another format than the policy in force.
    #[error(
        "{}: {}, and the policy in force is not: no rule of it would be left; start the node anew if that is meant, or \
         set policy.format",
        path.display(),
        if *is_envoys { "this is a configuration of envoyproxy/ratelimit" } else { "this is a policy of Leasehold's format" }
    )]
    OtherFormat {
        /// The file or directory.
        path: PathBuf,
        /// Whether what was read is of envoyproxy/ratelimit's format.
        is_envoys: bool,
    },
    /// It was understood but cannot be enforced.
    #[error(transparent)]
    NotEnforceable(#[from] CompileError),
}

impl ReadError {
    /// Whether the disk, not the policy, is at fault.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        match self {
            Self::Unreadable { .. } => true,
            Self::NoFiles { .. }
            | Self::TooManyFiles { .. }
            | Self::DirectoryOfOurs { .. }
            | Self::Faulty { .. }
            | Self::EnvoyFaulty(_)
            | Self::NothingLimited { .. }
            | Self::OtherFormat { .. }
            | Self::NotEnforceable(_) => false,
        }
    }

    /// The first fault that names a field, and its file.
    #[must_use]
    pub fn first_fault(&self) -> Option<(String, &Fault)> {
        match self {
            Self::Faulty { path, errors } => errors
                .faults()
                .first()
                .map(|fault| (path.display().to_string(), fault)),
            Self::EnvoyFaulty(FileErrors { files }) => files.iter().find_map(|(name, errors)| {
                errors.faults().first().map(|fault| (name.clone(), fault))
            }),
            Self::Unreadable { .. }
            | Self::NoFiles { .. }
            | Self::TooManyFiles { .. }
            | Self::DirectoryOfOurs { .. }
            | Self::NothingLimited { .. }
            | Self::OtherFormat { .. }
            | Self::NotEnforceable(_) => None,
        }
    }
}

/// The digest of what was read: the same bytes in the same files have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version(String);

impl Version {
    /// 16 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A policy as it was read.
#[derive(Clone, Debug)]
pub struct Document {
    /// The policy.
    pub policy: Policy,
    /// Its version.
    pub version: Version,
    /// Whether it was written in envoyproxy/ratelimit's format.
    pub is_envoys: bool,
    /// What in it has no effect or is hardly meant, by file.
    pub warnings: Vec<(String, Fault)>,
}

/// Bytes that were read, not yet understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bytes {
    /// Files by path, in order.
    files: Vec<(PathBuf, Vec<u8>)>,
    is_directory: bool,
}

/// Where the policy is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    path: Option<PathBuf>,
    format: PolicyFormat,
    /// Whether it is read once only, so that it may be a pipe.
    once: bool,
}

impl Source {
    /// The source that the configuration names, to be read again and again: files only. To open a pipe would wait for who
    /// writes to it, and find it empty the next time.
    #[must_use]
    pub fn new(settings: &PolicySource) -> Self {
        Self {
            path: settings.path.clone(),
            format: settings.format,
            once: false,
        }
    }

    /// The same, to be read once: it may be a pipe, such as `/dev/stdin`.
    #[must_use]
    pub fn once(settings: &PolicySource) -> Self {
        Self {
            once: true,
            ..Self::new(settings)
        }
    }

    /// The file or directory; none for the sample.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the policy.
    ///
    /// # Errors
    /// [`ReadError`] with all faults of all files.
    pub fn read(&self) -> Result<Document, ReadError> {
        self.understand(&self.bytes()?)
    }

    /// Reads the bytes alone.
    ///
    /// # Errors
    /// [`ReadError`] if the disk does not give them, or there are none.
    pub fn bytes(&self) -> Result<Bytes, ReadError> {
        let Some(path) = &self.path else {
            let sample = (PathBuf::from("the built-in sample"), SAMPLE.into());
            return Ok(Bytes {
                files: vec![sample],
                is_directory: false,
            });
        };
        let unreadable = |path: &Path, source| ReadError::Unreadable {
            path: path.into(),
            source,
        };
        let metadata = std::fs::metadata(path).map_err(|source| unreadable(path, source))?;
        if !metadata.is_dir() {
            let bytes = self
                .read_file(path)
                .map_err(|source| unreadable(path, source))?;
            return Ok(Bytes {
                files: vec![(path.clone(), bytes)],
                is_directory: false,
            });
        }
        if self.format == PolicyFormat::Leasehold {
            return Err(ReadError::DirectoryOfOurs { path: path.clone() });
        }
        let names = file_names(path).map_err(|source| unreadable(path, source))?;
        match names.len() {
            0 => return Err(ReadError::NoFiles { path: path.clone() }),
            many if many > MOST_FILES => {
                return Err(ReadError::TooManyFiles { path: path.clone() });
            }
            _ => {}
        }
        let files = names
            .into_iter()
            .map(|file| match self.read_file(&file) {
                Ok(bytes) => Ok((file, bytes)),
                Err(source) => Err(unreadable(&file, source)),
            })
            .collect::<Result<_, _>>()?;
        Ok(Bytes {
            files,
            is_directory: true,
        })
    }

    /// Reads a file, up to a byte more than the readers take: they refuse it then, and say so.
    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = if self.once {
            File::open(path)?
        } else {
            open_regular(path)?
        };
        let mut bytes = Vec::new();
        file.take(yaml::MAX_BYTES as u64 + 1)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Understands what was read.
    ///
    /// # Errors
    /// [`ReadError`] with all faults of all files.
    pub fn understand(&self, bytes: &Bytes) -> Result<Document, ReadError> {
        let as_envoys = match self.format {
            PolicyFormat::Envoy => true,
            PolicyFormat::Leasehold => false,
            PolicyFormat::Auto => {
                bytes.is_directory || bytes.files.iter().all(|(_, bytes)| has_domain(bytes))
            }
        };
        let (policy, warnings) = if as_envoys {
            let names: Vec<String> = bytes
                .files
                .iter()
                .map(|(path, _)| path.display().to_string())
                .collect();
            let files: Vec<envoy::File<'_>> = names
                .iter()
                .zip(&bytes.files)
                .map(|(name, (_, bytes))| envoy::File { name, bytes })
                .collect();
            let read = envoy::read_files(&files)?;
            if read.limit_nothing() {
                // There is a path: the sample, which has none, is not of this format and refused above.
                let path = self.path.clone().unwrap_or_default();
                return Err(ReadError::NothingLimited { path });
            }
            (
                Policy {
                    domains: read.domains,
                    ..Policy::default()
                },
                read.warnings,
            )
        } else {
            let (path, bytes) = &bytes.files[0];
            let (policy, warnings) =
                file::read_with_warnings(bytes).map_err(|errors| ReadError::Faulty {
                    path: path.clone(),
                    errors,
                })?;
            let name = path.display().to_string();
            let warnings = warnings
                .into_iter()
                .map(|warning| (name.clone(), warning))
                .collect();
            (policy, warnings)
        };
        Ok(Document {
            policy,
            version: bytes.version(),
            is_envoys: as_envoys,
            warnings,
        })
    }
}

impl Bytes {
    /// Their digest.
    #[must_use]
    pub fn version(&self) -> Version {
        let mut hasher = blake3::Hasher::new();
        for (path, bytes) in &self.files {
            // Lengths first, so that no two lists of files read alike.
            let name = path.as_os_str().as_encoded_bytes();
            for part in [name, bytes.as_slice()] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
        }
        Version(hasher.finalize().to_hex()[..16].to_owned())
    }
}

/// Opens a file, and nothing that opening could wait for.
fn open_regular(path: &Path) -> io::Result<File> {
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblock.cast_signed())
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        let problem = "not a regular file: a node reads its policy again and again";
        Err(io::Error::new(io::ErrorKind::InvalidInput, problem))
    }
}

/// The policy files of a directory, in order. Names that begin with a dot are the mount's own or an editor's.
fn file_names(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let path = entry.path();
        let is_yaml = matches!(
            path.extension().and_then(OsStr::to_str),
            Some("yaml" | "yml")
        );
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if is_yaml && !hidden && !path.is_dir() {
            names.push(path);
        }
    }
    names.sort();
    Ok(names)
}

/// Whether a file has `domain` at its top, as envoyproxy/ratelimit's have and ours never do.
fn has_domain(bytes: &[u8]) -> bool {
    match yaml::parse(bytes, &mut Faults::default()).map(|root| root.content) {
        Ok(Content::Mapping(entries)) => entries.iter().any(|(key, _)| key.text == "domain"),
        Ok(Content::Scalar { .. } | Content::Sequence(_)) | Err(_) => false,
    }
}
