//! envoyproxy/ratelimit: its configuration files, and the matching of descriptors against them.
//!
//! The source of truth is that project's `src/config/config_impl.go`; what differs is told in
//! `docs/envoy-ratelimit.md`. Nothing here charges or decides.

mod descriptor;
mod index;
mod names;
#[cfg(test)]
mod oracle;
mod read;

pub use index::{Index, Match};
pub use read::{Domains, File, FileErrors, read_files};
