//! Five nodes under load, and one fault after another: the bound holds in every window, and the fleet is well again
//! soon after each.

use std::time::Duration;

use rustix::process::Signal;

use super::fleet::{Cut, Fleet, Transport};
use super::load::{Limit, Load, POLICY};
use super::probe::until_well;
use crate::harness::{eventually, now};

const NODES: usize = 5;

struct Storm {
    fleet: Fleet,
    load: Load,
    recoveries: Vec<Recovery>,
}

/// How long after a fault's end things were as they should be.
struct Recovery {
    fault: &'static str,
    /// `leasehold probe` says so.
    well: Duration,
    /// A window begun after that has ended, and most of it was admitted.
    served: Duration,
    /// Of that window's units, the share that was.
    share: f64,
}

impl Storm {
    async fn start(transport: Transport) -> Self {
        let fleet = Fleet::start(NODES, transport, POLICY).await;
        let ports: Vec<u16> = fleet.nodes.iter().map(|node| node.http).collect();
        let mut storm = Self {
            load: Load::start(&ports),
            fleet,
            recoveries: Vec::new(),
        };
        storm.recovered("none").await;
        storm
    }

    /// A fault is over: waits until nothing is left of it, and measures that.
    async fn recovered(&mut self, fault: &'static str) {
        let start = now();
        let well = async {
            until_well(&self.fleet).await;
            start.elapsed()
        };
        let served = async {
            let what = format!("after {fault}: a window to be admitted");
            (self.load.served(&what).await, start.elapsed())
        };
        let (well, (share, served)) = tokio::join!(well, served);
        self.load.assert_bounded(fault);
        self.recoveries.push(Recovery {
            fault,
            well,
            served,
            share,
        });
    }

    /// Waits until no other node is in contact with this one.
    async fn missed(&self, node: usize) {
        for other in (0..NODES).filter(|other| *other != node) {
            eventually("a node to be missed", async || {
                (self.fleet.contacts(other).await < NODES - 1).then_some(())
            })
            .await;
        }
    }

    /// As a crash, and as the kernel's memory killer: no last words.
    async fn killed(&mut self) {
        self.fleet.nodes[1].kill();
        self.missed(1).await;
        self.load.windows(2).await;
        self.fleet.nodes[1].up().await;
        self.recovered("one killed for two windows").await;
    }

    /// A process that stands still keeps its credit, and wakes up in another window.
    async fn frozen(&mut self) {
        self.fleet.nodes[2].process().freeze().await;
        self.missed(2).await;
        self.load.windows(2).await;
        self.fleet.nodes[2].process().signal(Signal::CONT);
        self.recovered("one frozen for two windows").await;
    }

    /// Five seconds off: it serves its clients from its shares, and the others serve theirs.
    async fn cut_off(&mut self) {
        self.fleet.cut(3, Cut::Off);
        self.missed(3).await;
        self.alone(3).await;
        self.load.windows(5).await;
        self.fleet.mend();
        self.recovered("one cut off for five windows").await;
    }

    /// It hears what the others say, and they do not hear it.
    async fn muted(&mut self) {
        self.fleet.cut(4, Cut::Mute);
        self.missed(4).await;
        self.load.windows(2).await;
        self.fleet.mend();
        self.recovered("one not heard for two windows").await;
    }

    /// As an upgrade does it: each stops in order, starts, and is well before the next.
    async fn rolled(&mut self) {
        for index in 0..NODES {
            self.fleet.nodes[index].stop().await;
            self.fleet.nodes[index].up().await;
            self.fleet.in_contact(index).await;
        }
        self.recovered("all restarted in turn").await;
    }

    /// All at once.
    async fn crashed(&mut self) {
        for node in &mut self.fleet.nodes {
            node.kill();
        }
        for node in &mut self.fleet.nodes {
            node.spawn();
        }
        for node in &mut self.fleet.nodes {
            node.ready().await;
        }
        self.recovered("all killed at once").await;
    }

    /// Nobody hears anybody, and then all come back at once.
    async fn without_bus(&mut self) {
        self.fleet.bus().kill();
        for node in 0..NODES {
            self.alone(node).await;
        }
        self.load.windows(3).await;
        self.fleet.bus().up().await;
        self.recovered("the bus killed for three windows").await;
    }

    /// Waits until a node is in contact with nobody.
    async fn alone(&self, node: usize) {
        eventually("a node to miss all others", async || {
            (self.fleet.contacts(node).await == 0).then_some(())
        })
        .await;
    }

    /// What was measured, for people.
    fn print(&self, transport: Transport) {
        eprintln!("over {transport:?}:");
        for Recovery {
            fault,
            well,
            served,
            share,
        } in &self.recoveries
        {
            let (well, served, share) = (well.as_millis(), served.as_millis(), share * 100.0);
            eprintln!(
                "{fault:32} well after {well:5} ms, a whole window over after {served:5} ms, {share:5.1}% of it admitted"
            );
        }
    }

    /// Everything that both transports go through.
    async fn all(&mut self) {
        self.killed().await;
        self.frozen().await;
        self.cut_off().await;
        self.muted().await;
        self.rolled().await;
        self.crashed().await;
    }

    fn end(self, transport: Transport) {
        self.print(transport);
        // The long quotas were used, so that their bound was at stake.
        for limit in [Limit::Long, Limit::Durable] {
            let admitted = self.load.admitted(limit);
            assert!(admitted > 0, "{limit:?}");
            eprintln!("{limit:?}: {admitted} of {} admitted", limit.units());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_the_mesh_no_fault_admits_more() {
    let mut storm = Storm::start(Transport::Mesh).await;
    storm.all().await;
    storm.end(Transport::Mesh);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_nats_no_fault_admits_more() {
    let mut storm = Storm::start(Transport::Nats).await;
    storm.without_bus().await;
    storm.all().await;
    storm.end(Transport::Nats);
}
