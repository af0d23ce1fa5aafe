//! A node from start to end: its parts made, its signals heeded.
//!
//! SIGTERM or SIGINT drains; a second one ends at once. SIGHUP reads the policy again.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use gate::hash::{HashSecret, KeyHasher};
use gate::table::{Continued, MapOptions, Table, TableError, set_aside};
use gate::time::Now;
use gate::{CompileError, Gate};
use policy::model::Policy;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;

use super::{Addresses, Core, Node, ServeError};
use crate::clock::Clock;
use crate::config::Config;
use crate::config::secret::SecretError;
use crate::fleet;
use crate::log::{LogError, Redactor};
use crate::metrics::{MOST_LIMITS, Telemetry};
use crate::reload::{self, ReadError, Reloader, Source};

/// How a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Drained. So many connections outlasted the drain and were cut off.
    Drained {
        /// How many.
        cut_off: usize,
    },
    /// A second signal came while it drained: calls under way were cut off.
    Hurried,
}

/// Why a node did not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no secret.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// There is no table.
    #[error("`table`: {0}")]
    Table(#[from] TableError),
    /// The policy cannot be read.
    #[error("the policy: {0}")]
    PolicyRead(#[from] ReadError),
    /// The policy cannot be enforced.
    #[error("the policy: {0}")]
    Policy(#[from] CompileError),
    /// The log cannot be set up.
    #[error("`log`: {0}")]
    Log(#[from] LogError),
    /// Signals cannot be listened for.
    #[error("signals: {0}")]
    Signals(std::io::Error),
    /// The node did not take its place in its fleet.
    #[error(transparent)]
    Fleet(#[from] fleet::JoinError),
    /// The surfaces did not open.
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl Core {
    /// Makes a node's parts under a policy. Also tells what became of the counts that a table's file held.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn open(config: &Config, policy: &Policy) -> Result<(Self, Continued), RunError> {
        let path = config.table.path.as_deref();
        let secret = config.secret.secret(path)?;
        let hash_secret = HashSecret::new(secret.version, secret.bytes);
        let live_buckets = NonZeroU64::new(config.table.live_buckets).unwrap_or(NonZeroU64::MIN);
        let (table, became) = match path {
            None => (Table::anonymous(live_buckets)?, Continued::Fresh),
            Some(path) => {
                let options = MapOptions {
                    live_buckets,
                    secret_check: KeyHasher::new(&hash_secret).secret_check(),
                    now: Clock::system(Now::default()).now(),
                    on_damage: config.table.on_damage,
                };
                Table::mapped(path, &options)?
            }
        };
        let clock = Clock::system(table.latest());
        let gate = if config.fleet.members.is_none() {
            Gate::new(table, &hash_secret, policy)?
        } else {
            let fleet = gate::Fleet {
                sharing: config.fleet.sharing.sharing(),
                revision: reload::revision(clock.now(), 0),
            };
            Gate::in_fleet(table, &hash_secret, policy, fleet)?
        };
        let telemetry = Telemetry::new(MOST_LIMITS, clock.now());
        telemetry.learn(gate.snapshot().limits());
        if let Continued::Damaged { .. } = became {
            telemetry.counts_lost();
        }
        let core = Self {
            gate: Arc::new(gate),
            clock,
            telemetry: Arc::new(telemetry),
            redactor: Redactor::new(&secret.bytes),
            fleet: None,
        };
        Ok((core, became))
    }
}

/// Runs a node until it is told to go, under the policy that the configuration names and what becomes of it. `log` sets
/// the log up, before anything is written to it, and `ready` once it serves.
///
/// # Errors
/// [`RunError`], if it did not start.
pub async fn run(
    config: &Config,
    log: impl FnOnce(&Core) -> Result<(), LogError>,
    ready: impl FnOnce(Addresses),
) -> Result<Exit, RunError> {
    // Before anything serves, so that no signal finds the default of ending at once.
    let mut signals = Signals::new().map_err(RunError::Signals)?;
    let source = Source::new(&config.policy);
    let document = source.read()?;
    let (mut core, became) = Core::open(config, &document.policy)?;
    log(&core)?;
    tell(became, config.table.path.as_deref());
    // Before anything is asked of it.
    let joined = tokio::select! {
        joined = fleet::join(config, &core) => joined?,
        signal = signals.next() => {
            tracing::info!(event = "signal", signal, "stopped while it was joining its fleet");
            return Ok(Exit::Drained { cut_off: 0 });
        }
    };
    let running = match joined {
        Some((place, running)) => {
            core.fleet = Some(place);
            Some(running)
        }
        None => None,
    };
    let reloader = Reloader::new(source, core.clone(), &document);
    let node = Node::start(config, core).await?;
    tokio::spawn(reload::watch(
        Arc::new(reloader),
        signals.hangups(),
        config.policy.watch,
        reload::Pace::default(),
        node.life(),
    ));
    ready(node.addresses());

    let first = signals.next().await;
    tracing::info!(event = "signal", signal = first);
    tokio::select! {
        cut_off = node.stop() => {
            // After the last request, so that what is left unspent goes back.
            if let Some(running) = running {
                let stopped = tokio::task::spawn_blocking(move || running.stop()).await;
                if let Err(error) = stopped {
                    tracing::error!(event = "fleet_not_stopped", error_message = %error);
                }
            }
            tracing::info!(event = "stopped", cut_off);
            Ok(Exit::Drained { cut_off })
        }
        second = signals.next() => {
            tracing::warn!(event = "stopped_at_once", signal = second);
            Ok(Exit::Hurried)
        }
    }
}

fn tell(became: Continued, file: Option<&Path>) {
    match became {
        Continued::Fresh => {}
        Continued::Continued => tracing::info!(event = "table_continued"),
        Continued::Discarded(why) => {
            tracing::warn!(
                event = "table_discarded",
                reason = %why,
                "the table's counts were dropped: every key begins anew"
            );
        }
        Continued::Damaged { why, kept } => {
            let copy = file.filter(|_| kept).map(set_aside);
            tracing::error!(
                event = "table_damaged",
                reason = %why,
                copy = copy.map(|path| tracing::field::display(path.display().to_string())),
                "the table's file was damaged and its counts are lost: every key has its whole quota again"
            );
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: Some(signal(SignalKind::hangup())?),
        })
    }

    /// What is notified of each SIGHUP, as long as it is held.
    fn hangups(&mut self) -> Arc<Notify> {
        let told = Arc::new(Notify::new());
        if let Some(mut hangup) = self.hangup.take() {
            let told = Arc::downgrade(&told);
            tokio::spawn(async move {
                while hangup.recv().await.is_some() {
                    match told.upgrade() {
                        Some(told) => told.notify_one(),
                        None => break,
                    }
                }
            });
        }
        told
    }

    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
