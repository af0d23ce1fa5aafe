//! `leasehold probe` on a real fleet.

use std::process::Output;

use serde_json::Value;
use tokio::process::Command;

use super::fleet::{Cut, Fleet, Transport};
use crate::harness::leasehold::Leasehold;
use crate::harness::{DEADLINE, eventually, free_port};

const POLICY: &str = "version: 1
rules:
  - name: everyone
    by: everyone
    limits: [{rate: 100 per 1s}]
";

/// Runs it.
pub async fn probe<S: AsRef<str>>(arguments: &[S]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command.arg("probe").kill_on_drop(true);
    command.args(arguments.iter().map(AsRef::as_ref));
    let run = command.output();
    tokio::time::timeout(DEADLINE * 2, run)
        .await
        .unwrap()
        .unwrap()
}

fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Waits until the fleet is well, by the command itself.
pub async fn until_well(fleet: &Fleet) {
    let mut arguments = fleet.urls();
    arguments.extend(["--wait".to_owned(), DEADLINE.as_secs().to_string()]);
    let output = probe(&arguments).await;
    assert_eq!(status(&output), 0, "{}", text(&output));
}

fn shard<'a>(verdict: &'a Value, name: &str) -> &'a Value {
    let shards = verdict["shards"].as_array().unwrap();
    shards.iter().find(|shard| shard["name"] == name).unwrap()
}

fn kinds(shard: &Value) -> Vec<&str> {
    let faults = shard["faults"].as_array().unwrap();
    faults
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect()
}

/// Well, then one node killed, then back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_node_is_the_shard_that_is_not_well_until_it_is_back() {
    let mut fleet = Fleet::start(3, Transport::Mesh, POLICY).await;
    until_well(&fleet).await;
    let mut urls = fleet.urls();
    urls.push("--json".to_owned());

    fleet.nodes[1].kill();
    let verdict = eventually("both others to miss it", async || {
        let output = probe(&urls).await;
        assert_eq!(status(&output), 1, "{}", text(&output));
        let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
        let missed = kinds(shard(&verdict, "n1"));
        let count = |kind| missed.iter().filter(|it| **it == kind).count();
        (count("out_of_contact") == 2 && count("stale") == 2).then_some(verdict)
    })
    .await;
    assert_eq!(verdict["well"], false);
    let dead = shard(&verdict, "n1");
    assert_eq!(kinds(dead)[0], "unreachable");
    assert_eq!(dead["url"], fleet.urls()[1].as_str());
    let plain = probe(&fleet.urls()).await;
    assert!(
        text(&plain).contains("it does not answer n0"),
        "{}",
        text(&plain)
    );

    // With a wait it looks until the time is over, and says the same.
    let waited = probe(&[fleet.urls(), vec!["--wait=1".to_owned()]].concat()).await;
    assert_eq!(status(&waited), 1, "{}", text(&waited));

    fleet.nodes[1].up().await;
    until_well(&fleet).await;
}

/// Ways that are cut are told from the side that notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_hear_is_not_well() {
    let fleet = Fleet::start(3, Transport::Mesh, POLICY).await;
    let mut urls = fleet.urls();
    urls.push("--json".to_owned());
    for (cut, not_hearing) in [
        (Cut::Mute, &["n0", "n1"][..]),
        (Cut::Deaf, &["n2"]),
        (Cut::Off, &["n0", "n1", "n2"]),
    ] {
        until_well(&fleet).await;
        fleet.cut(2, cut);
        eventually("it to be noticed", async || {
            let output = probe(&urls).await;
            let verdict: Value = serde_json::from_slice(&output.stdout).unwrap();
            let stale = |name| kinds(shard(&verdict, name)).contains(&"stale");
            not_hearing.iter().all(|name| stale(name)).then_some(())
        })
        .await;
        fleet.mend();
    }
    until_well(&fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_asked_is_told_apart_from_what_is_not_well() {
    // One that is of no fleet, and a port where nothing is.
    let alone = Leasehold::start(POLICY).await;
    let url = format!("127.0.0.1:{}", alone.admin);
    let output = probe(&[url.as_str()]).await;
    assert_eq!(status(&output), 2);
    assert!(
        text(&output).contains("is of no fleet"),
        "{}",
        text(&output)
    );
    let nothing = format!("127.0.0.1:{}", free_port());
    let output = probe(&[nothing.as_str(), "--wait=1"]).await;
    assert_eq!(status(&output), 2);
    assert!(
        text(&output).contains("cannot connect"),
        "{}",
        text(&output)
    );
    // Another surface.
    let http = format!("127.0.0.1:{}", alone.http);
    let output = probe(&[http.as_str()]).await;
    assert_eq!(status(&output), 2, "{}", text(&output));

    for (arguments, expected) in [
        (vec![], "required"),
        (vec!["https://h:1"], "must begin with http://"),
        (vec!["h"], "the port is missing"),
        (vec!["h:1", "h:1"], "given twice"),
        (vec!["h:1", "--wait=0"], "1..=86400"),
        (vec!["h:1", "--wait=x"], "invalid"),
        (vec!["h:1", "--fold-age=0"], "1..=3600000"),
        (vec!["h:1", "--timeout=0"], "1..=600000"),
    ] {
        let output = probe(&arguments).await;
        assert_eq!(status(&output), 2, "{arguments:?}");
        assert!(
            text(&output).contains(expected),
            "{arguments:?}: {}",
            text(&output)
        );
    }
}
