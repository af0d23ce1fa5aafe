//! One stream of requests.

use std::sync::Arc;

use super::keys::Choice;
use crate::chance::Chance;
use crate::fleet::At;

/// When requests come.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// Independently of each other, so many a second in the mean.
    Steady {
        /// Requests a second.
        per_s: f64,
    },
    /// All at once, again and again: `count` requests within `span_ns`, at a random moment of every `every_ns`.
    Bursts {
        /// How many.
        count: u64,
        /// Within how many nanoseconds.
        span_ns: u64,
        /// How far the periods are apart, in nanoseconds.
        every_ns: u64,
    },
    /// Steady, but `times` as many from `from` until `until`.
    Crowd {
        /// Requests a second outside the crowd.
        per_s: f64,
        /// How many times more in it.
        times: f64,
        /// When it comes.
        from: At,
        /// When it goes.
        until: At,
    },
    /// As a log tells, in order of time; the log's keys are counted from `first_key` on in the run's list.
    Logged {
        /// The requests.
        log: Arc<[Logged]>,
        /// Where the log's keys begin in the run's list.
        first_key: usize,
    },
}

/// One request of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// When, counted from the stream's beginning, in nanoseconds.
    pub after_ns: u64,
    /// Its key, among the log's.
    pub key: u32,
    /// The node that it came to; none if the log does not tell, and the stream decides.
    pub node: Option<u16>,
}

/// Which node a request comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Always this one.
    Node(usize),
    /// Always the same for one key: connections live long, and one client has one.
    PerKey,
    /// One of a key's connections, each to a node of its own choice; a key has from one to so many.
    Connections(u64),
    /// Any.
    Random,
    /// The same for one key until it moves on, every so many nanoseconds.
    Moving(u64),
}

/// What a stream is.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Which keys.
    pub keys: Choice,
    /// Which nodes.
    pub place: Place,
    /// When.
    pub arrivals: Arrivals,
    /// Units a request asks for, at least and at most.
    pub cost: (u64, u64),
    /// No request before.
    pub from: At,
    /// No request from then on.
    pub until: At,
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: At,
    pub(crate) key: usize,
    pub(crate) node: usize,
    pub(crate) cost: u64,
}

/// A stream that flows: its next request is always known.
#[derive(Debug)]
pub(crate) struct Flow {
    stream: Stream,
    chance: Chance,
    nodes: u64,
    /// What decides each key's nodes: the same for all of a run's streams.
    salt: u64,
    /// Of a burst: when each of its requests comes, latest first, and which period is next.
    burst: Vec<At>,
    period: u64,
    /// Of a log: which of its requests is next.
    logged: usize,
    next: Option<Arrival>,
}

impl Flow {
    pub(crate) fn new(stream: Stream, nodes: usize, salt: u64, chance: Chance) -> Self {
        let mut flow = Self {
            chance,
            nodes: nodes as u64,
            salt,
            burst: Vec::new(),
            period: 0,
            logged: 0,
            next: None,
            stream,
        };
        let from = flow.stream.from;
        flow.advance(from);
        flow
    }

    /// When the next request comes.
    pub(crate) fn when(&self) -> Option<At> {
        self.next.map(|arrival| arrival.at)
    }

    /// The next request; the one after it is drawn.
    pub(crate) fn take(&mut self) -> Option<Arrival> {
        let arrival = self.next.take()?;
        self.advance(arrival.at);
        Some(arrival)
    }

    fn advance(&mut self, after: At) {
        let at = match self.stream.arrivals {
            Arrivals::Steady { per_s } => self.poisson(after, per_s),
            Arrivals::Bursts {
                count,
                span_ns,
                every_ns,
            } => self.next_of_bursts(count, span_ns, every_ns.max(1)),
            Arrivals::Crowd {
                per_s,
                times,
                from,
                until,
            } => self.next_of_crowd(after, per_s, times, from, until),
            Arrivals::Logged { .. } => {
                self.next = self.next_logged();
                return;
            }
        };
        self.next = (at < self.stream.until).then(|| {
            let key = self.stream.keys.draw(&mut self.chance);
            Arrival {
                at,
                key,
                node: self.node(key, at),
                cost: self.chance.between(self.stream.cost.0, self.stream.cost.1),
            }
        });
    }

    fn next_logged(&mut self) -> Option<Arrival> {
        let Arrivals::Logged { log, first_key } = &self.stream.arrivals else {
            return None;
        };
        let request = *log.get(self.logged)?;
        let key = first_key + request.key as usize;
        let at = self.stream.from.plus(request.after_ns);
        if at >= self.stream.until {
            return None;
        }
        self.logged += 1;
        Some(Arrival {
            at,
            key,
            node: match request.node {
                Some(node) => usize::from(node) % self.nodes as usize,
                None => self.node(key, at),
            },
            cost: self.chance.between(self.stream.cost.0, self.stream.cost.1),
        })
    }

    fn poisson(&mut self, after: At, per_s: f64) -> At {
        if per_s <= 0.0 {
            return At::NEVER;
        }
        after.plus(self.chance.wait(1e9 / per_s) as u64)
    }

    /// The crowd's requests and the steady ones are one process whose rate changes twice; waits have no memory, so one
    /// that crosses a change is drawn anew from there.
    fn next_of_crowd(&mut self, after: At, per_s: f64, times: f64, from: At, until: At) -> At {
        let mut after = after;
        loop {
            let (rate, change) = if after < from {
                (per_s, from)
            } else if after < until {
                (per_s * times, until)
            } else {
                (per_s, At::NEVER)
            };
            let at = self.poisson(after, rate);
            if at < change || change == At::NEVER {
                return at;
            }
            after = change;
        }
    }

    fn next_of_bursts(&mut self, count: u64, span_ns: u64, every_ns: u64) -> At {
        while self.burst.is_empty() {
            let start = self.stream.from.plus(self.period.saturating_mul(every_ns));
            if start >= self.stream.until || count == 0 {
                return At::NEVER;
            }
            self.period += 1;
            let first = start.plus(self.chance.below(every_ns.saturating_sub(span_ns).max(1)));
            let chance = &mut self.chance;
            self.burst
                .extend((0..count).map(|_| first.plus(chance.below(span_ns.max(1)))));
            self.burst.sort_unstable_by(|a, b| b.cmp(a));
        }
        self.burst.pop().unwrap_or(At::NEVER)
    }

    fn node(&mut self, key: usize, at: At) -> usize {
        let pick = match self.stream.place {
            Place::Node(node) => return node % self.nodes as usize,
            Place::Random => return self.chance.below(self.nodes) as usize,
            Place::PerKey => self.mix(key, 0),
            Place::Moving(every_ns) => self.mix(key, at.0 / every_ns.max(1)),
            Place::Connections(most) => {
                let count = 1 + self.mix(key, u64::MAX) % most.max(1);
                let connection = self.chance.below(count);
                self.mix(key, connection)
            }
        };
        (pick % self.nodes) as usize
    }

    fn mix(&self, key: usize, number: u64) -> u64 {
        Chance::new(
            self.salt
                ^ (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93),
        )
        .bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(place: Place, arrivals: Arrivals) -> Vec<Arrival> {
        let stream = Stream {
            keys: Choice::One(0),
            place,
            arrivals,
            cost: (1, 1),
            from: At(0),
            until: At(10_000_000_000),
        };
        let mut flow = Flow::new(stream, 5, 1, Chance::new(9));
        std::iter::from_fn(|| flow.take()).collect()
    }

    #[test]
    fn steady_is_as_many_as_it_says_and_pinned() {
        let seen = all(Place::PerKey, Arrivals::Steady { per_s: 1_000.0 });
        assert!((9_700..10_300).contains(&seen.len()), "{}", seen.len());
        assert!(seen.iter().all(|a| a.node == seen[0].node));
        assert!(seen.is_sorted_by_key(|a| a.at));
    }

    #[test]
    fn random_reaches_all_and_moving_moves() {
        for place in [Place::Random, Place::Moving(1_000_000_000)] {
            let seen = all(place, Arrivals::Steady { per_s: 1_000.0 });
            let nodes: std::collections::BTreeSet<_> = seen.iter().map(|a| a.node).collect();
            assert!(nodes.len() > 2, "{place:?}: {nodes:?}");
        }
    }

    #[test]
    fn a_burst_comes_once_a_period_and_is_short() {
        let bursts = Arrivals::Bursts {
            count: 7,
            span_ns: 5_000_000,
            every_ns: 1_000_000_000,
        };
        let seen = all(Place::Random, bursts);
        assert_eq!(seen.len(), 70);
        for burst in seen.chunks(7) {
            assert!(burst[6].at.0 - burst[0].at.0 < 5_000_000);
        }
    }

    #[test]
    fn a_log_comes_as_it_is_told() {
        let request = |after_ns, key, node| Logged {
            after_ns,
            key,
            node,
        };
        let log: Arc<[Logged]> = Arc::new([
            request(0, 0, Some(4)),
            request(5, 1, None),
            request(5, 0, Some(2)),
            request(20_000_000_000, 0, Some(1)),
        ]);
        let arrivals = Arrivals::Logged { log, first_key: 7 };
        let seen = all(Place::Node(3), arrivals);
        let told: Vec<_> = seen.iter().map(|a| (a.at.0, a.key, a.node)).collect();
        assert_eq!(told, [(0, 7, 4), (5, 8, 3), (5, 7, 2)]);
    }

    #[test]
    fn a_crowd_comes_and_goes() {
        let crowd = Arrivals::Crowd {
            per_s: 100.0,
            times: 20.0,
            from: At(4_000_000_000),
            until: At(5_000_000_000),
        };
        let seen = all(Place::Random, crowd);
        let within = seen
            .iter()
            .filter(|a| (4_000_000_000..5_000_000_000).contains(&a.at.0))
            .count();
        assert!((1_850..2_150).contains(&within), "{within}");
        assert!((800..1_000).contains(&(seen.len() - within)));
    }
}
