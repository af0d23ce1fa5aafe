//! Every kind of fault is seen, and put on the shard that has it.

use node::fleet::{Contact, Fold, HeldSum, Ledger, Peer, Status};

use super::*;

const NAMES: [&str; 3] = ["a", "b", "c"];

fn id(name: &str) -> String {
    format!("id-{name}")
}

/// What a node of a fleet that is well says.
fn answer(me: &str) -> Answer {
    Answer {
        cluster: "test".to_owned(),
        name: me.to_owned(),
        peers: NAMES
            .iter()
            .filter(|name| **name != me)
            .map(|name| Peer {
                node: id(name),
                name: (*name).to_owned(),
                link: "up".to_owned(),
            })
            .collect(),
        status: Status {
            node: id(me),
            standing: None,
            starts: 1,
            view: "view".to_owned(),
            members: NAMES.iter().map(|name| id(name)).collect(),
            round_ms: 25,
            pace_ms: 50,
            folds: NAMES
                .iter()
                .map(|name| Fold {
                    node: id(name),
                    age_ms: Some(49),
                })
                .collect(),
            contacts: NAMES
                .iter()
                .map(|name| Contact {
                    node: id(name),
                    in_contact: true,
                    age_ms: Some(49),
                    degraded: false,
                })
                .collect(),
            ledger: Ledger {
                buckets: 5,
                with_authority: 5,
                reconciled: 5,
            },
            held: HeldSum {
                buckets: 5,
                reconciled: 5,
                available: 7,
            },
            credit_outstanding: 7,
            holdback: 0,
            busiest: Vec::new(),
            unreconciled: Vec::new(),
            invariant_broken: 0,
        },
    }
}

fn well() -> Vec<Asked> {
    NAMES
        .iter()
        .zip(1..)
        .map(|(name, port)| Asked {
            url: format!("127.0.0.1:{port}").parse().unwrap(),
            answer: Ok(answer(name)),
        })
        .collect()
}

fn status(asked: &mut [Asked], index: usize) -> &mut Status {
    &mut asked[index].answer.as_mut().unwrap().status
}

/// The kinds of faults by shard.
fn faults(verdict: &Verdict) -> Vec<(String, Kind)> {
    verdict
        .shards
        .iter()
        .flat_map(|shard| {
            assert_eq!(shard.well, shard.faults.is_empty());
            let name = &shard.name;
            shard.faults.iter().map(|it| (name.clone(), it.kind))
        })
        .collect()
}

/// What is found after a change to a fleet that was well.
fn found(change: impl FnOnce(&mut Vec<Asked>)) -> Vec<(String, Kind)> {
    let mut asked = well();
    change(&mut asked);
    let verdict = judge(&asked, Demands::default());
    let faults = faults(&verdict);
    assert_eq!(verdict.well, faults.is_empty());
    faults
}

fn one(name: &str, kind: Kind) -> Vec<(String, Kind)> {
    vec![(name.to_owned(), kind)]
}

#[test]
fn a_fleet_that_is_well_is_well() {
    let verdict = judge(&well(), Demands::default());
    assert_eq!(faults(&verdict), []);
    assert!(verdict.well && verdict.any_answer);
    let names: Vec<_> = verdict.shards.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, NAMES);
    assert_eq!(verdict.shards[2].url.as_deref(), Some("http://127.0.0.1:3"));
}

#[test]
fn each_fault_is_put_on_the_shard_that_has_it() {
    assert_eq!(
        found(|asked| status(asked, 0).contacts[1].in_contact = false),
        one("b", Kind::OutOfContact)
    );
    assert_eq!(
        found(|asked| status(asked, 0).contacts[1].degraded = true),
        one("b", Kind::Degraded)
    );
    assert_eq!(
        found(|asked| drop(status(asked, 0).contacts.remove(2))),
        one("c", Kind::OutOfContact)
    );
    assert_eq!(
        found(|asked| status(asked, 0).folds[1].age_ms = Some(151)),
        one("a", Kind::Stale)
    );
    assert_eq!(
        found(|asked| status(asked, 0).folds[1].age_ms = Some(150)),
        []
    );
    assert_eq!(
        found(|asked| status(asked, 0).folds[1].age_ms = None),
        one("a", Kind::Stale)
    );
    assert_eq!(
        found(|asked| status(asked, 1).ledger.reconciled = 4),
        one("b", Kind::Unreconciled)
    );
    assert_eq!(
        found(|asked| status(asked, 1).held.reconciled = 4),
        one("b", Kind::Unreconciled)
    );
    assert_eq!(
        found(|asked| status(asked, 1).invariant_broken = 1),
        one("b", Kind::Unreconciled)
    );
    assert_eq!(
        found(|asked| status(asked, 1).view = "other".to_owned()),
        one("b", Kind::OtherView)
    );
    assert_eq!(
        found(|asked| asked[1].answer.as_mut().unwrap().cluster = "prod".to_owned()),
        one("b", Kind::OtherCluster)
    );
    assert_eq!(found(|asked| drop(asked.pop())), one("c", Kind::NotAsked));
    assert_eq!(
        found(|asked| asked.push(Asked {
            url: "localhost:3".parse().unwrap(),
            answer: Ok(answer("c")),
        })),
        one("c", Kind::Twice)
    );
}

#[test]
fn a_dead_node_is_the_one_that_is_not_well() {
    let dead = |asked: &mut Vec<Asked>| {
        asked[2].answer = Err(AskError::Connect("refused".to_owned()));
        for index in 0..2 {
            status(asked, index).contacts[2].in_contact = false;
            status(asked, index).folds[2].age_ms = Some(900);
        }
    };
    let mut faults = found(dead);
    faults.dedup();
    assert_eq!(
        faults,
        [
            ("c".to_owned(), Kind::Unreachable),
            ("c".to_owned(), Kind::OutOfContact),
            ("c".to_owned(), Kind::Stale),
            ("c".to_owned(), Kind::OutOfContact),
            ("c".to_owned(), Kind::Stale),
        ]
    );
    let mut asked = well();
    dead(&mut asked);
    let verdict = judge(&asked, Demands::default());
    assert_eq!(verdict.shards[2].url.as_deref(), Some("http://127.0.0.1:3"));
    assert!(verdict.shards[2].faults[0].text.contains("refused"));
}

#[test]
fn two_dead_nodes_leave_open_whose_url_is_whose() {
    let verdict = found(|asked| {
        for asked in &mut asked[1..] {
            asked.answer = Err(AskError::Left);
        }
    });
    assert_eq!(
        verdict,
        [
            ("b".to_owned(), Kind::NotAsked),
            ("c".to_owned(), Kind::NotAsked),
            ("http://127.0.0.1:2".to_owned(), Kind::Unreachable),
            ("http://127.0.0.1:3".to_owned(), Kind::Unreachable),
        ]
    );
}

#[test]
fn when_nobody_answers_nothing_is_well() {
    let mut asked = well();
    for asked in &mut asked {
        asked.answer = Err(AskError::NoFleet);
    }
    let verdict = judge(&asked, Demands::default());
    assert!(!verdict.well && !verdict.any_answer);
    assert_eq!(verdict.shards.len(), 3);
    let verdict = judge(&[], Demands::default());
    assert!(!verdict.well && !verdict.any_answer);
}

#[test]
fn demands_are_met_or_not() {
    let partial = Demands {
        partial: true,
        ..Demands::default()
    };
    assert!(judge(&well()[..1], partial).well);
    assert!(!judge(&well()[..1], Demands::default()).well);
    let strict = |fold_age_ms| Demands {
        fold_age_ms: Some(fold_age_ms),
        ..Demands::default()
    };
    assert!(judge(&well(), strict(49)).well);
    assert!(!judge(&well(), strict(48)).well);
}

#[test]
fn what_nodes_call_themselves_cannot_act_on_a_terminal() {
    let mut asked = well();
    asked[0].answer.as_mut().unwrap().name = "a\u{1b}[2J".to_owned();
    let verdict = judge(&asked, Demands::default());
    assert!(!crate::probe::show::text(&verdict).contains('\u{1b}'));
}
