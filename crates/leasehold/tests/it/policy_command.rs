//! `leasehold policy`, run as a person runs it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

struct Ran {
    status: i32,
    out: String,
    err: String,
}

fn run_with(arguments: &[&str], input: &[u8], environment: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LEASEHOLD__")) {
        command.env_remove(name);
    }
    let mut child = command
        .arg("policy")
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that refuses before it reads closes the pipe.
    let _ = child.stdin.take().unwrap().write_all(input);
    let output = child.wait_with_output().unwrap();
    Ran {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(arguments: &[&str]) -> Ran {
    run_with(arguments, b"", &[])
}

fn testdata(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/policy")
        .join(name);
    file.to_str().unwrap().to_owned()
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let file: PathBuf = folder.join(name);
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

const SECRET: (&str, &str) = (
    "A_SECRET",
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
);
const FROM_SECRET: (&str, &str) = ("LEASEHOLD__SECRET", "env:A_SECRET");

#[test]
fn check_tells_all_faults_of_all_files() {
    let (good, bad) = (
        testdata("valid/everything.yaml"),
        testdata("invalid/limits.yaml"),
    );
    let other = testdata("invalid/f8-one-bad-rule.yaml");
    let ran = run(&["check", &bad, &good, &other]);
    assert_eq!(ran.status, 1, "{}", ran.err);
    assert_eq!(
        ran.out,
        format!("{good}: ok, 5 rules, 13 limits, 3 plans, 3 subjects\n")
    );
    let expected = fs::read_to_string(testdata("invalid/limits.txt")).unwrap();
    for line in expected.lines() {
        assert!(
            ran.err.contains(&format!("{bad}:{line}\n")),
            "{line}\n{}",
            ran.err
        );
    }
    assert!(
        ran.err
            .contains(&format!("{other}:5:41: rules[1].limits[0]: `5/mni`")),
        "{}",
        ran.err
    );
}

#[test]
fn a_file_that_cannot_be_read_is_status_2_and_others_are_checked_all_the_same() {
    let good = testdata("valid/smallest.yaml");
    let ran = run(&["check", "no/such/file.yaml", &good]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("no/such/file.yaml"), "{}", ran.err);
    assert!(ran.out.contains("ok, 1 rule, 1 limit"), "{}", ran.out);
    assert_eq!(run(&["check"]).status, 2);
    assert_eq!(run(&["no-such-command"]).status, 2);
}

#[test]
fn check_warns_of_trust_in_everybody() {
    let folder = tempfile::tempdir().unwrap();
    let text = "version: 1\nclient_address: {trusted: 0.0.0.0/0}\n\
                rules: [{name: all, by: address, limits: [9/s]}]\n";
    let file = write(folder.path(), "open.yaml", text);
    let ran = run(&["check", &file]);
    assert_eq!(ran.status, 0, "it is allowed: {}", ran.err);
    let words = format!("warning: {file}:2:27: client_address.trusted: 0.0.0.0/0 is");
    assert!(ran.err.contains(&words), "{}", ran.err);
}

#[test]
fn check_refuses_files_that_limit_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let half = write(
        folder.path(),
        "half.yaml",
        "domain: mesh\ndescriptors: []\n",
    );
    for path in [&*half, folder.path().to_str().unwrap()] {
        let ran = run(&["check", path]);
        assert_eq!(ran.status, 1, "{}", ran.out);
        assert!(ran.err.contains("nothing would be limited"), "{}", ran.err);
    }
}

#[test]
fn check_reads_envoyproxy_s_files_too() {
    let folder = tempfile::tempdir().unwrap();
    let text = "domain: mesh\ndescriptors:\n  - key: user\n    rate_limit: {unit: minute, requests_per_unit: 5}\n";
    let good = write(folder.path(), "mesh.yaml", text);
    for arguments in [
        &["check", &good][..],
        &["check", &good, "--format", "envoy"],
        &["check", &good, "--format", "envoy-ratelimit"],
        &["check", folder.path().to_str().unwrap()],
    ] {
        let ran = run(arguments);
        assert_eq!(ran.status, 0, "{}", ran.err);
        assert!(ran.out.ends_with("ok, 1 domain, 1 limit\n"), "{}", ran.out);
    }
    let ran = run(&["check", &good, "--format", "leasehold"]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("domain: unknown field"), "{}", ran.err);
    let shown = run(&["show", &good]);
    assert!(
        shown
            .out
            .contains("mesh:\n  - {descriptor: user, limit: {rate: 5/1m"),
        "{}",
        shown.out
    );
}

#[test]
fn show_prints_what_reads_as_the_same_policy() {
    let folder = tempfile::tempdir().unwrap();
    let shown = run(&["show", &testdata("valid/everything.yaml")]);
    assert_eq!(shown.status, 0, "{}", shown.err);
    let copy = write(folder.path(), "copy.yaml", &shown.out);
    let ran = run(&["diff", &testdata("valid/everything.yaml"), &copy]);
    assert_eq!(
        (ran.status, ran.out.as_str()),
        (0, "no difference\n"),
        "{}",
        ran.err
    );
    let sample = run(&["show"]);
    assert_eq!(sample.status, 0, "{}", sample.err);
    assert!(sample.out.contains("name: per-address"), "{}", sample.out);
    assert_eq!(run(&["show", &testdata("invalid/empty.yaml")]).status, 1);
}

#[test]
fn diff_tells_changes_and_refuses_faulty_files() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name, rate| {
        let text = format!("version: 1\nrules: [{{name: a, by: address, limits: [{rate}]}}]\n");
        write(folder.path(), name, &text)
    };
    let (one, two, bad) = (
        file("1.yaml", "5/s"),
        file("2.yaml", "6/s"),
        file("3.yaml", "6/z"),
    );
    let ran = run(&["diff", &one, &two]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert_eq!(
        ran.out,
        "~ rule a: limit 1s: rate: 5/1s, algorithm: fixed_window -> 6/1s, algorithm: fixed_window\n"
    );
    let ran = run(&["diff", &one, &bad]);
    assert_eq!(ran.status, 1);
    assert!(ran.err.contains("`6/z`"), "{}", ran.err);
}

#[test]
fn schema_prints_the_one_of_the_repository() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/policy.schema.json");
    let ran = run(&["schema"]);
    assert_eq!(ran.status, 0);
    assert_eq!(ran.out, fs::read_to_string(file).unwrap());
}

#[test]
fn explain_tells_what_applies_and_why_not() {
    let policy = testdata("valid/everything.yaml");
    let ran = run(&[
        "explain",
        &policy,
        "--method",
        "POST",
        "--path",
        "/LOGIN",
        "--host",
        "API.example.com:443",
        "--peer",
        "10.1.2.3",
        "--header",
        "CF-Connecting-IP: 198.51.100.9",
        "--header",
        "X-User: alice",
    ]);
    assert_eq!(ran.status, 0, "{}", ran.err);
    for line in [
        "path            `/login`",
        "host            `api.example.com`",
        "client address  198.51.100.9",
        "API key         none",
        "user            `alice`",
        "login: applies",
        "  by [address]",
        "  limit 1m: 5/1m, algorithm: fixed_window",
        "  limit hourly: 20/1h, algorithm: sliding_window",
        "reports: does not apply (path: no pattern matches)",
        "per-plan: does not apply (header: a condition does not hold)",
        "all: applies in shadow mode: it counts and never refuses",
        "  limit deny: deny",
    ] {
        assert!(
            ran.out.lines().any(|told| told == line),
            "{line}\n{}",
            ran.out
        );
    }
    let ran = run(&["explain", &policy, "--path", "/reports/1"]);
    let skipped = "reports: does not apply (the request has no api_key, and on_absent is skip)";
    assert!(ran.out.contains(skipped), "{}", ran.out);
    assert_eq!(run(&["explain", &policy, "--header", "nocolon"]).status, 2);
    assert_eq!(run(&["explain", &testdata("invalid/empty.yaml")]).status, 1);
}

#[test]
fn explain_says_when_nothing_applies() {
    let folder = tempfile::tempdir().unwrap();
    let text = "version: 1\nrules: [{name: a, when: {path: /a}, by: address, limits: [5/s]}]\n";
    let policy = write(folder.path(), "p.yaml", text);
    let ran = run(&["explain", &policy, "--path", "/b"]);
    assert!(
        ran.out.ends_with("admitted and charged to nothing.\n"),
        "{}",
        ran.out
    );
}

#[test]
fn a_hashed_key_is_the_subject_that_it_names() {
    let folder = tempfile::tempdir().unwrap();
    let hashed = run_with(&["hash-key"], b"sk_live_1\n", &[SECRET, FROM_SECRET]);
    assert_eq!(hashed.status, 0, "{}", hashed.err);
    let hash = hashed.out.trim();
    assert!(hash.starts_with("v1.") && hash.len() == 3 + 64, "{hash}");
    let text = format!(
        "version: 1\nsubjects: [{{api_key_hash: {hash}, rules: {{api: [77/s]}}}}]\n\
         rules: [{{name: api, by: api_key, limits: [5/s]}}]\n"
    );
    let policy = write(folder.path(), "p.yaml", &text);
    let explain = ["explain", &policy, "--header", "x-api-key: sk_live_1"];
    let ran = run_with(&explain, b"", &[SECRET, FROM_SECRET]);
    assert!(
        ran.out.contains("limit 1s of the caller's own: 77/1s"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("sk_live_1"), "{}", ran.out);
    let ran = run(&explain);
    assert!(ran.out.contains("limit 1s: 5/1s"), "{}", ran.out);
    assert!(
        ran.err
            .contains("without the node's `secret` none is known here"),
        "{}",
        ran.err
    );
}

#[test]
fn hash_key_refuses_what_is_no_key_and_never_repeats_it() {
    for input in ["", "\n", "sk_a\nsk_b\n", " sk_a\n", "sk\0a"] {
        let ran = run_with(&["hash-key"], input.as_bytes(), &[SECRET, FROM_SECRET]);
        assert_eq!(ran.status, 2, "{input:?}");
        assert_eq!(ran.out, "", "{input:?}");
        assert!(!ran.err.contains("sk"), "{}", ran.err);
    }
    let long = "k".repeat(8193);
    assert_eq!(
        run_with(&["hash-key"], long.as_bytes(), &[SECRET, FROM_SECRET]).status,
        2
    );
    let ran = run_with(&["hash-key"], b"sk_a", &[]);
    assert_eq!(ran.status, 2);
    assert!(ran.err.contains("set `secret` to file:PATH"), "{}", ran.err);
}
