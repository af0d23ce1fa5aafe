//! Scenario files: TOML, every key checked, unknown ones refused.

use std::time::Duration;

use lease::config::Config;
use serde::Deserialize;

use super::limit::time_ns;
use super::{Demand, FieldError, Limit, Outage, SECOND_NS, Scenario, Traffic, What};
use crate::net::Link;
use crate::traffic::Place;

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

impl File {
    fn scenario(self, name: &str) -> Result<Scenario, FieldError> {
        let traffic = self.traffic.into_iter().enumerate();
        let faults = self.fault.into_iter().enumerate();
        Ok(Scenario {
            name: self.name.unwrap_or_else(|| name.to_owned()),
            nodes: self.nodes.unwrap_or(20),
            seed: self.seed.unwrap_or(1),
            warm_up_ns: self.warm_up.map_or(WARM_UP_NS, |time| time.0),
            measured_ns: self.measured.map_or(MEASURED_NS, |time| time.0),
            link: self.network.link(),
            config: self.protocol.config(),
            traffic: traffic
                .map(|(number, entry)| entry.traffic(&format!("traffic[{number}]")))
                .collect::<Result<_, _>>()?,
            faults: faults
                .map(|(number, entry)| entry.outage(&format!("fault[{number}]")))
                .collect::<Result<_, _>>()?,
        })
    }
}

impl Network {
    fn link(self) -> Link {
        let mut link = Link::LAN;
        let ns = |us: u64| us.saturating_mul(1_000);
        if let Some((low, high)) = self.delay_us {
            link.delay.low_ns = ns(low);
            link.delay.high_ns = ns(high);
            link.delay.worst_ns = link.delay.worst_ns.max(ns(high));
        }
        if let Some(worst) = self.slow_delay_us {
            link.delay.worst_ns = ns(worst);
        }
        for (percent, share) in [
            (self.slow_percent, &mut link.delay.slow_share),
            (self.loss_percent, &mut link.loss),
            (self.duplicated_percent, &mut link.duplicated),
        ] {
            if let Some(percent) = percent {
                *share = percent / 100.0;
            }
        }
        link
    }
}

impl Protocol {
    fn config(self) -> Config {
        let mut config = Config::default();
        if let Some(ms) = self.round_ms {
            config.round = Duration::from_millis(ms);
        }
        if let Some(us) = self.fast_path_deadline_us {
            config.fast_path_deadline = Duration::from_micros(us);
        }
        if let Some(time) = self.degraded_after {
            config.degraded_after = Duration::from_nanos(time.0);
        }
        for (given, setting) in [
            (self.idle_pace, &mut config.idle_pace),
            (self.idle_rounds, &mut config.idle_rounds),
            (self.issue_percent, &mut config.issue_percent),
            (self.lone_issue_percent, &mut config.lone_issue_percent),
            (self.reserve_percent, &mut config.reserve_percent),
        ] {
            if let Some(given) = given {
                *setting = given;
            }
        }
        config
    }
}

impl Entry {
    fn traffic(self, name: &str) -> Result<Traffic, FieldError> {
        let demand = self.demand(name)?;
        let place = self.place(name)?;
        Ok(Traffic {
            limits: self.limits.into_iter().map(|rate| rate.0).collect(),
            keys: self.keys.unwrap_or(KEYS),
            demand,
            place,
            cost: self.cost.unwrap_or((1, 1)),
        })
    }

    /// One of four ways; keys of two of them contradict each other.
    fn demand(&self, name: &str) -> Result<Demand, FieldError> {
        let of = |part: &str| format!("{name}.{part}");
        let conflict = |part: &str, other: &str| {
            FieldError::new(
                &of(part),
                "given",
                format!("left out where {other} is given"),
            )
        };
        if let Some(per_s) = self.requests_per_s {
            for (part, given) in [
                ("load", self.load.is_some()),
                ("burst_ms", self.burst_ms.is_some()),
                ("crowd", self.crowd.is_some()),
            ] {
                if given {
                    return Err(conflict(part, "requests_per_s"));
                }
            }
            let exponent = self.zipf.unwrap_or(1.0);
            return Ok(Demand::Zipf { per_s, exponent });
        }
        if let Some(exponent) = self.zipf {
            let want = "given together with requests_per_s";
            return Err(FieldError::new(&of("zipf"), exponent, want));
        }
        let Some(load) = self.load else {
            let want = "given: how many times the limit, or requests_per_s";
            return Err(FieldError::new(&of("load"), "missing", want));
        };
        match (self.burst_ms, &self.crowd) {
            (Some(_), Some(_)) => Err(conflict("crowd", "burst_ms")),
            (Some(ms), None) => Ok(Demand::Burst {
                load,
                within_ns: ms.saturating_mul(1_000_000),
            }),
            (None, Some(crowd)) => Ok(Demand::Crowd {
                load,
                times: crowd.times,
                from_ns: crowd.from.0,
                for_ns: crowd.lasts.0,
            }),
            (None, None) => Ok(Demand::Steady { load }),
        }
    }

    fn place(&self, name: &str) -> Result<Place, FieldError> {
        let of = |part: &str| format!("{name}.{part}");
        for (part, given, only) in [
            ("node", self.node.is_some(), PlaceName::Node),
            (
                "connections",
                self.connections.is_some(),
                PlaceName::Connections,
            ),
            ("move_every", self.move_every.is_some(), PlaceName::Moving),
        ] {
            if given && self.place != only {
                let want = format!("left out, or place = \"{}\"", only.name());
                return Err(FieldError::new(&of(part), "given", want));
            }
        }
        let missing = |part: &str, want: &str| FieldError::new(&of(part), "missing", want);
        match self.place {
            PlaceName::Pinned => Ok(Place::PerKey),
            PlaceName::Random => Ok(Place::Random),
            PlaceName::Moving => match self.move_every {
                Some(every) => Ok(Place::Moving(every.0)),
                None => Err(missing("move_every", "a length of time")),
            },
            PlaceName::Connections => match self.connections {
                Some(most) => Ok(Place::Connections(most)),
                None => Err(missing("connections", "how many a key has at most")),
            },
            PlaceName::Node => match self.node {
                Some(node) => Ok(Place::Node(node)),
                None => Err(missing("node", "a node's number, from 0 on")),
            },
        }
    }
}

impl PlaceName {
    const fn name(self) -> &'static str {
        match self {
            Self::Pinned => "pinned",
            Self::Random => "random",
            Self::Moving => "moving",
            Self::Connections => "connections",
            Self::Node => "node",
        }
    }
}

impl FaultEntry {
    fn outage(self, name: &str) -> Result<Outage, FieldError> {
        let of = |part: &str| format!("{name}.{part}");
        let needs_node = matches!(
            self.what,
            WhatName::Down | WhatName::Stopped | WhatName::CutOff
        );
        for (part, given, wanted) in [
            ("node", self.node.is_some(), needs_node),
            (
                "every",
                self.every.is_some(),
                self.what == WhatName::Rolling,
            ),
        ] {
            if given && !wanted {
                let want = "left out for this fault";
                return Err(FieldError::new(&of(part), "given", want));
            }
            if wanted && !given {
                return Err(FieldError::new(
                    &of(part),
                    "missing",
                    "given for this fault",
                ));
            }
        }
        let node = self.node.unwrap_or(0);
        let what = match self.what {
            WhatName::Down => What::Down { node },
            WhatName::Stopped => What::Stopped { node },
            WhatName::CutOff => What::CutOff { node },
            WhatName::BusOut => What::BusOut,
            WhatName::Rolling => What::Rolling {
                every_ns: self.every.map_or(0, |time| time.0),
            },
        };
        Ok(Outage {
            what,
            at_ns: self.at.0,
            for_ns: self.lasts.map(|time| time.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAFFIC: &str = "[[traffic]]\nlimits = [\"10/s\"]\nload = 1.5\nplace = \"pinned\"\n";

    fn refusal(text: &str) -> String {
        read("s.toml", text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn what_is_not_said_is_the_setting_of_the_goals() {
        let scenario = read("s.toml", TRAFFIC.as_bytes()).unwrap();
        assert_eq!((scenario.nodes, scenario.seed), (20, 1));
        assert_eq!(scenario.link, Link::LAN);
        assert_eq!(scenario.config, Config::default());
        assert_eq!(scenario.traffic[0].limits[0].to_string(), "10/s");
    }

    #[test]
    fn everything_can_be_said() {
        let text = r#"
            name = "all"
            nodes = 5
            seed = 7
            warm_up = "500ms"
            measured = "10s"
            [network]
            delay_us = [100, 300]
            slow_delay_us = 5000
            slow_percent = 1.5
            loss_percent = 2
            duplicated_percent = 0.5
            [protocol]
            round_ms = 50
            fast_path_deadline_us = 2000
            idle_pace = 1
            idle_rounds = 4
            issue_percent = 20
            lone_issue_percent = 30
            reserve_percent = 5
            degraded_after = "2s"
            [[traffic]]
            limits = ["10/s", "3 per 2s"]
            keys = 3
            requests_per_s = 100
            zipf = 1.2
            place = "connections"
            connections = 4
            cost = [1, 3]
            [[traffic]]
            limits = ["10/s"]
            load = 2
            burst_ms = 5
            place = "node"
            node = 4
            [[traffic]]
            limits = ["10/s"]
            load = 2
            crowd = { times = 5, from = "1s", for = "2s" }
            place = "moving"
            move_every = "3s"
            [[fault]]
            what = "down"
            node = 1
            at = "1s"
            for = "2s"
            [[fault]]
            what = "rolling"
            at = "0s"
            every = "1s"
            for = "500ms"
        "#
        .replace("3 per 2s", "3/2s");
        let scenario = read("s.toml", text.as_bytes()).unwrap();
        assert_eq!(scenario.traffic.len(), 3);
        assert_eq!(scenario.traffic[0].limits[1].to_string(), "3/2s");
        assert_eq!(scenario.traffic[1].place, Place::Node(4));
        assert_eq!(scenario.link.loss, 0.02);
        assert_eq!(scenario.healed_ns(), Some(4_500_000_000));
        assert_eq!(scenario.first_fault_ns(), Some(0));
    }

    #[test]
    fn faults_name_their_field_and_what_would_be_right() {
        for (change, says) in [
            ("nodes = 0\n", "nodes is 0: it must be 1 to 300"),
            ("nodes = 100000\n", "nodes is 100000"),
            ("nodes = -1\n", "s.toml:1: nodes: "),
            ("node = 3\n", "unknown field `node`"),
            (
                "measured = \"1s\"\n",
                "measured is 1 s: it must be at least 2 s",
            ),
            (
                "measured = \"400d\"\n",
                "measured is 34560000 s: it must be at most",
            ),
            ("measured = \"soon\"\n", "s.toml:1: measured: "),
            (
                "network.loss_percent = 101\n",
                "network.loss_percent is 101",
            ),
            (
                "network.loss_percent = nan\n",
                "network.loss_percent is NaN",
            ),
            ("network.delay_us = [3, 2]\n", "network.delay_us is [3, 2]"),
            (
                "protocol.round_ms = 1\n",
                "protocol.round is 1: it must be 5 to",
            ),
            ("protocol.mutant = 1\n", "unknown field `mutant`"),
            ("nodes = 2\nnodes = 3\n", "s.toml:2: "),
        ] {
            let text = refusal(&format!("{change}{TRAFFIC}"));
            assert!(text.starts_with("s.toml:") && text.contains(says), "{text}");
        }
        for (more, says) in [
            ("keys = 0", "traffic[0].keys is 0: it must be 1 to 1000000"),
            ("keys = 1000001", "traffic[0].keys is 1000001"),
            ("cost = [0, 1]", "traffic[0].cost is 0"),
            ("cost = [3, 1]", "traffic[0].cost is 1: it must be 3 to"),
            (
                "burst_ms = 0",
                "traffic[0].burst_ms is 0: it must be 1 to 1000",
            ),
            ("node = 1", "traffic[0].node is given: it must be left out"),
            (
                "zipf = 1.0",
                "traffic[0].zipf is 1: it must be given together",
            ),
            ("requests_per_s = 5", "traffic[0].load is given"),
            (
                "keys = 1000000\nnodes = 1",
                "traffic[0].nodes: unknown field `nodes`",
            ),
            (
                "[[fault]]\nwhat = \"down\"\nat = \"1s\"",
                "fault[0].node is missing",
            ),
            (
                "[[fault]]\nwhat = \"down\"\nnode = 20\nat = \"1s\"",
                "fault[0].node is 20: it must be 0 to 19",
            ),
            (
                "[[fault]]\nwhat = \"bus_out\"\nat = \"1h\"",
                "fault[0].at is 3600000",
            ),
            (
                "[[fault]]\nwhat = \"fire\"\nat = \"1s\"",
                "fault[0].what: unknown variant",
            ),
            (
                "[[fault]]\nwhat = \"rolling\"\nat = \"1s\"\nevery = \"1s\"",
                "fault[0].for is missing",
            ),
        ] {
            let text = refusal(&format!("{TRAFFIC}{more}\n"));
            assert!(text.starts_with("s.toml:") && text.contains(says), "{text}");
        }
        let text = TRAFFIC.replace("1.5", "1e5").replace("10/s", "1000/s");
        assert!(
            refusal(&text).contains("requests: it must be at most"),
            "{}",
            refusal(&text)
        );
        for rate in ["deny", "unlimited", "0/s", "10/forever", "10", "x/s"] {
            let text = refusal(&TRAFFIC.replace("10/s", rate));
            assert!(text.contains("traffic[0].limits[0]: \""), "{text}");
        }
        for (bytes, says) in [
            (
                &b""[..],
                "traffic is missing: it must be at least one entry",
            ),
            (b"\xff", "is not UTF-8, from byte 0 on"),
            (b"= 3", "s.toml:1: "),
            (&[b'#'; MOST_BYTES + 1], "is larger than"),
        ] {
            let text = read("s.toml", bytes).unwrap_err().to_string();
            assert!(text.contains(says), "{text}");
        }
    }
}
