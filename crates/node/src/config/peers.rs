//! The section of the mesh: where it listens, and how peers prove who they are.
//!
//! What each key means to an operator is in [`super::keys`]; what they demand of each other is checked in
//! [`super::fleet`].

use std::path::PathBuf;
use std::time::Duration;

use super::setting::Listen;
use crate::peers::{self, MeshSettings, TlsFiles};

/// The mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peers {
    /// Where other members connect to.
    pub listen: Listen,
    /// How peers prove who they are.
    pub tls: PeersTls,
    /// Whether they need not.
    pub insecure: bool,
    /// How long a connection may take to be made.
    pub connect_timeout: Duration,
    /// After how long a silent connection is pinged.
    pub keepalive_interval: Duration,
    /// How long a ping may go unanswered.
    pub keepalive_timeout: Duration,
    /// The wait after the first failure to connect.
    pub backoff_least: Duration,
    /// The longest wait.
    pub backoff_most: Duration,
    /// The most frames that wait for, or from, one member.
    pub queue_frames: usize,
    /// The most bytes of them.
    pub queue_bytes: usize,
}

/// Certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeersTls {
    /// The authorities.
    pub ca: Option<PathBuf>,
    /// This node's certificate.
    pub cert: Option<PathBuf>,
    /// Its key.
    pub key: Option<PathBuf>,
    /// How often the files are looked at.
    pub look_every: Duration,
}

impl Default for Peers {
    fn default() -> Self {
        let MeshSettings {
            connect_timeout,
            keepalive_interval,
            keepalive_timeout,
            backoff_least,
            backoff_most,
            queue,
        } = MeshSettings::default();
        Self {
            listen: Listen::Off,
            tls: PeersTls::default(),
            insecure: false,
            connect_timeout,
            keepalive_interval,
            keepalive_timeout,
            backoff_least,
            backoff_most,
            queue_frames: queue.frames,
            queue_bytes: queue.bytes,
        }
    }
}

impl Default for PeersTls {
    fn default() -> Self {
        Self {
            ca: None,
            cert: None,
            key: None,
            look_every: Duration::from_secs(5),
        }
    }
}

impl PeersTls {
    /// The files, if all are named.
    #[must_use]
    pub fn files(&self) -> Option<TlsFiles> {
        Some(TlsFiles {
            ca: self.ca.clone()?,
            cert: self.cert.clone()?,
            key: self.key.clone()?,
        })
    }
}

impl Peers {
    /// What may wait for, or from, one member.
    #[must_use]
    pub const fn bounds(&self) -> peers::Bounds {
        peers::Bounds {
            frames: self.queue_frames,
            bytes: self.queue_bytes,
        }
    }

    /// The mesh's settings.
    #[must_use]
    pub const fn mesh(&self) -> MeshSettings {
        MeshSettings {
            connect_timeout: self.connect_timeout,
            keepalive_interval: self.keepalive_interval,
            keepalive_timeout: self.keepalive_timeout,
            backoff_least: self.backoff_least,
            backoff_most: self.backoff_most,
            queue: self.bounds(),
        }
    }
}
