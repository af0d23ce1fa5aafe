//! One request's way through a node: credit in the table, or the fast path.

use lease::node::Input;

use super::World;
use super::credit::Taken;
use super::machine::Waiting;
use super::queue::Event;
use crate::traffic::Arrival;

impl World<'_> {
    pub(crate) fn next_arrival(&mut self, source: usize) {
        if let Some(at) = self.flows[source].when() {
            let source = source as u32;
            self.queue.put(at, Event::Arrival { source });
        }
    }

    pub(crate) fn arrival(&mut self, source: usize) {
        let Some(arrival) = self.flows[source].take() else {
            return;
        };
        self.request(arrival);
        self.next_arrival(source);
    }

    /// Who is connected to a node that does not run is connected to the next one that does, as by a load balancer.
    fn request(&mut self, arrival: Arrival) {
        let count = self.machines.len();
        let Some(place) = (0..count)
            .map(|further| (arrival.node + further) % count)
            .find(|&place| self.machines[place].serves())
        else {
            self.tally.unserved += 1;
            return;
        };
        self.tally.requests += 1;
        let machine = &self.machines[place];
        let terms = machine.terms[arrival.key];
        let now = machine.clock.now(self.at);
        let bucket = self.setup.keys[arrival.key]
            .subject
            .bucket_at(terms.slot_ns(), now.wall);
        let mut table = self.watched(place);
        table.ask(bucket, arrival.cost);
        if table.take(bucket, arrival.cost) == Taken::Yes {
            self.admitted(arrival.cost);
            return;
        }
        let request = Waiting {
            bucket,
            cost: arrival.cost,
            since: self.at,
            slept: false,
        };
        if let Some(process) = &mut self.machines[place].process {
            process.waiting.push(request);
        }
        self.tell(
            place,
            Input::Need {
                bucket,
                terms,
                cost: arrival.cost,
                waits: true,
            },
        );
        if let Some(process) = &mut self.machines[place].process
            && let Some(last) = process.waiting.last_mut()
            && last.since == self.at
            && !last.slept
        {
            last.slept = true;
            self.tally.waited += 1;
        }
    }

    pub(crate) fn admitted(&mut self, units: u64) {
        self.tally.admitted_units += units;
        self.digest.number(units);
    }
}
