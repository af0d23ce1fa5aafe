//! Owners of one durable bucket over a ledger that loses answers and applies changes late: what they issue together
//! stays within the allowance. And mutants, to see that the test would notice.

use std::cell::Cell;

use lease::bucket::{Subject, WindowId};
use lease::id::{Epoch, NodeId};

use super::*;
use crate::record::{Decision, Record, decide};

const BUCKET: Bucket = Bucket {
    subject: Subject(1),
    window: WindowId(2),
};
const TRANCHE: u64 = 100;
const ALLOWANCE: u64 = 2_000;
const OWNERS: usize = 3;

/// A rule switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// A change is compared by value, not by version.
    NoVersion,
    /// A new owner may issue what the one before was authorized for.
    ClaimInherits,
    /// An owner counts on a raise before it is confirmed.
    RaiseUnheard,
    /// An owner goes on with the higher total while it asks for a lower one.
    LowerUnkept,
    /// An incarnation that is over is not refused.
    NoFence,
}

const MUTANTS: [Mutant; 5] = [
    Mutant::NoVersion,
    Mutant::ClaimInherits,
    Mutant::RaiseUnheard,
    Mutant::LowerUnkept,
    Mutant::NoFence,
];

struct Owner {
    tranche: Tranche,
    count: u64,
    charged: u64,
}

struct Fleet {
    mutant: Option<Mutant>,
    random: u64,
    record: Option<Record>,
    /// Sent, given up, and still on the way.
    late: Vec<Change>,
    current: usize,
    owners: Vec<Owner>,
    /// Issued by incarnations that are over: never to come back.
    gone: u64,
    raised: u64,
    lowered: u64,
    claimed: u64,
}

fn fence(node: usize, count: u64) -> Fence {
    Fence {
        node: NodeId(node as u64),
        epoch: Epoch {
            count,
            nonce: count * 10 + node as u64,
        },
    }
}

fn owner(node: usize, count: u64) -> Owner {
    Owner {
        tranche: Tranche::new(BUCKET, fence(node, count), Wall(1)),
        count,
        charged: 0,
    }
}

impl Fleet {
    fn new(seed: u64, mutant: Option<Mutant>) -> Self {
        Self {
            mutant,
            random: seed,
            record: None,
            late: Vec::new(),
            current: 0,
            owners: (0..OWNERS).map(|node| owner(node, 1)).collect(),
            gone: 0,
            raised: 0,
            lowered: 0,
            claimed: 0,
        }
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % bound
    }

    /// The ledger takes a change.
    fn apply(&mut self, mut change: Change) -> Result<Authorized, LedgerError> {
        let found = self.record.map(|record| record.authorized);
        if let (Some(Mutant::NoVersion), Some(expected), Some(found)) =
            (self.mutant, &mut change.expected, found)
            && (expected.total, expected.fence) == (found.total, found.fence)
        {
            *expected = found;
        }
        if let (Some(Mutant::NoFence), Some(found)) = (self.mutant, found) {
            change.expected = Some(found);
        }
        match decide(self.record.as_ref(), &change) {
            Decision::Done(authorized) => Ok(authorized),
            Decision::Refuse(refusal) => Err(refusal.into()),
            Decision::Write(mut record) => {
                match found {
                    Some(found) if found.fence != change.fence => {
                        self.claimed += 1;
                        if self.mutant == Some(Mutant::ClaimInherits) {
                            record.authorized.base = found.base;
                        }
                    }
                    Some(found) if found.total > change.to => self.lowered += 1,
                    Some(_) | None => self.raised += 1,
                }
                self.record = Some(record);
                Ok(record.authorized)
            }
        }
    }

    fn may_charge(&self, node: usize) -> u64 {
        let tranche = &self.owners[node].tranche;
        let own = tranche.own();
        match (self.mutant, own, tranche.asked) {
            (Some(Mutant::RaiseUnheard), Some(own), Some(asked)) => {
                asked.to.saturating_sub(own.base)
            }
            (Some(Mutant::LowerUnkept), Some(own), _) => own.total - own.base,
            _ => tranche.may_charge(),
        }
    }

    /// One event. Says whether the fleet has issued more than the limit allows, or than the next owner would count.
    fn step(&mut self) -> bool {
        // Mostly the owner of the current view; now and then the view changes, or an old owner wakes up.
        if self.below(60) == 0 {
            self.current = self.below(OWNERS as u64) as usize;
        }
        let node = match self.below(20) {
            0 => self.below(OWNERS as u64) as usize,
            _ => self.current,
        };
        match self.below(20) {
            0..8 => {
                let free = self
                    .may_charge(node)
                    .saturating_sub(self.owners[node].charged);
                // In few sizes, so that totals repeat.
                let units = (self.below(3) * 50).min(free);
                self.owners[node].charged += units;
            }
            8..10 => {
                let most = self.owners[node].charged;
                let units = (self.below(8) * 50).min(most);
                self.owners[node].charged -= units;
            }
            10..17 => self.ask(node),
            17 if self.below(5) == 0 && !self.late.is_empty() => {
                let which = self.below(self.late.len() as u64) as usize;
                let change = self.late.swap_remove(which);
                let _ = self.apply(change);
            }
            19 if self.below(6) == 0 => {
                let old = &mut self.owners[node];
                self.gone += old.charged;
                *old = owner(node, old.count + 1);
            }
            _ => {}
        }
        let charged: u64 = self.owners.iter().map(|owner| owner.charged).sum();
        let authorized = self.record.map_or(0, |record| record.authorized.total);
        self.gone + charged > ALLOWANCE.min(authorized)
    }

    fn ask(&mut self, node: usize) {
        let need = Need {
            charged: self.owners[node].charged,
            allowance: ALLOWANCE,
            tranche: TRANCHE,
        };
        match self.owners[node].tranche.wish(need) {
            None => {}
            Some(Wish::Load) => {
                let found = self.record.map(|record| record.authorized);
                self.owners[node].tranche.loaded(found);
            }
            Some(Wish::Authorize(change)) => {
                let silence = || {
                    Err(LedgerError::Unavailable {
                        place: String::new(),
                        reason: String::new(),
                    })
                };
                let answer = match self.below(6) {
                    // Never arrives.
                    0 => silence(),
                    // Arrives some time.
                    1 => {
                        self.late.push(change);
                        silence()
                    }
                    // Is done, and not heard of.
                    2 => {
                        let _ = self.apply(change);
                        silence()
                    }
                    _ => self.apply(change),
                };
                self.owners[node].tranche.answered(&answer);
            }
        }
    }
}

/// Whether the fleet of a seed issues too much, and how often each kind of change was made.
fn run(seed: u64, mutant: Option<Mutant>) -> (bool, [u64; 3]) {
    let mut fleet = Fleet::new(seed, mutant);
    let over = (0..1_500).any(|_| fleet.step());
    (over, [fleet.raised, fleet.lowered, fleet.claimed])
}

#[test]
fn owners_together_never_issue_more_than_the_allowance() {
    let mut made = [0; 3];
    for seed in 0..2_000 {
        let (over, counts) = run(seed, None);
        assert!(!over, "seed {seed}");
        for (made, count) in made.iter_mut().zip(counts) {
            *made += count;
        }
    }
    assert!(
        made.iter().all(|made| *made > 2_000),
        "each kind of change happens: {made:?}"
    );
}

#[test]
fn each_rule_switched_off_is_noticed() {
    for mutant in MUTANTS {
        let caught = (0..2_000).filter(|seed| run(*seed, Some(mutant)).0).count();
        println!("{mutant:?}: {caught} of 2000 seeds");
        assert!(caught > 0, "{mutant:?} is not noticed");
    }
}

#[test]
fn a_tranche_is_asked_for_ahead_of_need_and_what_comes_back_is_given_back() {
    let mut tranche = Tranche::new(BUCKET, fence(1, 1), Wall(1));
    let need = |charged| Need {
        charged,
        allowance: 250,
        tranche: 100,
    };
    assert_eq!(tranche.wish(need(0)), Some(Wish::Load));
    tranche.loaded(None);
    let record = Cell::new(None::<Record>);
    let ask = |tranche: &mut Tranche, charged| {
        let Some(Wish::Authorize(change)) = tranche.wish(need(charged)) else {
            return None;
        };
        let Decision::Write(written) = decide(record.get().as_ref(), &change) else {
            panic!("{change:?}");
        };
        record.set(Some(written));
        tranche.answered(&Ok(written.authorized));
        Some(change.to)
    };
    assert_eq!(ask(&mut tranche, 0), Some(100));
    assert_eq!(tranche.may_charge(), 100);
    assert_eq!(ask(&mut tranche, 49), None);
    assert_eq!(ask(&mut tranche, 50), Some(150));
    assert_eq!(ask(&mut tranche, 140), Some(240));
    assert_eq!(ask(&mut tranche, 200), Some(250), "up to the allowance");
    assert_eq!(ask(&mut tranche, 250), None);
    assert_eq!(tranche.may_charge(), 250);
    assert_eq!(ask(&mut tranche, 60), None, "not for a little");
    assert_eq!(ask(&mut tranche, 20), Some(120));
    assert_eq!(tranche.may_charge(), 120);
    // The next incarnation starts from there, and issues what is left.
    let mut next = Tranche::new(BUCKET, fence(1, 2), Wall(1));
    next.loaded(record.get().map(|record| record.authorized));
    assert_eq!((next.may_charge(), next.base()), (0, None));
    assert_eq!(ask(&mut next, 0), Some(220));
    assert_eq!((next.may_charge(), next.base()), (100, Some(120)));
    assert_eq!(ask(&mut next, 90), Some(250));
    // And the one before is over, for good.
    let Some(Wish::Authorize(change)) = tranche.wish(need(120)) else {
        panic!("it wants more");
    };
    let Decision::Refuse(refusal) = decide(record.get().as_ref(), &change) else {
        panic!("{change:?}");
    };
    tranche.answered(&Err(refusal.into()));
    assert_eq!((tranche.may_charge(), tranche.wish(need(0))), (0, None));
}

#[test]
fn with_nothing_left_nothing_is_asked() {
    for allowance in [0, 1, u64::MAX] {
        let mut tranche = Tranche::new(BUCKET, fence(1, 1), Wall(1));
        tranche.loaded(None);
        let need = Need {
            charged: 0,
            allowance,
            tranche: u64::MAX,
        };
        let wish = tranche.wish(need);
        match wish {
            None => assert_eq!(allowance, 0),
            Some(Wish::Authorize(change)) => assert_eq!(change.to, allowance),
            Some(Wish::Load) => panic!("it is loaded"),
        }
    }
}
