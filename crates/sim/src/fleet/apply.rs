//! What each fault of a plan does to the world, and what it takes to undo all of them.

use lease::node::Input;
use lease::view::View;

use super::World;
use crate::fault::Fault;
use crate::net::Link;

/// How wrong the wall clocks of a healthy fleet may be, in nanoseconds.
const HEALTHY_CLOCK_ERROR_NS: u64 = 2_000_000;

impl World<'_> {
    pub(crate) fn fault(&mut self, step: usize) {
        let planned = &self.setup.plan[step];
        let at = self.at;
        self.tally.saw(planned.fault.name());
        self.trace
            .all(at, || format!("fault {step}: {:?}", planned.fault));
        match planned.fault {
            Fault::Crash(machine) => self.crash(machine),
            Fault::Start(machine) => self.start(machine),
            Fault::Stop(machine) => {
                let machine = &mut self.machines[machine];
                if machine.process.is_some() && machine.stopped.is_none() {
                    machine.stopped = Some(Vec::new());
                }
            }
            Fault::Continue(machine) => self.go_on(machine),
            Fault::Cut(from, to) => self.wires.cut(from, to),
            Fault::Mend(from, to) => self.wires.mend(from, to),
            Fault::BusOut => self.wires.bus(true),
            Fault::BusBack => self.wires.bus(false),
            Fault::Links(link) => self.wires.link = link,
            Fault::Slow(machine, ns) => self.wires.slow(machine, ns),
            Fault::Step(machine, ns) => self.machines[machine].clock.step(ns),
            Fault::Drift(machine, ppm) => self.machines[machine].clock.set_drift(ppm, at),
            Fault::Evict(machine, key) => {
                let subject = self.setup.keys[key].subject;
                if self.watched(machine).evict(subject) {
                    self.tally.saw("eviction of held credit");
                }
            }
            Fault::Leave(machine) => self.leave(machine),
            Fault::StoreOut => self.document.out += 1,
            Fault::StoreBack => self.document.out = self.document.out.saturating_sub(1),
            Fault::Members(machine, ref view) => self.members(machine, view.clone()),
            Fault::Policy {
                machine,
                key,
                units,
                revision,
            } => self.policy(machine, key, units, revision),
        }
    }

    fn go_on(&mut self, place: usize) {
        let kept = self.machines[place].stopped.take();
        if kept.is_some() {
            self.machines[place].awake_since = self.at;
        }
        for event in kept.into_iter().flatten() {
            self.queue.put(self.at, event);
        }
    }

    /// A machine hears of a list of members, and will find it again when its process starts anew.
    pub(crate) fn members(&mut self, place: usize, view: View) {
        let lists = &mut self.machines[place].lists;
        match lists.iter_mut().find(|known| known.id == view.id) {
            Some(known) => *known = view.clone(),
            None => lists.push(view.clone()),
        }
        self.tell(place, Input::View(view));
    }

    fn policy(&mut self, place: usize, key: usize, units: u64, revision: u64) {
        // A node that has a newer policy keeps it.
        if self.machines[place].terms[key].revision > revision {
            return;
        }
        self.limits.change(place, key, units, self.at);
        let subject = self.setup.keys[key].subject;
        let bound = self.limits.bound(subject, self.at);
        self.accounts.raise(subject, bound);
        let terms = &mut self.machines[place].terms[key];
        terms.units = units;
        terms.revision = revision;
        let terms = *terms;
        self.tell(place, Input::Terms { subject, terms });
    }

    pub(crate) fn heal(&mut self) {
        let at = self.at;
        self.trace.all(at, || "all is well from here on".to_owned());
        self.wires.heal(Link::LAN);
        self.document.out = 0;
        for place in 0..self.machines.len() {
            let error = self.chance.below(HEALTHY_CLOCK_ERROR_NS) as i64;
            let clock = &mut self.machines[place].clock;
            clock.set_drift(0, at);
            clock.set_error(error, at);
            self.go_on(place);
            self.start(place);
        }
    }
}
