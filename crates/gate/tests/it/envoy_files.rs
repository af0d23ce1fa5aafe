//! Requests under files of envoyproxy/ratelimit: what that project documents of its examples. The format is told in
//! `testdata/envoy-ratelimit/README.md`.

use gate::decision::Outcome;
use gate::request::{Hits, Part, Request};
use gate::time::Now;
use gate::{Decision, Gate, Verdict};
use policy::envoy::{File, read_files};
use policy::model::{Mode, Policy};

use crate::fixture::*;

fn data(name: &str) -> String {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/envoy-ratelimit/"
    );
    std::fs::read_to_string(format!("{folder}{name}")).unwrap()
}

fn entries(descriptor: &str) -> Vec<(&str, &str)> {
    let pairs = descriptor.strip_prefix('(').unwrap();
    let pairs = pairs.strip_suffix(')').unwrap().split(") (");
    pairs.map(|pair| pair.split_once(", ").unwrap()).collect()
}

fn ask(gate: &Gate, domain: &str, descriptors: &str, now: Now) -> String {
    let descriptors: Vec<_> = descriptors.split("; ").map(entries).collect();
    let parts: Vec<Part<'_>> = descriptors
        .iter()
        .map(|entries| Part {
            request: Request {
                domain: Some(domain),
                entries,
                ..Request::default()
            },
            hits: Hits::Take(1),
        })
        .collect();
    let snapshot = gate.snapshot();
    rendered(&gate.check(&snapshot, &parts, now), parts.len())
}

fn rendered(decision: &Decision<'_>, parts: usize) -> String {
    let code = match decision.verdict {
        Verdict::Admitted => "OK",
        Verdict::Refused(_) => "OVER_LIMIT",
    };
    let statuses: Vec<String> = (0..parts)
        .map(|part| {
            let mut met = decision
                .outcomes
                .iter()
                .filter(|outcome| usize::from(outcome.part) == part);
            let status = met.next().map_or_else(|| "none".to_owned(), status);
            assert!(met.next().is_none(), "a descriptor meets one limit");
            status
        })
        .collect();
    format!("{code}: {}", statuses.join("; "))
}

fn status(outcome: &Outcome<'_>) -> String {
    match (outcome.has_room, outcome.facts.mode, outcome.remaining) {
        (false, Mode::Enforce, _) => "over".to_owned(),
        (_, _, Some(left)) => format!("ok {left}"),
        (_, _, None) => "ok unlimited".to_owned(),
    }
}

#[track_caller]
fn check(name: &str) {
    let bytes = data(&format!("{name}.yaml"));
    let file = File {
        name,
        bytes: bytes.as_bytes(),
    };
    let policy = Policy {
        domains: read_files(&[file]).unwrap().domains,
        ..Policy::default()
    };
    let domain = policy.domains[0].name.clone();
    let gate = gate(&policy);
    let mut now = START;
    for (number, line) in (1..).zip(data(&format!("{name}.requests")).lines()) {
        if line.starts_with('#') {
            continue;
        }
        if let Some(seconds) = line.strip_prefix("wait ") {
            let ns = seconds.parse::<u64>().unwrap() * SECOND_NS;
            now = Now::from_nanos(now.nanos() + ns);
            continue;
        }
        let (asked, expected) = line.split_once(" -> ").unwrap();
        let (times, descriptors) = match asked.strip_prefix('x') {
            Some(repeated) => repeated.split_once(' ').unwrap(),
            None => ("1", asked),
        };
        for left in (0..times.parse::<u32>().unwrap()).rev() {
            let answer = ask(&gate, &domain, descriptors, now);
            if left > 0 {
                assert!(answer.starts_with("OK: "), "{name}:{number}: {answer}");
            } else {
                assert_eq!(answer, expected, "{name}:{number}");
            }
        }
    }
}

#[test]
fn nested_descriptors_and_all_rules_that_match() {
    check("messaging");
}

#[test]
fn addresses_and_a_blocked_one() {
    check("per-address");
}

#[test]
fn levels_and_windows() {
    check("levels");
}

#[test]
fn shadow_mode_is_never_over() {
    check("shadow");
}

#[test]
fn replaced_limits_are_not_touched() {
    check("replaces");
}

#[test]
fn values_of_a_wildcard_count_apart() {
    check("wildcards");
}

#[test]
fn values_that_share_a_threshold_count_together() {
    check("share-threshold");
}

#[test]
fn quotas_are_over_together() {
    check("quota");
}
