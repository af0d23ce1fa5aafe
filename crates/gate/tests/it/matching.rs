//! Which rules a request meets: each kind of condition, alone and together, against a plain reading of its meaning.

use gate::request::{Headers, Request};
use policy::model::{EntryCondition, HeaderCondition, Rule, ValueCondition, When};

use crate::fixture::*;

fn conditioned(name: &str, when: When) -> Rule {
    let mut rule = rule(name, &[], vec![], vec![fixed(1000, 60_000)]);
    rule.when = when;
    rule
}

fn met(rules: &[Rule], request: Request<'_>) -> Vec<String> {
    let gate = gate(&policy(rules.to_vec()));
    let parts = [gate::request::Part {
        request,
        hits: gate::request::Hits::Take(0),
    }];
    answer(&gate.check(&gate.snapshot(), &parts, START))
        .limits
        .into_iter()
        .map(|(rule, ..)| rule)
        .collect()
}

fn header(name: &str, value: ValueCondition) -> Vec<HeaderCondition> {
    vec![HeaderCondition {
        name: name.into(),
        value,
    }]
}

fn entry(key: &str, value: ValueCondition) -> EntryCondition {
    EntryCondition {
        key: key.into(),
        value,
    }
}

#[test]
fn each_kind_of_condition_is_found_and_checked() {
    let is = |text: &str| ValueCondition::Is(text.into());
    let rules = [
        conditioned("all", When::default()),
        conditioned(
            "post",
            When {
                methods: vec!["POST".into()],
                ..When::default()
            },
        ),
        conditioned(
            "path",
            When {
                paths: vec![pattern("/a/**")],
                ..When::default()
            },
        ),
        conditioned(
            "host",
            When {
                hosts: vec!["api.example.com".into()],
                ..When::default()
            },
        ),
        conditioned(
            "sub",
            When {
                hosts: vec!["*.example.com".into()],
                ..When::default()
            },
        ),
        conditioned(
            "apex",
            When {
                hosts: vec!["example.com".into()],
                ..When::default()
            },
        ),
        conditioned(
            "is",
            When {
                headers: header("x-a", is("1")),
                ..When::default()
            },
        ),
        conditioned(
            "not-is",
            When {
                headers: header("x-a", is("2")),
                ..When::default()
            },
        ),
        conditioned(
            "prefix",
            When {
                headers: header("x-b", ValueCondition::Prefix("ab".into())),
                ..When::default()
            },
        ),
        conditioned(
            "present",
            When {
                headers: header("x-b", ValueCondition::Present),
                ..When::default()
            },
        ),
        conditioned(
            "absent",
            When {
                headers: header("x-c", ValueCondition::Absent),
                ..When::default()
            },
        ),
        conditioned(
            "net",
            When {
                addresses: vec!["192.0.2.0/24".parse().unwrap()],
                ..When::default()
            },
        ),
        conditioned(
            "both",
            When {
                paths: vec![pattern("/a/b"), pattern("/a/{}")],
                methods: vec!["GET".into()],
                headers: header("x-a", is("1")),
                ..When::default()
            },
        ),
        conditioned(
            "domain",
            When {
                domain: Some("edge".into()),
                ..When::default()
            },
        ),
    ];
    let headers: &[(&str, &[u8])] = &[("x-a", b"1"), ("x-b", b"abc")];
    let request = Request {
        method: Some("GET"),
        host: Some("API.example.com:8443"),
        path: Some(b"//a/./b?x=/post"),
        peer: Some("::ffff:192.0.2.9".parse().unwrap()),
        headers: Headers::new(&headers),
        ..Request::default()
    };
    assert_eq!(
        met(&rules, request),
        [
            "all", "path", "host", "sub", "is", "prefix", "present", "absent", "net", "both"
        ]
    );
    assert_eq!(met(&rules, Request::default()), ["all", "absent"]);
}

#[test]
fn descriptor_entries_are_matched_in_any_order() {
    let rules = [
        conditioned(
            "two",
            When {
                domain: Some("edge".into()),
                descriptor: vec![
                    entry("tenant", ValueCondition::Present),
                    entry("tier", ValueCondition::Is("gold".into())),
                ],
                ..When::default()
            },
        ),
        conditioned(
            "untiered",
            When {
                descriptor: vec![
                    entry("tier", ValueCondition::Absent),
                    entry("tenant", ValueCondition::Prefix("t".into())),
                ],
                ..When::default()
            },
        ),
    ];
    let with = |domain, entries: &[(&str, &str)]| {
        met(
            &rules,
            Request {
                domain,
                entries,
                ..Request::default()
            },
        )
    };
    assert_eq!(
        with(Some("edge"), &[("tier", "gold"), ("tenant", "t1")]),
        ["two"]
    );
    assert_eq!(
        with(Some("edge"), &[("tier", "tin"), ("tenant", "t1")]),
        [] as [&str; 0]
    );
    assert_eq!(
        with(Some("other"), &[("tier", "gold"), ("tenant", "t1")]),
        [] as [&str; 0]
    );
    assert_eq!(with(None, &[("tenant", "t1")]), ["untiered"]);
    assert_eq!(with(None, &[("tenant", "u1")]), [] as [&str; 0]);
}

/// The answer is the same whether there is one rule or a thousand others beside it.
#[test]
fn a_thousand_rules_change_nothing_for_one() {
    let mut rules: Vec<_> = (0..1000)
        .map(|n| {
            rule(
                &format!("r{n}"),
                &[&format!("/v1/res{n}/{{}}")],
                vec![],
                vec![fixed(9, 1000)],
            )
        })
        .collect();
    rules.push(rule("any", &["/v1/**"], vec![], vec![fixed(9, 1000)]));
    let request = Request {
        path: Some(b"/v1/res731/x"),
        ..Request::default()
    };
    assert_eq!(met(&rules, request), ["r731", "any"]);
}
