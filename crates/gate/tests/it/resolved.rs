//! Deciding on limits that were met before says what deciding anew says, and charges the same buckets.

use gate::request::{Hits, Part};
use gate::{Gate, Verdict};
use policy::model::{Algorithm, KeySource, OnAbsent, Policy};

use crate::fixture::{
    START, after, answer, by, check, fixed, gate, get, limit, policy, quota, rule,
};

fn both(policy: &Policy) -> (Gate, Gate) {
    (gate(policy), gate(policy))
}

#[test]
fn what_was_met_before_is_decided_as_what_is_met_anew() {
    let address = || by(KeySource::ClientAddress);
    let one = policy(vec![rule("a", &[], address(), vec![fixed(3, 1000)])]);
    let several = policy(vec![
        rule("a", &[], address(), vec![fixed(3, 1000), quota(7)]),
        rule(
            "b",
            &["/x"],
            vec![],
            vec![limit(4, 1000, Algorithm::TokenBucket { burst: 4 })],
        ),
        rule(
            "c",
            &[],
            vec![],
            vec![limit(6, 1000, Algorithm::SlidingWindow)],
        ),
    ]);
    for policy in [one, several] {
        let (anew, before) = both(&policy);
        let http = get("/x");
        let snapshot = before.snapshot();
        let met: Vec<_> = http.with(|request| {
            let parts = [Part {
                request,
                hits: Hits::Take(1),
            }];
            before
                .resolve(&snapshot, &parts)
                .met()
                .expect("simple")
                .collect()
        });
        let mut decision = before.check_met(&snapshot, &[], Hits::Take(0), START);
        for step in 0..40 {
            let now = after(step * 130_000_000);
            let hits = match step % 5 {
                0 => Hits::Take(0),
                4 => Hits::GiveBack(1),
                _ => Hits::Take(1 + step % 2),
            };
            let expected = check(&anew, &http, hits, now);
            // By turns as a new decision and in the place of the last one.
            if step % 2 == 0 {
                decision = before.check_met(&snapshot, &met, hits, now);
            } else {
                before.check_met_into(&snapshot, &met, hits, now, &mut decision);
            }
            assert_eq!(answer(&decision), expected, "step {step}");
        }
    }
}

#[test]
fn nothing_met_is_admitted_and_a_wanting_key_is_never_simple() {
    let mut wants_key = rule("r", &["/x"], by(KeySource::ApiKey), vec![fixed(3, 1000)]);
    wants_key.on_absent = OnAbsent::Deny;
    let gate = gate(&policy(vec![wants_key]));
    let snapshot = gate.snapshot();
    let met = |path: &str| -> Option<Vec<_>> {
        get(path).with(|request| {
            let parts = [Part {
                request,
                hits: Hits::Take(1),
            }];
            let resolved = gate.resolve(&snapshot, &parts);
            resolved.met().map(Iterator::collect)
        })
    };
    assert!(met("/x").is_none(), "that rule refuses it");
    let none = met("/other").unwrap();
    assert!(none.is_empty());
    let decision = gate.check_met(&snapshot, &none, Hits::Take(1), START);
    assert_eq!(decision.verdict, Verdict::Admitted);
}

/// A14 and W10 where the previous window's weight needs 128 bits: 100,000 a year.
#[test]
fn a_sliding_year_weighs_the_year_before() {
    const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;
    let year = limit(100_000, YEAR_MS, Algorithm::SlidingWindow);
    let gate = gate(&policy(vec![rule("r", &[], vec![], vec![year])]));
    let http = get("/");
    assert!(check(&gate, &http, Hits::Take(100_000), START).admitted());
    let year_ns = YEAR_MS * 1_000_000;
    // Into the next window, wherever in it that is: what is left grows with it, evenly.
    let left = |now| check(&gate, &http, Hits::Take(0), now).remaining("r");
    let early = left(after(year_ns));
    assert!(!check(&gate, &http, Hits::Take(early + 1), after(year_ns)).admitted());
    assert!(check(&gate, &http, Hits::Take(early), after(year_ns)).admitted());
    let grown = left(after(year_ns + year_ns / 10));
    assert!((9_999..=10_001).contains(&grown), "{early} {grown}");
    assert_eq!(left(after(3 * year_ns)), 100_000);
}
