//! Policies read from their file and installed whole or not at all.
//!
//! A file that is missing, empty, half-written or faulty changes nothing: the policy in force stays, an alarm is
//! raised, and one log line names the field. What is read twice is installed once, so counters are as they were.

mod source;
mod watch;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use gate::time::Now;

pub use self::source::{Bytes, Document, ReadError, Source, Version};
pub use self::watch::{Pace, watch};
use crate::metrics::{ErrorKind, Reload};
use crate::serve::Core;

/// Keeps a gate's policy as its source has it.
pub struct Reloader {
    source: Source,
    core: Core,
    state: Mutex<State>,
}

/// Why the source is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Somebody asked, and is told what came of it.
    Asked,
    /// It may have changed. What was told before is not told again.
    Noticed,
}

/// What was read last.
struct State {
    /// The version in force.
    in_force: Version,
    /// Whether it was written in envoyproxy/ratelimit's format. It stays so: a file of the other format takes no rule over,
    /// and is rather one that was put in the wrong place.
    is_envoys: bool,
    /// What the log has told of a refused file, so that it tells each fault once.
    told: Option<String>,
}

/// The number of a policy that is put in force after the one with number `before`. Of two nodes' terms those with the
/// larger number hold, so it is the time: what was put in force last, at whichever node, restarted or not. It leaves one
/// number between the two.
pub(crate) fn revision(now: Now, before: u64) -> u64 {
    (now.nanos() / 1_000_000).max(before.saturating_add(2))
}

impl Reloader {
    /// Begins with a document that `core`'s gate has in force.
    #[must_use]
    pub fn new(source: Source, core: Core, in_force: &Document) -> Self {
        tell_warnings(in_force);
        core.telemetry
            .policy(Reload::Applied, in_force.version.as_str(), core.clock.now());
        let state = State {
            in_force: in_force.version.clone(),
            is_envoys: in_force.is_envoys,
            told: None,
        };
        Self {
            source,
            core,
            state: Mutex::new(state),
        }
    }

    /// Where the policy is read from.
    #[must_use]
    pub const fn source(&self) -> &Source {
        &self.source
    }

    /// Whether a version is in force.
    pub(crate) fn is_in_force(&self, version: &Version) -> bool {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .in_force
            == *version
    }

    /// Reads the source and puts what it says in force, if it is new and without fault.
    pub fn reload(&self, why: Why) -> Reload {
        self.apply(self.source.bytes(), why)
    }

    /// Puts bytes that were read in force, if they are new and without fault.
    pub(crate) fn apply(&self, bytes: Result<Bytes, ReadError>, why: Why) -> Reload {
        // A panic under the lock left the state as it was: it is written last.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = bytes.and_then(|bytes| {
            let version = bytes.version();
            if version == state.in_force {
                return Ok(None);
            }
            let document = self.source.understand(&bytes)?;
            if document.is_envoys != state.is_envoys {
                return Err(ReadError::OtherFormat {
                    path: self.source.path().map(Path::to_owned).unwrap_or_default(),
                    is_envoys: document.is_envoys,
                });
            }
            let before = self.core.gate.snapshot().revision();
            let revision = revision(self.core.clock.now(), before);
            self.core
                .gate
                .install_revision(&document.policy, revision)?;
            Ok(Some(document))
        });
        let telemetry = &self.core.telemetry;
        let now = self.core.clock.now();
        match outcome {
            Ok(None) => {
                if state.told.take().is_some() || why == Why::Asked {
                    tracing::info!(
                        event = "policy_as_in_force",
                        version = state.in_force.as_str(),
                        "the policy file is as the policy in force"
                    );
                }
                telemetry.policy(Reload::Unchanged, state.in_force.as_str(), now);
                Reload::Unchanged
            }
            Ok(Some(document)) => {
                if let Some(place) = &self.core.fleet {
                    place.fleet.policy_changed();
                }
                telemetry.learn(self.core.gate.snapshot().limits());
                telemetry.policy(Reload::Applied, document.version.as_str(), now);
                tracing::info!(
                    event = "policy_installed",
                    version = document.version.as_str(),
                    before = state.in_force.as_str(),
                    "the policy file has changed and is in force"
                );
                tell_warnings(&document);
                state.in_force = document.version;
                state.told = None;
                Reload::Applied
            }
            Err(error) => {
                let message = error.to_string();
                if why == Why::Asked || state.told.as_ref() != Some(&message) {
                    telemetry.policy(Reload::Refused, state.in_force.as_str(), now);
                    telemetry.error(if error.is_unreadable() {
                        ErrorKind::PolicyUnreadable
                    } else {
                        ErrorKind::PolicyRefused
                    });
                    tell_refusal(&error, &message, &state.in_force);
                    state.told = Some(message);
                }
                Reload::Refused
            }
        }
    }
}

/// One line: the first field that is at fault, or the fault if none is.
fn tell_refusal(error: &ReadError, message: &str, in_force: &Version) {
    let first = error.first_fault();
    let (file, fault) = match &first {
        Some((file, fault)) => (Some(file.as_str()), Some(*fault)),
        None => (None, None),
    };
    tracing::error!(
        event = "policy_refused",
        file,
        // A fault of the whole file has no path; its message names what is missing.
        field = fault
            .map(|fault| fault.path.as_str())
            .filter(|path| !path.is_empty()),
        line = fault.map(|fault| fault.at.line as u64),
        error_code = "POLICY_REFUSED",
        error_type = if error.is_unreadable() {
            "policy_unreadable"
        } else {
            "policy_invalid"
        },
        error_message = fault.map_or_else(|| message.to_owned(), ToString::to_string),
        in_force = in_force.as_str(),
        "the policy file is refused whole; the last good policy stays in force"
    );
}

fn tell_warnings(document: &Document) {
    for (file, fault) in &document.warnings {
        tracing::warn!(event = "policy_warning", file, field = fault.path, error_message = %fault);
    }
}
