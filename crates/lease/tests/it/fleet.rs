//! A few nodes, their tables and a network, in one thread and one order. Every admission is counted, and the bound (S6)
//! is checked after each: what was spent and what still lies in live tables never exceed the allowance.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_lease::bucket::{Bucket, Subject, WindowId};
use leasehold_lease::config::Config;
use leasehold_lease::credit::{Credit, Level};
use leasehold_lease::durable::{Authorized, Change, StoreAnswer};
use leasehold_lease::id::{Epoch, NodeId, ViewId};
use leasehold_lease::message::Envelope;
use leasehold_lease::node::{Boot, Event, FastPath, Identity, Input, Node, Output};
use leasehold_lease::terms::{Mode, OnDegraded, Shape, Terms};
use leasehold_lease::time::{Instant, Now, Wall};
use leasehold_lease::view::View;

pub const MS: u64 = 1_000_000;

/// What the network holds back arrives at this time or later.
pub const HELD: u64 = u64::MAX / 2;

/// A fleet's base wall clock: some time after 2025, and no multiple of anything.
pub const BASE: u64 = 40_000_000_123_456_789;

pub fn terms(units: u64, window_ms: u64) -> Terms {
    Terms {
        units,
        window_ns: window_ms * MS,
        shape: Shape::FixedWindow,
        durable: false,
        on_degraded: OnDegraded::FairShare,
        mode: Mode::Lease,
        revision: 1,
    }
}

/// One node's decision table.
#[derive(Debug, Default)]
pub struct Table {
    pub levels: BTreeMap<Bucket, Level>,
    /// The table's own clock: windows that are over take no credit.
    pub wall: Wall,
    pub full: bool,
}

impl Table {
    pub fn spend(&mut self, bucket: Bucket, cost: u64) -> bool {
        let level = self.levels.entry(bucket).or_default();
        if level.available < cost {
            return false;
        }
        level.available -= cost;
        true
    }
}

impl Credit for Table {
    fn install(&mut self, bucket: Bucket, terms: &Terms, units: u64) -> bool {
        if self.full || bucket.end(terms.slot_ns()) <= self.wall {
            return false;
        }
        self.levels.entry(bucket).or_default().available += units;
        true
    }

    fn take_back(&mut self, bucket: Bucket, _: &Terms, keep: u64) -> u64 {
        let Some(level) = self.levels.get_mut(&bucket) else {
            return 0;
        };
        let taken = level.available.saturating_sub(keep);
        level.available -= taken;
        taken
    }

    fn read(&mut self, bucket: Bucket, _: &Terms) -> Option<Level> {
        self.levels.get(&bucket).copied()
    }
}

#[derive(Debug)]
pub struct Member {
    pub id: NodeId,
    pub node: Option<Node>,
    pub table: Table,
    pub floor: Wall,
    pub starts: u64,
    /// This node's wall clock is so far from the fleet's, in nanoseconds.
    pub skew: i64,
    /// Requests that wait, by bucket: cost, and until when.
    waiting: BTreeMap<Bucket, Vec<(u64, u64)>>,
}

/// What the network does to one envelope: when each copy arrives.
pub type Network = Box<dyn FnMut(NodeId, NodeId, u64) -> Vec<u64>>;

pub struct Fleet {
    pub now: u64,
    pub members: Vec<Member>,
    pub config: Config,
    pub limits: BTreeMap<Subject, Terms>,
    pub spent: BTreeMap<Bucket, u64>,
    pub admitted: u64,
    pub denied: u64,
    pub network: Network,
    /// How long saving a floor takes.
    pub disk: u64,
    /// The store of durable limits, and whether it often gives no answer.
    pub store: BTreeMap<Bucket, Authorized>,
    pub store_fails: bool,
    /// Changes are kept back, and answered by `Unknown`: they land when [`Fleet::land`] says so.
    pub store_late: bool,
    pub late: Vec<(Identity, Change)>,
    store_turn: u64,
    /// What operators were told.
    pub events: Vec<(NodeId, Event)>,
    flying: BTreeMap<(u64, u64), (NodeId, Deliver)>,
    flown: u64,
    /// The largest allowance that was in force, where a policy has changed.
    pub most: BTreeMap<Subject, u64>,
    /// The view that nodes start with.
    pub view: View,
}

enum Deliver {
    Envelope(Box<Envelope>),
    FloorSaved {
        start: u64,
        floor: Wall,
    },
    Stored {
        start: u64,
        bucket: Bucket,
        answer: StoreAnswer,
    },
}

impl Fleet {
    pub fn new(count: u64, config: Config, network: Network) -> Self {
        let members = (1..=count)
            .map(|id| Member {
                id: NodeId(id),
                node: None,
                table: Table::default(),
                floor: Wall(0),
                starts: 0,
                skew: 0,
                waiting: BTreeMap::new(),
            })
            .collect();
        Self {
            now: 0,
            members,
            config,
            limits: BTreeMap::new(),
            spent: BTreeMap::new(),
            admitted: 0,
            denied: 0,
            network,
            disk: MS,
            store: BTreeMap::new(),
            store_fails: false,
            store_late: false,
            late: Vec::new(),
            store_turn: 0,
            events: Vec::new(),
            flying: BTreeMap::new(),
            flown: 0,
            most: BTreeMap::new(),
            view: View::fixed(ViewId(77), (1..=count).map(NodeId).collect()),
        }
    }

    pub fn clock(&self, index: usize) -> Now {
        let wall = (BASE + self.now).saturating_add_signed(self.members[index].skew);
        Now {
            instant: Instant(self.now),
            wall: Wall(wall),
        }
    }

    pub fn start(&mut self, index: usize) {
        let now = self.clock(index);
        let (view, config) = (self.view.clone(), self.config.clone());
        let member = &mut self.members[index];
        member.starts += 1;
        let me = Identity {
            node: member.id,
            epoch: Epoch {
                count: member.starts,
                nonce: member.id.0 * 1_000 + member.starts,
            },
        };
        let boot = Boot {
            floor: member.floor,
            first: member.starts == 1,
        };
        let seed = member.id.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ member.starts;
        member.node = Some(Node::start(config, me, view, boot, seed, now).unwrap());
        self.drain(index);
    }

    pub fn start_all(&mut self) {
        for index in 0..self.members.len() {
            self.start(index);
        }
    }

    /// The process is gone, with its table.
    pub fn crash(&mut self, index: usize) {
        let member = &mut self.members[index];
        member.node = None;
        member.table = Table::default();
        self.denied += member.waiting.values().map(Vec::len).sum::<usize>() as u64;
        member.waiting.clear();
    }

    /// Questions that the fast paths of all nodes have put.
    pub fn asked(&self) -> u64 {
        let nodes = self.members.iter().filter_map(|it| it.node.as_ref());
        nodes.map(|node| node.stats().fast_path_asked).sum()
    }

    pub fn bucket(&self, index: usize, subject: Subject) -> Bucket {
        subject.bucket_at(self.limits[&subject].slot_ns(), self.clock(index).wall)
    }

    pub fn request(&mut self, index: usize, subject: Subject, cost: u64) {
        let bucket = self.bucket(index, subject);
        if let Some(level) = self.members[index].table.levels.get_mut(&bucket) {
            level.demand += cost;
        } else {
            let level = Level {
                available: 0,
                demand: cost,
            };
            self.members[index].table.levels.insert(bucket, level);
        }
        if self.members[index].node.is_none() {
            self.denied += 1;
            return;
        }
        if self.spend(index, bucket, cost) {
            return;
        }
        let deadline = self.now + MS;
        let terms = self.limits[&bucket.subject];
        let waiting = self.members[index].waiting.entry(bucket).or_default();
        waiting.push((cost, deadline));
        let need = Input::Need {
            bucket,
            terms,
            cost,
            waits: true,
        };
        self.input(index, need);
    }

    fn spend(&mut self, index: usize, bucket: Bucket, cost: u64) -> bool {
        let spent = self.members[index].table.spend(bucket, cost);
        if spent {
            self.admitted += cost;
            *self.spent.entry(bucket).or_default() += cost;
            self.check(bucket);
        }
        spent
    }

    pub fn input(&mut self, index: usize, input: Input) {
        let now = self.clock(index);
        let member = &mut self.members[index];
        member.table.wall = now.wall;
        if let Some(node) = member.node.as_mut() {
            node.handle(now, input, &mut member.table);
        }
        self.drain(index);
    }

    fn drain(&mut self, index: usize) {
        loop {
            let member = &mut self.members[index];
            let from = member.id;
            let Some(output) = member.node.as_mut().and_then(Node::poll_output) else {
                return;
            };
            match output {
                Output::Send(envelope) => {
                    let to = envelope.to;
                    for at in (self.network)(from, to, self.now) {
                        self.flown += 1;
                        let deliver = Deliver::Envelope(envelope.clone());
                        self.flying.insert((at, self.flown), (to, deliver));
                    }
                }
                Output::SaveFloor(floor) => {
                    self.flown += 1;
                    let start = member.starts;
                    let deliver = Deliver::FloorSaved { start, floor };
                    self.flying
                        .insert((self.now + self.disk, self.flown), (from, deliver));
                }
                Output::Wake {
                    bucket,
                    count,
                    outcome,
                } => {
                    let line = member.waiting.get_mut(&bucket).expect("somebody waits");
                    assert!(count <= line.len(), "{count} of {line:?} at {bucket:?}");
                    let woken: Vec<_> = line.drain(..count).collect();
                    for (cost, deadline) in woken {
                        assert!(self.now <= deadline, "{bucket:?} waits past its deadline");
                        if outcome == FastPath::Credit && self.spend(index, bucket, cost) {
                            continue;
                        }
                        self.denied += 1;
                    }
                }
                Output::Load(bucket) => {
                    let found = self.store.get(&bucket).copied();
                    self.store_answers(index, bucket, StoreAnswer::Is(found));
                }
                Output::Authorize(change) => {
                    let me = self.members[index].node.as_ref().unwrap().identity();
                    let bucket = change.bucket;
                    self.store_turn += 1;
                    let answer = if self.store_late {
                        self.late.push((me, change));
                        StoreAnswer::Unknown
                    } else if self.store_fails && self.store_turn.is_multiple_of(5) {
                        if self.store_turn.is_multiple_of(2) {
                            self.change(me, change);
                        }
                        StoreAnswer::Unknown
                    } else {
                        self.change(me, change)
                    };
                    self.store_answers(index, bucket, answer);
                }
                Output::Event(event) => self.events.push((from, event)),
            }
        }
    }

    fn store_answers(&mut self, index: usize, bucket: Bucket, answer: StoreAnswer) {
        self.flown += 1;
        let (start, id) = (self.members[index].starts, self.members[index].id);
        let deliver = Deliver::Stored {
            start,
            bucket,
            answer,
        };
        self.flying
            .insert((self.now + 2 * MS, self.flown), (id, deliver));
    }

    /// The store's compare-and-set, as `store` has it.
    fn change(&mut self, me: Identity, change: Change) -> StoreAnswer {
        let found = self.store.get(&change.bucket).copied();
        if found != change.expected {
            return StoreAnswer::Is(found);
        }
        let (base, version) = match found {
            None => (0, 1),
            Some(it) if it.fence == me => (it.base, it.version + 1),
            Some(it) => (it.total, it.version + 1),
        };
        if change.to < base {
            return StoreAnswer::Refused;
        }
        let kept = Authorized {
            total: change.to,
            base,
            fence: me,
            version,
        };
        self.store.insert(change.bucket, kept);
        StoreAnswer::Kept(kept)
    }

    /// What was kept back reaches the store now; nobody hears of it.
    pub fn land(&mut self) {
        for (me, change) in std::mem::take(&mut self.late) {
            self.change(me, change);
        }
    }

    /// S6, for one bucket.
    pub fn check(&self, bucket: Bucket) {
        let terms = self.limits[&bucket.subject];
        if terms.shape == Shape::SlidingWindow {
            // Over every span that the bucket is part of.
            let slots = terms.span_slots();
            for last in bucket.window.0..=bucket.window.0 + slots {
                let spent: u64 = (last - slots..=last)
                    .map(|window| Bucket {
                        window: WindowId(window),
                        ..bucket
                    })
                    .filter_map(|slot| self.spent.get(&slot))
                    .sum();
                let most = self
                    .most
                    .get(&bucket.subject)
                    .map_or(terms.units, |most| terms.units.max(*most));
                assert!(
                    spent <= most,
                    "sliding at {} ms: {bucket:?} {spent} of {most}",
                    self.now / MS
                );
            }
            return;
        }
        if let Shape::TokenBucket { burst } = terms.shape {
            let most = self.most.get(&bucket.subject).copied().unwrap_or(0);
            let terms = Terms {
                units: terms.units.max(most),
                ..terms
            };
            // In every run of slots that ends here: no more than the burst and what flowed in after the first.
            let mut spent = 0;
            let mut inflow = 0;
            for back in 0..200 {
                let slot = bucket.back(back);
                spent += self.spent.get(&slot).copied().unwrap_or(0);
                assert!(
                    spent <= burst + inflow,
                    "tokens at {} ms: {bucket:?} {spent} in {back} slots of {burst} + {inflow}",
                    self.now / MS
                );
                // Of two rates in turn, the slower may have the odd unit of a slot.
                inflow += if most > 0 {
                    terms.units.div_ceil(terms.window_ns / terms.slot_ns())
                } else {
                    terms.inflow(slot)
                };
            }
            return;
        }
        let live: u64 = self
            .members
            .iter()
            .filter(|member| member.node.is_some())
            .filter_map(|member| member.table.levels.get(&bucket))
            .map(|level| level.available)
            .sum();
        let spent = self.spent.get(&bucket).copied().unwrap_or(0);
        let units = self.limits[&bucket.subject].units;
        let allowance = self
            .most
            .get(&bucket.subject)
            .map_or(units, |most| units.max(*most));
        assert!(
            spent + live <= allowance,
            "S6 at {} ms: {bucket:?} spent {spent}, live {live}, allowance {allowance}",
            self.now / MS
        );
    }

    fn next(&self) -> Option<u64> {
        let timers = self
            .members
            .iter()
            .filter_map(|member| member.node.as_ref()?.poll_timeout())
            .map(|at| at.0);
        let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
        timers.chain(arrival).min()
    }

    /// Lets go what the network holds between two nodes.
    pub fn release(&mut self, from: NodeId, to: NodeId) {
        let held: Vec<(u64, u64)> = self
            .flying
            .iter()
            .filter(|((at, _), (target, deliver))| {
                let between = matches!(deliver, Deliver::Envelope(it) if it.from == from);
                *at >= HELD && *target == to && between
            })
            .map(|(key, _)| *key)
            .collect();
        for key in held {
            if let Some(what) = self.flying.remove(&key) {
                self.flying.insert((self.now, key.1), what);
            }
        }
    }

    /// Lets everything happen up to a time.
    pub fn run_until(&mut self, until: u64) {
        while let Some(next) = self.next().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            while let Some(entry) = self.flying.first_entry()
                && entry.key().0 <= self.now
            {
                let (to, deliver) = entry.remove();
                let index = to.0 as usize - 1;
                match deliver {
                    Deliver::Envelope(envelope) => {
                        let from = envelope.from;
                        self.input(index, Input::Message { from, envelope });
                    }
                    Deliver::Stored {
                        start,
                        bucket,
                        answer,
                    } => {
                        if self.members[index].starts == start {
                            self.input(index, Input::Store { bucket, answer });
                        }
                    }
                    Deliver::FloorSaved { start, floor } => {
                        // On disk even if the process died meanwhile.
                        self.members[index].floor = self.members[index].floor.max(floor);
                        if self.members[index].starts == start {
                            self.input(index, Input::FloorSaved(floor));
                        }
                    }
                }
            }
            for index in 0..self.members.len() {
                let due = self.members[index]
                    .node
                    .as_ref()
                    .and_then(Node::poll_timeout)
                    .is_some_and(|at| at.0 <= self.now);
                if due {
                    self.input(index, Input::Timeout);
                }
            }
        }
        self.now = self.now.max(until);
    }

    pub fn run(&mut self, duration: Duration) {
        self.run_until(self.now + duration.as_nanos() as u64);
    }
}

/// A network that delivers everything after so long.
pub fn steady(delay_ns: u64) -> Network {
    Box::new(move |_, _, now| vec![now + delay_ns])
}
