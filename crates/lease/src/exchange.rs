//! What goes between nodes: which envelopes are taken and which rejected whole (S3), and who is written to when.
//!
//! Nothing of an envelope may be used before all of its header has been checked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::bucket::Bucket;
use crate::credit::Credit;
use crate::holder::Holder;
use crate::holder::report::Say;
use crate::id::NodeId;
use crate::message::{Chunk, Envelope, Grant, Report, SCHEMA};
use crate::node::{Event, Output};
use crate::owner::Owner;
use crate::peers::{Heard, Peers};
use crate::stream::MOST_CHUNKS;
use crate::turn::Turn;

/// A node that is not in contact is told up to so many records unasked; with more it is only asked whether it is there.
const FEW: usize = 32;

/// One input's work, on the parts of a node.
pub(crate) struct Step<'a> {
    pub holder: &'a mut Holder,
    pub owner: &'a mut Owner,
    pub peers: &'a mut Peers,
    pub loopback: &'a mut VecDeque<Envelope>,
    pub turn: Turn<'a>,
}

impl Step<'_> {
    /// Whether an envelope is for this node, from a member, in a format and under a view that are understood.
    pub fn accepts(&mut self, from: NodeId, envelope: &Envelope) -> bool {
        let fits = |chunk: Chunk| chunk.index < chunk.count && chunk.count <= MOST_CHUNKS;
        let whole = envelope.report.as_ref().is_none_or(|it| fits(it.chunk))
            && envelope.grant.as_ref().is_none_or(|it| fits(it.chunk));
        if envelope.schema != SCHEMA
            || envelope.to != self.turn.me.node
            || envelope.from != from
            || !whole
        {
            return false;
        }
        if from == self.turn.me.node {
            self.turn.event(Event::TwoIncarnations(from));
            return false;
        }
        let member = self.turn.views.members().contains(&from);
        let peer = self.peers.entry(from).or_default();
        if !self.turn.views.knows(envelope.view) || !member {
            if peer.other_view != Some(envelope.view) {
                peer.other_view = Some(envelope.view);
                let view = envelope.view;
                self.turn.event(Event::OtherView { from, view });
            }
            return false;
        }
        peer.view = Some(envelope.view);
        peer.other_view = None;
        true
    }

    /// Takes an envelope that was accepted, or that this node sent itself.
    pub fn take(&mut self, envelope: Envelope, credit: &mut impl Credit) {
        let (from, epoch) = (envelope.from, envelope.epoch);
        let own = from == self.turn.me.node;
        let heard = if own {
            Heard::Same
        } else {
            self.peers.entry(from).or_default().hear(epoch)
        };
        match heard {
            Heard::Same | Heard::Old => {}
            Heard::New => {
                self.holder
                    .new_owner_incarnation(from, epoch, self.turn.time.instant);
                self.owner.new_holder_incarnation(from, epoch);
            }
            Heard::Two => {
                self.turn.event(Event::TwoIncarnations(from));
                self.turn.stats.envelopes_rejected += 1;
                return;
            }
            Heard::Refused => {
                self.turn.stats.envelopes_rejected += 1;
                return;
            }
        }
        let current = heard != Heard::Old;
        if !own {
            self.turn.stats.envelopes_received += 1;
            self.turn.stats.reports_received += u64::from(envelope.report.is_some());
            self.turn.stats.grants_received += u64::from(envelope.grant.is_some());
            let peer = self.peers.entry(from).or_default();
            peer.owed |= envelope
                .report
                .as_ref()
                .is_some_and(|it| !it.records.is_empty())
                || envelope
                    .grant
                    .as_ref()
                    .is_some_and(|it| !it.records.is_empty());
        }
        // The grant first: what was recalled or acknowledged by it shows in what follows.
        if let Some(grant) = &envelope.grant
            && current
            && grant.holder_epoch == self.turn.me.epoch
        {
            self.holder.grant(from, grant, &mut self.turn, credit);
        }
        if let Some(report) = &envelope.report {
            self.owner
                .report(from, epoch, current, report, &mut self.turn);
        }
    }

    /// The round's envelopes: one for each member that something is to be said to, or that has not been written to for
    /// the idle pace.
    pub fn say_all(&mut self, round: u64, credit: &mut impl Credit) {
        let pace = u64::from(self.turn.config.idle_pace);
        for node in self.turn.views.members() {
            let own = node == self.turn.me.node;
            let contact = self.holder.in_contact(node, &self.turn);
            let absent = self.owner.is_absent(node, &self.turn);
            let news =
                (contact && self.holder.has_news(node)) || (!absent && self.owner.has_news(node));
            let peer = self.peers.entry(node).or_default();
            if !(own || news || peer.owed || round.saturating_sub(peer.written) >= pace) {
                continue;
            }
            (peer.written, peer.owed) = (round, false);
            let say = if contact || own || self.holder.news_count(node) <= FEW {
                Say::All
            } else {
                Say::Probe
            };
            let reports = self.holder.report(node, say, &mut self.turn, credit);
            let say = if absent && !own { Say::Probe } else { Say::All };
            let grants = self.owner.grant(node, say, &mut self.turn);
            self.send(node, reports, grants);
        }
    }

    /// What cannot wait for the round: questions, answers, recalls and what they bring back.
    pub fn say_urgent(&mut self, credit: &mut impl Credit) {
        let mut asked: BTreeMap<NodeId, Vec<Bucket>> = self.holder.take_urgent();
        let mut answered = self.owner.take_urgent();
        let nodes: BTreeSet<NodeId> = asked.keys().chain(answered.keys()).copied().collect();
        for node in nodes {
            let reports = match asked.remove(&node) {
                Some(buckets) => {
                    self.holder
                        .report(node, Say::Urgent(&buckets), &mut self.turn, credit)
                }
                None => Vec::new(),
            };
            let grants = match answered.remove(&node) {
                Some(buckets) => self
                    .owner
                    .grant(node, Say::Urgent(&buckets), &mut self.turn),
                None => Vec::new(),
            };
            self.send(node, reports, grants);
        }
    }

    /// Puts pieces into envelopes, a report's and a grant's together.
    fn send(&mut self, to: NodeId, reports: Vec<Report>, grants: Vec<Grant>) {
        let newest = self.turn.views.newest().id;
        let spoken = self.peers.get(&to).and_then(|peer| peer.view);
        let view = spoken
            .filter(|view| self.turn.views.knows(*view))
            .unwrap_or(newest);
        let count = reports.len().max(grants.len());
        let (mut reports, mut grants) = (reports.into_iter(), grants.into_iter());
        for _ in 0..count {
            let envelope = Envelope {
                schema: SCHEMA,
                view,
                from: self.turn.me.node,
                epoch: self.turn.me.epoch,
                to,
                sent_at: self.turn.time.held,
                report: reports.next(),
                grant: grants.next(),
            };
            if to == self.turn.me.node {
                self.loopback.push_back(envelope);
            } else {
                self.turn.stats.envelopes_sent += 1;
                self.turn
                    .outputs
                    .push_back(Output::Send(Box::new(envelope)));
            }
        }
    }
}
