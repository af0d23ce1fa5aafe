//! What happens to one message between two machines.

use crate::chance::Chance;

/// How long a message is under way, in nanoseconds: evenly between `low` and `high`, but for a share of them that takes
/// evenly from `high` to `worst`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// The least.
    pub low_ns: u64,
    /// The most, but for the slow ones.
    pub high_ns: u64,
    /// The most of the slow ones.
    pub worst_ns: u64,
    /// How many are slow, from 0 to 1.
    pub slow_share: f64,
}

impl Delay {
    /// A local network: 0.2 to 0.5 ms; one message in a hundred takes more than 1 ms, none more than 1.5 ms.
    pub const LAN: Self = Self {
        low_ns: 200_000,
        high_ns: 500_000,
        worst_ns: 1_500_000,
        slow_share: 0.02,
    };

    pub(crate) fn draw(&self, chance: &mut Chance) -> u64 {
        if chance.happens(self.slow_share) {
            chance.between(self.high_ns, self.worst_ns.max(self.high_ns))
        } else {
            chance.between(self.low_ns, self.high_ns.max(self.low_ns))
        }
    }
}

/// How all links behave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// How long a message takes.
    pub delay: Delay,
    /// How many are lost, from 0 to 1.
    pub loss: f64,
    /// How many come twice, the second after a delay of its own.
    pub duplicated: f64,
    /// How many are held back, so that later ones overtake them.
    pub held: f64,
    /// For how long at most, in nanoseconds.
    pub held_ns: u64,
}

impl Link {
    /// A local network that loses nothing.
    pub const LAN: Self = Self {
        delay: Delay::LAN,
        loss: 0.0,
        duplicated: 0.0,
        held: 0.0,
        held_ns: 0,
    };
}

/// All links, and which of them are cut. A cut is one way.
#[derive(Clone, Debug)]
pub(crate) struct Wires {
    pub(crate) link: Link,
    machines: usize,
    /// How many faults cut the way from one to another: overlapping cuts end one by one.
    cuts: Vec<u16>,
    /// How many faults put the whole bus out.
    bus_out: u16,
    /// What each machine adds to what it sends and receives, in nanoseconds at most.
    slow_ns: Vec<u64>,
}

impl Wires {
    pub(crate) fn new(link: Link, machines: usize) -> Self {
        Self {
            link,
            machines,
            cuts: vec![0; machines * machines],
            bus_out: 0,
            slow_ns: vec![0; machines],
        }
    }

    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.cuts[from * self.machines + to] += 1;
    }

    pub(crate) fn mend(&mut self, from: usize, to: usize) {
        let cuts = &mut self.cuts[from * self.machines + to];
        *cuts = cuts.saturating_sub(1);
    }

    pub(crate) fn bus(&mut self, out: bool) {
        self.bus_out = if out {
            self.bus_out + 1
        } else {
            self.bus_out.saturating_sub(1)
        };
    }

    pub(crate) fn slow(&mut self, machine: usize, ns: u64) {
        self.slow_ns[machine] = ns;
    }

    /// Nothing is wrong any more.
    pub(crate) fn heal(&mut self, link: Link) {
        *self = Self::new(link, self.machines);
    }

    /// When the copies of a message that is sent now arrive: nanoseconds from now. `None` for a copy
    /// that is lost or was never made.
    pub(crate) fn send(&self, from: usize, to: usize, chance: &mut Chance) -> [Option<u64>; 2] {
        if self.bus_out > 0 || self.cuts[from * self.machines + to] > 0 {
            return [None, None];
        }
        let link = &self.link;
        let mut copies = [None, None];
        if !chance.happens(link.loss) {
            let mut ns = link.delay.draw(chance);
            if chance.happens(link.held) {
                ns += chance.below(link.held_ns);
            }
            for slow_ns in [self.slow_ns[from], self.slow_ns[to]] {
                if slow_ns > 0 {
                    ns += chance.below(slow_ns);
                }
            }
            copies[0] = Some(ns);
        }
        if chance.happens(link.duplicated) {
            copies[1] = Some(link.delay.draw(chance) + chance.below(link.held_ns.max(1)));
        }
        copies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_network_is_as_it_says() {
        let mut chance = Chance::new(1);
        let mut delays: Vec<u64> = (0..100_000).map(|_| Delay::LAN.draw(&mut chance)).collect();
        delays.sort_unstable();
        assert!(delays[0] >= 200_000);
        assert!((480_000..520_000).contains(&delays[98_000]));
        assert!((960_000..1_040_000).contains(&delays[99_000]));
        assert!(delays[99_999] <= 1_500_000);
    }

    #[test]
    fn a_cut_is_one_way_and_ends_when_all_who_cut_mend() {
        let mut chance = Chance::new(1);
        let mut wires = Wires::new(Link::LAN, 3);
        wires.cut(0, 1);
        wires.cut(0, 1);
        assert_eq!(wires.send(0, 1, &mut chance), [None, None]);
        assert!(wires.send(1, 0, &mut chance)[0].is_some());
        wires.mend(0, 1);
        assert_eq!(wires.send(0, 1, &mut chance), [None, None]);
        wires.mend(0, 1);
        assert!(wires.send(0, 1, &mut chance)[0].is_some());
        wires.bus(true);
        assert_eq!(wires.send(2, 1, &mut chance), [None, None]);
        wires.heal(Link::LAN);
        assert!(wires.send(2, 1, &mut chance)[0].is_some());
    }
}
