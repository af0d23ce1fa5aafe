//! Schedules made for one rule each, where swarms seldom or never meet what the rule is for.

use lease::bucket::Subject;
use lease::config::Config;
use lease::id::ViewId;
use lease::terms::{Mode, OnDegraded, Shape, Terms};
use lease::time::Wall;
use lease::view::View;
use sim::fault::{Fault, Planned};
use sim::fleet::{At, Key, START, Setup, Stores, node_id};
use sim::net::Link;
use sim::traffic::{Arrivals, Choice, Place, Stream};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
const UNITS: u64 = 20;

/// Healthy nodes with `keys` keys of [`UNITS`] a second, whose windows begin with the seconds of true time.
fn healthy(nodes: usize, keys: u64) -> Setup {
    let terms = Terms {
        units: UNITS,
        window_ns: SECOND,
        shape: Shape::FixedWindow,
        durable: false,
        on_degraded: OnDegraded::FairShare,
        mode: Mode::Lease,
        revision: 1,
    };
    Setup {
        seed: 1,
        nodes,
        config: Config::default(),
        // The low half decides where windows begin, the high half who owns them.
        keys: (1..=keys)
            .map(|key| Key {
                subject: Subject(u128::from(key) << 64),
                terms,
            })
            .collect(),
        streams: Vec::new(),
        link: Link::LAN,
        clock_errors_ns: vec![0; nodes],
        disk_ns: MS,
        stores: Stores::default(),
        plan: Vec::new(),
        heal: None,
        judged: false,
        measure: At(0),
        end: At(6 * SECOND),
    }
}

fn stream(key: usize, node: usize, times: f64, from: u64, until: u64) -> Stream {
    Stream {
        keys: Choice::One(key),
        place: Place::Node(node),
        arrivals: Arrivals::Steady {
            per_s: UNITS as f64 * times,
        },
        cost: (1, 1),
        from: At(from),
        until: At(until),
    }
}

fn at(at: u64, fault: Fault) -> Planned {
    Planned { at: At(at), fault }
}

/// S4. Two nodes are cut off from each other and take shares of many keys alone. With so much to tell, each first only
/// asks whether the other is there; the report that follows has a pledge in all of its pieces, of which most get lost.
pub fn report_in_pieces() -> Setup {
    let keys = 100;
    let mut setup = healthy(2, keys as u64);
    setup.config.most_records = 1;
    setup.end = At(2 * SECOND);
    for key in 0..keys {
        for node in 0..2 {
            setup
                .streams
                .push(stream(key, node, 2.0, 900 * MS, 2 * SECOND));
        }
    }
    for (from, to) in [(0, 1), (1, 0)] {
        setup.plan.push(at(700 * MS, Fault::Cut(from, to)));
        setup.plan.push(at(1_300 * MS, Fault::Mend(from, to)));
    }
    let lossy = Link {
        loss: 0.6,
        ..Link::LAN
    };
    setup.plan.push(at(1_301 * MS, Fault::Links(lossy)));
    setup.plan.sort_by_key(|planned| planned.at);
    setup
}

/// S11. A third node joins: its list holds from a second on, and the nodes hear of it long before.
pub fn windows_of_two_lists() -> Setup {
    let mut setup = healthy(3, 6);
    let members: Vec<_> = (0..3).map(node_id).collect();
    let list = |id: u64, members: &[lease::id::NodeId], from: u64| View {
        id: ViewId(id),
        members: members.to_vec(),
        active_from: Wall(START.0 + from),
        lease_until: Wall(u64::MAX),
    };
    for key in 0..6 {
        for node in 0..3 {
            setup.streams.push(stream(key, node, 1.0, 0, 6 * SECOND));
        }
    }
    // All three are members at first; then one leaves, and comes back.
    for (number, count, from) in [(2, 2, 3 * SECOND), (3, 3, 5 * SECOND)] {
        for machine in 0..3 {
            let heard = from - 1_300 * MS + machine as u64 * 300 * MS;
            let list = list(number, &members[..count], from);
            setup.plan.push(at(heard, Fault::Members(machine, list)));
        }
    }
    setup.plan.sort_by_key(|planned| planned.at);
    setup
}
