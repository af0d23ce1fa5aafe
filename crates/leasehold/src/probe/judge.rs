//! Whether a fleet is well, judged from what its nodes said. No IO here, and no clock: ages come from the nodes.
//!
//! A fleet is well if every member answers, all act under one list, every owner is in contact with every holder and
//! has heard it lately, and every ledger adds up. Whatever is not known to be well is not well.

use std::collections::{BTreeMap, BTreeSet};

use node::fleet::{Answer, Owned};
use serde::Serialize;

use super::ask::{AskError, Asked};

/// After so many paces unheard a holder is absent to its owner: the protocol's own measure.
const ABSENT_PACES: u64 = 3;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Demands {
    /// The oldest that knowledge of a holder may be. None: three paces, after which a holder is absent.
    pub fold_age_ms: Option<u64>,
    /// Whether members without a URL are judged only by what the others know of them.
    pub partial: bool,
}

/// One thing that is not well.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// A word for programs.
    pub kind: Kind,
    /// For people.
    pub text: String,
}

/// What kind of thing is not well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Nothing answers at its URL.
    Unreachable,
    /// No URL was given for it.
    NotAsked,
    /// Two answers under one name.
    Twice,
    /// It is of another cluster than most.
    OtherCluster,
    /// It acts under another list of members than most.
    OtherView,
    /// It does not answer a holder.
    OutOfContact,
    /// A holder enforces limits without it.
    Degraded,
    /// An owner has not heard a holder for too long.
    Stale,
    /// A ledger, or a holder's credit, does not add up.
    Unreconciled,
}

/// How one member stands: as the owner of its shard, and as a holder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shard {
    /// Its name, or its id where nobody said its name.
    pub name: String,
    /// Its id in the protocol; none if nobody knows it.
    pub node: Option<String>,
    /// Where it answered, or should have.
    pub url: Option<String>,
    /// Nothing is wrong with it.
    pub well: bool,
    /// What is wrong.
    pub faults: Vec<Fault>,
    /// What it said.
    pub figures: Option<Figures>,
}

/// Figures for people, of what a node said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// How often it was started.
    pub starts: u64,
    /// The oldest of what it knows of the holders, in milliseconds.
    pub oldest_fold_ms: Option<u64>,
    /// Buckets in its ledger.
    pub owned_buckets: u64,
    /// Units of them that are out at holders.
    pub credit_outstanding: u64,
    /// Units of them that are held back.
    pub holdback: u64,
    /// Buckets of which it holds credit.
    pub held_buckets: u64,
}

/// How a fleet stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Nothing is wrong.
    pub well: bool,
    /// Whether any node answered.
    #[serde(skip)]
    pub any_answer: bool,
    /// Every member that anybody knows of, by name, and URLs of which nobody knows whose they are.
    pub shards: Vec<Shard>,
}

/// Judges.
pub fn judge(asked: &[Asked], demands: Demands) -> Verdict {
    let mut judging = Judging::new(asked);
    judging.unanswered(asked, demands);
    for (url, answer) in answers(asked) {
        judging.lists(answer);
        judging.contacts(answer);
        judging.folds(answer, demands);
        judging.sums(answer);
        judging.said(url, answer);
    }
    judging.verdict()
}

fn answers(asked: &[Asked]) -> impl Iterator<Item = (String, &Answer)> {
    asked
        .iter()
        .filter_map(|asked| Some((asked.url.to_string(), asked.answer.as_ref().ok()?)))
}

/// What most nodes say; of equals the smallest.
fn most_said<T: Ord + Copy>(said: impl Iterator<Item = T>) -> Option<T> {
    let mut counts = BTreeMap::new();
    for one in said {
        *counts.entry(one).or_insert(0_usize) += 1;
    }
    let most = counts.values().max().copied()?;
    counts
        .into_iter()
        .find_map(|(one, count)| (count == most).then_some(one))
}

struct Judging<'a> {
    names: BTreeMap<&'a str, &'a str>,
    answered: BTreeSet<&'a str>,
    members: BTreeSet<&'a str>,
    cluster: &'a str,
    view: &'a str,
    shards: BTreeMap<&'a str, Shard>,
    nobodys: Vec<Shard>,
}

impl<'a> Judging<'a> {
    fn new(asked: &'a [Asked]) -> Self {
        let said: Vec<&Answer> = answers(asked).map(|(_, answer)| answer).collect();
        let mut names = BTreeMap::new();
        for answer in &said {
            for peer in &answer.peers {
                names.insert(peer.node.as_str(), peer.name.as_str());
            }
        }
        for answer in &said {
            names.insert(answer.status.node.as_str(), answer.name.as_str());
        }
        let members: BTreeSet<&str> = said
            .iter()
            .flat_map(|answer| answer.status.members.iter().map(String::as_str))
            .chain(said.iter().map(|answer| answer.status.node.as_str()))
            .collect();
        let mut judging = Self {
            answered: said.iter().map(|it| it.status.node.as_str()).collect(),
            cluster: most_said(said.iter().map(|it| it.cluster.as_str())).unwrap_or(""),
            view: most_said(said.iter().map(|it| it.status.view.as_str())).unwrap_or(""),
            shards: BTreeMap::new(),
            nobodys: Vec::new(),
            names,
            members,
        };
        for node in judging.members.clone() {
            judging.shards.insert(
                node,
                Shard {
                    name: judging.name(node),
                    node: Some(node.to_owned()),
                    url: None,
                    well: true,
                    faults: Vec::new(),
                    figures: None,
                },
            );
        }
        judging
    }

    fn name(&self, node: &str) -> String {
        // What a node calls itself may be anything, and goes to a terminal.
        let name = self.names.get(node).copied().unwrap_or(node);
        name.escape_debug().to_string()
    }

    fn blame(&mut self, node: &str, kind: Kind, text: String) {
        if let Some(shard) = self.shards.get_mut(node) {
            shard.faults.push(Fault { kind, text });
        }
    }

    /// URLs without an answer, and members without a URL.
    fn unanswered(&mut self, asked: &[Asked], demands: Demands) {
        let failed: Vec<(String, &AskError)> = asked
            .iter()
            .filter_map(|asked| Some((asked.url.to_string(), asked.answer.as_ref().err()?)))
            .collect();
        let missing: Vec<&str> = self.members.difference(&self.answered).copied().collect();
        if let ([(url, error)], [node]) = (failed.as_slice(), missing.as_slice()) {
            // One of each: that URL is that member's.
            self.blame(node, Kind::Unreachable, format!("{url}: {error}"));
            if let Some(shard) = self.shards.get_mut(node) {
                shard.url = Some(url.clone());
            }
            return;
        }
        for (url, error) in &failed {
            self.nobodys.push(Shard {
                name: url.clone(),
                node: None,
                url: Some(url.clone()),
                well: false,
                faults: vec![Fault {
                    kind: Kind::Unreachable,
                    text: error.to_string(),
                }],
                figures: None,
            });
        }
        for node in missing {
            let text = match failed.len() {
                0 if demands.partial => continue,
                0 => "no URL was given for it".to_owned(),
                _ => "it answered at none of the URLs".to_owned(),
            };
            self.blame(node, Kind::NotAsked, text);
        }
    }

    /// Which fleet and which list of members a node acts under.
    fn lists(&mut self, answer: &Answer) {
        let node = answer.status.node.as_str();
        if answer.cluster != self.cluster {
            let (its, most) = (&answer.cluster, self.cluster);
            let text = format!("it is of the cluster {its:?}, most are of {most:?}");
            self.blame(node, Kind::OtherCluster, text);
        }
        if answer.status.view != self.view {
            let text = format!(
                "it acts under another list of members ({} of them, list {}) than most (list {})",
                answer.status.members.len(),
                answer.status.view.escape_debug(),
                self.view.escape_debug()
            );
            self.blame(node, Kind::OtherView, text);
        }
    }

    /// Whether the owners answer this holder.
    fn contacts(&mut self, answer: &Answer) {
        let holder = self.name(&answer.status.node);
        for contact in &answer.status.contacts {
            let since = age(contact.age_ms);
            if contact.degraded {
                let text = format!(
                    "{holder} enforces its limits without it, as each says; last answered {since}"
                );
                self.blame(&contact.node, Kind::Degraded, text);
            } else if !contact.in_contact {
                let text = format!("it does not answer {holder}; last answered {since}");
                self.blame(&contact.node, Kind::OutOfContact, text);
            }
        }
        let known: BTreeSet<&str> = answer
            .status
            .contacts
            .iter()
            .map(|contact| contact.node.as_str())
            .collect();
        for member in &answer.status.members {
            if !known.contains(member.as_str()) && *member != answer.status.node {
                let text = format!("{holder} knows nothing of it");
                self.blame(member, Kind::OutOfContact, text);
            }
        }
    }

    /// Whether this owner has heard the holders lately.
    fn folds(&mut self, answer: &Answer, demands: Demands) {
        let status = &answer.status;
        let most = demands
            .fold_age_ms
            .unwrap_or(status.pace_ms.saturating_mul(ABSENT_PACES));
        let owner = status.node.as_str();
        for fold in &status.folds {
            if fold.age_ms.is_some_and(|age| age <= most) {
                continue;
            }
            let (heard, holder) = (age(fold.age_ms), self.name(&fold.node));
            // A holder that does not even answer here is what is not well, rather than all that miss it.
            if self.answered.contains(fold.node.as_str()) {
                let text = format!("it last heard {holder} {heard}, at most {most} ms is well");
                self.blame(owner, Kind::Stale, text);
            } else {
                let text = format!("{} last heard it {heard}", self.name(owner));
                self.blame(&fold.node, Kind::Stale, text);
            }
        }
    }

    /// Whether what was spent and issued adds up.
    fn sums(&mut self, answer: &Answer) {
        let status = &answer.status;
        let node = status.node.as_str();
        let off = status.ledger.buckets - status.ledger.reconciled.min(status.ledger.buckets);
        if off > 0 {
            let examples: Vec<String> = status
                .unreconciled
                .iter()
                .take(3)
                .map(|owned| self.unreconciled(owned))
                .collect();
            let text = format!(
                "{off} of {} buckets in its ledger do not add up: {}",
                status.ledger.buckets,
                examples.join("; ")
            );
            self.blame(node, Kind::Unreconciled, text);
        }
        let off = status.held.buckets - status.held.reconciled.min(status.held.buckets);
        if off > 0 {
            let text = format!(
                "in {off} of {} buckets it has spent more credit than it was given",
                status.held.buckets
            );
            self.blame(node, Kind::Unreconciled, text);
        }
        if status.invariant_broken > 0 {
            let text = format!(
                "its ledger has failed to add up {} times since its start, a fault in Leasehold",
                status.invariant_broken
            );
            self.blame(node, Kind::Unreconciled, text);
        }
    }

    fn unreconciled(&self, owned: &Owned) -> String {
        let Owned {
            subject,
            window,
            allowance,
            charged,
            overspent,
        } = owned;
        let subject = subject.escape_debug();
        if overspent.is_empty() {
            format!("{charged} charged of {allowance} ({subject}, window {window})")
        } else {
            let names: Vec<String> = overspent.iter().map(|node| self.name(node)).collect();
            let names = names.join(", ");
            format!("more spent than issued at {names} ({subject}, window {window})")
        }
    }

    fn said(&mut self, url: String, answer: &Answer) {
        let status = &answer.status;
        let Some(shard) = self.shards.get_mut(status.node.as_str()) else {
            return;
        };
        if let Some(other) = &shard.url {
            let text = format!(
                "both {other} and {url} answer under its name: one node given twice, or two"
            );
            shard.faults.push(Fault {
                kind: Kind::Twice,
                text,
            });
            return;
        }
        shard.url = Some(url);
        shard.figures = Some(Figures {
            starts: status.starts,
            oldest_fold_ms: status.folds.iter().filter_map(|fold| fold.age_ms).max(),
            owned_buckets: status.ledger.buckets,
            credit_outstanding: status.credit_outstanding,
            holdback: status.holdback,
            held_buckets: status.held.buckets,
        });
    }

    fn verdict(self) -> Verdict {
        let mut shards: Vec<Shard> = self.shards.into_values().collect();
        shards.sort_by(|a, b| (&a.name, &a.node).cmp(&(&b.name, &b.node)));
        shards.extend(self.nobodys);
        for shard in &mut shards {
            shard.well = shard.faults.is_empty();
        }
        Verdict {
            well: !self.answered.is_empty() && shards.iter().all(|shard| shard.well),
            any_answer: !self.answered.is_empty(),
            shards,
        }
    }
}

fn age(age_ms: Option<u64>) -> String {
    age_ms.map_or_else(|| "never".to_owned(), |age| format!("{age} ms ago"))
}

#[cfg(test)]
mod tests;
