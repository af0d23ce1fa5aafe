//! A scenario with some of its fields changed, as a command line does it.

use super::limit::time_ns;
use super::{Demand, FieldError, Limit, LoggedFleet, Scenario, Traffic};
use crate::traffic::Place;

/// What is changed; what is none stays as it is.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// How many members.
    pub nodes: Option<usize>,
    /// What decides every draw.
    pub seed: Option<u64>,
    /// How long before anything is measured, in nanoseconds.
    pub warm_up_ns: Option<u64>,
    /// How long it is measured, in nanoseconds.
    pub measured_ns: Option<u64>,
    /// The limits of all traffic; none of them: as they are.
    pub limits: Vec<Limit>,
    /// How many keys each limit has.
    pub keys: Option<usize>,
    /// How many times its limit each key asks for.
    pub load: Option<f64>,
    /// Where requests come to.
    pub place: Option<Place>,
}

impl Changes {
    /// Makes the changes, and checks the whole.
    ///
    /// # Errors
    /// If one does not fit the scenario, or makes it one that cannot be run.
    pub fn make(self, scenario: &mut Scenario) -> Result<(), FieldError> {
        scenario.nodes = self.nodes.unwrap_or(scenario.nodes);
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        scenario.warm_up_ns = self.warm_up_ns.unwrap_or(scenario.warm_up_ns);
        scenario.measured_ns = self.measured_ns.unwrap_or(scenario.measured_ns);
        for traffic in &mut scenario.traffic {
            if !self.limits.is_empty() {
                traffic.limits.clone_from(&self.limits);
            }
            if let Some(keys) = self.keys {
                if let Demand::Logged(_) = traffic.demand {
                    return Err(FieldError::new(
                        "keys",
                        keys,
                        "left out: the log has its own",
                    ));
                }
                traffic.keys = keys;
            }
            traffic.place = self.place.unwrap_or(traffic.place);
            if let Some(load) = self.load {
                set_load(&mut traffic.demand, load)?;
            }
        }
        scenario.check()
    }
}

fn set_load(demand: &mut Demand, to: f64) -> Result<(), FieldError> {
    match demand {
        Demand::Steady { load } | Demand::Burst { load, .. } | Demand::Crowd { load, .. } => {
            *load = to;
            Ok(())
        }
        Demand::Zipf { .. } | Demand::Logged(_) => {
            let want = "left out: this traffic asks for as much as it does whatever the limit";
            Err(FieldError::new("load", to, want))
        }
    }
}

impl Scenario {
    /// A log's traffic under limits, each by itself, in a fleet as the goals have it. If the log names no nodes, `nodes`
    /// and `place` say where requests come to.
    ///
    /// # Errors
    /// If the whole cannot be run.
    pub fn of_log(
        fleet: &LoggedFleet,
        limits: Vec<Limit>,
        nodes: usize,
        place: Place,
    ) -> Result<Self, FieldError> {
        let longest = limits.iter().map(|limit| limit.window.nanos()).max();
        let scenario = Self {
            name: "access log".to_owned(),
            nodes: if fleet.nodes.is_empty() {
                nodes
            } else {
                fleet.nodes.len()
            },
            seed: 1,
            warm_up_ns: super::SECOND_NS,
            // Its last windows are whole, too.
            measured_ns: fleet
                .span_ns
                .saturating_add(longest.unwrap_or(0).saturating_mul(2)),
            link: crate::net::Link::LAN,
            config: lease::config::Config::default(),
            traffic: vec![Traffic {
                limits,
                keys: fleet.keys,
                demand: Demand::Logged(fleet.log.clone()),
                place,
                cost: (1, 1),
            }],
            faults: Vec::new(),
        };
        scenario.check()?;
        Ok(scenario)
    }
}

/// Reads where requests come to: `pinned`, `random`, `moving:30s`, `connections:20` or `node:0`.
///
/// # Errors
/// Says what would be right.
pub fn place(written: &str) -> Result<Place, String> {
    let wrong = || {
        format!("\"{written}\" is no place: pinned, random, moving:30s, connections:20 or node:0")
    };
    let (name, value) = match written.split_once(':') {
        Some((name, value)) => (name, Some(value)),
        None => (written, None),
    };
    match (name, value) {
        ("pinned", None) => Ok(Place::PerKey),
        ("random", None) => Ok(Place::Random),
        ("moving", Some(every)) => time_ns(every).map(Place::Moving),
        ("connections", Some(most)) => most.parse().map(Place::Connections).map_err(|_| wrong()),
        ("node", Some(node)) => node.parse().map(Place::Node).map_err(|_| wrong()),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        for (written, expected) in [
            ("pinned", Place::PerKey),
            ("random", Place::Random),
            ("moving:30s", Place::Moving(30_000_000_000)),
            ("connections:20", Place::Connections(20)),
            ("node:3", Place::Node(3)),
        ] {
            assert_eq!(place(written), Ok(expected));
        }
        for written in [
            "",
            "pinned:1",
            "moving",
            "moving:x",
            "node:-1",
            "connections:",
        ] {
            assert!(place(written).is_err(), "{written}");
        }
    }

    #[test]
    fn changes_are_checked_with_the_rest() {
        let mut scenario = Scenario::preset("pinned").unwrap().unwrap();
        let changes = Changes {
            nodes: Some(3),
            limits: vec!["5/s".parse().unwrap()],
            keys: Some(2),
            load: Some(2.0),
            place: Some(Place::Random),
            measured_ns: Some(2_000_000_000),
            ..Changes::default()
        };
        changes.clone().make(&mut scenario).unwrap();
        assert_eq!((scenario.nodes, scenario.traffic[0].keys), (3, 2));
        let field = |changes: Changes, preset: &str| {
            let mut scenario = Scenario::preset(preset).unwrap().unwrap();
            changes.make(&mut scenario).unwrap_err().field
        };
        assert_eq!(field(changes.clone(), "zipf"), "load");
        let zero = |changes| field(changes, "pinned");
        for (changes, name) in [
            (
                Changes {
                    nodes: Some(0),
                    ..Changes::default()
                },
                "nodes",
            ),
            (
                Changes {
                    keys: Some(0),
                    ..Changes::default()
                },
                "traffic[0].keys",
            ),
            (
                Changes {
                    load: Some(-1.0),
                    ..Changes::default()
                },
                "traffic[0].load",
            ),
            (
                Changes {
                    measured_ns: Some(0),
                    ..Changes::default()
                },
                "measured",
            ),
            (
                Changes {
                    place: Some(Place::Node(20)),
                    ..Changes::default()
                },
                "traffic[0].node",
            ),
        ] {
            assert_eq!(zero(changes), name);
        }
    }
}
