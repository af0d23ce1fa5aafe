//! From a file's keys to a scenario: what is not said is filled in, and keys that contradict each other are refused.

use std::time::Duration;

use lease::config::Config;

use super::super::{Demand, FieldError, Outage, Scenario, Traffic, What};
use super::{
    Entry, FaultEntry, File, KEYS, MEASURED_NS, Network, PlaceName, Protocol, WARM_UP_NS, WhatName,
};
use crate::net::Link;
use crate::traffic::Place;

impl File {
    pub(super) fn scenario(self, name: &str) -> Result<Scenario, FieldError> {
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
