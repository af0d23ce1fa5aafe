//! The process: policy read, table opened, listeners up; and down again in order.
//!
//! Nothing is said to be ready before everything is, and nothing is dropped on the way down that can still end.

mod admin;
mod connection;
mod grpc;
mod listener;
mod run;
pub mod welcome;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gate::Gate;
use tokio::task::JoinSet;
use wire::rls::Overrides;

pub use self::listener::Door;
use self::listener::Listener;
pub use self::run::{Exit, RunError, run};
use crate::check::{self, Check};
use crate::clock::Clock;
use crate::config::{Config, Listen};
use crate::drain::{Life, Phase};
use crate::fleet::Place;
use crate::health::Health;
use crate::log::{AccessLog, Redactor};
use crate::metrics::Telemetry;
use crate::rls::Rls;

/// Why a node did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An address cannot be listened on.
    #[error("`{}.listen`: {address}: {source}", door.name())]
    Bind {
        /// The surface.
        door: Door,
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The answers' options contradict each other.
    #[error(transparent)]
    Answer(#[from] crate::render::CorsError),
    /// Reflection cannot be served.
    #[error("gRPC reflection: {0}")]
    Reflection(#[from] tonic_reflection::server::Error),
}

/// What all surfaces work with.
#[derive(Clone)]
pub struct Core {
    /// Decides.
    pub gate: Arc<Gate>,
    /// Tells the time.
    pub clock: Clock,
    /// Counts.
    pub telemetry: Arc<Telemetry>,
    /// Hashes what logs may not show.
    pub redactor: Redactor,
    /// This node's place in its fleet, if it is of one.
    pub fleet: Option<Place>,
}

/// Where a node listens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// The HTTP surface.
    pub http: Option<SocketAddr>,
    /// The gRPC surface.
    pub grpc: Option<SocketAddr>,
    /// The operators' surface.
    pub admin: Option<SocketAddr>,
}

/// A node that serves.
#[derive(Debug)]
pub struct Node {
    life: Life,
    addresses: Addresses,
    reporter: Option<grpc::Reporter>,
    doors: JoinSet<(Door, usize)>,
    grace: Duration,
}

impl Node {
    /// Opens the listeners that the configuration names, and serves.
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn start(config: &Config, core: Core) -> Result<Self, ServeError> {
        let life = Life::default();
        let options = config.answer.options()?;
        let http = bind(Door::Http, config.http.listen)?;
        let grpc = bind(Door::Grpc, config.grpc.listen)?;
        let admin = bind(Door::Admin, config.admin.listen)?;
        let addresses = Addresses {
            http: http.as_ref().map(Listener::address),
            grpc: grpc.as_ref().map(Listener::address),
            admin: admin.as_ref().map(Listener::address),
        };
        let health = Health {
            life: life.clone(),
            clock: core.clock.clone(),
            telemetry: Arc::clone(&core.telemetry),
            gate: Arc::clone(&core.gate),
        };
        let access = || {
            let telemetry = Arc::clone(&core.telemetry);
            AccessLog::new(&config.log, core.redactor.clone(), telemetry)
        };
        let mut doors = JoinSet::new();
        let patience = config.drain.timeout;

        let mut open_http = |listener: Listener, router: axum::Router| {
            let builder = connection::http(&config.http);
            let (life, most) = (life.clone(), config.http.max_connections);
            let start = config.http.header_timeout;
            let door = listener.door();
            let telemetry = Arc::clone(&core.telemetry);
            doors.spawn(async move {
                let serve = |stream, peer| {
                    let (builder, router) = (builder.clone(), router.clone());
                    let (telemetry, life) = (Arc::clone(&telemetry), life.clone());
                    async move {
                        connection::serve_http(
                            builder, start, stream, peer, router, &telemetry, life,
                        )
                        .await;
                    }
                };
                (
                    door,
                    listener.run(most, life.clone(), patience, serve).await,
                )
            });
        };
        if let Some(listener) = http {
            let check = Check {
                gate: Arc::clone(&core.gate),
                fleet: core.fleet.as_ref().map(|place| place.fleet.clone()),
                clock: core.clock.clone(),
                telemetry: Arc::clone(&core.telemetry),
                options: options.clone(),
                access: access(),
                most_body_bytes: config.http.max_body_bytes,
                body_timeout: config.http.body_timeout,
            };
            let router = check::routes(Arc::new(check)).merge(health.clone().routes());
            open_http(listener, router);
        }
        if let Some(listener) = admin {
            let router = health.routes().merge(admin::routes(core.clone()));
            open_http(listener, router);
        }
        let mut reporter = None;
        if let Some(listener) = grpc {
            let rls = Rls {
                gate: Arc::clone(&core.gate),
                fleet: core.fleet.as_ref().map(|place| place.fleet.clone()),
                clock: core.clock.clone(),
                telemetry: Arc::clone(&core.telemetry),
                options,
                access: access(),
                fields: config.grpc.fields,
                overrides: if config.grpc.accept_overrides {
                    Overrides::Accept
                } else {
                    Overrides::Ignore
                },
            };
            let (services, health) = grpc::Services::new(rls, &config.grpc).await?;
            health.set(true).await;
            reporter = Some(health);
            let builder = connection::grpc(&config.grpc);
            let (life, most) = (life.clone(), config.grpc.max_connections);
            let start = config.grpc.keepalive_timeout;
            doors.spawn(async move {
                let serve = |stream, _peer| {
                    let (builder, services) = (builder.clone(), services.clone());
                    connection::serve_grpc(builder, start, stream, services, life.clone())
                };
                (
                    Door::Grpc,
                    listener.run(most, life.clone(), patience, serve).await,
                )
            });
        }
        life.go_on_to(Phase::Serving);
        for (door, address) in [
            (Door::Http, addresses.http),
            (Door::Grpc, addresses.grpc),
            (Door::Admin, addresses.admin),
        ] {
            if let Some(address) = address {
                tracing::info!(event = "listening", surface = door.name(), %address);
            }
        }
        Ok(Self {
            life,
            addresses,
            reporter,
            doors,
            grace: config.drain.grace,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Its life, for work that must end with it.
    #[must_use]
    pub fn life(&self) -> Life {
        self.life.clone()
    }

    /// The phase that it is in.
    #[must_use]
    pub fn phase(&self) -> Phase {
        self.life.phase()
    }

    /// Goes away: says so, serves on for the grace period, takes nothing new, and waits for calls under way.
    ///
    /// Returns how many connections had to be cut off.
    pub async fn stop(mut self) -> usize {
        self.life.go_on_to(Phase::Leaving);
        tracing::info!(event = "draining", grace_ms = self.grace.as_millis() as u64);
        if let Some(reporter) = &self.reporter {
            reporter.set(false).await;
        }
        tokio::time::sleep(self.grace).await;
        if let Some(reporter) = &mut self.reporter {
            reporter.end_watches().await;
        }
        self.life.go_on_to(Phase::Closing);
        let mut cut_off = 0;
        while let Some(ended) = self.doors.join_next().await {
            match ended {
                Ok((_, 0)) => {}
                Ok((door, left)) => {
                    cut_off += left;
                    let surface = door.name();
                    tracing::warn!(event = "connections_cut_off", surface, count = left);
                }
                Err(error) => {
                    tracing::error!(event = "surface_panicked", error_message = %error);
                }
            }
        }
        cut_off
    }
}

fn bind(door: Door, listen: Listen) -> Result<Option<Listener>, ServeError> {
    match listen {
        Listen::Off => Ok(None),
        Listen::At(address) => match Listener::bind(door, address) {
            Ok(listener) => Ok(Some(listener)),
            Err(source) => Err(ServeError::Bind {
                door,
                address,
                source,
            }),
        },
    }
}
