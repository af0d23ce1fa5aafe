//! What `top` shows, worked out of what the nodes said. No IO here.

use crate::probe::ask::Asked;
use crate::probe::judge::{Demands, judge};

/// The most keys that are kept to be shown.
const MOST_KEYS: usize = 100;

/// Everything that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The fleet's name; empty if nobody said.
    pub cluster: String,
    /// Nodes that answered.
    pub answered: usize,
    /// The fleet is well, as `probe` would say of the nodes that were named.
    pub well: bool,
    /// Members, and URLs of which nobody knows whose they are.
    pub nodes: Vec<Node>,
    /// What is not well: who, and what.
    pub faults: Vec<(String, String)>,
    /// Busiest first.
    pub keys: Vec<Key>,
}

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub state: State,
    /// What it said.
    pub said: Option<Said>,
}

/// How a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Well,
    NotWell,
    /// It does not answer.
    Away,
    /// No URL was given for it, and the others have nothing to say against it.
    NotAsked,
}

impl State {
    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Well => "well",
            Self::NotWell => "not well",
            Self::Away => "away",
            Self::NotAsked => "not asked",
        }
    }
}

/// Figures of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    pub starts: u64,
    /// The oldest of what it knows of the others, in milliseconds.
    pub oldest_fold_ms: Option<u64>,
    /// Owners that answer it, of so many.
    pub contacts: (usize, usize),
    pub owned_buckets: u64,
    pub credit_outstanding: u64,
    pub holdback: u64,
    pub held_buckets: u64,
    /// Units that it may still spend.
    pub available: u64,
}

/// A key and limit with much demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// A keyed hash.
    pub subject: String,
    pub demand_per_second: u64,
    /// The node that issues its credit in this window.
    pub owner: String,
}

impl Picture {
    /// The picture of what the nodes said.
    pub fn of(asked: &[Asked]) -> Self {
        let partial = Demands {
            partial: true,
            ..Demands::default()
        };
        let verdict = judge(asked, partial);
        let answers = || asked.iter().filter_map(|asked| asked.answer.as_ref().ok());
        let name_of = |node: &str| {
            let mut shards = verdict.shards.iter();
            let shard = shards.find(|shard| shard.node.as_deref() == Some(node));
            shard.map_or_else(String::new, |shard| shard.name.clone())
        };
        let nodes = verdict
            .shards
            .iter()
            .map(|shard| {
                let said = answers()
                    .find(|answer| Some(&answer.status.node) == shard.node.as_ref())
                    .map(|answer| said(&answer.status));
                Node {
                    name: shard.name.clone(),
                    state: match (&said, shard.well) {
                        (None, false) => State::Away,
                        (None, true) => State::NotAsked,
                        (Some(_), true) => State::Well,
                        (Some(_), false) => State::NotWell,
                    },
                    said,
                }
            })
            .collect();
        let mut keys: Vec<Key> = answers()
            .flat_map(|answer| {
                let owner = name_of(&answer.status.node);
                answer.status.busiest.iter().map(move |busy| Key {
                    subject: busy.subject.escape_debug().to_string(),
                    demand_per_second: busy.demand_per_second,
                    owner: owner.clone(),
                })
            })
            .collect();
        keys.sort_by(|a, b| {
            let by_demand = b.demand_per_second.cmp(&a.demand_per_second);
            by_demand.then_with(|| a.subject.cmp(&b.subject))
        });
        keys.truncate(MOST_KEYS);
        Self {
            cluster: answers()
                .next()
                .map_or_else(String::new, |it| it.cluster.escape_debug().to_string()),
            answered: answers().count(),
            well: verdict.well,
            faults: verdict
                .shards
                .iter()
                .flat_map(|shard| {
                    let texts = shard.faults.iter().map(|fault| fault.text.clone());
                    texts.map(|text| (shard.name.clone(), text))
                })
                .collect(),
            nodes,
            keys,
        }
    }
}

fn said(status: &node::fleet::Status) -> Said {
    let others = || {
        let contacts = status.contacts.iter();
        contacts.filter(|contact| contact.node != status.node)
    };
    Said {
        starts: status.starts,
        oldest_fold_ms: status.folds.iter().filter_map(|fold| fold.age_ms).max(),
        contacts: (
            others().filter(|contact| contact.in_contact).count(),
            others().count(),
        ),
        owned_buckets: status.ledger.buckets,
        credit_outstanding: status.credit_outstanding,
        holdback: status.holdback,
        held_buckets: status.held.buckets,
        available: status.held.available,
    }
}
