//! What a load came to: its figures, or why there are none.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hdrhistogram::Histogram;

/// What came of a load.
pub struct Report {
    /// The time that was counted.
    pub spent: Duration,
    /// Latencies in microseconds.
    pub latency_us: Histogram<u64>,
    /// Finished, by answer.
    pub admitted: u64,
    /// Finished, by answer.
    pub refused: u64,
    /// Finished, by answer.
    pub failed: u64,
}

impl Report {
    /// All that finished.
    pub fn total(&self) -> u64 {
        self.admitted + self.refused + self.failed
    }

    /// Finished per second.
    pub fn per_second(&self) -> f64 {
        self.total() as f64 / self.spent.as_secs_f64()
    }

    /// The latency at `quantile`, in milliseconds.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        self.latency_us.value_at_quantile(quantile) as f64 / 1000.0
    }
}

/// Why a load could not be put on.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The system refused something.
    #[error("load on {address}: {error}")]
    Io {
        /// Where the server listens.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The server ended the conversation.
    #[error("load on {address}: {said}")]
    Server {
        /// Where the server listens.
        address: SocketAddr,
        /// What it said.
        said: String,
    },
    /// Nothing came back for long.
    #[error("load on {address}: no answer in {0} s", super::STALLED_AFTER.as_secs())]
    Stalled {
        /// Where the server listens.
        address: SocketAddr,
    },
}
