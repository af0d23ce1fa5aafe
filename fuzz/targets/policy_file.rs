//! Policy files: read whole or refused with faults at their places, the same each time, and enforceable if read.
#![no_main]

use gate::request::{Hits, Part, Request};
use leasehold_fuzz::{assert_printable, parts};
use libfuzzer_sys::fuzz_target;
use policy::model::{Amount, Limit, Policy, RuleLimits};

fuzz_target!(|source: &[u8]| {
    let read = policy::file::read(source);
    assert_eq!(
        read,
        policy::file::read(source),
        "the same file reads differently"
    );
    let policy = match read {
        Ok(policy) => policy,
        Err(errors) => {
            assert!(!errors.faults().is_empty());
            for fault in errors.faults() {
                assert!(
                    fault.at.offset <= source.len(),
                    "{fault:?} is outside of the file"
                );
                assert!(!fault.problem.is_empty());
                assert_printable(&fault.to_string());
            }
            return;
        }
    };
    let mut commented = b"# a comment changes nothing\n".to_vec();
    commented.extend_from_slice(source);
    // A byte order mark or a directive is one only at the start.
    if !source.starts_with(b"\xef\xbb\xbf") && !source.starts_with(b"%") {
        assert_eq!(policy::file::read(&commented).as_ref(), Ok(&policy));
    }
    check(&policy);

    let gate = parts(&policy).gate;
    let request = Request {
        method: Some("GET"),
        host: Some("api.example.com:443"),
        path: Some(b"/login/../a?b"),
        ..Request::default()
    };
    let now = gate::time::Now::from_unix_nanos(1_796_067_255_000_000_000);
    let snapshot = gate.snapshot();
    for hits in [
        Hits::Take(0),
        Hits::Take(1),
        Hits::Take(u64::MAX),
        Hits::GiveBack(1),
    ] {
        let _ = gate.check(&snapshot, &[Part { request, hits }], now);
    }
    let explained = gate.explain(&snapshot, &request);
    assert_eq!(explained.rules.len(), policy.rules.len(), "a rule was lost");
});

/// What a reader promises of every policy.
fn check(policy: &Policy) {
    for rule in &policy.rules {
        match &rule.limits {
            RuleLimits::Own(limits) => check_limits(limits),
            RuleLimits::Plan => assert!(policy.default_plan.is_some()),
        }
    }
    for plan in policy.plans.values() {
        plan.rules.values().for_each(|limits| check_limits(limits));
    }
    for subject in &policy.subjects {
        subject
            .rules
            .values()
            .for_each(|limits| check_limits(limits));
        assert!(
            subject
                .plan
                .as_ref()
                .is_none_or(|plan| policy.plans.contains_key(plan))
        );
    }
}

fn check_limits(limits: &[Limit]) {
    assert!(!limits.is_empty(), "a rule without limits limits nothing");
    for limit in limits {
        assert!(limit.cost > 0);
        match limit.amount {
            Amount::Unlimited | Amount::Deny => {}
            Amount::Metered { rate, algorithm } => {
                assert!(rate.units > 0);
                assert_eq!(policy::rate::check(rate, algorithm), Ok(()));
            }
        }
    }
}
