//! What was sent to and received from one member, counted.
//!
//! Every count stands alone and orders nothing, so all accesses are relaxed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// The counters of one member. They only grow.
        #[derive(Debug, Default)]
        pub struct Traffic {
            $($name: AtomicU64,)+
        }

        /// A reading of a [`Traffic`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct TrafficCounts {
            $($(#[$doc])* pub $name: u64,)+
        }

        impl Traffic {
            /// Reads all counters.
            #[must_use]
            pub fn counts(&self) -> TrafficCounts {
                TrafficCounts {
                    $($name: self.$name.load(Relaxed),)+
                }
            }
        }
    };
}

counts!(
    /// Frames handed to the network.
    frames_out,
    /// Bytes of those frames.
    bytes_out,
    /// Frames received and put in the inbox.
    frames_in,
    /// Bytes of those frames.
    bytes_in,
    /// Frames that were queued to be sent, and dropped: the queue was full, or the member could not be reached.
    dropped_out,
    /// Frames that were received, and dropped because they were not taken from the inbox in time.
    dropped_in,
    /// Frames and connections that were refused: too large, malformed, or of somebody else's identity.
    refused,
    /// Connections that were made.
    connects,
    /// Attempts to connect that failed, and connections that broke.
    errors,
);

impl Traffic {
    /// A frame was handed to the network.
    pub fn sent(&self, bytes: usize) {
        self.frames_out.fetch_add(1, Relaxed);
        self.bytes_out.fetch_add(bytes as u64, Relaxed);
    }

    /// A frame was put in the inbox, for which `dropped` others had to go.
    pub fn received(&self, bytes: usize, dropped: u64) {
        self.frames_in.fetch_add(1, Relaxed);
        self.bytes_in.fetch_add(bytes as u64, Relaxed);
        self.dropped_in.fetch_add(dropped, Relaxed);
    }

    /// Frames to be sent were dropped.
    pub fn dropped_out(&self, frames: u64) {
        self.dropped_out.fetch_add(frames, Relaxed);
    }

    /// A frame or a connection was refused.
    pub fn refused(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// A connection was made.
    pub fn connected(&self) {
        self.connects.fetch_add(1, Relaxed);
    }

    /// An attempt to connect failed, or a connection broke.
    pub fn failed(&self) {
        self.errors.fetch_add(1, Relaxed);
    }
}
