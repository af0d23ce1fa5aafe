//! The fleet's part of a scrape: how this node stands with its peers, and what it leases.
//!
//! It reads copies of counters and changes nothing. Labels are members' names and fixed words, never keys.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::fleet::Figures;
use crate::peers::{Link, PeerStatus};

/// What a scrape tells of the fleet.
#[derive(Debug)]
pub struct FleetScrape {
    /// The protocol's counters.
    pub figures: Arc<Figures>,
    /// How things stand with each member.
    pub peers: Vec<PeerStatus>,
    /// Requests that this node has answered.
    pub requests: u64,
}

const NANOS: f64 = 1e9;

impl FleetScrape {
    fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        let stats = &self.figures.stats;
        vec![
            (
                "throttle_fleet_rounds",
                "Rounds of the lease protocol",
                stats.rounds,
            ),
            (
                "throttle_fleet_envelopes_sent",
                "Envelopes handed to the transport",
                stats.envelopes_sent,
            ),
            (
                "throttle_fleet_envelopes_received",
                "Envelopes of other nodes that were applied",
                stats.envelopes_received,
            ),
            (
                "throttle_fleet_envelopes_rejected",
                "Envelopes of other nodes that were not understood or not believed, and rejected whole",
                stats.envelopes_rejected,
            ),
            (
                "throttle_fleet_frames_refused",
                "Frames that were no envelope, or not of their sender, or not for this node",
                self.figures.frames_refused,
            ),
            (
                "throttle_fleet_reports_received",
                "Reports of other nodes to this one as owner",
                stats.reports_received,
            ),
            (
                "throttle_fleet_asked",
                "Times that a request found too little credit of a limit and asked for more",
                stats.needs,
            ),
            (
                "throttle_fleet_recalls",
                "Times that unspent credit was called back",
                stats.recalls,
            ),
            (
                "throttle_fleet_issued_units",
                "Units issued by this node as owner",
                stats.issued_units,
            ),
            (
                "throttle_fleet_returned_units",
                "Units that holders gave back to this node",
                stats.returned_units,
            ),
            (
                "throttle_fleet_self_grants",
                "Buckets of which this node gave itself its share, its owner being out of contact",
                stats.self_grants,
            ),
            (
                "throttle_fleet_self_granted_units",
                "Units in those shares",
                stats.self_granted_units,
            ),
            (
                "throttle_fleet_invariant_broken",
                "Ledgers that did not add up. Anything but 0 is a fault in Leasehold",
                stats.invariant_broken,
            ),
            (
                "throttle_fleet_ledger_refused",
                "Records refused because the ledger is full",
                stats.owned_refused,
            ),
            (
                "throttle_fleet_holder_refused",
                "Buckets refused because this node holds as many as it may",
                stats.held_refused,
            ),
        ]
    }

    fn gauges(&self) -> [(&'static str, &'static str, f64); 11] {
        let Figures {
            stats,
            freshness_p99_ns,
            members,
            waiting,
            frames_refused: _,
        } = &*self.figures;
        let per_round = |count: u64| count as f64 / (stats.rounds.max(1) as f64);
        let asked = stats.needs as f64 / (self.requests.max(1) as f64);
        let others = members.saturating_sub(1).max(1) as f64;
        [
            (
                "reconciliation_freshness_p99",
                "Of the ages of what this node as owner knows of each holder, the 99th percentile, in seconds",
                *freshness_p99_ns as f64 / NANOS,
            ),
            (
                "reports_received_per_node_per_round",
                "Reports that came in from each other member, on average over all rounds",
                per_round(stats.reports_received) / others,
            ),
            (
                "enforcement_degraded",
                "Owners out of contact for so long that limits are enforced as their `on_degraded` says",
                stats.degraded_owners as f64,
            ),
            (
                "throttle_fleet_fast_path_share",
                "Of all requests, the part that found too little credit and asked for more",
                // A request that lacks credit of two limits asks for both.
                asked.min(1.0),
            ),
            (
                "throttle_fleet_members",
                "Members of the view, this node among them",
                *members as f64,
            ),
            (
                "throttle_fleet_credit_outstanding_units",
                "Units out at holders, for buckets that this node owns",
                stats.credit_outstanding as f64,
            ),
            (
                "throttle_fleet_holdback_units",
                "Units kept back for members that may have given themselves a share",
                stats.holdback_units as f64,
            ),
            (
                "throttle_fleet_held_buckets",
                "Buckets that this node holds credit of",
                stats.held as f64,
            ),
            (
                "throttle_fleet_owned_buckets",
                "Buckets that this node keeps a ledger of",
                stats.owned as f64,
            ),
            (
                "throttle_fleet_waiting_requests",
                "Requests that wait on the fast path",
                *waiting as f64,
            ),
            (
                "throttle_fleet_clock_skew_seconds",
                "The largest difference seen between another node's clock and this one's, delay included",
                stats.largest_skew_ns as f64 / NANOS,
            ),
        ]
    }
}

impl Collector for FleetScrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, count) in self.counters() {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            counter(&mut family, count)?;
        }
        for (name, help, value) in self.gauges() {
            encoder
                .encode_descriptor(name, help, None, MetricType::Gauge)?
                .encode_gauge(&value)?;
        }
        let stats = &self.figures.stats;
        let mut family = encoder.encode_descriptor(
            "throttle_fleet_fast_path",
            "Requests that found too little credit, by what became of asking for more",
            None,
            MetricType::Counter,
        )?;
        for (outcome, count) in [
            ("credit", stats.fast_path_credit),
            ("exhausted", stats.fast_path_exhausted),
            ("missed", stats.fast_path_missed),
            ("not_asked", stats.fast_path_refused),
        ] {
            counter(&mut family.encode_family(&[("outcome", outcome)])?, count)?;
        }
        let mut family = encoder.encode_descriptor(
            "throttle_fleet_peer_up",
            "1 while this node's own connection to the member stands",
            None,
            MetricType::Gauge,
        )?;
        for peer in &self.peers {
            let up = u64::from(peer.link == Link::Up);
            family
                .encode_family(&[("peer", peer.name.as_str())])?
                .encode_gauge(&up)?;
        }
        type Count = fn(&PeerStatus) -> [u64; 2];
        let directions: [(&str, &str, Count); 3] = [
            (
                "throttle_fleet_peer_frames",
                "Frames to and from the member",
                |peer| [peer.traffic.frames_out, peer.traffic.frames_in],
            ),
            (
                "throttle_fleet_peer_bytes",
                "Bytes of frames to and from the member",
                |peer| [peer.traffic.bytes_out, peer.traffic.bytes_in],
            ),
            (
                "throttle_fleet_peer_dropped_frames",
                "Frames to and from the member that were dropped because a queue was full",
                |peer| [peer.traffic.dropped_out, peer.traffic.dropped_in],
            ),
        ];
        for (name, help, of) in directions {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for peer in &self.peers {
                for (direction, count) in ["out", "in"].into_iter().zip(of(peer)) {
                    let labels = [("peer", peer.name.as_str()), ("direction", direction)];
                    counter(&mut family.encode_family(&labels)?, count)?;
                }
            }
        }
        Ok(())
    }
}

fn counter(family: &mut MetricEncoder<'_>, count: u64) -> fmt::Result {
    family.encode_counter::<NoLabelSet, u64, u64>(&count, None)
}
