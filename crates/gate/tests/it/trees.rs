//! Limits found in descriptor trees: what is charged, replaced, shared, brought along, and refused together.

use std::num::NonZeroU64;

use gate::hash::HashSecret;
use gate::leased::LeasedTable;
use gate::request::{Hits, Part, Request};
use gate::table::Table;
use gate::{Dry, Fleet, Gate, Refusal, Verdict};
use lease::credit::Credit;
use policy::model::{
    Amount, DescriptorDomain, DescriptorLimit, DescriptorNode, DescriptorValue, Limit, Mode,
    Policy, RuleName, Sharing,
};

use crate::fixture::*;

fn node(key: &str, value: Option<&str>, limit: Option<DescriptorLimit>) -> DescriptorNode {
    DescriptorNode {
        key: key.into(),
        value: value.map_or(DescriptorValue::Any, |text| {
            DescriptorValue::Pattern(text.into())
        }),
        share_threshold: false,
        limit,
        descriptors: vec![],
    }
}

fn tree_limit(rule: &str, limit: Limit) -> DescriptorLimit {
    DescriptorLimit {
        rule: RuleName::new(rule),
        limit,
        mode: Mode::Enforce,
        quota_mode: false,
        replaced_as: None,
        replaces: vec![],
    }
}

fn minute(rule: &str, units: u64) -> DescriptorLimit {
    tree_limit(rule, fixed(units, 60_000))
}

fn tree_gate(descriptors: Vec<DescriptorNode>) -> Gate {
    let domains = vec![DescriptorDomain {
        name: "edge".into(),
        descriptors,
    }];
    gate(&Policy {
        domains,
        ..Policy::default()
    })
}

fn ask(gate: &Gate, descriptors: &[&[(&str, &str)]]) -> Answer {
    ask_with(gate, descriptors, None)
}

fn ask_with(gate: &Gate, descriptors: &[&[(&str, &str)]], brought: Option<Amount>) -> Answer {
    let parts: Vec<Part<'_>> = descriptors
        .iter()
        .map(|entries| Part {
            request: Request {
                domain: Some("edge"),
                entries,
                limit_override: brought,
                ..Request::default()
            },
            hits: Hits::Take(1),
        })
        .collect();
    answer(&gate.check(&gate.snapshot(), &parts, START))
}

#[test]
fn values_have_buckets_of_their_own_and_a_threshold_is_shared() {
    let mut shared = node("path", Some("files/*"), Some(minute("shared", 2)));
    shared.share_threshold = true;
    let gate = tree_gate(vec![
        node("user", None, Some(minute("user", 1))),
        node("user", Some("vip"), Some(minute("vip", 3))),
        shared,
    ]);
    assert!(ask(&gate, &[&[("user", "a")]]).admitted());
    assert!(!ask(&gate, &[&[("user", "a")]]).admitted());
    assert!(ask(&gate, &[&[("user", "b")]]).admitted());
    assert_eq!(ask(&gate, &[&[("user", "vip")]]).remaining("vip"), 2);
    assert!(ask(&gate, &[&[("path", "files/1")]]).admitted());
    assert!(ask(&gate, &[&[("path", "files/2")]]).admitted());
    assert!(!ask(&gate, &[&[("path", "files/3")]]).admitted());
    assert_eq!(ask(&gate, &[&[("nothing", "x")]]).limits, []);
}

/// The same limits under two domains or two nodes never share a bucket.
#[test]
fn a_refused_descriptor_leaves_the_others_uncharged() {
    let gate = tree_gate(vec![
        node("group", Some("g"), Some(minute("group", 10))),
        node("special", Some("s"), Some(minute("special", 3))),
    ]);
    let both: [&[(&str, &str)]; 2] = [&[("group", "g")], &[("special", "s")]];
    let admitted = (0..5).filter(|_| ask(&gate, &both).admitted()).count();
    assert_eq!(admitted, 3);
    assert_eq!(
        ask(&gate, &[&[("group", "g")]]).remaining("group"),
        6,
        "7 were left, one goes now"
    );
}

#[test]
fn a_named_limit_is_replaced_in_the_requests_that_its_replacement_meets() {
    let mut general = minute("general", 1);
    general.replaced_as = Some("general".into());
    let mut special = minute("special", 5);
    special.replaces = vec!["general".into()];
    let gate = tree_gate(vec![
        node("any", None, Some(general)),
        node("special", None, Some(special)),
    ]);
    for _ in 0..3 {
        let answer = ask(&gate, &[&[("any", "x")], &[("special", "y")]]);
        assert!(answer.admitted());
        assert_eq!(answer.limits.len(), 1);
    }
    assert!(ask(&gate, &[&[("any", "x")]]).admitted());
    assert!(!ask(&gate, &[&[("any", "x")]]).admitted());
}

/// `quota_mode`: refused only when every quota descriptor of the request is over.
#[test]
fn quotas_refuse_together() {
    let quota = |rule: &str, units| DescriptorLimit {
        quota_mode: true,
        ..minute(rule, units)
    };
    let gate = tree_gate(vec![
        node("a", None, Some(quota("a", 1))),
        node("b", None, Some(quota("b", 3))),
    ]);
    let both: [&[(&str, &str)]; 2] = [&[("a", "1")], &[("b", "1")]];
    let answers: Vec<_> = (0..4).map(|_| ask(&gate, &both)).collect();
    let admitted: Vec<_> = answers.iter().map(Answer::admitted).collect();
    assert_eq!(admitted, [true, true, true, false]);
    assert_eq!(answers[1].limits[0], ("a".into(), Some(0), false));
    assert_eq!(answers[3].verdict, Verdict::Refused(Refusal::OverLimit));
    assert!(
        !ask(&gate, &[&[("a", "1")]]).admitted(),
        "alone it refuses alone"
    );
}

#[test]
fn a_descriptor_may_bring_its_limit_along() {
    let gate = tree_gate(vec![node("user", None, Some(minute("user", 1)))]);
    let brought = Some(fixed(2, 60_000).amount);
    let entries: &[(&str, &str)] = &[("user", "a")];
    let admitted = (0..5)
        .filter(|_| ask_with(&gate, &[entries], brought).admitted())
        .count();
    assert_eq!(admitted, 2);
    assert!(
        ask(&gate, &[entries]).admitted(),
        "the tree's own count is untouched"
    );
    assert!(!ask_with(&gate, &[entries], Some(Amount::Deny)).admitted());
}

/// Trees of a node in a fleet whose limits are shared.
fn shared_gate(descriptors: Vec<DescriptorNode>) -> Gate {
    let domains = vec![DescriptorDomain {
        name: "edge".into(),
        descriptors,
    }];
    let policy = Policy {
        domains,
        ..Policy::default()
    };
    let table = Table::anonymous(NonZeroU64::new(100).unwrap()).unwrap();
    let fleet = Fleet {
        sharing: Sharing::Lease,
        revision: 1,
    };
    Gate::in_fleet(table, &HashSecret::new(1, [7; 32]), &policy, fleet).unwrap()
}

/// What such a request lacks.
fn dry(gate: &Gate, descriptors: &[&[(&str, &str)]], brought: Option<Amount>) -> Vec<Dry> {
    let parts: Vec<Part<'_>> = descriptors
        .iter()
        .map(|entries| Part {
            request: Request {
                domain: Some("edge"),
                entries,
                limit_override: brought,
                ..Request::default()
            },
            hits: Hits::Take(1),
        })
        .collect();
    gate.check(&gate.snapshot(), &parts, START).dry
}

fn install(gate: &Gate, dry: &Dry, units: u64) {
    let mut credit = LeasedTable::new(gate.table(), START);
    assert!(credit.install(dry.bucket, &dry.terms, units));
}

/// In a fleet a limit that is brought along is shared like one of the tree, and never counted at each node.
#[test]
fn a_limit_brought_along_is_shared() {
    let gate = shared_gate(vec![node("user", None, Some(minute("user", 1)))]);
    let entries: &[(&str, &str)] = &[("user", "a")];
    let brought = Some(fixed(5, 60_000).amount);
    let ask = dry(&gate, &[entries], brought)[0];
    assert_eq!((ask.terms.units, ask.terms.window_ns), (5, 60 * SECOND_NS));
    assert_ne!(ask.bucket, dry(&gate, &[entries], None)[0].bucket);
    install(&gate, &ask, 2);
    let admitted = (0..5)
        .filter(|_| ask_with(&gate, &[entries], brought).admitted())
        .count();
    assert_eq!(admitted, 2);
    // More than can be shared is as much as can be; what never renews is refused.
    let huge = Some(fixed(u64::from(u32::MAX), 1000).amount);
    let most = dry(&gate, &[entries], huge)[0].terms.units;
    assert_eq!(most, (1 << 31) - 1);
    let answer = ask_with(&gate, &[entries], Some(quota(5).amount));
    assert_eq!(answer.verdict, Verdict::Refused(Refusal::Never));
}

/// Of quotas that refuse together any will do, and all are asked for.
#[test]
fn quotas_ask_together() {
    let quota = |rule: &str, units| DescriptorLimit {
        quota_mode: true,
        ..minute(rule, units)
    };
    let mut own = quota("own", 1);
    own.limit.sharing = Some(Sharing::Local);
    let nodes = vec![
        node("a", None, Some(quota("a", 9))),
        node("b", None, Some(quota("b", 9))),
        node("own", None, Some(own)),
    ];
    let gate = shared_gate(nodes);
    let all: [&[(&str, &str)]; 3] = [&[("a", "1")], &[("b", "1")], &[("own", "1")]];
    assert!(ask(&gate, &all).admitted(), "by the node's own");
    let asks = dry(&gate, &all, None);
    assert_eq!(asks.len(), 2);
    assert_eq!(dry(&gate, &all[2..], None), []);
    install(&gate, &asks[1], 1);
    assert!(ask(&gate, &all).admitted());
    assert!(!ask(&gate, &all).admitted());
}
