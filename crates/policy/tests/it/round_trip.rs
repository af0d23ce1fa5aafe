//! A policy written as a file and read again is the same policy.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_policy as policy;
use policy::file::write::Canonical;
use policy::model::*;
use policy::rate::{Rate, Window, WindowMs};
use proptest::prelude::*;
use proptest::{collection, option, sample};

fn texts() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![
        "[a-z]{1,8}",
        "\\PC{1,12}",
        any::<String>().prop_filter("a text has 1 to 1024 bytes", |text| {
            !text.is_empty() && text.len() <= 1024
        }),
        sample::select(vec![
            "null", "~", "yes", "true", "1", "1e3", " a ", "- a", "a: b", "#", "'"
        ])
        .prop_map(str::to_owned),
    ]
    .prop_map(Into::into)
}

fn keys() -> impl Strategy<Value = Arc<str>> {
    texts().prop_filter("a key has at most 128 bytes", |text| text.len() <= 128)
}

fn names() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_.:/-]{1,20}"
}

fn header_names() -> impl Strategy<Value = Arc<str>> {
    "[a-z][a-z0-9-]{0,12}".prop_map(Into::into)
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    collection::vec(metered(), 1..4).prop_map(|mut limits| {
        for (index, limit) in limits.iter_mut().enumerate() {
            limit.name = LimitName::new(&format!("{}-{index}", limit.name));
        }
        let mut kept: Vec<Limit> = Vec::new();
        for limit in limits {
            let Amount::Metered { rate, algorithm } = limit.amount else {
                if kept.is_empty() {
                    return vec![limit];
                }
                continue;
            };
            let clashes = kept.iter().any(|other| {
                matches!(other.amount, Amount::Metered { rate: r, algorithm: a }
                    if r.window == rate.window && a.name() == algorithm.name())
            });
            if !clashes {
                kept.push(limit);
            }
        }
        kept
    })
}

fn metered() -> impl Strategy<Value = Limit> {
    let window = prop_oneof![
        Just(Window::Forever),
        (100_u64..1_000_000_000).prop_map(|ms| Window::Millis(WindowMs::new(ms).unwrap())),
        (1_u64..400).prop_map(|days| Window::Millis(WindowMs::new(days * 24 * 3_600_000).unwrap())),
    ];
    let algorithm = prop_oneof![
        Just(Algorithm::FixedWindow),
        Just(Algorithm::SlidingWindow),
        (1_u64..1000).prop_map(|burst| Algorithm::TokenBucket { burst }),
    ];
    let amount = prop_oneof![
        1 => Just(Amount::Unlimited),
        1 => Just(Amount::Deny),
        8 => (1_u64..1_000_000, window, algorithm).prop_filter_map(
            "the algorithm counts it exactly",
            |(units, window, algorithm)| Amount::metered(Rate { units, window }, algorithm).ok(),
        ),
    ];
    let on_degraded = sample::select(vec![
        OnDegraded::FairShare,
        OnDegraded::FailOpen,
        OnDegraded::FailClosed,
    ]);
    let sharing = sample::select(vec![
        None,
        Some(Sharing::Local),
        Some(Sharing::Lease),
        Some(Sharing::Fixed),
    ]);
    (
        names(),
        amount,
        1_u32..100,
        on_degraded,
        sharing,
        any::<bool>(),
    )
        .prop_map(|(name, amount, cost, on_degraded, sharing, disclose)| {
            let most = match amount {
                Amount::Unlimited | Amount::Deny => u64::MAX,
                Amount::Metered {
                    algorithm: Algorithm::TokenBucket { burst },
                    ..
                } => burst,
                Amount::Metered { rate, .. } => rate.units,
            };
            let endless =
                matches!(amount, Amount::Metered { rate, .. } if rate.window == Window::Forever);
            let cost = u32::try_from(u64::from(cost).min(most)).unwrap();
            Limit {
                name: LimitName::new(&name),
                amount,
                cost,
                on_degraded,
                sharing: sharing.filter(|how| !endless || *how == Sharing::Local),
                disclose,
            }
        })
}

fn values() -> impl Strategy<Value = ValueCondition> {
    prop_oneof![
        Just(ValueCondition::Present),
        Just(ValueCondition::Absent),
        texts().prop_map(ValueCondition::Is),
        texts().prop_map(ValueCondition::Prefix),
    ]
}

fn ranges() -> impl Strategy<Value = ipnet::IpNet> {
    prop_oneof![
        (any::<u32>(), 0_u8..=32).prop_map(|(bits, len)| ipnet::Ipv4Net::new(bits.into(), len)
            .unwrap()
            .trunc()
            .into()),
        (1_u128 << 100.., 0_u8..=128).prop_map(|(bits, len)| ipnet::Ipv6Net::new(bits.into(), len)
            .unwrap()
            .trunc()
            .into()),
    ]
}

/// Distinct items, in the order of their making.
fn distinct<T: PartialEq>(items: Vec<T>) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for item in items {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

fn whens(reading: PathReading) -> impl Strategy<Value = When> {
    let paths =
        collection::vec("(/[a-zA-Z%{}*.]{0,6}){1,4}(/\\*\\*)?", 0..3).prop_map(move |sources| {
            let read = |source: &String| PathPattern::parse(&reading, source).ok();
            distinct(sources.iter().filter_map(read).collect())
        });
    let methods = collection::vec("[A-Z]{1,7}".prop_map(Into::into), 0..3).prop_map(distinct);
    let hosts = collection::vec(
        "(\\*\\.)?[a-z0-9-]{1,5}\\.[a-z]{1,3}".prop_map(Into::into),
        0..3,
    )
    .prop_map(distinct);
    let headers = collection::btree_map(header_names(), values(), 0..3).prop_map(|map| {
        map.into_iter()
            .map(|(name, value)| HeaderCondition { name, value })
            .collect()
    });
    let descriptor = collection::btree_map(keys(), values(), 0..3).prop_map(|map| {
        map.into_iter()
            .map(|(key, value)| EntryCondition { key, value })
            .collect()
    });
    let addresses = collection::vec(ranges(), 0..3).prop_map(distinct);
    (
        paths,
        methods,
        hosts,
        headers,
        option::of(texts()),
        descriptor,
        addresses,
    )
        .prop_map(
            |(paths, methods, hosts, headers, domain, descriptor, addresses)| When {
                paths,
                methods,
                hosts,
                headers,
                domain,
                descriptor,
                addresses,
            },
        )
}

fn key_parts() -> impl Strategy<Value = Vec<KeyPart>> {
    let source = prop_oneof![
        Just(KeySource::ApiKey),
        Just(KeySource::User),
        Just(KeySource::ClientAddress),
        Just(KeySource::Path),
        Just(KeySource::Method),
        Just(KeySource::Host),
        header_names().prop_map(KeySource::Header),
        texts().prop_map(KeySource::Descriptor),
    ];
    let part = (source, any::<[bool; 3]>()).prop_map(|(source, [trim, lowercase, nfc])| {
        let as_it_is = matches!(source, KeySource::ApiKey | KeySource::ClientAddress);
        let normalize = if as_it_is {
            Normalizer::default()
        } else {
            Normalizer {
                trim,
                lowercase,
                nfc,
            }
        };
        KeyPart { source, normalize }
    });
    collection::vec(part, 0..4).prop_map(|parts| {
        let mut kept: Vec<KeyPart> = Vec::new();
        for part in parts {
            if !kept.iter().any(|other| other.source == part.source) {
                kept.push(part);
            }
        }
        kept
    })
}

fn rules(reading: PathReading) -> impl Strategy<Value = Rule> {
    let rule_limits =
        prop_oneof![1 => Just(RuleLimits::Plan), 4 => limits().prop_map(RuleLimits::Own)];
    (
        names(),
        whens(reading),
        key_parts(),
        sample::select(vec![OnAbsent::Share, OnAbsent::Skip, OnAbsent::Deny]),
        sample::select(vec![Mode::Enforce, Mode::Shadow]),
        rule_limits,
    )
        .prop_map(|(name, when, by, on_absent, mode, limits)| Rule {
            name: RuleName::new(&name),
            when,
            by,
            on_absent,
            mode,
            limits,
        })
}

fn sources() -> impl Strategy<Value = Vec<IdentitySource>> {
    let source = prop_oneof![
        Just(IdentitySource::Bearer),
        header_names().prop_map(IdentitySource::Header),
        texts().prop_map(IdentitySource::Descriptor),
    ];
    collection::vec(source, 1..3).prop_map(distinct)
}

fn client_addresses() -> impl Strategy<Value = ClientAddressReading> {
    let header = prop_oneof![
        Just(ForwardingHeader::XForwardedFor),
        Just(ForwardingHeader::Forwarded),
        Just(ForwardingHeader::Single("x-real-ip".into())),
    ];
    (
        collection::vec(ranges(), 0..3),
        header,
        1_u8..=128,
        1_u8..=32,
    )
        .prop_map(|(trusted, header, ipv6_prefix, ipv4_prefix)| {
            let trusted = distinct(trusted);
            // Without trusted proxies no header is believed, and a file may not name one.
            let header = if trusted.is_empty() {
                ForwardingHeader::XForwardedFor
            } else {
                header
            };
            ClientAddressReading {
                trusted,
                header,
                ipv6_prefix,
                ipv4_prefix,
            }
        })
}

fn policies() -> impl Strategy<Value = Policy> {
    let reading = any::<[bool; 5]>().prop_map(|[a, b, c, d, e]| PathReading {
        case_sensitive: a,
        trailing_slash_significant: b,
        merge_slashes: c,
        decode_slashes: d,
        strip_parameters: e,
    });
    let rules_and_reading = reading
        .prop_flat_map(|reading| (Just(reading), collection::vec(rules(reading), 1..5)))
        .prop_map(|(reading, rules)| {
            let mut kept: Vec<Rule> = Vec::new();
            for rule in rules {
                if !kept.iter().any(|other| other.name == rule.name) {
                    kept.push(rule);
                }
            }
            (reading, kept)
        });
    let plans = collection::btree_map(names(), (limits(), limits(), any::<bool>()), 1..3);
    let subject = prop_oneof![
        texts().prop_map(SubjectId::User),
        (1_u32.., any::<[u8; 32]>()).prop_map(|(version, digest)| {
            SubjectId::ApiKeyHash(ApiKeyHash { version, digest })
        }),
    ];
    let subjects = collection::vec((subject, limits(), any::<bool>()), 0..3);
    (
        rules_and_reading,
        plans,
        subjects,
        client_addresses(),
        sources(),
        sources(),
    )
        .prop_map(
            |((paths, rules), plans, subjects, client_address, api_key, user)| {
                let first = rules[0].name.clone();
                let plans: BTreeMap<PlanName, Plan> = plans
                    .into_iter()
                    .map(|(name, (limits, other, overrides))| {
                        let rules = if overrides {
                            BTreeMap::from([(first.clone(), other)])
                        } else {
                            BTreeMap::new()
                        };
                        (PlanName::new(&name), Plan { limits, rules })
                    })
                    .collect();
                let default_plan = plans.keys().next().cloned();
                let mut known: Vec<SubjectId> = Vec::new();
                let mut kept = Vec::new();
                for (id, limits, overrides) in subjects {
                    if known.contains(&id) {
                        continue;
                    }
                    known.push(id.clone());
                    let (plan, rules) = if overrides {
                        (None, BTreeMap::from([(first.clone(), limits)]))
                    } else {
                        (default_plan.clone(), BTreeMap::new())
                    };
                    kept.push(Subject { id, plan, rules });
                }
                Policy {
                    paths,
                    client_address,
                    identity: IdentityReading { api_key, user },
                    plans,
                    default_plan,
                    subjects: kept,
                    rules,
                    domains: Vec::new(),
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_policy_reads_back_as_it_was_written(policy in policies()) {
        let text = Canonical(&policy).to_string();
        match policy::file::read(text.as_bytes()) {
            Ok(again) => prop_assert_eq!(again, policy, "{}", text),
            Err(errors) => prop_assert!(false, "{}\n{}", errors, text),
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in collection::vec(any::<u8>(), 0..200)) {
        let _ = policy::file::read(&bytes);
    }

    #[test]
    fn any_lines_are_read_or_refused(
        lines in collection::vec("[ -]{0,4}(version|rules|name|by|limits|when|[a-z&*!|>'\"]{1,3})[:,\\]\\[{}]? ?[\\[{]?\\PC{0,6}", 0..12),
    ) {
        let _ = policy::file::read(lines.join("\n").as_bytes());
    }
}
