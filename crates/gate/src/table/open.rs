//! A table in a file: making it, checking it, continuing it.
//!
//! All who use a file hold a shared lock on it (`flock`), which the kernel drops when they end, however they end, and
//! which nobody waits for while deciding. Who has the file alone may make it or begin it anew; who finds others
//! there takes it as it is or refuses. Nothing that the settings do not match is ever written into.
//!
//! The file's blocks are reserved when it is made, so that a full disk is an error here and not a SIGBUS later. What
//! cannot be guarded against is another program that cuts the file short while it is mapped: keep it in a directory
//! that only the node writes to.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FallocateFlags, OFlags, fallocate};

use super::error::{Discard, TableError};
use super::header::{HEADER_BYTES, MAGIC, PREAMBLE_BYTES, Preamble, VERSION};
use super::probe::WINDOWS;
use super::region::{self, Region};
use super::slot::{NEVER, Slot};
use super::sync::read;
use super::{Table, sizes};
use crate::time::Now;

/// How often the file's lock is tried for while another process prepares the file, and how long between.
const TRIES: u32 = 1000;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// How far ahead of the clock a table's time may be when it is continued.
const AHEAD_NS: u64 = 3600 * 1_000_000_000;

/// What a mapped table must be.
#[derive(Clone, Copy, Debug)]
pub struct MapOptions {
    /// Live buckets that it must hold at once.
    pub live_buckets: NonZeroU64,
    /// A number that is the same as long as the hash secret is, and tells nothing of it: a keyed hash of a constant.
    pub secret_check: u64,
    /// The present time.
    pub now: Now,
    /// What to do with a table's file that is damaged.
    pub on_damage: OnDamage,
}

/// What to do with a file that is a table's, but cut off or with contents that no table writes. Its counts are lost
/// either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// Keep a copy beside it and begin anew: every key has its whole quota again.
    #[default]
    StartAnew,
    /// Refuse it, and leave it as it was.
    Refuse,
}

/// What became of what a file held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continued {
    /// There was no file.
    Fresh,
    /// Its counts go on.
    Continued,
    /// Its counts were dropped. Every key begins anew, so this wants telling.
    Discarded(Discard),
    /// It was damaged, and begun anew as [`OnDamage::StartAnew`] says. This wants an alarm.
    Damaged {
        /// What was wrong with it.
        why: Discard,
        /// Whether a copy of it is at [`set_aside`]. Not if there was no room for one: a node that cannot start would
        /// be worse than a copy that is missing.
        kept: bool,
    },
}

/// Where the copy of a damaged file is kept. There is one at most: the latest.
#[must_use]
pub fn set_aside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    name.into()
}

impl Table {
    /// A table in a file that other processes may use at the same time, and that this one finds again after a
    /// restart. The file is made if it does not exist.
    ///
    /// # Errors
    /// If the file cannot be had, is no table's, is in use under other settings or damaged, or is damaged and
    /// [`OnDamage::Refuse`] was asked for. In all these cases the file is left as it was.
    pub fn mapped(path: &Path, options: &MapOptions) -> Result<(Self, Continued), TableError> {
        let (slots, cells) = sizes(options.live_buckets)?;
        let wanted = Preamble {
            magic: MAGIC,
            version: VERSION,
            slot_bytes: size_of::<Slot>() as u64,
            slots,
            cells,
            boot: boot_id().map_err(|source| TableError::BootId { source })?,
            secret_check: options.secret_check,
        };
        let opened = Opened {
            path,
            file: open(path)?,
            wanted,
        };
        let mut became = Continued::Continued;
        for _ in 0..TRIES {
            match opened.file.try_lock() {
                Ok(()) => {
                    if let Some(begun) = opened.prepare(options)? {
                        became = begun;
                    }
                    // Others may come in between: what matters is checked again below.
                    opened.file.unlock().map_err(opened.cannot("unlock"))?;
                }
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(source)) => return Err(opened.cannot("lock")(source)),
            }
            match opened.file.try_lock_shared() {
                Ok(()) => {
                    if let Some(why) = opened.examine()? {
                        return Err(TableError::InUse {
                            path: path.into(),
                            why,
                        });
                    }
                    let region = opened.map()?;
                    return Ok((Self::over(region, slots, cells), became));
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
                Err(TryLockError::Error(source)) => return Err(opened.cannot("lock")(source)),
            }
        }
        Err(TableError::Held { path: path.into() })
    }
}

/// A file that is open, and what it should be.
struct Opened<'a> {
    path: &'a Path,
    file: File,
    wanted: Preamble,
}

fn open(path: &Path) -> Result<File, TableError> {
    let cannot = |action| {
        move |source| TableError::File {
            path: path.into(),
            action,
            source,
        }
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(path)
        .map_err(cannot("open"))?;
    if !file.metadata().map_err(cannot("read"))?.is_file() {
        return Err(TableError::NotATable { path: path.into() });
    }
    Ok(file)
}

impl Opened<'_> {
    fn cannot(&self, action: &'static str) -> impl FnOnce(io::Error) -> TableError {
        let path = self.path.to_path_buf();
        move |source| TableError::File {
            path,
            action,
            source,
        }
    }

    fn length(&self) -> Result<u64, TableError> {
        Ok(self.file.metadata().map_err(self.cannot("read"))?.len())
    }

    /// With the file to itself: makes it, or begins it anew if it does not fit. Tells what it did.
    fn prepare(&self, options: &MapOptions) -> Result<Option<Continued>, TableError> {
        if self.length()? == 0 {
            self.make()?;
            return Ok(Some(Continued::Fresh));
        }
        let why = match self.examine()? {
            Some(why) => Some(why),
            None => self.inspect(options.now)?,
        };
        let Some(why) = why else { return Ok(None) };
        if !why.is_damage() {
            self.make()?;
            return Ok(Some(Continued::Discarded(why)));
        }
        match options.on_damage {
            OnDamage::Refuse => Err(TableError::Damaged {
                path: self.path.into(),
                why,
            }),
            OnDamage::StartAnew => {
                let kept = self.set_aside().is_ok();
                self.make()?;
                Ok(Some(Continued::Damaged { why, kept }))
            }
        }
    }

    /// Copies what is there to beside it. Not by renaming: others may wait for the lock of this very file, and must
    /// find the table that is made in it.
    fn set_aside(&self) -> io::Result<()> {
        let path = set_aside(self.path);
        let copy = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(&path)?;
        let copied = self.copy_to(copy);
        if copied.is_err() {
            // Half a copy is of no use, and of no harm if it cannot be removed either.
            let _ = std::fs::remove_file(&path);
        }
        copied
    }

    fn copy_to(&self, mut copy: File) -> io::Result<()> {
        let mut bytes = vec![0; 1 << 20];
        let mut at = 0;
        loop {
            // Not by the file's own position, from which `fill` writes.
            let read = self.file.read_at(&mut bytes, at)?;
            if read == 0 {
                return Ok(());
            }
            copy.write_all(&bytes[..read])?;
            at += read as u64;
        }
    }

    /// Checks the preamble and the length: `None` if they are as wanted.
    fn examine(&self) -> Result<Option<Discard>, TableError> {
        let found = self.length()?;
        let not_a_table = || TableError::NotATable {
            path: self.path.into(),
        };
        let mut bytes = [0; PREAMBLE_BYTES];
        let begins = (found as usize).min(PREAMBLE_BYTES);
        self.file
            .read_exact_at(&mut bytes[..begins], 0)
            .map_err(self.cannot("read"))?;
        let (has, sound) = Preamble::decode(&bytes);
        if found < HEADER_BYTES as u64 {
            // Without its first word nothing tells that it ever was a table's.
            return match has.magic {
                MAGIC => Ok(Some(Discard::CutOff {
                    found,
                    expected: None,
                })),
                _ => Err(not_a_table()),
            };
        }
        if bytes == [0; PREAMBLE_BYTES] {
            return Ok(Some(Discard::Unfinished));
        }
        if has.magic != MAGIC {
            return Err(not_a_table());
        }
        if !sound {
            return Ok(Some(Discard::Damaged));
        }
        if has.version != VERSION || has.slot_bytes != self.wanted.slot_bytes {
            return Ok(Some(Discard::Version { found: has.version }));
        }
        // Whatever else is the matter with it: its counts would not be continued.
        if has.boot != self.wanted.boot {
            return Ok(Some(Discard::MachineRestarted));
        }
        let expected = has.slots.checked_add(has.cells).and_then(region::bytes);
        let Some(expected) = expected else {
            return Ok(Some(Discard::Damaged));
        };
        let expected = expected as u64;
        if found != expected {
            return Ok(Some(Discard::CutOff {
                found,
                expected: Some(expected),
            }));
        }
        if has.secret_check != self.wanted.secret_check {
            return Ok(Some(Discard::Secret));
        }
        if has != self.wanted {
            let (found, expected) = (has.slots, self.wanted.slots);
            return Ok(Some(Discard::Slots { found, expected }));
        }
        Ok(None)
    }

    /// Reads through a whole table that is otherwise as wanted, for what no table writes.
    fn inspect(&self, now: Now) -> Result<Option<Discard>, TableError> {
        let region = self.map()?;
        if read(&region.header().floor.0) > now.nanos().saturating_add(AHEAD_NS) {
            return Ok(Some(Discard::AheadOfClock));
        }
        let sound = (0..region.slots()).all(|index| {
            let slot = region.slot(index);
            // Only a bucket that has the slot has demand counted in it, and a slot is never given back untagged.
            let used = slot.words[0].load().tag != NEVER;
            let demand = slot.credit.iter().any(|cell| read(cell) != 0);
            (used || !demand) && read(&slot.reach) < WINDOWS as u64
        });
        Ok((!sound).then_some(Discard::Damaged))
    }

    /// Empties the file and makes it a table. If this is cut short, the preamble is still zero.
    fn make(&self) -> Result<(), TableError> {
        let len = region::bytes(self.wanted.slots + self.wanted.cells)
            .expect("the sizes were checked when they were worked out") as u64;
        self.file.set_len(0).map_err(self.cannot("empty"))?;
        match fallocate(&self.file, FallocateFlags::empty(), 0, len) {
            Ok(()) => {}
            // Some file systems cannot reserve: writing does it.
            Err(rustix::io::Errno::OPNOTSUPP) => {
                fill(&self.file, len).map_err(self.cannot("fill"))?
            }
            Err(errno) => return Err(self.cannot("reserve room for")(errno.into())),
        }
        self.file
            .write_all_at(&self.wanted.encode(), 0)
            .map_err(self.cannot("write"))
    }

    fn map(&self) -> Result<Region, TableError> {
        let file = self.file.try_clone().map_err(self.cannot("map"))?;
        Region::mapped(file, self.wanted.slots + self.wanted.cells).map_err(self.cannot("map"))
    }
}

/// Writes zeros.
fn fill(mut file: &File, len: u64) -> io::Result<()> {
    let zeros = vec![0; 1 << 20];
    let mut left = len;
    while left > 0 {
        let now = left.min(zeros.len() as u64);
        file.write_all(&zeros[..now as usize])?;
        left -= now;
    }
    Ok(())
}

/// What the kernel calls this boot of the machine.
fn boot_id() -> io::Result<u128> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    u128::from_str_radix(&digits, 16).map_err(|_| io::ErrorKind::InvalidData.into())
}
