//! Scenarios that come with the program: the traffic that limits meet in life, and what goes wrong in a fleet. Each is
//! the text of a scenario file, so that it can be printed, changed and run again.

use super::{Scenario, ScenarioError, read};

/// Names and texts.
pub const PRESETS: [(&str, &str); 13] = [
    ("pinned", PINNED),
    ("uniform", UNIFORM),
    ("moving", MOVING),
    ("bursty", BURSTY),
    ("bursty-spread", BURSTY_SPREAD),
    ("zipf", ZIPF),
    ("zipf-connections", ZIPF_CONNECTIONS),
    ("zipf-spread", ZIPF_SPREAD),
    ("flash-crowd", FLASH_CROWD),
    ("node-dead", NODE_DEAD),
    ("node-cut-off", NODE_CUT_OFF),
    ("bus-out", BUS_OUT),
    ("rolling-restart", ROLLING_RESTART),
];

const PINNED: &str = r#"# Each key's client holds one connection, and asks for half more than its limit.
measured = "3m"

[[traffic]]
limits = ["10/s", "100/s", "1000/min"]
keys = 20
load = 1.5
place = "pinned"
"#;

const UNIFORM: &str = r#"# Each request comes to a random node.
measured = "3m"

[[traffic]]
limits = ["10/s", "100/s", "1000/min"]
keys = 20
load = 1.5
place = "random"
"#;

const MOVING: &str = r#"# Each key's client is connected anew, to a random node, every 30 seconds.
measured = "3m"

[[traffic]]
limits = ["10/s", "100/s", "1000/min"]
keys = 20
load = 1.5
place = "moving"
move_every = "30s"
"#;

const BURSTY: &str = r#"# Each key asks for all that its limit allows within 5 ms, once a window, at one node.
measured = "3m"

[[traffic]]
limits = ["10/s", "100/s", "1000/min"]
keys = 20
load = 1.0
burst_ms = 5
place = "pinned"
"#;

const BURSTY_SPREAD: &str = r#"# Each key asks for all that its limit allows within 5 ms, once a window, at all nodes.
measured = "3m"

[[traffic]]
limits = ["10/s", "100/s", "1000/min"]
keys = 20
load = 1.0
burst_ms = 5
place = "random"
"#;

const ZIPF: &str = r#"# 51,000 requests a second; few keys ask for most of them; each key holds one connection.
warm_up = "5s"
measured = "2m"

[[traffic]]
limits = ["10/s", "100/s", "1000/min"]
keys = 1000
requests_per_s = 17000
zipf = 1.0
place = "pinned"
"#;

const ZIPF_CONNECTIONS: &str = r#"# As zipf, each key with up to 20 connections.
warm_up = "5s"
measured = "2m"

[[traffic]]
limits = ["10/s", "100/s", "1000/min"]
keys = 1000
requests_per_s = 17000
zipf = 1.0
place = "connections"
connections = 20
"#;

const ZIPF_SPREAD: &str = r#"# As zipf, each request to a random node.
warm_up = "5s"
measured = "2m"

[[traffic]]
limits = ["10/s", "100/s", "1000/min"]
keys = 1000
requests_per_s = 17000
zipf = 1.0
place = "random"
"#;

const FLASH_CROWD: &str = r#"# Keys that ask for half of their limit ask for ten times their limit for 20 seconds, from many clients.
measured = "2m"

[[traffic]]
limits = ["10/s", "100/s", "1000/min"]
keys = 20
load = 0.5
place = "connections"
connections = 20
crowd = { times = 20.0, from = "50s", for = "20s" }
"#;

const NODE_DEAD: &str = r#"# One member of a fixed list is dead from the beginning of the measured time on.
measured = "3m"

[[traffic]]
limits = ["10/s", "100/s", "1000/min"]
keys = 20
load = 1.5
place = "pinned"

[[traffic]]
limits = ["10/s", "100/s", "1000/min"]
keys = 20
load = 1.5
place = "random"

[[fault]]
what = "down"
node = 0
at = "0s"
"#;

const NODE_CUT_OFF: &str = r#"# One node is cut off for 5 seconds.
measured = "2m"

[[traffic]]
limits = ["10/s", "100/s"]
keys = 20
load = 1.5
place = "pinned"

[[fault]]
what = "cut_off"
node = 0
at = "30s"
for = "5s"
"#;

const BUS_OUT: &str = r#"# No node reaches another for 10 seconds.
measured = "2m"

[[traffic]]
limits = ["10/s", "100/s"]
keys = 20
load = 1.5
place = "pinned"

[[fault]]
what = "bus_out"
at = "30s"
for = "10s"
"#;

const ROLLING_RESTART: &str = r#"# The processes of all nodes are restarted one after the other, each down for a second.
measured = "100s"

[[traffic]]
limits = ["10/s", "100/s"]
keys = 20
load = 1.5
place = "pinned"

[[fault]]
what = "rolling"
at = "5s"
every = "4s"
for = "1s"
"#;

impl Scenario {
    /// A preset by its name; none if there is none so called.
    ///
    /// # Errors
    /// As [`read`]; a test sees to it that there are none.
    pub fn preset(name: &str) -> Option<Result<Self, ScenarioError>> {
        let (name, text) = PRESETS.iter().find(|(known, _)| *known == name)?;
        Some(read(name, text.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_run() {
        for (name, _) in PRESETS {
            let scenario = Scenario::preset(name).unwrap().unwrap();
            assert_eq!(scenario.check(), Ok(()), "{name}");
            assert_eq!((scenario.nodes, scenario.name.as_str()), (20, name));
        }
        assert!(Scenario::preset("pined").is_none());
    }
}
