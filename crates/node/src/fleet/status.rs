//! What can be asked of a node about its place in the fleet: figures for metrics, and everything for `probe` and `top`.
//!
//! Copies of numbers; keys only as the hashes that they are in the protocol.

use std::time::Duration;

use lease::bucket::Bucket;
use lease::id::NodeId;
use lease::node::Node;
use lease::stats::Stats;
use lease::terms::{OnDegraded, Terms};
use lease::time::Instant;
use lease::view::View;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::peers::{Identity, PeerStatus};

/// The most buckets that one answer lists.
pub const MOST_LISTED: usize = 1000;

/// Counters, and a few levels that are worked out for metrics.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// The protocol's own.
    pub stats: Stats,
    /// Of the ages of what this node knows of each holder, the 99th percentile, in nanoseconds.
    pub freshness_p99_ns: u64,
    /// Members of the view.
    pub members: u64,
    /// Requests that wait for an answer.
    pub waiting: u64,
    /// Frames that could not be used, by this node or as an envelope.
    pub frames_refused: u64,
}

/// How often the protocol speaks.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// The length of a round.
    pub round: Duration,
    /// A pair of nodes with nothing new to say speaks every so many rounds.
    pub idle_pace: u32,
}

/// A question.
#[derive(Debug)]
pub struct StatusQuery {
    /// At most so many buckets are listed.
    pub most_buckets: usize,
    /// Where the answer goes.
    pub answer: oneshot::Sender<Status>,
}

/// Everything about a node's place in the fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The node's id in the protocol.
    pub node: String,
    /// How it stands in a list that the fleet keeps for itself, such as `member` or `joining`. None: the list is fixed.
    #[serde(default)]
    pub standing: Option<String>,
    /// How often it was started.
    pub starts: u64,
    /// Which list of members it acts under.
    pub view: String,
    /// The members' ids, in the order of the view.
    pub members: Vec<String>,
    /// The length of a round in milliseconds.
    pub round_ms: u64,
    /// A pair of nodes with nothing new to say speaks so often, in milliseconds.
    pub pace_ms: u64,
    /// As owner: how old its knowledge of each holder is.
    pub folds: Vec<Fold>,
    /// As holder: how it stands with each owner.
    pub contacts: Vec<Contact>,
    /// Its ledgers, added up.
    pub ledger: Ledger,
    /// As holder: its credit, added up.
    pub held: HeldSum,
    /// Units out at holders, for buckets that it owns.
    pub credit_outstanding: u64,
    /// Units kept for members that have not pledged.
    pub holdback: u64,
    /// The buckets with the most demand that it owns.
    pub busiest: Vec<Busy>,
    /// Buckets whose ledger does not add up. Always empty, unless there is a fault in Leasehold.
    pub unreconciled: Vec<Owned>,
    /// How often a ledger did not add up since the start. Always 0, unless there is a fault in Leasehold.
    pub invariant_broken: u64,
}

/// What `GET /fleet` answers: the status, and names for the ids in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The fleet's name.
    pub cluster: String,
    /// This node's name.
    pub name: String,
    /// The other members.
    pub peers: Vec<Peer>,
    /// Everything else.
    #[serde(flatten)]
    pub status: Status,
}

/// Another member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its id in the protocol.
    pub node: String,
    /// Its name.
    pub name: String,
    /// Whether this node's own side of the way to it stands: `up`, `connecting` or `down`.
    pub link: String,
}

/// How old an owner's knowledge of a holder is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fold {
    /// The holder.
    pub node: String,
    /// In milliseconds. None: never heard.
    pub age_ms: Option<u64>,
}

/// How a holder stands with an owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The owner.
    pub node: String,
    /// Whether it has acknowledged a report lately.
    pub in_contact: bool,
    /// Since the last report that it acknowledged, in milliseconds. None: never.
    pub age_ms: Option<u64>,
    /// Whether limits are enforced without it, as each says.
    pub degraded: bool,
}

/// The sum of an owner's ledgers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// Buckets in it.
    pub buckets: u64,
    /// Of these, those that this incarnation may issue for.
    pub with_authority: u64,
    /// Of these, those where what is charged is at most the allowance, and no holder has spent more than it was issued.
    pub reconciled: u64,
}

/// The sum of a holder's credit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldSum {
    /// Buckets that it has a record of.
    pub buckets: u64,
    /// Of these, those where what was spent, returned and given is at most what came in (S1).
    pub reconciled: u64,
    /// Units that it may still spend, as of its last look.
    pub available: u64,
}

/// A bucket with much demand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busy {
    /// The hash of (key, limit).
    pub subject: String,
    /// The window's number.
    pub window: u64,
    /// Units asked for in a second.
    pub demand_per_second: u64,
}

/// A bucket in a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owned {
    /// The hash of (key, limit).
    pub subject: String,
    /// The window's number.
    pub window: u64,
    /// The units that it may admit.
    pub allowance: u64,
    /// What is out or held back.
    pub charged: u64,
    /// The holders that have spent more than they were issued.
    pub overspent: Vec<String>,
}

/// How an owner's record of a bucket does not add up, if so.
fn unreconciled(owned: &lease::audit::Owned) -> Option<Owned> {
    // Where this incarnation has no authority it has issued nothing, and only keeps what others say. What was issued
    // of a durable limit by an earlier incarnation is in the store, not in the accounts.
    let in_accounts = !owned.terms.durable && is_bound(&owned.terms);
    let overspent: Vec<String> = owned
        .accounts
        .iter()
        .filter(|account| in_accounts && account.spent > issued(account))
        .map(|account| name(account.node))
        .collect();
    let adds_up = owned.charged <= owned.allowance && overspent.is_empty();
    (owned.authority && !adds_up).then(|| Owned {
        subject: subject(owned.bucket),
        window: owned.bucket.window.0,
        allowance: owned.allowance,
        charged: owned.charged,
        overspent,
    })
}

/// What `fail_open` lets a degraded node admit was issued by nobody.
fn is_bound(terms: &Terms) -> bool {
    match terms.on_degraded {
        OnDegraded::FairShare | OnDegraded::FailClosed => true,
        OnDegraded::FailOpen => false,
    }
}

fn issued(account: &lease::audit::Account) -> u64 {
    account.granted.saturating_add(account.self_granted)
}

fn held(node: &Node) -> HeldSum {
    let mut sum = HeldSum::default();
    for held in node.held() {
        let (went, came) = (
            [held.spent, held.returned, held.given],
            [held.granted, held.self_granted],
        );
        let total = |units: &[u64]| units.iter().fold(0_u64, |sum, it| sum.saturating_add(*it));
        sum.buckets += 1;
        sum.reconciled += u64::from(total(&went) <= total(&came) || !is_bound(&held.terms));
        sum.available = sum.available.saturating_add(held.available);
    }
    sum
}

fn name(node: NodeId) -> String {
    format!("{:016x}", node.0)
}

fn subject(bucket: Bucket) -> String {
    format!("{:032x}", bucket.subject.0)
}

fn millis(age: Duration) -> u64 {
    u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
}

impl Figures {
    /// The figures as of now.
    pub fn of(node: &Node, view: &View, now: Instant, waiting: usize, refused: u64) -> Self {
        let mut ages: Vec<u64> = node
            .folds(now)
            .filter(|fold| view.contains(fold.node))
            .filter_map(|fold| fold.age)
            .map(|age| u64::try_from(age.as_nanos()).unwrap_or(u64::MAX))
            .collect();
        ages.sort_unstable();
        let p99 = (ages.len() * 99).div_ceil(100).saturating_sub(1);
        Self {
            stats: node.stats().clone(),
            freshness_p99_ns: ages.get(p99).copied().unwrap_or(0),
            members: view.members.len() as u64,
            waiting: waiting as u64,
            frames_refused: refused,
        }
    }
}

impl Answer {
    /// Names what a status speaks of.
    #[must_use]
    pub fn new(status: Status, me: &Identity, peers: &[PeerStatus]) -> Self {
        Self {
            cluster: me.cluster.to_string(),
            name: me.node.to_string(),
            peers: peers
                .iter()
                .map(|peer| Peer {
                    node: name(peer.name.id()),
                    name: peer.name.to_string(),
                    link: peer.link.label().to_owned(),
                })
                .collect(),
            status,
        }
    }
}

impl Status {
    /// The status as of now.
    pub fn of(
        node: &Node,
        view: &View,
        rounds: Rounds,
        now: lease::time::Now,
        most_buckets: usize,
    ) -> Self {
        let most_buckets = most_buckets.min(MOST_LISTED);
        let (now, wall) = (now.instant, now.wall);
        let mut ledger = Ledger {
            buckets: 0,
            with_authority: 0,
            reconciled: 0,
        };
        let mut unreconciled = Vec::new();
        for owned in node.owned() {
            ledger.buckets += 1;
            ledger.with_authority += u64::from(owned.authority);
            match self::unreconciled(&owned) {
                None => ledger.reconciled += 1,
                Some(owned) if unreconciled.len() < most_buckets => unreconciled.push(owned),
                Some(_) => {}
            }
        }
        let stats = node.stats();
        Self {
            node: name(node.identity().node),
            standing: None,
            starts: node.identity().epoch.count,
            view: format!("{:016x}", view.id.0),
            members: view.members.iter().copied().map(name).collect(),
            round_ms: millis(rounds.round),
            pace_ms: millis(rounds.round * rounds.idle_pace),
            folds: node
                .folds(now)
                .filter(|fold| view.contains(fold.node))
                .map(|fold| Fold {
                    node: name(fold.node),
                    age_ms: fold.age.map(millis),
                })
                .collect(),
            contacts: node
                .contacts(now)
                .filter(|contact| view.contains(contact.node))
                .map(|contact| Contact {
                    node: name(contact.node),
                    in_contact: contact.in_contact,
                    age_ms: contact.age.map(millis),
                    degraded: contact.degraded,
                })
                .collect(),
            ledger,
            held: held(node),
            credit_outstanding: stats.credit_outstanding,
            holdback: stats.holdback_units,
            busiest: node
                .busiest(wall)
                .into_iter()
                .take(most_buckets)
                .map(|(bucket, demand_per_second)| Busy {
                    subject: subject(bucket),
                    window: bucket.window.0,
                    demand_per_second,
                })
                .collect(),
            unreconciled,
            invariant_broken: stats.invariant_broken,
        }
    }
}
