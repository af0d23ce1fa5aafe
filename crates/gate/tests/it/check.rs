//! All or none, shadow, peeks, refunds, absent keys: what a decision charges and what it says.

use gate::request::Hits;
use gate::{Refusal, Verdict};
use policy::model::{
    Algorithm, Amount, IdentitySource, KeyPart, KeySource, LimitName, Mode, Normalizer, OnAbsent,
    OnDegraded, Plan, PlanName, Policy, RuleLimits, RuleName, Subject, SubjectId,
};

use crate::fixture::*;

fn header(name: &str) -> Vec<KeyPart> {
    by(KeySource::Header(name.into()))
}

/// C2, C3: group 10, special 3, five tries of the special one: the group has 7 left.
#[test]
fn a_refusal_by_one_limit_charges_no_other() {
    let gate = gate(&policy(vec![
        rule("group", &["/**"], vec![], vec![fixed(10, 60_000)]),
        rule("special", &["/special"], vec![], vec![fixed(3, 60_000)]),
    ]));
    let admitted = (0..5)
        .filter(|_| hit(&gate, &get("/special")).admitted())
        .count();
    assert_eq!(admitted, 3);
    let peek = check(&gate, &get("/other"), Hits::Take(0), START);
    assert_eq!(peek.remaining("group"), 7);
}

/// H7: what a decision says that it charged is what it charged, on the short way of one limit and on that of several.
#[test]
fn a_decision_tells_what_it_charged() {
    let dear = |name: &str, units| {
        let mut limit = fixed(units, 60_000);
        limit.cost = 3;
        rule(name, &[], vec![], vec![limit])
    };
    let mut trial = rule("trial", &[], vec![], vec![fixed(1, 60_000)]);
    trial.mode = Mode::Shadow;
    let alone = gate(&policy(vec![dear("alone", 7)]));
    let several = gate(&policy(vec![
        rule("cheap", &[], vec![], vec![fixed(10, 60_000)]),
        dear("dear", 7),
        trial,
    ]));
    for (hits, charged_alone, charged) in [
        (Hits::Take(1), [3], [1, 3, 1]),
        (Hits::Take(0), [0], [0, 0, 0]),
        (Hits::Take(1), [3], [1, 3, 0]),
        (Hits::Take(1), [0], [0, 0, 0]),
        (Hits::GiveBack(1), [0], [0, 0, 0]),
    ] {
        assert_eq!(check(&alone, &get("/"), hits, START).charged, charged_alone);
        assert_eq!(check(&several, &get("/"), hits, START).charged, charged);
    }
}

#[test]
fn a_peek_charges_nothing_and_a_refund_is_clamped() {
    let gate = gate(&policy(vec![rule(
        "r",
        &[],
        vec![],
        vec![fixed(5, 60_000)],
    )]));
    assert_eq!(
        check(&gate, &get("/"), Hits::Take(3), START).remaining("r"),
        2
    );
    assert_eq!(
        check(&gate, &get("/"), Hits::Take(0), START).remaining("r"),
        2
    );
    assert_eq!(
        check(&gate, &get("/"), Hits::GiveBack(1), START).remaining("r"),
        3
    );
    assert_eq!(
        check(&gate, &get("/"), Hits::GiveBack(u64::MAX), START).remaining("r"),
        5
    );
    assert_eq!(
        check(&gate, &get("/"), Hits::Take(6), START).verdict,
        Verdict::Refused(Refusal::Never)
    );
    assert_eq!(
        check(&gate, &get("/"), Hits::Take(5), START).remaining("r"),
        0
    );
}

#[test]
fn shadow_rules_count_and_never_refuse() {
    let mut shadow = rule("shadow", &[], vec![], vec![fixed(1, 60_000)]);
    shadow.mode = Mode::Shadow;
    let gate = gate(&policy(vec![
        shadow,
        rule("real", &[], vec![], vec![fixed(3, 60_000)]),
    ]));
    let answers: Vec<_> = (0..4).map(|_| hit(&gate, &get("/"))).collect();
    assert!(answers[..3].iter().all(|answer| answer.admitted()));
    assert!(!answers[3].admitted());
    assert_eq!(answers[0].limits[0], ("shadow".into(), Some(0), true));
    assert_eq!(answers[1].limits[0], ("shadow".into(), Some(0), false));
}

/// K14: a catch-all and a specific rule on the same key never share a counter.
#[test]
fn rules_never_share_a_counter() {
    let gate = gate(&policy(vec![
        rule(
            "all",
            &["/**"],
            by(KeySource::ClientAddress),
            vec![fixed(1000, 60_000)],
        ),
        rule(
            "ten",
            &["/ten"],
            by(KeySource::ClientAddress),
            vec![fixed(10, 60_000)],
        ),
    ]));
    for _ in 0..50 {
        assert!(hit(&gate, &get("/elsewhere")).admitted());
    }
    let admitted = (0..20)
        .filter(|_| hit(&gate, &get("/ten")).admitted())
        .count();
    assert_eq!(admitted, 10);
}

/// K7: the header that a rule keys on is absent.
#[test]
fn an_absent_key_does_what_the_rule_says_and_other_rules_hold() {
    let with = |on_absent| {
        let mut keyed = rule("keyed", &[], header("x-tenant"), vec![fixed(2, 60_000)]);
        keyed.on_absent = on_absent;
        gate(&policy(vec![
            keyed,
            rule("other", &[], vec![], vec![fixed(4, 60_000)]),
        ]))
    };
    let without = get("/");
    let share = with(OnAbsent::Share);
    assert_eq!(
        (0..4).filter(|_| hit(&share, &without).admitted()).count(),
        2
    );
    assert!(hit(&share, &get("/").header("x-tenant", "a")).admitted());

    let skip = with(OnAbsent::Skip);
    assert_eq!(
        (0..6).filter(|_| hit(&skip, &without).admitted()).count(),
        4
    );

    let deny = with(OnAbsent::Deny);
    assert_eq!(
        hit(&deny, &without).verdict,
        Verdict::Refused(Refusal::KeyAbsent)
    );
    assert_eq!(
        hit(&deny, &get("/").header("x-tenant", "a")).remaining("other"),
        3
    );
}

/// K11: a caller must not choose its bucket by sending a header twice.
#[test]
fn a_key_given_twice_differently_shares_a_bucket() {
    let gate = gate(&policy(vec![rule(
        "r",
        &[],
        header("x-tenant"),
        vec![fixed(1, 60_000)],
    )]));
    let twice = |value: &str| {
        get("/")
            .header("x-tenant", "real")
            .header("x-tenant", value)
    };
    assert!(hit(&gate, &twice("1")).admitted());
    assert!(!hit(&gate, &twice("2")).admitted());
    assert!(
        hit(&gate, &twice("real")).admitted(),
        "the same twice is that value"
    );
    assert!(!hit(&gate, &get("/").header("x-tenant", "real")).admitted());
}

/// A4: what a limit of 0 does.
#[test]
fn zero_and_deny_refuse_all_and_unlimited_none() {
    let amount = |amount| {
        let mut limit = fixed(1, 1000);
        limit.amount = amount;
        gate(&policy(vec![rule("r", &[], vec![], vec![limit])]))
    };
    let deny = amount(Amount::Deny);
    for hits in [0, 1, u64::MAX] {
        let answer = check(&deny, &get("/"), Hits::Take(hits), START);
        assert_eq!(answer.verdict, Verdict::Refused(Refusal::Never));
    }
    let unlimited = amount(Amount::Unlimited);
    for hits in [0, 1, u64::MAX] {
        assert!(check(&unlimited, &get("/"), Hits::Take(hits), START).admitted());
    }
}

fn plans() -> Policy {
    let api = rule_with_plan("api");
    let plan = |limits| Plan {
        limits,
        ..Plan::default()
    };
    let mut policy = policy(vec![
        api,
        rule(
            "login",
            &["/login"],
            by(KeySource::User),
            vec![fixed(1, 60_000)],
        ),
    ]);
    policy
        .plans
        .insert(PlanName::new("free"), plan(vec![fixed(2, 60_000)]));
    let mut pro = plan(vec![fixed(4, 60_000)]);
    pro.rules
        .insert(RuleName::new("login"), vec![fixed(3, 60_000)]);
    policy.plans.insert(PlanName::new("pro"), pro);
    policy.default_plan = Some(PlanName::new("free"));
    policy.subjects = vec![
        Subject {
            id: SubjectId::User("alice".into()),
            plan: Some(PlanName::new("pro")),
            rules: [].into(),
        },
        Subject {
            id: SubjectId::User("bob".into()),
            plan: None,
            rules: [(RuleName::new("api"), vec![fixed(7, 60_000)])].into(),
        },
    ];
    policy
}

fn rule_with_plan(name: &str) -> policy::model::Rule {
    let mut api = rule(
        name,
        &["/api/**"],
        by(KeySource::User),
        vec![fixed(1, 1000)],
    );
    api.limits = RuleLimits::Plan;
    api
}

#[test]
fn plans_and_subjects_give_their_limits() {
    let gate = gate(&plans());
    let admitted = |path: &str, user: &str| {
        (0..10)
            .filter(|_| hit(&gate, &get(path).header("x-user-id", user)).admitted())
            .count()
    };
    assert_eq!(admitted("/api/x", "carol"), 2, "the default plan");
    assert_eq!(admitted("/api/x", "alice"), 4, "a plan");
    assert_eq!(admitted("/api/x", "bob"), 7, "an override");
    assert_eq!(admitted("/login", "carol"), 1, "the rule's own");
    assert_eq!(admitted("/login", "alice"), 3, "a plan's for this rule");
    assert_eq!(admitted("/login", "bob"), 1, "the rule's own");
}

/// F2, F4: counters survive a reload, and a changed amount holds at once.
#[test]
fn counters_survive_an_install() {
    let with = |units| policy(vec![rule("r", &[], vec![], vec![fixed(units, 60_000)])]);
    let gate = gate(&with(5));
    for _ in 0..5 {
        assert!(hit(&gate, &get("/")).admitted());
    }
    for _ in 0..10 {
        gate.install(&with(5)).unwrap();
        assert!(!hit(&gate, &get("/")).admitted());
    }
    gate.install(&with(7)).unwrap();
    assert_eq!(hit(&gate, &get("/")).remaining("r"), 1);
    gate.install(&with(3)).unwrap();
    let answer = hit(&gate, &get("/"));
    assert_eq!((answer.admitted(), answer.remaining("r")), (false, 0));
}

/// F6 on one node: lowered from 1,000,000 to 10 under load, the new cap holds for whoever decides by it, at once.
#[test]
fn a_limit_lowered_under_load_holds_at_once() {
    const THREADS: usize = 8;
    let with = |units| policy(vec![rule("r", &[], vec![], vec![fixed(units, 60_000)])]);
    let gate = gate(&with(1_000_000));
    // All are under way, each with more behind it than the new cap; then the limit is lowered while they go on.
    let used = std::sync::Barrier::new(THREADS + 1);
    let is_lowered = std::sync::atomic::AtomicBool::new(false);
    let admitted: usize = std::thread::scope(|scope| {
        let load = || {
            let mut admitted = (0..11).filter(|_| hit(&gate, &get("/")).admitted()).count();
            used.wait();
            // SeqCst: whoever sees it set has seen the install before it.
            while !is_lowered.load(std::sync::atomic::Ordering::SeqCst) {
                let answer = hit(&gate, &get("/"));
                admitted += usize::from(answer.admitted());
                assert!(answer.admitted() || answer.remaining("r") == 0);
            }
            for _ in 0..100 {
                let answer = hit(&gate, &get("/"));
                assert_eq!((answer.admitted(), answer.remaining("r")), (false, 0));
            }
            admitted
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(load)).collect();
        used.wait();
        gate.install(&with(10)).unwrap();
        is_lowered.store(true, std::sync::atomic::Ordering::SeqCst);
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    // Raised again, it tells what was charged in all: to each admitted request once, to no refused one.
    gate.install(&with(1_000_000)).unwrap();
    let left = check(&gate, &get("/"), Hits::Take(0), START).remaining("r");
    assert_eq!(left, 1_000_000_u64.saturating_sub(admitted as u64));
}

/// A policy that cannot be compiled changes nothing.
#[test]
fn a_refused_install_leaves_the_policy_before() {
    let gate = gate(&policy(vec![rule(
        "r",
        &[],
        vec![],
        vec![fixed(1, 60_000)],
    )]));
    let doubled = || rule("x", &[], vec![], vec![fixed(100, 60_000), fixed(5, 60_000)]);
    assert!(gate.install(&policy(vec![doubled()])).is_err());
    assert!(
        gate.install(&policy(vec![rule("x", &[], vec![], vec![])]))
            .is_err()
    );
    assert!(hit(&gate, &get("/")).admitted());
    assert!(!hit(&gate, &get("/")).admitted());
}

/// F9: another algorithm or window is another counter; the same is the same.
#[test]
fn several_limits_of_a_rule_all_hold() {
    let gate = gate(&policy(vec![rule(
        "r",
        &[],
        vec![],
        vec![
            fixed(3, 1000),
            quota(5),
            limit(4, 60_000, Algorithm::TokenBucket { burst: 4 }),
        ],
    )]));
    let admitted = |at| {
        (0..10)
            .filter(|_| check(&gate, &get("/"), Hits::Take(1), after(at)).admitted())
            .count()
    };
    assert_eq!(admitted(0), 3);
    assert_eq!(admitted(2 * SECOND_NS), 1, "the token bucket's fourth");
    assert_eq!(admitted(16 * SECOND_NS + SECOND_NS), 1, "the quota's fifth");
    assert_eq!(admitted(40 * SECOND_NS), 0);
}

/// C1 across two limits: 64 threads, and nobody is charged for what another limit refused.
#[test]
fn all_or_none_holds_between_threads() {
    let gate = gate(&policy(vec![
        rule(
            "a",
            &[],
            by(KeySource::Header("x-a".into())),
            vec![fixed(5, 60_000)],
        ),
        rule("b", &[], vec![], vec![fixed(50, 60_000)]),
    ]));
    let barrier = std::sync::Barrier::new(64);
    let admitted: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..64)
            .map(|thread| {
                let (gate, barrier) = (&gate, &barrier);
                scope.spawn(move || {
                    let http = get("/").header("x-a", ["p", "q", "r", "s"][thread % 4]);
                    barrier.wait();
                    (0..4).filter(|_| hit(gate, &http).admitted()).count()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(admitted, 20, "four keys of five each");
    assert_eq!(
        check(&gate, &get("/"), Hits::Take(0), START).remaining("b"),
        30
    );
}

/// K12: values are folded as the rule says, and only then.
#[test]
fn normalisers_fold_keys() {
    let keyed = |normalize| {
        gate(&policy(vec![rule(
            "r",
            &[],
            vec![KeyPart {
                source: KeySource::Header("x-user".into()),
                normalize,
            }],
            vec![fixed(1, 60_000)],
        )]))
    };
    let folded = keyed(Normalizer {
        trim: true,
        lowercase: true,
        nfc: true,
    });
    assert!(hit(&folded, &get("/").header("x-user", "A\u{e9}@x ")).admitted());
    assert!(!hit(&folded, &get("/").header("x-user", "a\u{65}\u{301}@x")).admitted());
    let plain = keyed(Normalizer::default());
    assert!(hit(&plain, &get("/").header("x-user", "A@x")).admitted());
    assert!(hit(&plain, &get("/").header("x-user", "a@x")).admitted());
}

/// A table so full that not even the shared cells have room: each limit does as it says, and none forgets a key.
#[test]
fn a_full_table_does_as_each_limit_says() {
    let full = |on_degraded| {
        let rules = (0..20).map(|n| {
            let path = format!("/{n}");
            let mut limit = fixed(1, 60_000);
            limit.on_degraded = on_degraded;
            rule(
                &format!("r{n}"),
                &[path.as_str()],
                header("x-key"),
                vec![limit],
            )
        });
        let gate = gate_for(1, &policy(rules.collect()));
        let keys: Vec<_> = (0..20).map(|n| format!("key{n}")).collect();
        let mut verdicts = Vec::new();
        for rule in 0..20 {
            for key in &keys {
                verdicts.push(hit(&gate, &get(&format!("/{rule}")).header("x-key", key)).verdict);
            }
        }
        (verdicts, gate.table().stats(START).no_room)
    };
    let count = |verdicts: &[Verdict], verdict| verdicts.iter().filter(|v| **v == verdict).count();
    let (shared, no_room) = full(OnDegraded::FairShare);
    let admitted = count(&shared, Verdict::Admitted);
    assert!(
        no_room > 0 && admitted < 200,
        "{admitted} of 400 had a slot or a cell to themselves, {no_room} had none"
    );
    assert_eq!(
        count(&shared, Verdict::Refused(Refusal::OverLimit)),
        400 - admitted
    );

    let (closed, no_room) = full(OnDegraded::FailClosed);
    assert_eq!(
        count(&closed, Verdict::Refused(Refusal::Unavailable)) as u64,
        no_room
    );
    assert_eq!(count(&closed, Verdict::Admitted), admitted);

    let (open, no_room) = full(OnDegraded::FailOpen);
    assert_eq!(
        count(&open, Verdict::Admitted) as u64,
        admitted as u64 + no_room
    );
}

/// One limit is decided by a way of its own, which must not differ from that of several.
#[test]
fn a_limit_says_the_same_alone_and_beside_one_that_admits_all() {
    let answers = |on_degraded, mode, beside: bool| {
        let rules = (0..20).map(|n| {
            let mut limit = fixed(3, 60_000);
            limit.on_degraded = on_degraded;
            let mut limits = vec![limit.clone()];
            if beside {
                limit.name = LimitName::new("all");
                limit.amount = Amount::Unlimited;
                limits.push(limit);
            }
            let path = format!("/{n}");
            let by = header("x-key");
            let mut rule = rule(&format!("r{n}"), &[path.as_str()], by, limits);
            rule.mode = mode;
            rule
        });
        let gate = gate_for(1, &policy(rules.collect()));
        let mut answers = Vec::new();
        for key in (0..20).map(|n| format!("key{n}")) {
            for n in 0..20 {
                for hits in [2, 2, 4] {
                    let request = get(&format!("/{n}")).header("x-key", &key);
                    let Answer {
                        verdict,
                        limits,
                        charged,
                    } = check(&gate, &request, Hits::Take(hits), START);
                    let first = limits.into_iter().zip(charged).next();
                    answers.push((verdict, first));
                }
            }
        }
        assert!(gate.table().stats(START).no_room > 0, "the table is full");
        answers
    };
    for on_degraded in [
        OnDegraded::FairShare,
        OnDegraded::FailOpen,
        OnDegraded::FailClosed,
    ] {
        for mode in [Mode::Enforce, Mode::Shadow] {
            assert_eq!(
                answers(on_degraded, mode, false),
                answers(on_degraded, mode, true)
            );
        }
    }
}

/// K11: nor get past a rule that skips those without a key.
#[test]
fn a_disputed_key_is_never_skipped() {
    let mut keyed = rule("r", &[], by(KeySource::ApiKey), vec![fixed(1, 60_000)]);
    keyed.on_absent = OnAbsent::Skip;
    let mut policy = policy(vec![keyed]);
    policy.identity.api_key.push(IdentitySource::Bearer);
    let gate = gate(&policy);
    let token = || get("/").header("authorization", "Bearer T");
    assert!(hit(&gate, &token()).admitted());
    assert!(!hit(&gate, &token()).admitted());
    assert!(
        !hit(&gate, &token().header("x-api-key", "T")).admitted(),
        "the same in both places"
    );
    let mut admitted = 0;
    for n in 0..20 {
        let made_up = format!("made-up-{n}");
        admitted += usize::from(hit(&gate, &token().header("x-api-key", &made_up)).admitted());
        let twice = get("/")
            .header("x-api-key", "K")
            .header("x-api-key", &made_up);
        admitted += usize::from(hit(&gate, &twice).admitted());
    }
    assert_eq!(admitted, 1, "they share one bucket");
    assert_eq!(
        hit(&gate, &get("/")).limits,
        [],
        "without a key the rule is skipped"
    );
}

/// A18: a quota that never renews is used up, which is not the same as a cost that it can never hold.
#[test]
fn a_used_up_quota_is_over_its_limit() {
    let gate = gate(&policy(vec![rule("r", &[], vec![], vec![quota(2)])]));
    let take = |hits| check(&gate, &get("/"), Hits::Take(hits), START).verdict;
    assert_eq!(take(2), Verdict::Admitted);
    assert_eq!(take(1), Verdict::Refused(Refusal::OverLimit));
    assert_eq!(take(3), Verdict::Refused(Refusal::Never));
}
