//! Files at the bounds: what is too large is refused with the bound named, and costs no more for it.

use leasehold_policy as policy;
use policy::envoy::{File, read_files};
use policy::fault::{FaultKind, MAX_FAULTS, PolicyErrors};
use policy::file::read;
use policy::model::{Amount, RuleLimits};
use policy::yaml::{MAX_BYTES, MAX_DEPTH};

fn refused(source: &str) -> PolicyErrors {
    policy::file::read(source.as_bytes())
        .map(|_| panic!("was read"))
        .unwrap_err()
}

fn rules(count: usize) -> String {
    let rules = (0..count).map(|n| format!("- {{name: r{n}, by: address, limits: [5/s]}}\n"));
    format!("version: 1\nrules:\n{}", rules.collect::<String>())
}

#[test]
fn a_file_of_ten_thousand_rules_is_read_and_one_more_is_refused() {
    let policy = policy::file::read(rules(10_000).as_bytes()).unwrap();
    assert_eq!(policy.rules.len(), 10_000);
    let errors = refused(&rules(10_001));
    assert_eq!(
        errors.to_string(),
        "3:3: rules: has 10001 items: at most 10000"
    );
}

#[test]
fn a_file_that_is_too_large_is_refused_unread() {
    let mut source = rules(1);
    source.push_str(&"#".repeat(MAX_BYTES - source.len()));
    assert!(policy::file::read(source.as_bytes()).is_ok());
    source.push('#');
    let errors = refused(&source);
    assert_eq!(errors.faults()[0].kind, FaultKind::OutOfRange);
    assert_eq!(
        errors.faults()[0].problem,
        "the file has more than 4194304 bytes, and no more are read"
    );
}

#[test]
fn nesting_is_bounded_also_where_aliases_make_it() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let deep = |levels| format!("x: {}1{}", open.repeat(levels), close.repeat(levels));
        assert_eq!(
            refused(&deep(MAX_DEPTH - 1)).faults()[0].kind,
            FaultKind::UnknownField
        );
        assert_ne!(
            refused(&deep(MAX_DEPTH)).faults()[0].kind,
            FaultKind::UnknownField
        );
    }
    let half = MAX_DEPTH / 2;
    let (open, close) = ("[".repeat(half), "]".repeat(half));
    let errors = refused(&format!("a: &a {open}1{close}\nb: {open}*a{close}"));
    assert_eq!(
        errors.to_string(),
        format!("2:36: nested more than {MAX_DEPTH} levels deep")
    );
}

#[test]
fn of_very_many_faults_the_first_are_told_and_the_others_counted() {
    let subjects: String = (0..20_000)
        .map(|n| format!("- {{user: u{n}, plan: pl{n}}}\n"))
        .collect();
    let plans: String = (0..900)
        .map(|n| format!("  plan{n}: {{limits: [5/s]}}\n"))
        .collect();
    let source = format!("{}plans:\n{plans}subjects:\n{subjects}", rules(1));
    let errors = refused(&source);
    assert_eq!(errors.faults().len(), MAX_FAULTS);
    assert_eq!(errors.omitted(), 20_000 - MAX_FAULTS);
    assert!(errors.to_string().ends_with("\nand 19900 more"));
}

#[test]
fn what_is_quoted_is_escaped_and_cut() {
    let long = "x".repeat(500);
    for given in [&long, "a\\u001b[31m", "a\\nb", "\\u202etxt"] {
        let errors = refused(&format!("version: 1\nrules: \"{given}\"\n\"{given}\": 1\n"));
        for fault in errors.faults() {
            assert!(
                !fault.to_string().contains(['\u{1b}', '\n', '\u{202e}']),
                "{fault:?}"
            );
            assert!(
                fault.path.len() < 100 && fault.problem.len() < 200,
                "{fault:?}"
            );
        }
    }
}

/// A4: 0 denies all and a window or burst of 0 is refused, by every way in which a file can say it.
#[test]
fn zero_has_one_meaning_wherever_it_is_written() {
    let rule = |limit: &str| {
        format!("version: 1\nrules:\n  - {{name: r, by: address, limits: [{limit}]}}\n")
    };
    let in_a_plan = |limit: &str| {
        format!(
            "version: 1\nplans: {{default: {{limits: [{limit}]}}}}\ndefault_plan: default\n\
             rules:\n  - {{name: r, by: address, limits: plan}}\n"
        )
    };
    for limit in [
        "0/s",
        "0/forever",
        "deny",
        "{rate: 0/s}",
        "{units: 0, window: 1s}",
        "{units: 0, window: 1s, algorithm: sliding_window}",
        "{units: 0, window: 1s, algorithm: token_bucket, burst: 5}",
    ] {
        let policy = read(rule(limit).as_bytes()).unwrap_or_else(|e| panic!("{limit}: {e}"));
        let RuleLimits::Own(limits) = &policy.rules[0].limits else {
            panic!("{limit}: a rule of its own limits")
        };
        assert_eq!(limits[0].amount, Amount::Deny, "{limit}");
        let policy = read(in_a_plan(limit).as_bytes()).unwrap_or_else(|e| panic!("{limit}: {e}"));
        let plan = policy.plans.values().next().unwrap();
        assert_eq!(plan.limits[0].amount, Amount::Deny, "{limit}");
    }
    for limit in [
        "5/0s",
        "{units: 5, window: 0s}",
        "{rate: 5/s, algorithm: token_bucket, burst: 0}",
    ] {
        refused(&rule(limit));
        refused(&in_a_plan(limit));
    }
    let tree =
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 0}}]\n";
    let file = File {
        name: "d.yaml",
        bytes: tree.as_bytes(),
    };
    let trees = read_files(&[file]).unwrap();
    let limit = trees.domains[0].descriptors[0].limit.as_ref().unwrap();
    assert_eq!(limit.limit.amount, Amount::Deny);
}
