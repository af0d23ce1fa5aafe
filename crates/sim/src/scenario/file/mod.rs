//! Scenario files: TOML, every key checked, unknown ones refused. Here are their keys and how they are read; what they
//! mean together is in [`build`].

mod build;
#[cfg(test)]
mod tests;

use serde::Deserialize;

use super::limit::time_ns;
use super::{FieldError, Limit, SECOND_NS, Scenario};

/// The largest file that is read, in bytes.
const MOST_BYTES: usize = 1 << 20;
/// The keys of one limit, where an entry does not say.
const KEYS: usize = 20;
/// How many of a run's first seconds are not measured, where the file does not say.
const WARM_UP_NS: u64 = 2 * SECOND_NS;
/// How long is measured, where the file does not say.
const MEASURED_NS: u64 = 180 * SECOND_NS;

/// Why a scenario was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// More than a scenario can need.
    #[error("{name}: is larger than {MOST_BYTES} bytes")]
    TooLarge {
        /// The file.
        name: String,
    },
    /// Bytes that are no text.
    #[error("{name}: is not UTF-8, from byte {at} on")]
    NotText {
        /// The file.
        name: String,
        /// Counted from 0.
        at: usize,
    },
    /// No TOML, or not the keys and types that a scenario has.
    #[error("{name}:{line}: {}{problem}", if path.is_empty() { String::new() } else { format!("{path}: ") })]
    Shape {
        /// The file.
        name: String,
        /// Counted from 1.
        line: usize,
        /// Which field.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// A value that cannot be used.
    #[error("{name}: {source}")]
    Field {
        /// The file.
        name: String,
        /// What is wrong.
        source: FieldError,
    },
}

/// Reads a scenario. Messages call it `name`. Every key is checked, unknown ones are refused; values are checked by
/// [`Scenario::check`] once more when it has been changed.
///
/// # Errors
/// [`ScenarioError`].
pub fn read(name: &str, bytes: &[u8]) -> Result<Scenario, ScenarioError> {
    if bytes.len() > MOST_BYTES {
        return Err(ScenarioError::TooLarge {
            name: name.to_owned(),
        });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| ScenarioError::NotText {
        name: name.to_owned(),
        at: error.valid_up_to(),
    })?;
    let shape = |error: &toml::de::Error, path: String| ScenarioError::Shape {
        name: name.to_owned(),
        line: line(text, error.span().map_or(0, |span| span.start)),
        path,
        problem: error.message().to_owned(),
    };
    let toml = toml::Deserializer::parse(text).map_err(|error| shape(&error, String::new()))?;
    let file: File = serde_path_to_error::deserialize(toml).map_err(|error| {
        let path = error.path().to_string();
        shape(
            error.inner(),
            if path == "." { String::new() } else { path },
        )
    })?;
    let field = |source| ScenarioError::Field {
        name: name.to_owned(),
        source,
    };
    let scenario = file.scenario(name).map_err(field)?;
    scenario.check().map_err(field)?;
    Ok(scenario)
}

fn line(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or_default();
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    nodes: Option<usize>,
    seed: Option<u64>,
    warm_up: Option<Time>,
    measured: Option<Time>,
    #[serde(default)]
    network: Network,
    #[serde(default)]
    protocol: Protocol,
    #[serde(default)]
    traffic: Vec<Entry>,
    #[serde(default)]
    fault: Vec<FaultEntry>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    delay_us: Option<(u64, u64)>,
    slow_delay_us: Option<u64>,
    slow_percent: Option<f64>,
    loss_percent: Option<f64>,
    duplicated_percent: Option<f64>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Protocol {
    round_ms: Option<u64>,
    fast_path_deadline_us: Option<u64>,
    idle_pace: Option<u32>,
    idle_rounds: Option<u32>,
    issue_percent: Option<u32>,
    lone_issue_percent: Option<u32>,
    reserve_percent: Option<u32>,
    degraded_after: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    limits: Vec<Rate>,
    keys: Option<usize>,
    load: Option<f64>,
    burst_ms: Option<u64>,
    crowd: Option<Crowd>,
    requests_per_s: Option<f64>,
    zipf: Option<f64>,
    place: PlaceName,
    node: Option<usize>,
    connections: Option<u64>,
    move_every: Option<Time>,
    cost: Option<(u64, u64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Crowd {
    times: f64,
    from: Time,
    #[serde(rename = "for")]
    lasts: Time,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum PlaceName {
    Pinned,
    Random,
    Moving,
    Connections,
    Node,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FaultEntry {
    what: WhatName,
    node: Option<usize>,
    at: Time,
    #[serde(rename = "for")]
    lasts: Option<Time>,
    every: Option<Time>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum WhatName {
    Down,
    Stopped,
    CutOff,
    BusOut,
    Rolling,
}

/// A length of time as a policy writes a window, or `0s`; in nanoseconds.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct Time(u64);

impl TryFrom<String> for Time {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        time_ns(&written).map(Self)
    }
}

/// A rate as a policy writes it.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Rate(Limit);

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(written: String) -> Result<Self, String> {
        written.parse().map(Self)
    }
}
