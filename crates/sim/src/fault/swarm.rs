//! A run drawn from a seed: which faults, how much of each, on what fleet, under which traffic. Most runs have a few
//! kinds of fault and not all, since faults hide each other (Groce and others, "Swarm testing", 2012).

use lease::bucket::Subject;
use lease::config::Config;
use lease::terms::{Mode, OnDegraded, Shape, Terms};

use super::{Fault, Planned, World};
use crate::chance::Chance;
use crate::fleet::{At, Key, Setup, Stores};
use crate::net::{Delay, Link};
use crate::traffic::{Arrivals, Choice, Place, Stream};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const DAY: i64 = 86_400 * SECOND as i64;

/// What a seed may draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swarm {
    /// The most members; at least 2.
    pub most_nodes: usize,
    /// How long faults go on, in nanoseconds, at most.
    pub most_faulty_ns: u64,
    /// What there is besides fixed windows.
    pub world: World,
}

impl Default for Swarm {
    fn default() -> Self {
        Self {
            most_nodes: 7,
            most_faulty_ns: 4 * SECOND,
            world: World::Windows,
        }
    }
}

/// The run of a seed.
#[must_use]
pub fn swarm(seed: u64, swarm: Swarm) -> Setup {
    let mut chance = Chance::new(seed ^ 0x7377_6172_6d00);
    let nodes = chance.between(2, swarm.most_nodes.max(2) as u64) as usize;
    let mut keys: Vec<Key> = (0..chance.between(1, 3))
        .map(|_| key(&mut chance))
        .collect();
    let mut own = Chance::new(seed ^ 0x776f_726c_6400);
    let world = swarm.world.drawn(&mut own);
    world.limits(&mut keys, &mut own);
    let most_faulty_ns = world.lasts(swarm.most_faulty_ns);
    let heal = At(chance.between(most_faulty_ns / 4, most_faulty_ns));
    // A process that starts again is behind its floor for up to a second; holdback, absence and authority take a few
    // rounds and the window that has begun.
    let longest = keys
        .iter()
        .map(|key| key.terms.window_ns)
        .max()
        .unwrap_or(0);
    let measure = heal.plus(SECOND + 3 * SECOND / 10 + longest);
    let end = measure.plus(3 * longest + SECOND / 10);
    let streams = keys
        .iter()
        .enumerate()
        .flat_map(|(place, key)| streams(&mut chance, place, key, nodes, heal, end))
        .collect();
    let link = link(&mut chance);
    let mut draw = Draw {
        chance: &mut chance,
        nodes,
        keys: &keys,
        until: heal.0,
        plan: Vec::new(),
        revision: 1,
    };
    draw.all(link);
    let mut plan = draw.plan;
    plan.sort_by_key(|planned| planned.at);
    let wild = chance.happens(0.2);
    let clock_errors_ns = (0..nodes)
        .map(|_| {
            if wild && chance.happens(0.5) {
                chance.below(2 * DAY as u64) as i64 - DAY
            } else {
                chance.below(100 * MS) as i64 - 50 * MS as i64
            }
        })
        .collect();
    let mut setup = Setup {
        seed,
        nodes,
        config: config(&mut chance),
        keys,
        streams,
        link,
        clock_errors_ns,
        disk_ns: [MS, 20 * MS, 400 * MS][chance.index(3)],
        judged: !wild && !plan.iter().any(|planned| planned.fault.blurs()),
        plan,
        heal: Some(heal),
        measure,
        end,
        stores: Stores::default(),
    };
    world.surround(&mut setup, &mut own);
    setup
}

fn key(chance: &mut Chance) -> Key {
    let units = match chance.index(4) {
        0 => chance.between(1, 4),
        1 | 2 => chance.between(5, 40),
        _ => chance.between(41, 400),
    };
    Key {
        subject: Subject(u128::from(chance.bits()) << 64 | u128::from(chance.bits())),
        terms: Terms {
            units,
            window_ns: chance.between(100, 1_000) * MS,
            shape: Shape::FixedWindow,
            durable: false,
            on_degraded: if chance.happens(0.2) {
                OnDegraded::FailClosed
            } else {
                OnDegraded::FairShare
            },
            mode: Mode::Lease,
            revision: 1,
        },
    }
}

/// While faults go on, as much as breaks something: several times the limit, from all sides and in bursts. Afterwards
/// 1.5 times the limit at one node, which is what must be admitted.
fn streams(
    chance: &mut Chance,
    place: usize,
    key: &Key,
    nodes: usize,
    heal: At,
    end: At,
) -> Vec<Stream> {
    let per_s = key.terms.units as f64 * 1e9 / key.terms.window_ns as f64;
    let most_cost = if chance.happens(0.2) { 5 } else { 1 };
    let faulty = |place_of: Place, arrivals: Arrivals| Stream {
        keys: Choice::One(place),
        place: place_of,
        arrivals,
        cost: (1, most_cost),
        from: At(0),
        until: heal,
    };
    let mut streams = Vec::new();
    let times = 1.0 + 3.0 * chance.fraction();
    let steady = Arrivals::Steady {
        per_s: per_s * times,
    };
    let place_of = match chance.index(4) {
        0 => Place::Node(chance.index(nodes)),
        1 => Place::Random,
        2 => Place::Moving(chance.between(50, 900) * MS),
        _ => Place::Connections(nodes as u64),
    };
    streams.push(faulty(place_of, steady));
    if chance.happens(0.4) {
        let bursts = Arrivals::Bursts {
            count: key.terms.units,
            span_ns: 5 * MS,
            every_ns: key.terms.window_ns,
        };
        streams.push(faulty(Place::Random, bursts));
    }
    streams.push(Stream {
        keys: Choice::One(place),
        place: Place::Node(chance.index(nodes)),
        arrivals: Arrivals::Steady { per_s: per_s * 1.5 },
        cost: (1, 1),
        from: heal,
        until: end,
    });
    streams
}

fn link(chance: &mut Chance) -> Link {
    let delay = match chance.index(3) {
        0 => Delay::LAN,
        1 => Delay {
            low_ns: 100_000,
            high_ns: 5 * MS,
            worst_ns: 60 * MS,
            slow_share: 0.05,
        },
        _ => Delay {
            low_ns: 50_000,
            high_ns: 300_000,
            worst_ns: 900_000,
            slow_share: 0.01,
        },
    };
    Link { delay, ..Link::LAN }
}

fn config(chance: &mut Chance) -> Config {
    let mut config = Config::default();
    if chance.happens(0.3) {
        config.issue_percent = chance.between(10, 100) as u32;
        config.lone_issue_percent = config.issue_percent.max(chance.between(10, 100) as u32);
    }
    if chance.happens(0.2) {
        config.reserve_percent = chance.between(1, 20) as u32;
    }
    if chance.happens(0.2) {
        config.idle_pace = chance.between(1, 3) as u32;
    }
    if chance.happens(0.3) {
        config.degraded_after = std::time::Duration::from_millis(chance.between(100, 1_000));
    }
    config
}

/// Draws a plan, one kind of fault after another.
struct Draw<'a> {
    chance: &'a mut Chance,
    nodes: usize,
    keys: &'a [Key],
    until: u64,
    plan: Vec<Planned>,
    revision: u64,
}

impl Draw<'_> {
    fn all(&mut self, link: Link) {
        let kinds: [fn(&mut Self, Link); 12] = [
            Self::crashes,
            Self::crash_all,
            Self::rolling,
            Self::partitions,
            Self::one_way,
            Self::bus,
            Self::bad_links,
            Self::slow,
            Self::stops,
            Self::clocks,
            Self::evictions,
            Self::policies,
        ];
        // A fifth of all runs are nearly free of faults, a fifth are a storm.
        let likely = [0.08, 0.25, 0.4, 0.4, 0.7][self.chance.index(5)];
        for kind in kinds {
            if self.chance.happens(likely) {
                kind(self, link);
            }
        }
    }

    fn put(&mut self, at: u64, fault: Fault) {
        if at < self.until {
            self.plan.push(Planned { at: At(at), fault });
        }
    }

    fn time(&mut self) -> u64 {
        self.chance.below(self.until)
    }

    fn node(&mut self) -> usize {
        self.chance.index(self.nodes)
    }

    fn some(&mut self, most: u64) -> u64 {
        self.chance.between(1, most)
    }

    /// From one of three scales: within a round, within a few, or longer than a window.
    fn while_ns(&mut self) -> u64 {
        match self.chance.index(3) {
            0 => self.chance.between(1, 25) * MS,
            1 => self.chance.between(25, 300) * MS,
            _ => self.chance.between(300, 2_000) * MS,
        }
    }

    fn crashes(&mut self, _: Link) {
        for _ in 0..self.some(6) {
            let (mut at, node) = (self.time(), self.node());
            // Again as soon as it is up, now and then.
            let times = if self.chance.happens(0.3) { 2 } else { 1 };
            for _ in 0..times {
                self.put(at, Fault::Crash(node));
                at += self.while_ns();
                self.put(at, Fault::Start(node));
                at += self.chance.between(1, 80) * MS;
            }
        }
    }

    fn crash_all(&mut self, _: Link) {
        let at = self.time();
        for node in 0..self.nodes {
            self.put(at, Fault::Crash(node));
            let back = at + self.while_ns();
            self.put(back, Fault::Start(node));
        }
    }

    fn rolling(&mut self, _: Link) {
        let mut at = self.time();
        let down = self.chance.between(1, 200) * MS;
        for node in 0..self.nodes {
            self.put(at, Fault::Crash(node));
            self.put(at + down, Fault::Start(node));
            at += down + self.chance.between(1, 200) * MS;
        }
    }

    fn partitions(&mut self, _: Link) {
        for _ in 0..self.some(3) {
            let (at, back) = self.span();
            let side = self.chance.bits();
            for a in 0..self.nodes {
                for b in 0..self.nodes {
                    if (side >> a & 1) != (side >> b & 1) {
                        self.put(at, Fault::Cut(a, b));
                        self.put(back, Fault::Mend(a, b));
                    }
                }
            }
        }
    }

    fn span(&mut self) -> (u64, u64) {
        let at = self.time();
        (at, at + self.while_ns())
    }

    fn one_way(&mut self, _: Link) {
        for _ in 0..self.some(5) {
            let (at, back) = self.span();
            let (a, b) = (self.node(), self.node());
            if a != b {
                self.put(at, Fault::Cut(a, b));
                self.put(back, Fault::Mend(a, b));
            }
        }
    }

    fn bus(&mut self, _: Link) {
        let (at, back) = self.span();
        self.put(at, Fault::BusOut);
        self.put(back, Fault::BusBack);
    }

    fn bad_links(&mut self, link: Link) {
        for _ in 0..self.some(2) {
            let (at, back) = self.span();
            let bad = Link {
                delay: link.delay,
                loss: self.chance.fraction() * 0.6,
                duplicated: self.chance.fraction() * 0.5,
                held: self.chance.fraction() * 0.5,
                held_ns: self.chance.between(5, 400) * MS,
            };
            self.put(at, Fault::Links(bad));
            self.put(back, Fault::Links(link));
        }
    }

    fn slow(&mut self, _: Link) {
        let (at, back) = self.span();
        let node = self.node();
        let ns = self.chance.between(1, 100) * MS;
        self.put(at, Fault::Slow(node, ns));
        self.put(back, Fault::Slow(node, 0));
    }

    fn stops(&mut self, _: Link) {
        for _ in 0..self.some(3) {
            let (at, back) = self.span();
            let node = self.node();
            self.put(at, Fault::Stop(node));
            self.put(back, Fault::Continue(node));
        }
    }

    fn clocks(&mut self, _: Link) {
        for _ in 0..self.some(4) {
            let (at, node) = (self.time(), self.node());
            let fault = match self.chance.index(4) {
                0 => Fault::Step(node, if self.chance.happens(0.5) { DAY } else { -DAY }),
                1 | 2 => Fault::Step(node, self.chance.below(800 * MS) as i64 - 400 * MS as i64),
                _ => Fault::Drift(node, self.chance.below(1_000) as i64 - 500),
            };
            self.put(at, fault);
        }
    }

    fn evictions(&mut self, _: Link) {
        for _ in 0..self.some(10) {
            let (at, node) = (self.time(), self.node());
            let key = self.chance.index(self.keys.len());
            self.put(at, Fault::Evict(node, key));
        }
    }

    fn policies(&mut self, _: Link) {
        for _ in 0..self.some(2) {
            let at = self.time();
            let key = self.chance.index(self.keys.len());
            self.revision += 1;
            let (units, revision) = (self.chance.between(1, 60), self.revision);
            for machine in 0..self.nodes {
                let reached = at + self.chance.below(100 * MS);
                self.put(
                    reached,
                    Fault::Policy {
                        machine,
                        key,
                        units,
                        revision,
                    },
                );
            }
        }
    }
}
