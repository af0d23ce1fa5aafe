//! `leasehold measure`, run as a person runs it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

struct Ran {
    status: i32,
    out: String,
    err: String,
}

fn run(folder: &Path, arguments: &[&str]) -> Ran {
    let output = Command::new(env!("CARGO_BIN_EXE_leasehold"))
        .arg("measure")
        .args(arguments)
        .current_dir(folder)
        .env("LEASEHOLD__SECRET", "env:A_SECRET")
        .env(
            "A_SECRET",
            "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        )
        .output()
        .unwrap();
    Ran {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Three nodes' logs of 20 addresses with 300 requests each; `node` says where an address's n-th goes.
fn logs(folder: &Path, node: impl Fn(usize, usize) -> usize) {
    let mut texts = [String::new(), String::new(), String::new()];
    for n in 0..300 {
        for address in 0..20 {
            let (minute, second) = (n / 60, n % 60);
            writeln!(
                texts[node(address, n)],
                "192.0.2.{address} - - [30/Nov/2026:22:{minute:02}:{second:02} +0000] \
                 \"GET / HTTP/1.1\" 200 5"
            )
            .unwrap();
        }
    }
    for (name, text) in ["a.log", "b.log", "c.log"].iter().zip(texts) {
        fs::write(folder.join(name), text).unwrap();
    }
}

const NODES: [&str; 6] = [
    "--node", "a=a.log", "--node", "b=b.log", "--node", "c=c.log",
];

#[test]
fn even_logs_say_fixed_and_pinned_ones_lease() {
    let folder = tempfile::TempDir::new().unwrap();
    for (is_pinned, verdict) in [
        (false, "verdict: fixed (p95 1.00, threshold 1.5)"),
        (true, "verdict: lease (p95 3.00, threshold 1.5)"),
    ] {
        logs(folder.path(), |address, n| {
            (if is_pinned { address } else { n }) % 3
        });
        let ran = run(folder.path(), &NODES);
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{}", ran.out);
        assert!(ran.out.contains("6,000 requests at 3 nodes"), "{}", ran.out);
        assert!(ran.out.contains(verdict), "{}", ran.out);
    }
}

#[test]
fn all_files_are_written_and_are_the_same_each_time() {
    let folder = tempfile::TempDir::new().unwrap();
    logs(folder.path(), |address, _| address % 3);
    let with = |more: &[&str]| {
        let ran = run(folder.path(), &[&NODES[..], more].concat());
        assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{}", ran.out);
    };
    let files = [
        "r.json", "k.csv", "p.svg", "p.png", "d.md", "d.csv", "d.svg",
    ];
    let more = [
        "--json",
        "r.json",
        "--keys-csv",
        "k.csv",
        "--plot",
        "p.svg",
        "--plot",
        "p.png",
    ];
    with(&[&more[..], &["--record", "d.md", "--limit", "10/s"]].concat());
    let read = || -> Vec<Vec<u8>> {
        let files = files.iter().map(|name| folder.path().join(name));
        files.map(|file| fs::read(file).unwrap()).collect()
    };
    let first = read();
    with(&[&more[..], &["--limit", "10/s"]].concat());
    assert!(first == read(), "a file differs between two runs");

    let report: serde_json::Value = serde_json::from_slice(&first[0]).unwrap();
    assert_eq!(report["verdict"]["mode"], "lease");
    assert_eq!(report["keys"]["judged"], 20);
    assert_eq!(report["limit"]["units"], 10);
    assert_eq!(String::from_utf8_lossy(&first[1]).lines().count(), 21);
    assert!(first[2].starts_with(b"<svg") && first[6].starts_with(b"<svg"));
    assert!(first[3].starts_with(b"\x89PNG\r\n\x1a\n"));
    for text in &first {
        assert!(!String::from_utf8_lossy(text).contains("192.0.2."));
    }
}

#[test]
fn bad_input_is_refused_by_its_name() {
    let folder = tempfile::TempDir::new().unwrap();
    logs(folder.path(), |_, n| n % 3);
    fs::write(folder.path().join("empty.log"), "").unwrap();
    fs::write(folder.path().join("junk.log"), b"\xff\xfe\0junk\n\n{\n").unwrap();
    for (arguments, status, says) in [
        (&[][..], 2, "--node"),
        (&["--node", "a.log"], 2, "write NODE=FILE"),
        (&["--node", "a=a.log"], 2, "at least 2 nodes are compared"),
        (&["--node", "a=a.log", "--node", "b=no.log"], 2, "no.log"),
        (
            &["--node", "a=a.log", "--node", "b=a.log"],
            2,
            "a.log: is given twice",
        ),
        (
            &["--node", "a=a.log", "--node", "b=junk.log"],
            1,
            "junk.log: 2 of 2 lines could not be read",
        ),
        (
            &["--node", "a=a.log", "--node", "b=b.log", "--plot", "p.gif"],
            2,
            "p.gif: a plot's name ends in .svg or .png",
        ),
        (
            &["--node", "a=a.log", "--node", "b=b.log", "--limit", "deny"],
            2,
            "there is nothing to share",
        ),
        (
            &[
                "--node", "a=a.log", "--node", "b=b.log", "--record", "r.txt",
            ],
            2,
            "r.txt: a record's name ends in .md",
        ),
    ] {
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, status, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(says), "{arguments:?}: {}", ran.err);
    }
    // A node whose log is empty is told of; there may be one that nobody used.
    let ran = run(
        folder.path(),
        &["--node", "a=a.log", "--node", "b=empty.log"],
    );
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(
        ran.out.contains("node b has no requests with a key"),
        "{}",
        ran.out
    );
}
