//! A fleet of [`Membership`]s over one compare-and-set register that loses answers, on clocks that differ.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const SECOND: u64 = 1_000_000_000;
/// Where the true clock begins.
const START: u64 = 1_000_000 * SECOND;

/// The store: one value, whose writer may not hear that it was kept.
#[derive(Default)]
struct Register {
    value: Option<(u64, Vec<u8>)>,
}

struct Machine {
    membership: Membership,
    /// How far its clock is ahead, in seconds.
    ahead: i64,
    epochs: u64,
    alive: bool,
    /// It cannot reach the store.
    cut: bool,
}

/// A rule switched off, to see that the check notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// A list holds some seconds before the leases of the one before are over.
    Early,
    /// A node acts on windows that start after its lease.
    NoLease,
    /// A node acts under the latest list that it knows, whenever the window started.
    Newest,
    /// A node goes on with its longer lease while it asks for a shorter one.
    Unkept,
}

struct Fleet {
    mutant: Option<Mutant>,
    /// Windows were acted on under two lists.
    two_lists: bool,
    register: Register,
    machines: Vec<Machine>,
    /// True time in nanoseconds.
    time: u64,
    /// Under which list windows were acted on, by start.
    acted: BTreeMap<u64, u64>,
}

fn entry(node: usize, count: u64, previous: bool) -> Entry {
    let epoch = |count| Epoch {
        count,
        nonce: (node as u64) << 32 | count,
    };
    Entry {
        node: NodeId(node as u64 + 1),
        name: format!("node-{node}"),
        address: String::new(),
        epoch: epoch(count),
        previous: previous.then(|| epoch(count - 1)),
        new_fleet: true,
    }
}

impl Fleet {
    fn new(clocks: &[i64]) -> Self {
        let machines = clocks
            .iter()
            .enumerate()
            .map(|(node, ahead)| Machine {
                membership: Membership::new(entry(node, 1, false)),
                ahead: *ahead,
                epochs: 1,
                alive: false,
                cut: false,
            })
            .collect();
        Self {
            mutant: None,
            two_lists: false,
            register: Register::default(),
            machines,
            time: START,
            acted: BTreeMap::new(),
        }
    }

    fn now(&self, node: usize) -> Now {
        let wall = self
            .time
            .saturating_add_signed(self.machines[node].ahead * SECOND as i64);
        Now {
            instant: Instant(self.time),
            wall: Wall(wall),
        }
    }

    /// One node has its turn. `fate`: what becomes of its writing.
    fn turn(&mut self, node: usize, fate: Fate) {
        let now = self.now(node);
        let stored_at = Wall(self.time);
        let machine = &mut self.machines[node];
        if !machine.alive {
            return;
        }
        if !machine.cut {
            match &self.register.value {
                None => machine.membership.observed_none(),
                Some((revision, bytes)) => machine
                    .membership
                    .observed(*revision, Roster::decode(bytes).unwrap()),
            }
            if let Some((expected, roster)) = machine.membership.step(now) {
                let current = self
                    .register
                    .value
                    .as_ref()
                    .map_or(0, |(revision, _)| *revision);
                let kept = current == expected && !matches!(fate, Fate::Lost);
                let mut roster = roster;
                if self.mutant == Some(Mutant::Early) {
                    make_early(&mut roster, expected, self.register.value.as_ref());
                }
                if kept {
                    self.register.value = Some((expected + 1, roster.encode().unwrap()));
                }
                if kept && matches!(fate, Fate::Answered) {
                    machine
                        .membership
                        .written(now, expected + 1, roster, stored_at);
                }
            }
        }
        self.act(node, now);
    }

    /// The list under which a node acts on a window.
    fn acts_under(&self, node: usize, start: Wall) -> Option<&ListedView> {
        let membership = &self.machines[node].membership;
        let (_, roster) = membership.seen.as_ref()?;
        match self.mutant {
            None | Some(Mutant::Early) => membership.governing(start),
            Some(Mutant::NoLease) => roster.governing(start),
            Some(Mutant::Newest) => (start < membership.lease()).then(|| roster.latest()),
            Some(Mutant::Unkept) => {
                let lease = membership.seat().map_or(0, |seat| seat.lease_until);
                (start.0 < lease).then(|| roster.governing(start))?
            }
        }
    }

    /// The node acts on windows that it may act on: some that began, and one about to. No two lists may govern one.
    fn act(&mut self, node: usize, now: Now) {
        for back in [-1_i64, 0, 1, 3, 10, 40, 100] {
            let start = now.wall.0.saturating_add_signed(-back * SECOND as i64) / SECOND * SECOND;
            let Some(view) = self.acts_under(node, Wall(start)) else {
                continue;
            };
            if !view.contains(NodeId(node as u64 + 1)) {
                continue;
            }
            let (id, number) = (view.id(), view.number);
            if self.mutant.is_none() {
                let views = self.machines[node].membership.views();
                assert!(views.iter().any(|listed| {
                    listed.id == id && listed.active_from.0 <= start && start < listed.lease_until.0
                }));
            }
            let by = *self.acted.entry(start).or_insert(number);
            self.two_lists |= by != number;
        }
    }

    /// All have turns for so long.
    fn run(&mut self, seconds: u64) {
        for _ in 0..seconds * 2 {
            self.time += SECOND / 2;
            for node in 0..self.machines.len() {
                self.turn(node, Fate::Answered);
            }
        }
    }

    fn boot(&mut self, node: usize, same_disk: bool) {
        let machine = &mut self.machines[node];
        machine.epochs += 1;
        machine.membership = Membership::new(entry(node, machine.epochs, same_disk));
        machine.alive = true;
    }

    fn standing(&self, node: usize) -> Standing {
        self.machines[node].membership.standing(self.now(node))
    }

    fn roster(&self) -> Roster {
        Roster::decode(&self.register.value.as_ref().unwrap().1).unwrap()
    }
}

/// If a list was just added, it holds three seconds sooner than it should, though not before the one before it.
fn make_early(roster: &mut Roster, expected: u64, before: Option<&(u64, Vec<u8>)>) {
    let Some((_, before)) = before.filter(|(revision, _)| *revision == expected) else {
        return;
    };
    let known = Roster::decode(before).unwrap().latest().number;
    let floor = roster
        .views
        .iter()
        .rev()
        .nth(1)
        .map_or(0, |view| view.active_from);
    if let Some(added) = roster.views.last_mut().filter(|view| view.number > known) {
        added.active_from = added.active_from.saturating_sub(3 * SECOND).max(floor);
    }
}

#[derive(Clone, Copy, Debug)]
enum Fate {
    Answered,
    /// Kept, but the writer does not hear of it.
    Unheard,
    Lost,
}

#[derive(Clone, Debug)]
enum Event {
    Turn(usize, Fate),
    Pass(u64),
    Crash(usize),
    Boot(usize, bool),
    Leave(usize),
    Cut(usize, bool),
    Clock(usize, i64),
    Run(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let node = 0..4_usize;
    let fate = prop_oneof![
        6 => Just(Fate::Answered),
        1 => Just(Fate::Unheard),
        1 => Just(Fate::Lost),
    ];
    prop_oneof![
        20 => (node.clone(), fate).prop_map(|(node, fate)| Event::Turn(node, fate)),
        8 => (1_u64..4_000).prop_map(Event::Pass),
        1 => (20_000_u64..200_000).prop_map(Event::Pass),
        2 => node.clone().prop_map(Event::Crash),
        4 => (node.clone(), any::<bool>()).prop_map(|(node, disk)| Event::Boot(node, disk)),
        1 => node.clone().prop_map(Event::Leave),
        2 => (node.clone(), any::<bool>()).prop_map(|(node, cut)| Event::Cut(node, cut)),
        // Forward only: a node's own clock never goes back.
        1 => (node, prop_oneof![0_i64..60, Just(100_000)]).prop_map(|(node, by)| Event::Clock(node, by)),
        2 => (1_u64..30).prop_map(Event::Run),
    ]
}

impl Fleet {
    fn event(&mut self, event: Event) {
        match event {
            Event::Turn(node, fate) => self.turn(node, fate),
            Event::Pass(ms) => self.time += ms * 1_000_000,
            Event::Crash(node) => self.machines[node].alive = false,
            Event::Boot(node, same_disk) => self.boot(node, same_disk),
            Event::Leave(node) => self.machines[node].membership.leave(),
            Event::Cut(node, cut) => self.machines[node].cut = cut,
            Event::Clock(node, by) => self.machines[node].ahead += by,
            Event::Run(seconds) => self.run(seconds),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// S11, seen from outside: whatever happens, no window is acted on under two lists.
    #[test]
    fn no_window_is_acted_on_under_two_lists(
        clocks in prop::collection::vec(-40_i64..40, 4),
        events in prop::collection::vec(event(), 1..250),
    ) {
        let mut fleet = Fleet::new(&clocks);
        for event in events {
            fleet.event(event);
        }
        prop_assert!(!fleet.two_lists);
    }
}

/// A fleet that runs, and then has one kind of trouble after the other: nodes join and leave while others are cut off
/// in the middle of a writing. Says whether a window was acted on under two lists.
fn troubled(seed: u64, mutant: Option<Mutant>) -> bool {
    let mut random = seed;
    // SplitMix64 (Steele, Lea, Flood 2014).
    let mut below = move |bound: u64| {
        random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    };
    let mut fleet = Fleet::new(&[0, 1, -1, 0]);
    fleet.mutant = mutant;
    for node in 0..3 {
        fleet.boot(node, false);
    }
    fleet.run(30);
    for _ in 0..6 {
        let node = below(4) as usize;
        if fleet.machines[node].alive {
            match below(2) {
                0 => fleet.machines[node].membership.leave(),
                _ => fleet.machines[node].alive = false,
            }
        } else {
            fleet.boot(node, below(2) == 0);
        }
        for _ in 0..below(12) {
            let fate = [Fate::Answered, Fate::Unheard, Fate::Lost][below(3) as usize];
            fleet.time += below(2) * SECOND;
            fleet.turn(below(4) as usize, fate);
        }
        let cut = below(4) as usize;
        fleet.machines[cut].cut = true;
        fleet.run(below(150));
        fleet.machines[cut].cut = false;
        fleet.run(below(20));
        if fleet.two_lists {
            return true;
        }
    }
    false
}

#[test]
fn each_rule_switched_off_is_noticed() {
    const SEEDS: u64 = 60;
    for seed in 0..SEEDS {
        assert!(!troubled(seed, None), "seed {seed}");
    }
    for mutant in [
        Mutant::Early,
        Mutant::NoLease,
        Mutant::Newest,
        Mutant::Unkept,
    ] {
        let first = (0..SEEDS).find(|seed| troubled(*seed, Some(mutant)));
        println!("{mutant:?}: first noticed by seed {first:?}");
        assert!(
            first.is_some(),
            "{mutant:?} is not noticed within {SEEDS} seeds"
        );
    }
}

#[test]
fn a_fleet_comes_together_grows_and_shrinks() {
    let mut fleet = Fleet::new(&[0, 1, -1, 2]);
    for node in 0..3 {
        fleet.boot(node, false);
    }
    fleet.run(30);
    for node in 0..3 {
        assert_eq!(fleet.standing(node), Standing::Member);
    }
    assert_eq!(fleet.roster().latest().members, [1, 2, 3]);

    // One joins: within the shortened leases.
    fleet.boot(3, false);
    fleet.run(20);
    assert_eq!(fleet.standing(3), Standing::Member);

    // One leaves: it serves until the list without it holds, and then its seat goes.
    fleet.machines[0].membership.leave();
    fleet.run(2);
    assert_eq!(fleet.standing(0), Standing::Member);
    fleet.run(20);
    assert_eq!(fleet.standing(0), Standing::Left);
    assert_eq!(fleet.roster().latest().members, [2, 3, 4]);
    assert!(fleet.roster().seat(NodeId(1)).is_none());

    // One dies: it stays in the list for as long as its lease, and no longer than a little beyond.
    fleet.machines[1].alive = false;
    fleet.run(30);
    assert_eq!(fleet.roster().latest().members, [2, 3, 4]);
    fleet.run(LEASE.as_secs() + 30);
    assert_eq!(fleet.roster().latest().members, [3, 4]);
    let holds = fleet.roster().governing(Wall(fleet.time)).unwrap().clone();
    assert_eq!(holds.members, [3, 4]);
    fleet.run(3 * LEASE.as_secs());
    assert!(
        fleet.roster().seat(NodeId(2)).is_none(),
        "no seat is kept for ever"
    );
}

#[test]
fn losing_the_store_for_a_while_costs_nothing_and_its_return_throws_nobody_out() {
    let mut fleet = Fleet::new(&[0, 0, 0, 0]);
    for node in 0..4 {
        fleet.boot(node, false);
    }
    fleet.run(60);
    let number = fleet.roster().latest().number;
    for machine in &mut fleet.machines {
        machine.cut = true;
    }
    fleet.run(LEASE.as_secs() * 2 / 3 - 2);
    for node in 0..4 {
        assert_eq!(fleet.standing(node), Standing::Member);
    }
    fleet.run(LEASE.as_secs());
    for node in 0..4 {
        assert_eq!(fleet.standing(node), Standing::Lapsed);
        let start = fleet.now(node).wall;
        assert!(fleet.machines[node].membership.governing(start).is_none());
    }
    // They come back one by one.
    for node in 0..4 {
        fleet.machines[node].cut = false;
        fleet.run(2);
    }
    fleet.run(20);
    for node in 0..4 {
        assert_eq!(fleet.standing(node), Standing::Member);
    }
    assert_eq!(
        fleet.roster().latest().number,
        number,
        "the list never changed"
    );
}

#[test]
fn a_restarted_node_takes_its_seat_at_once_and_a_stranger_with_its_name_waits() {
    let mut fleet = Fleet::new(&[0, 0]);
    fleet.boot(0, false);
    fleet.boot(1, false);
    fleet.run(30);
    let number = fleet.roster().latest().number;
    fleet.machines[1].alive = false;
    fleet.run(5);
    fleet.boot(1, true);
    fleet.run(3);
    assert_eq!(fleet.standing(1), Standing::Member);
    assert_eq!(
        fleet.roster().latest().number,
        number,
        "a restart changes no list"
    );

    // Another process with its name and another disk.
    let running = fleet.machines[1].membership.clone();
    fleet.boot(1, false);
    fleet.run(3);
    assert!(matches!(fleet.standing(1), Standing::NameTaken { .. }));
    // It runs by the lease of its own disk's process: once taken, the other acts on nothing.
    let stranger = std::mem::replace(&mut fleet.machines[1].membership, running);
    fleet.run(LEASE.as_secs());
    assert_eq!(fleet.standing(1), Standing::Member);
    let taken = std::mem::replace(&mut fleet.machines[1].membership, stranger);
    fleet.run(2 * LEASE.as_secs());
    assert_eq!(fleet.standing(1), Standing::Member);
    fleet.machines[1].membership = taken;
    fleet.run(1);
    assert_eq!(fleet.standing(1), Standing::Replaced);
    assert_eq!(fleet.machines[1].membership.lease(), Wall(0));
}

#[test]
fn a_clock_that_is_far_off_gets_no_lease_and_holds_nobody_up() {
    let day = 86_400;
    for ahead in [day, -day] {
        let mut fleet = Fleet::new(&[0, 0, ahead]);
        for node in 0..3 {
            fleet.boot(node, false);
            fleet.run(15);
        }
        assert_eq!(fleet.standing(2), Standing::ClockDiffers);
        assert_eq!(fleet.roster().latest().members, [1, 2]);
        fleet.machines[2].ahead = 0;
        fleet.run(30);
        assert_eq!(fleet.standing(2), Standing::Member);
    }
    // A step while it runs: the lease that it has ends, and the others go on without it.
    let mut fleet = Fleet::new(&[0, 0]);
    fleet.boot(0, false);
    fleet.boot(1, false);
    fleet.run(30);
    fleet.machines[1].ahead = day;
    fleet.run(2 * LEASE.as_secs());
    assert_eq!(fleet.standing(1), Standing::ClockDiffers);
    assert_eq!(fleet.standing(0), Standing::Member);
    assert_eq!(
        fleet.roster().governing(Wall(fleet.time)).unwrap().members,
        [1]
    );
}

#[test]
fn a_first_list_waits_for_leases_that_nobody_knows_unless_the_fleet_is_new() {
    let mut fleet = Fleet::new(&[0]);
    fleet.machines[0].alive = true;
    fleet.machines[0].membership = Membership::new(Entry {
        new_fleet: false,
        ..entry(0, 1, false)
    });
    fleet.run(LEASE.as_secs() - 1);
    assert_eq!(fleet.standing(0), Standing::Joining);
    fleet.run(2);
    assert_eq!(fleet.standing(0), Standing::Member);
}

#[test]
fn a_document_that_vanishes_is_not_made_again() {
    let mut fleet = Fleet::new(&[0]);
    fleet.boot(0, false);
    fleet.run(10);
    fleet.register.value = None;
    fleet.run(5);
    assert_eq!(fleet.standing(0), Standing::Vanished);
    assert!(fleet.register.value.is_none());
    // Its lease goes on to its end.
    let start = fleet.now(0).wall;
    assert!(fleet.machines[0].membership.governing(start).is_some());
}

#[test]
fn a_node_keeps_to_a_shorter_lease_though_it_never_hears_that_it_was_kept() {
    let mut fleet = Fleet::new(&[0, 0, 0]);
    fleet.boot(0, false);
    fleet.boot(1, false);
    fleet.run(30);
    assert_eq!(fleet.standing(1), Standing::Member);
    // A third wants to join, and node 1 shortens its lease for that, without hearing, and then hears nothing at all.
    fleet.boot(2, false);
    while fleet
        .roster()
        .seat(NodeId(3))
        .is_none_or(|seat| seat.lease_until == 0)
    {
        fleet.turn(2, Fate::Answered);
    }
    let before = fleet.machines[1].membership.lease();
    fleet.turn(1, Fate::Unheard);
    fleet.machines[1].cut = true;
    assert!(fleet.machines[1].membership.lease() < before);
    // The others act by the new list while node 1 would still have had the longer lease.
    fleet.run(SHORT.as_secs() + 10);
    assert_eq!(fleet.standing(2), Standing::Member);
    assert_eq!(fleet.standing(1), Standing::Lapsed);
    assert!(fleet.time < before.0);
}

#[test]
fn no_clock_makes_a_seat_go_whose_lease_a_list_does_not_wait_for() {
    let mut fleet = Fleet::new(&[0, 0]);
    fleet.boot(0, false);
    fleet.boot(1, false);
    fleet.run(30);
    let mut roster = fleet.roster();
    let lease = roster.seat(NodeId(2)).unwrap().lease_until;
    roster.views.last_mut().unwrap().members = vec![1];
    forget_seats(&mut roster, Wall(u64::MAX));
    assert!(roster.seat(NodeId(2)).is_some());
    roster.views.last_mut().unwrap().active_from = lease;
    forget_seats(&mut roster, Wall(lease));
    assert!(roster.seat(NodeId(2)).is_some(), "not silent for long");
    forget_seats(&mut roster, Wall(u64::MAX));
    assert!(roster.seat(NodeId(2)).is_none());
}
