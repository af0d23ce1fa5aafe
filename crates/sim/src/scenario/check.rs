//! Which scenarios can be run, and how a field that cannot is told.

use super::{Demand, Limit, Outage, SECOND_NS, Scenario, Traffic, What};
use crate::traffic::Place;

/// The most nodes: each pair of them speaks, so that work grows by the square.
pub const MOST_NODES: usize = 300;
/// The most keys of a run, all limits together.
pub const MOST_KEYS: usize = 1_000_000;
/// The most requests of a run.
pub const MOST_REQUESTS: u64 = 200_000_000;
/// The longest that is measured.
const LONGEST_S: u64 = 7 * 86_400;

/// A field of a scenario that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value}: it must be {want}")]
pub struct FieldError {
    /// The field, as a scenario file names it.
    pub field: String,
    /// What was given.
    pub value: String,
    /// What would be right.
    pub want: String,
}

impl FieldError {
    pub(super) fn new(field: &str, value: impl ToString, want: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            value: value.to_string(),
            want: want.into(),
        }
    }
}

impl Scenario {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first that cannot be used.
    pub fn check(&self) -> Result<(), FieldError> {
        within("nodes", self.nodes as u64, 1, MOST_NODES as u64)?;
        self.check_times()?;
        self.check_network()?;
        self.config.check().map_err(|error| {
            FieldError::new(&format!("protocol.{}", error.name), error.value, error.want)
        })?;
        if self.traffic.is_empty() {
            return Err(FieldError::new("traffic", "missing", "at least one entry"));
        }
        for (number, traffic) in self.traffic.iter().enumerate() {
            self.check_traffic(&format!("traffic[{number}]"), traffic)?;
        }
        let keys = self.traffic.iter();
        let keys = keys.map(|traffic| traffic.keys.saturating_mul(traffic.limits.len()));
        let keys = keys.fold(0, usize::saturating_add);
        if keys > MOST_KEYS {
            let want = format!("at most {MOST_KEYS} in all, counted once for each limit");
            return Err(FieldError::new("keys", keys, want));
        }
        let requests = self.traffic.iter().map(|traffic| self.requests(traffic));
        let requests: f64 = requests.sum();
        if requests > MOST_REQUESTS as f64 {
            return Err(FieldError::new(
                "traffic",
                format!("about {requests:.0} requests"),
                format!("at most {MOST_REQUESTS}: measure for less long, or ask for less"),
            ));
        }
        for (number, fault) in self.faults.iter().enumerate() {
            self.check_fault(&format!("fault[{number}]"), fault)?;
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), FieldError> {
        let seconds = |ns: u64| format!("{} s", ns as f64 / SECOND_NS as f64);
        let too_long = |field, ns: u64| {
            let want = format!("at most {LONGEST_S} s");
            (ns > LONGEST_S * SECOND_NS).then(|| FieldError::new(field, seconds(ns), want))
        };
        let wrong =
            too_long("warm_up", self.warm_up_ns).or_else(|| too_long("measured", self.measured_ns));
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let limits = self.traffic.iter().flat_map(|traffic| &traffic.limits);
        let longest = limits.map(|limit| limit.window.nanos()).max().unwrap_or(0);
        // Windows of a key begin at its phase: only in twice its length does a whole one surely lie.
        let least = longest.saturating_mul(2).max(1);
        if self.measured_ns < least {
            let want = format!("at least {}, twice the longest window", seconds(least));
            return Err(FieldError::new("measured", seconds(self.measured_ns), want));
        }
        Ok(())
    }

    fn check_network(&self) -> Result<(), FieldError> {
        let link = &self.link;
        for (field, value) in [
            ("network.slow_percent", link.delay.slow_share),
            ("network.loss_percent", link.loss),
            ("network.duplicated_percent", link.duplicated),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return Err(FieldError::new(field, value * 100.0, "0 to 100"));
            }
        }
        let delay = &link.delay;
        within(
            "network.slow_delay_us",
            delay.worst_ns / 1_000,
            0,
            10_000_000,
        )?;
        if delay.low_ns > delay.high_ns || delay.high_ns > delay.worst_ns {
            return Err(FieldError::new(
                "network.delay_us",
                format!("[{}, {}]", delay.low_ns / 1_000, delay.high_ns / 1_000),
                "the least and the most, neither above slow_delay_us",
            ));
        }
        Ok(())
    }

    fn check_traffic(&self, name: &str, traffic: &Traffic) -> Result<(), FieldError> {
        let field = |part: &str| format!("{name}.{part}");
        within(&field("keys"), traffic.keys as u64, 1, MOST_KEYS as u64)?;
        if traffic.limits.is_empty() {
            return Err(FieldError::new(
                &field("limits"),
                "empty",
                "at least one rate",
            ));
        }
        within(&field("cost"), traffic.cost.0, 1, 1_000_000)?;
        within(&field("cost"), traffic.cost.1, traffic.cost.0, 1_000_000)?;
        let positive = |part: &str, value: f64, most: f64| {
            if value > 0.0 && value <= most {
                return Ok(());
            }
            let want = format!("above 0, at most {most}");
            Err(FieldError::new(&field(part), value, want))
        };
        match &traffic.demand {
            Demand::Steady { load } => positive("load", *load, 1e6)?,
            Demand::Burst { load, within_ns } => {
                positive("load", *load, 1e6)?;
                let shortest = traffic
                    .limits
                    .iter()
                    .map(|limit| limit.window.nanos())
                    .min();
                let most = shortest.unwrap_or(0) / 1_000_000;
                within(&field("burst_ms"), within_ns / 1_000_000, 1, most)?;
            }
            Demand::Crowd { load, times, .. } => {
                positive("load", *load, 1e6)?;
                positive("crowd.times", *times, 1e6)?;
            }
            Demand::Zipf { per_s, exponent } => {
                positive("requests_per_s", *per_s, 1e7)?;
                positive("zipf", *exponent, 10.0)?;
            }
            Demand::Logged(_) => {}
        }
        match traffic.place {
            Place::Node(node) => within(&field("node"), node as u64, 0, self.nodes as u64 - 1),
            Place::Connections(most) => within(&field("connections"), most, 1, 1_000_000),
            Place::Moving(every_ns) => within(
                &field("move_every"),
                every_ns / 1_000_000,
                1,
                LONGEST_S * 1_000,
            ),
            Place::PerKey | Place::Random => Ok(()),
        }
    }

    fn check_fault(&self, name: &str, fault: &Outage) -> Result<(), FieldError> {
        let field = |part: &str| format!("{name}.{part}");
        let last_ms = self.measured_ns / 1_000_000;
        within(&field("at"), fault.at_ns / 1_000_000, 0, last_ms)?;
        match fault.what {
            What::Down { node } | What::Stopped { node } | What::CutOff { node } => {
                within(&field("node"), node as u64, 0, self.nodes as u64 - 1)
            }
            What::BusOut => Ok(()),
            What::Rolling { every_ns } => {
                let Some(for_ns) = fault.for_ns else {
                    return Err(FieldError::new(
                        &field("for"),
                        "missing",
                        "a length of time",
                    ));
                };
                let (every_ms, for_ms) = (every_ns / 1_000_000, for_ns / 1_000_000);
                within(&field("every"), every_ms, for_ms.max(1), last_ms)
            }
        }
    }

    /// About how many requests an entry makes.
    fn requests(&self, traffic: &Traffic) -> f64 {
        let seconds = (self.warm_up_ns + self.measured_ns) as f64 / SECOND_NS as f64;
        let cost = (traffic.cost.0 + traffic.cost.1) as f64 / 2.0;
        let rates = traffic.limits.iter().map(Limit::per_s);
        let of_limits = rates.sum::<f64>() * traffic.keys as f64 / cost * seconds;
        match &traffic.demand {
            Demand::Steady { load } | Demand::Burst { load, .. } => of_limits * load,
            Demand::Crowd {
                load,
                times,
                for_ns,
                ..
            } => {
                let crowd_s = (*for_ns).min(self.measured_ns) as f64 / SECOND_NS as f64;
                of_limits * load * (1.0 + (times - 1.0).max(0.0) * crowd_s / seconds)
            }
            Demand::Zipf { per_s, .. } => per_s * seconds * traffic.limits.len() as f64,
            Demand::Logged(log) => (log.len() * traffic.limits.len()) as f64,
        }
    }
}

impl Limit {
    /// Units a second, in the mean.
    pub(super) fn per_s(&self) -> f64 {
        self.units as f64 * 1_000.0 / self.window.get() as f64
    }
}

fn within(field: &str, value: u64, least: u64, most: u64) -> Result<(), FieldError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let want = format!("{least} to {most}");
    Err(FieldError::new(field, value, want))
}
