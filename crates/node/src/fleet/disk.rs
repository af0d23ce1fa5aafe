//! What a node of a fleet keeps on its own disk: how often it was started, and how far its clock has got.
//!
//! Both are in one small file that is only ever replaced whole: written beside, flushed, renamed, and the directory
//! flushed. A lock keeps a second process out. It must never be taken for new when it is not: a file that cannot be
//! read or does not add up stops the start, because a node that forgot its past could issue credit twice.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use lease::time::Wall;
use rustix::fs::{FlockOperation, flock};

const STATE: &str = "state";
const BESIDE: &str = "state.new";
const LOCK: &str = "lock";

/// The most that is read of the state file. A right one is far smaller.
const MOST_BYTES: u64 = 4096;

/// Why the data directory cannot be used. Nothing was changed in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// It cannot be made, opened, read or written.
    #[error("`fleet.data_dir`: {path}: {source}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Another process has it.
    #[error(
        "`fleet.data_dir`: {path} is in use by another process; each node needs a directory of its own"
    )]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The state does not add up.
    #[error(
        "`fleet.data_dir`: {path} is damaged ({problem}); restore it, or remove the directory and give the node a new \
         `fleet.node` name: under its old one it might issue twice what it issued before"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: &'static str,
    },
}

/// What the state file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// How often the node was started.
    pub starts: u64,
    /// The number that its last start drew; 0 if an earlier build wrote the state, which kept none.
    pub nonce: u64,
    /// At or above every clock reading that the node has used.
    pub floor: Wall,
}

/// The directory, and the lock on it for as long as this lives.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    directory: File,
    _lock: File,
}

impl DataDir {
    /// Makes the directory if need be, and locks it.
    ///
    /// # Errors
    /// [`DataError::Io`] and [`DataError::InUse`].
    pub fn open(path: &Path) -> Result<Self, DataError> {
        let failed = |at: &Path| {
            let path = at.to_owned();
            move |source| DataError::Io { path, source }
        };
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed(path))?;
        let directory = File::open(path).map_err(failed(path))?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .map_err(failed(&lock_path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                directory,
                _lock: lock,
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(DataError::InUse {
                path: path.to_owned(),
            }),
            Err(source) => Err(failed(&lock_path)(source.into())),
        }
    }

    /// What the node left behind. `None` if it was never started with this directory.
    ///
    /// # Errors
    /// [`DataError::Io`] and [`DataError::Damaged`].
    pub fn state(&self) -> Result<Option<State>, DataError> {
        let path = self.path.join(STATE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(DataError::Io { path, source }),
        };
        let mut bytes = Vec::new();
        match file.take(MOST_BYTES).read_to_end(&mut bytes) {
            Ok(_) => {}
            Err(source) => return Err(DataError::Io { path, source }),
        }
        match decode(&bytes) {
            Ok(state) => Ok(Some(state)),
            Err(problem) => Err(DataError::Damaged { path, problem }),
        }
    }

    /// Replaces the state. When this returns, it is what any later start finds.
    ///
    /// # Errors
    /// [`DataError::Io`]; a later start finds the state before or this one.
    pub fn save(&self, state: State) -> Result<(), DataError> {
        let beside = self.path.join(BESIDE);
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new()
                .create(true)
                .write(true)
                .truncate(true)
                .mode(0o600)
                .open(&beside)?;
            file.write_all(encode(state).as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, self.path.join(STATE))?;
            self.directory.sync_all()
        };
        write().map_err(|source| DataError::Io {
            path: beside.clone(),
            source,
        })
    }
}

/// One line: a name, a version, three numbers, and 64 bits of the hash of what is before.
fn encode(state: State) -> String {
    let State {
        starts,
        nonce,
        floor: Wall(floor),
    } = state;
    let body = format!("leasehold-node-state 2 {starts} {floor} {nonce}");
    let check = check(&body);
    format!("{body} {check}\n")
}

fn check(body: &str) -> String {
    let hash = blake3::hash(body.as_bytes()).to_hex();
    hash.as_str()[..16].to_owned()
}

fn decode(bytes: &[u8]) -> Result<State, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    let line = text.strip_suffix('\n').ok_or("its end is missing")?;
    let (body, found) = line.rsplit_once(' ').ok_or("its check is missing")?;
    if check(body) != found {
        return Err("its check does not match");
    }
    let mut words = body.split(' ');
    if words.next() != Some("leasehold-node-state") {
        return Err("it is another kind of file");
    }
    let with_nonce = match words.next() {
        Some("1") => false,
        Some("2") => true,
        Some(_) | None => return Err("it is of a version that this build does not know"),
    };
    let mut number = || words.next().and_then(|word| word.parse().ok());
    let (starts, floor) = (number(), number());
    let nonce = if with_nonce { number() } else { Some(0) };
    match (starts, floor, nonce, words.next()) {
        (Some(starts), Some(floor), Some(nonce), None) => Ok(State {
            starts,
            nonce,
            floor: Wall(floor),
        }),
        _ => Err("it does not hold its numbers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE_7: State = State {
        starts: 7,
        nonce: 99,
        floor: Wall(u64::MAX),
    };

    #[test]
    fn what_was_saved_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let data = DataDir::open(&path).unwrap();
        assert_eq!(data.state().unwrap(), None);
        data.save(STATE_7).unwrap();
        assert_eq!(data.state().unwrap(), Some(STATE_7));
        let later = State {
            starts: 8,
            nonce: 0,
            floor: Wall(0),
        };
        data.save(later).unwrap();
        drop(data);
        assert_eq!(DataDir::open(&path).unwrap().state().unwrap(), Some(later));
    }

    #[test]
    fn a_second_process_is_kept_out() {
        let folder = tempfile::tempdir().unwrap();
        let first = DataDir::open(folder.path()).unwrap();
        let second = DataDir::open(folder.path());
        assert!(matches!(second, Err(DataError::InUse { .. })), "{second:?}");
        drop(first);
        DataDir::open(folder.path()).unwrap();
    }

    #[test]
    fn every_damage_is_found() {
        let right = encode(STATE_7).into_bytes();
        assert_eq!(decode(&right), Ok(STATE_7));
        for cut in 0..right.len() {
            assert!(decode(&right[..cut]).is_err(), "cut to {cut}");
        }
        for at in 0..right.len() {
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            assert!(decode(&wrong).is_err(), "bit of byte {at}");
        }
        assert!(decode(b"\xff\n").is_err());
    }

    #[test]
    fn the_state_of_an_earlier_build_is_understood() {
        let body = "leasehold-node-state 1 7 12345";
        let line = format!("{body} {}\n", check(body));
        let expected = State {
            starts: 7,
            nonce: 0,
            floor: Wall(12345),
        };
        assert_eq!(decode(line.as_bytes()), Ok(expected));
    }

    #[test]
    fn a_damaged_state_stops_the_start_and_a_half_written_one_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir::open(folder.path()).unwrap();
        data.save(STATE_7).unwrap();
        std::fs::write(folder.path().join(BESIDE), b"leasehold-no").unwrap();
        assert_eq!(data.state().unwrap(), Some(STATE_7));
        std::fs::write(folder.path().join(STATE), b"").unwrap();
        let error = data.state().unwrap_err();
        assert!(matches!(error, DataError::Damaged { .. }));
        assert!(
            error.to_string().contains("new `fleet.node` name"),
            "{error}"
        );
    }
}
