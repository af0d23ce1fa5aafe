//! What `diff` tells of two policies.

use std::path::Path;

use leasehold_policy as policy;
use policy::diff::{Change, diff};
use policy::model::Policy;

fn read(source: &str) -> Policy {
    policy::file::read(source.as_bytes()).unwrap_or_else(|errors| panic!("{errors}"))
}

fn told(from: &str, to: &str) -> String {
    let changes = diff(&read(from), &read(to));
    changes.iter().map(|change| format!("{change}\n")).collect()
}

const BEFORE: &str = r"
version: 1
plans:
  free: {limits: [10/s, 1000/day]}
  old: {limits: [1/s]}
default_plan: free
subjects:
  - {user: alice, plan: old}
  - {user: bob, rules: {login: [9/min]}}
rules:
  - {name: login, when: {path: /login}, by: address, limits: [5/min, 20/hour]}
  - {name: gone, by: address, limits: [1/s]}
  - {name: api, by: api_key, limits: plan}
";

const AFTER: &str = r"
version: 1
paths: {case_sensitive: false}
plans:
  free: {limits: [20/s, {rate: 1000/day, algorithm: sliding_window}], rules: {login: [7/min]}}
  pro: {limits: [100/s]}
default_plan: pro
subjects:
  - {user: bob, plan: pro, rules: {login: [{rate: 9/min, cost: 2, sharing: lease, disclose: true}]}}
  - {user: carol, plan: pro}
rules:
  - {name: api, by: [api_key, path], on_absent: deny, mode: shadow, limits: [10/s]}
  - {name: login, when: {path: [/login, /signin], method: POST}, by: address, limits: [6/min, 100/day]}
  - {name: new, by: address, limits: [1/s]}
";

#[test]
fn every_change_is_told_with_what_becomes_of_counters() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/policy/diff.txt");
    let told = told(BEFORE, AFTER);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&file, &told).unwrap();
    }
    assert_eq!(told, std::fs::read_to_string(&file).unwrap_or_default());
}

#[test]
fn equal_policies_and_reordered_rules_are_no_change() {
    assert_eq!(diff(&read(BEFORE), &read(BEFORE)), Vec::<Change>::new());
    let one = "{name: a, by: address, limits: [1/s]}";
    let two = "{name: b, by: address, limits: [1/s]}";
    let file = |x, y| format!("version: 1\nrules: [{x}, {y}]\n");
    assert_eq!(told(&file(one, two), &file(two, one)), "");
}
