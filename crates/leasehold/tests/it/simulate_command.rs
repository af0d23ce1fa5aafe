//! `leasehold simulate`, run as a person runs it.

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
        .arg("simulate")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    Ran {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn read(folder: &Path, name: &str) -> Vec<u8> {
    fs::read(folder.join(name)).unwrap()
}

/// Small enough for a test: 4 nodes, 6 keys, 12 seconds of which 10 are measured.
const SMALL: [&str; 10] = [
    "--nodes",
    "4",
    "--keys",
    "3",
    "--limit",
    "10/s",
    "--limit",
    "40/2s",
    "--measured",
    "10s",
];

#[test]
fn modes_fare_as_they_must_and_the_same_each_time() {
    let folder = tempfile::TempDir::new().unwrap();
    let files = ["r.json", "r.csv", "r.svg", "r.png"];
    let more = [
        "--json", "r.json", "--csv", "r.csv", "--plot", "r.svg", "--plot", "r.png", "--runs", "2",
    ];
    let arguments = [&["pinned"], &SMALL[..], &more].concat();
    let first = run(folder.path(), &arguments);
    assert_eq!((first.status, first.err.as_str()), (0, ""), "{}", first.out);
    let written = files.map(|name| read(folder.path(), name));
    // Neither another run nor other threads change a byte.
    let again = run(
        folder.path(),
        &[&arguments[..], &["--threads", "1"]].concat(),
    );
    assert_eq!(again.out, first.out);
    assert!(files.map(|name| read(folder.path(), name)) == written);

    let report: serde_json::Value = serde_json::from_slice(&written[0]).unwrap();
    let modes = report["modes"].as_array().unwrap();
    let figure = |mode: usize, name: &str| modes[mode]["all"][name].as_f64().unwrap();
    let names: Vec<_> = modes.iter().map(|mode| &mode["mode"]).collect();
    assert_eq!(names, ["lease", "fixed", "gossip", "central"]);
    // Each client at one node of four: ours admits what is due, an even share a quarter of it.
    assert!(figure(0, "mean") > 0.98, "{}", first.out);
    assert!((0.24..0.36).contains(&figure(1, "mean")), "{}", first.out);
    assert_eq!(figure(3, "mean"), 1.0);
    for mode in [0, 1, 3] {
        assert_eq!(figure(mode, "over_units"), 0.0);
    }
    assert_eq!(figure(0, "windows"), figure(3, "windows"));
    let csv = String::from_utf8(written[1].clone()).unwrap();
    // All limits together and two by themselves, of four modes.
    assert_eq!(csv.lines().count(), 1 + 4 * 3);
    let columns = csv.lines().map(|line| line.split(',').count());
    assert!(columns.clone().all(|count| count == 23), "{csv}");
    assert!(written[2].starts_with(b"<svg"));
    assert!(written[3].starts_with(b"\x89PNG\r\n\x1a\n"));

    let other = run(folder.path(), &[&arguments[..], &["--seed", "9"]].concat());
    assert_ne!(other.out, first.out);
}

/// Gossip admits more than the limit where requests come to all nodes at once; ours never does.
#[test]
fn only_gossip_goes_over() {
    let folder = tempfile::TempDir::new().unwrap();
    let ran = run(
        folder.path(),
        &[
            &["bursty-spread", "--load", "3", "--json", "r.json"],
            &SMALL[..],
        ]
        .concat(),
    );
    assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{}", ran.out);
    let report: serde_json::Value = serde_json::from_slice(&read(folder.path(), "r.json")).unwrap();
    let over = |mode: usize| report["modes"][mode]["all"]["over_units"].as_u64().unwrap();
    assert_eq!((over(0), over(1), over(3)), (0, 0, 0), "{}", ran.out);
    assert!(over(2) > 100, "{}", ran.out);
}

#[test]
fn a_preset_s_file_is_the_preset() {
    let folder = tempfile::TempDir::new().unwrap();
    let preset = run(folder.path(), &["bus-out", "--print-scenario"]);
    assert_eq!(preset.status, 0);
    let text = preset
        .out
        .replace("measured =", "name = \"bus-out\"\nmeasured =");
    fs::write(folder.path().join("own.toml"), text).unwrap();
    let small = [
        "--nodes",
        "3",
        "--keys",
        "1",
        "--measured",
        "60s",
        "--mode",
        "lease",
    ];
    let of_preset = run(folder.path(), &[&["bus-out"], &small[..]].concat());
    let of_file = run(folder.path(), &[&["own.toml"], &small[..]].concat());
    assert_eq!((of_preset.status, of_preset.err.as_str()), (0, ""));
    assert_eq!(of_preset.out, of_file.out);
    for phase in ["before", "during", "first after", "later"] {
        assert!(of_preset.out.contains(phase), "{}", of_preset.out);
    }
}

#[test]
fn seeds_are_checked_and_any_can_be_run_again() {
    let folder = tempfile::TempDir::new().unwrap();
    let arguments = ["--seeds", "6", "--seed", "3", "--json", "s.json"];
    let first = run(folder.path(), &arguments);
    assert_eq!((first.status, first.err.as_str()), (0, ""), "{}", first.out);
    assert!(
        first
            .out
            .starts_with("6 fleets with faults, seeds 3 to 8\n"),
        "{}",
        first.out
    );
    let json = read(folder.path(), "s.json");
    let again = run(
        folder.path(),
        &[&arguments[..], &["--threads", "1"]].concat(),
    );
    assert_eq!(again.out, first.out);
    assert!(read(folder.path(), "s.json") == json);
    let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(report["over_admission_units"], 0);
    assert_eq!(report["runs"], 6);

    // What a seed's run does by itself is what it did among others.
    let mut events = 0;
    for seed in 3..9 {
        let seed = seed.to_string();
        let replay = run(folder.path(), &["--replay", &seed, "--json", "one.json"]);
        assert_eq!(replay.status, 0, "{}", replay.out);
        assert!(replay.out.contains("digest"), "{}", replay.out);
        let one = read(folder.path(), "one.json");
        assert_eq!(run(folder.path(), &["--replay", &seed]).out, replay.out);
        let one: serde_json::Value = serde_json::from_slice(&one).unwrap();
        events += one["events"].as_u64().unwrap();
    }
    assert_eq!(report["events"].as_u64(), Some(events));
}

/// Two nodes' logs of four addresses, twelve requests a second each for a minute.
fn logs(folder: &Path) {
    let mut texts = [String::new(), String::new()];
    for second in 0..60 {
        for n in 0..12 {
            for address in 0..4 {
                writeln!(
                    texts[address % 2],
                    "192.0.2.{address} - - [30/Nov/2026:22:00:{second:02} +0000] \
                     \"GET /{n} HTTP/1.1\" 200 5"
                )
                .unwrap();
            }
        }
    }
    fs::write(folder.join("a.log"), &texts[0]).unwrap();
    fs::write(folder.join("b.log"), &texts[1]).unwrap();
}

#[test]
fn a_real_log_is_run_whatever_the_secret() {
    let folder = tempfile::TempDir::new().unwrap();
    logs(folder.path());
    let arguments = ["--log", "a=a.log", "--log", "b=b.log", "--limit", "10/s"];
    let first = run(folder.path(), &arguments);
    assert_eq!(first.status, 0, "{}", first.err);
    assert!(first.out.contains("access log: 2 nodes"), "{}", first.out);
    assert!(
        first
            .out
            .contains("2880 logged requests, at the nodes that logged them"),
        "{}",
        first.out
    );
    assert!(first.err.contains("whole seconds"), "{}", first.err);
    // Keys are hashed with another secret each time.
    assert_eq!(run(folder.path(), &arguments).out, first.out);

    let unnamed = [
        "--log", "a.log", "--limit", "10/s", "--nodes", "3", "--place", "random",
    ];
    let ran = run(folder.path(), &unnamed);
    assert_eq!(ran.status, 0, "{}", ran.err);
    assert!(
        ran.out.contains("access log: 3 nodes") && ran.out.contains("at a random node"),
        "{}",
        ran.out
    );
}

#[test]
fn bad_input_is_refused_by_its_name() {
    let folder = tempfile::TempDir::new().unwrap();
    logs(folder.path());
    for (name, bytes) in [
        ("empty.toml", &b""[..]),
        ("junk.toml", b"\xff\xfe"),
        ("typo.toml", b"nodez = 3\n"),
        ("empty.log", b""),
        ("junk.log", b"\xff\xfe\0\n{\n"),
    ] {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    for (arguments, status, says) in [
        (
            &["pined"][..],
            2,
            "neither a scenario file (.toml) nor a preset: pinned, uniform",
        ),
        (&["no.toml"], 2, "no.toml: "),
        (&["empty.toml"], 2, "empty.toml: traffic is missing"),
        (&["junk.toml"], 2, "junk.toml: is not UTF-8, from byte 0 on"),
        (
            &["typo.toml"],
            2,
            "typo.toml:1: nodez: unknown field `nodez`",
        ),
        (&["pined", "--print-scenario"], 2, "is no preset"),
        (&["--nodes", "0"], 2, "nodes is 0: it must be 1 to 300"),
        (&["--nodes", "1000000"], 2, "nodes is 1000000"),
        (&["--keys", "0"], 2, "traffic[0].keys is 0"),
        (
            &["--keys", "4000000000"],
            2,
            "traffic[0].keys is 4000000000",
        ),
        (&["--load", "0"], 2, "traffic[0].load is 0"),
        (&["--limit", "deny"], 2, "no rate to compare"),
        (
            &["--limit", "9/h"],
            2,
            "measured is 180 s: it must be at least 7200 s",
        ),
        (
            &["--limit", "900000000/s"],
            2,
            "requests: it must be at most",
        ),
        (&["--place", "here"], 2, "is no place"),
        (&["--measured", "soon"], 2, "--measured"),
        (
            &["zipf", "--load", "2"],
            2,
            "load is 2: it must be left out",
        ),
        (
            &["--plot", "p.gif"],
            2,
            "a plot's name ends in .svg or .png",
        ),
        (&["--seeds", "0"], 2, "--seeds"),
        (
            &["--seeds", "2", "--seed", "18446744073709551615"],
            2,
            "it must be at most",
        ),
        (&["--seeds", "2", "--replay", "1"], 2, "cannot be used with"),
        (&["--log", "a.log"], 2, "--limit"),
        (&["--log", "no.log", "--limit", "9/s"], 2, "no.log"),
        (
            &["--log", "empty.log", "--limit", "9/s"],
            1,
            "the logs have no request with a key",
        ),
        (
            &["--log", "junk.log", "--limit", "9/s"],
            1,
            "junk.log: 2 of 2 lines",
        ),
        (
            &["--log", "a=a.log", "--log", "b.log", "--limit", "9/s"],
            2,
            "some logs name their node and some do not",
        ),
        (
            &["--log", "a=a.log", "--nodes", "3", "--limit", "9/s"],
            2,
            "--nodes and --place are for logs that do not name their node",
        ),
        (
            &["--log", "a.log", "--keys", "3", "--limit", "9/s"],
            2,
            "keys is 3: it must be left out",
        ),
    ] {
        let ran = run(folder.path(), arguments);
        assert_eq!(ran.status, status, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(says), "{arguments:?}: {}", ran.err);
        assert_eq!(ran.out, "", "{arguments:?}");
    }
}
