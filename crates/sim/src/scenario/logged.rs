//! Access logs as traffic: who asked, when, and of which node. Keys are kept as numbers only.

use std::collections::HashMap;
use std::sync::Arc;

use crate::chance::Chance;
use crate::log::{LogError, LogReader};
use crate::measure::merge::Merge;
use crate::traffic::Logged;

use super::SECOND_NS;
use super::check::{MOST_KEYS, MOST_NODES};

/// The most requests that are kept, 16 bytes each.
const MOST_LOGGED: usize = 50_000_000;

/// A log, and the node that wrote it.
#[derive(Debug)]
pub struct NodeLog {
    /// The node's name; none if the log's requests may come to any.
    pub node: Option<String>,
    /// The log.
    pub log: LogReader,
}

/// What logs told.
#[derive(Clone, Debug)]
pub struct LoggedFleet {
    /// The requests, in order of time.
    pub log: Arc<[Logged]>,
    /// How many keys they have.
    pub keys: usize,
    /// The nodes by name, in the order in which they were named; empty if the logs name none.
    pub nodes: Vec<String>,
    /// From the first request to the last, in nanoseconds.
    pub span_ns: u64,
    /// The logs tell whole seconds only; each request was put at a random moment of its second.
    pub whole_seconds: bool,
    /// Requests passed over, for they have no key.
    pub keyless: u64,
    /// Requests passed over, for they are before or after the time asked for.
    pub outside: u64,
}

/// Why logs are no traffic.
#[derive(Debug, thiserror::Error)]
pub enum LoggedError {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Nothing to run.
    #[error(
        "the logs have no request with a key: {keyless} without one, {outside} outside of the time asked for"
    )]
    Empty {
        /// Requests without a key.
        keyless: u64,
        /// Requests before or after the time asked for.
        outside: u64,
    },
    /// More than can be kept.
    #[error("the logs have more than {MOST_LOGGED} requests: cut them by --since and --until")]
    TooMany,
    /// More keys than can be run.
    #[error("the logs have more than {MOST_KEYS} keys: cut them by --since and --until")]
    TooManyKeys,
    /// More nodes than can be run.
    #[error("the logs are of {0} nodes: at most {MOST_NODES}")]
    TooManyNodes(usize),
    /// Some logs are of a node, and some of any.
    #[error(
        "some logs name their node and some do not: write NODE=FILE for all of them or for none"
    )]
    Mixed,
}

/// Reads logs as traffic. `seed` decides the moments within whole seconds.
///
/// # Errors
/// [`LoggedError`].
pub fn logged(
    logs: Vec<NodeLog>,
    since_unix_ns: Option<u64>,
    until_unix_ns: Option<u64>,
    seed: u64,
) -> Result<LoggedFleet, LoggedError> {
    let mut nodes: Vec<String> = Vec::new();
    let mut numbered = Vec::new();
    let mut named = 0;
    let count = logs.len();
    for NodeLog { node, log } in logs {
        let number = match node {
            None => 0,
            Some(name) => {
                named += 1;
                nodes
                    .iter()
                    .position(|known| *known == name)
                    .unwrap_or_else(|| {
                        nodes.push(name);
                        nodes.len() - 1
                    })
            }
        };
        numbered.push((number, log));
    }
    if named != 0 && named != count {
        return Err(LoggedError::Mixed);
    }
    if nodes.len() > MOST_NODES {
        return Err(LoggedError::TooManyNodes(nodes.len()));
    }
    let mut read = Read::default();
    let mut merge = Merge::new(numbered)?;
    while let Some((node, record)) = merge.advance()? {
        let time = record.time_unix_ns;
        if since_unix_ns.is_some_and(|since| time < since)
            || until_unix_ns.is_some_and(|until| time >= until)
        {
            read.outside += 1;
            continue;
        }
        let Some(key) = record.key else {
            read.keyless += 1;
            continue;
        };
        let node = (named > 0).then_some(node as u16);
        read.request(time, key.get(), node)?;
    }
    read.finish(nodes, seed)
}

#[derive(Default)]
struct Read {
    requests: Vec<(u64, u32, Option<u16>)>,
    keys: HashMap<u128, u32, foldhash::fast::RandomState>,
    fractions: bool,
    keyless: u64,
    outside: u64,
}

impl Read {
    fn request(&mut self, time: u64, key: u128, node: Option<u16>) -> Result<(), LoggedError> {
        if self.requests.len() >= MOST_LOGGED {
            return Err(LoggedError::TooMany);
        }
        let next = self.keys.len();
        if next >= MOST_KEYS && !self.keys.contains_key(&key) {
            return Err(LoggedError::TooManyKeys);
        }
        // Numbered as they come: which number a key has does not depend on its hash, which a secret decides.
        let number = *self.keys.entry(key).or_insert(next as u32);
        self.fractions |= !time.is_multiple_of(SECOND_NS);
        self.requests.push((time, number, node));
        Ok(())
    }

    fn finish(mut self, nodes: Vec<String>, seed: u64) -> Result<LoggedFleet, LoggedError> {
        if !self.fractions {
            let mut chance = Chance::new(seed ^ 0x7365_636f_6e64);
            for (time, ..) in &mut self.requests {
                *time += chance.below(SECOND_NS);
            }
        }
        // Stable: requests of one instant stay in the order in which they were read.
        self.requests.sort_by_key(|(time, ..)| *time);
        let (Some((first, ..)), Some((last, ..))) = (self.requests.first(), self.requests.last())
        else {
            return Err(LoggedError::Empty {
                keyless: self.keyless,
                outside: self.outside,
            });
        };
        let (first, last) = (*first, *last);
        let requests = self.requests.iter();
        let log: Arc<[Logged]> = requests
            .map(|&(time, key, node)| Logged {
                after_ns: time - first,
                key,
                node,
            })
            .collect();
        Ok(LoggedFleet {
            log,
            keys: self.keys.len(),
            nodes,
            span_ns: last - first,
            whole_seconds: !self.fractions,
            keyless: self.keyless,
            outside: self.outside,
        })
    }
}
