//! The index against a plain reading of the rules.

use proptest::prelude::*;

use super::super::oracle;
use super::*;
use crate::model::{Amount, Limit, LimitName, Mode, OnDegraded, RuleName};

fn limit(name: &str) -> DescriptorLimit {
    DescriptorLimit {
        rule: RuleName::new(name),
        limit: Limit {
            name: LimitName::new("unlimited"),
            amount: Amount::Unlimited,
            cost: 1,
            on_degraded: OnDegraded::FairShare,
            sharing: None,
            disclose: true,
        },
        mode: Mode::Enforce,
        quota_mode: false,
        replaced_as: None,
        replaces: Vec::new(),
    }
}

fn node(key: &str, value: &str, shares: bool, below: Vec<DescriptorNode>) -> DescriptorNode {
    DescriptorNode {
        key: key.into(),
        value: match value {
            "" => DescriptorValue::Any,
            value => DescriptorValue::Pattern(value.into()),
        },
        share_threshold: shares,
        limit: None,
        descriptors: below,
    }
}

/// Small alphabets, so that keys, values and patterns meet often.
fn words() -> impl Strategy<Value = String> {
    "[ab_*]{0,4}"
}

fn trees() -> impl Strategy<Value = Vec<DescriptorNode>> {
    let leaf = (words(), words(), any::<bool>(), any::<bool>())
        .prop_map(|(key, value, shares, limited)| (key, value, shares, limited, Vec::new()));
    let built = leaf.prop_map(build).prop_recursive(3, 40, 6, |below| {
        (
            words(),
            words(),
            any::<bool>(),
            any::<bool>(),
            prop::collection::vec(below, 0..6),
        )
            .prop_map(build)
    });
    prop::collection::vec(built, 0..12).prop_map(|mut nodes| {
        name_all(&mut nodes, "d");
        nodes
    })
}

fn build(parts: (String, String, bool, bool, Vec<DescriptorNode>)) -> DescriptorNode {
    let (key, value, shares, limited, below) = parts;
    let shares = shares && (key.contains('*') || value.contains('*'));
    let mut node = node(&key, &value, shares, below);
    node.limit = limited.then(|| limit("unnamed"));
    node
}

/// Gives each limit a name of its own and drops siblings that a reader would refuse.
fn name_all(nodes: &mut Vec<DescriptorNode>, above: &str) {
    let mut seen = Vec::new();
    nodes.retain(|node| {
        let key = composite_key(node);
        let is_new = !seen.contains(&key);
        seen.push(key);
        is_new
    });
    for (place, node) in nodes.iter_mut().enumerate() {
        let name = format!("{above}.{place}");
        name_all(&mut node.descriptors, &name);
        if node.limit.is_some() {
            node.limit = Some(limit(&name));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn finds_what_a_plain_reading_of_the_rules_finds(
        descriptors in trees(),
        requests in prop::collection::vec(
            prop::collection::vec((words(), words()), 0..4), 1..20
        ),
    ) {
        let domain = DescriptorDomain { name: "d".into(), descriptors };
        let index = Index::new(std::slice::from_ref(&domain));
        for request in &requests {
            let entries: Vec<(&str, &str)> =
                request.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            let found = index.find("d", &entries).map(|found| {
                let values: Vec<String> = entries
                    .iter()
                    .enumerate()
                    .map(|(level, (key, value))| found.key_value(level, key, value).to_owned())
                    .collect();
                (found.limit.rule.to_string(), values)
            });
            prop_assert_eq!(found, oracle::find(&domain, &entries), "{:?}", entries);
        }
        prop_assert!(index.find("e", &[("a", "b")]).is_none());
    }

    #[test]
    fn wildcards_hold_as_a_plain_match_does(
        pattern in "[ab]{0,2}\\*[ab*]{0,5}",
        text in "[ab]{0,8}",
    ) {
        let mut wildcards = Wildcards::default();
        wildcards.add(&pattern, 0, 7);
        let parts: Vec<&str> = pattern.split('*').collect();
        prop_assert_eq!(
            wildcards.find(text.as_bytes()).is_some(),
            oracle::matches(&parts, &text)
        );
    }
}

#[test]
fn thousands_of_siblings() {
    let mut nodes = Vec::new();
    for number in 0..5000 {
        let mut exact = node("path", &format!("/exact/{number}"), false, vec![]);
        exact.limit = Some(limit(&format!("exact-{number}")));
        let mut wild = node("path", &format!("/wild/{number:04}/*"), false, vec![]);
        wild.limit = Some(limit(&format!("wild-{number}")));
        nodes.extend([exact, wild]);
    }
    let domain = DescriptorDomain {
        name: "d".into(),
        descriptors: nodes,
    };
    let index = Index::new(&[domain]);
    assert_eq!(index.limits().len(), 10_000);
    let found = |value: &str| {
        let found = index.find("d", &[("path", value)])?;
        assert_eq!(&index.limits()[found.position], found.limit);
        Some(found.limit.rule.as_str())
    };
    assert_eq!(found("/exact/4711"), Some("exact-4711"));
    assert_eq!(found("/wild/0815/x"), Some("wild-815"));
    assert_eq!(found("/wild/0815"), None);
    assert_eq!(found("/exact/5000"), None);
}
