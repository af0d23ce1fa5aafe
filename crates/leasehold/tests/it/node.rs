//! The process: how it starts, refuses to start, takes new policies, and goes.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Output;

use http::StatusCode;
use rustix::process::Signal;

use crate::harness::client::{Client, Reply};
use crate::harness::leasehold::Leasehold;
use crate::harness::{DEADLINE, eventually, now};
use crate::policies::per_client;

async fn check(node: &Leasehold, client: u8, target: &str) -> Reply {
    let address = format!("127.0.0.{client}");
    let headers: [(&str, &[u8]); 3] = [
        ("x-forwarded-for", address.as_bytes()),
        ("x-forwarded-method", b"GET"),
        ("x-forwarded-uri", target.as_bytes()),
    ];
    Client::at_proxy()
        .get_with(node.http, "/v1/check", &headers)
        .await
}

/// How many of `tries` are admitted.
async fn admitted(node: &Leasehold, client: u8, tries: usize) -> usize {
    let mut admitted = 0;
    for _ in 0..tries {
        let reply = check(node, client, "/limited").await;
        match reply.status {
            StatusCode::OK => admitted += 1,
            status => assert_eq!(status, StatusCode::TOO_MANY_REQUESTS, "{reply:?}"),
        }
    }
    admitted
}

/// Runs a node that should not come up, to its end.
fn refused(node: &Leasehold) -> Output {
    let mut command = node.command();
    let mut child = command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let start = now();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > DEADLINE {
            child.kill().unwrap();
            panic!("it runs, although it should refuse to");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

fn assert_names(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success(), "{said}");
    assert_ne!(output.status.code(), None, "no signal: {said}");
    assert!(!said.contains("panicked"), "{said}");
    for word in words {
        assert!(said.contains(word), "no {word:?} in: {said}");
    }
}

#[test]
fn a_wrong_configuration_is_refused_by_key() {
    for (settings, words) in [
        (
            "http.listne = \"127.0.0.1:1\"",
            ["http.listne", "http.listen"],
        ),
        ("table.live_buckets = 0", ["table.live_buckets", "1"]),
        (
            "answer.dialect = \"draft-99\"",
            ["answer.dialect", "draft-11"],
        ),
    ] {
        let node = Leasehold::prepare(&per_client(5), settings);
        assert_names(&refused(&node), &words);
    }
}

#[test]
fn a_wrong_policy_is_refused_by_field() {
    let absent = per_client(5).replace("limits:", "limist:");
    let odd = per_client(5).replace("5 per 30d", "5 per fortnight");
    for (policy, word) in [
        (absent.as_str(), "limist"),
        (&odd, "fortnight"),
        ("", "empty"),
    ] {
        let node = Leasehold::prepare(policy, "");
        assert_names(&refused(&node), &[word]);
    }
    let node = Leasehold::prepare(&per_client(5), "");
    std::fs::remove_file(node.policy_file()).unwrap();
    assert_names(&refused(&node), &["policy.yaml"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_taken_port_is_refused_by_key() {
    let node = Leasehold::prepare(&per_client(5), "");
    let _taken = std::net::TcpListener::bind(("127.0.0.1", node.http)).unwrap();
    assert_names(&refused(&node), &["http.listen", &node.http.to_string()]);
}

async fn wait_for_limit(node: &Leasehold, limit: &str) {
    eventually("the new policy", async || {
        let reply = check(node, 99, "/limited").await;
        (reply.header("x-ratelimit-limit") == Some(limit)).then_some(())
    })
    .await;
}

/// F2, F3 by every way in which a file changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_policy_is_taken_and_counters_stay() {
    let mut node = Leasehold::start(&per_client(5)).await;
    assert_eq!(admitted(&node, 2, 4).await, 4);

    // Rewritten in place.
    node.write_policy(&per_client(6));
    wait_for_limit(&node, "6").await;
    assert_eq!(admitted(&node, 2, 5).await, 2, "4 of 6 were used");

    // An editor's rename.
    let beside = node.folder().join(".policy.swp");
    std::fs::write(&beside, per_client(8)).unwrap();
    std::fs::rename(&beside, node.policy_file()).unwrap();
    wait_for_limit(&node, "8").await;
    assert_eq!(admitted(&node, 2, 5).await, 2, "6 of 8 were used");

    // SIGHUP, with nothing changed.
    for _ in 0..10 {
        node.process().signal(Signal::HUP);
    }
    let reply = check(&node, 2, "/limited").await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS);

    // Lowered below what is used.
    node.write_policy(&per_client(3));
    wait_for_limit(&node, "3").await;
    assert_eq!(admitted(&node, 2, 3).await, 0);
    assert_eq!(
        check(&node, 2, "/limited")
            .await
            .header("x-ratelimit-remaining"),
        Some("0")
    );
}

/// What is allowed but hardly meant is in the log, at the start and at each change.
#[tokio::test(flavor = "multi_thread")]
async fn warnings_of_the_policy_are_logged() {
    let trusting = |units, range: &str| {
        let policy = per_client(units);
        assert!(policy.contains("127.0.0.1/32"), "{policy}");
        policy.replace("127.0.0.1/32", range)
    };
    let node = Leasehold::start(&trusting(5, "0.0.0.0/0")).await;
    let warned = |range: &str| {
        node.output()
            .lines()
            .any(|line| line.contains("policy_warning") && line.contains(range))
    };
    assert!(warned("0.0.0.0/0"), "{}", node.output());
    node.write_policy(&trusting(6, "64.0.0.0/2"));
    eventually("the warning", async || warned("64.0.0.0/2").then_some(())).await;
}

/// SIGHUP alone, where watching is off.
#[tokio::test(flavor = "multi_thread")]
async fn sighup_reads_the_policy_again() {
    let mut node = Leasehold::start_with(&per_client(5), "policy.watch = false").await;
    node.write_policy(&per_client(7));
    assert_eq!(
        check(&node, 2, "/limited")
            .await
            .header("x-ratelimit-limit"),
        Some("5"),
        "nobody has told it"
    );
    node.process().signal(Signal::HUP);
    wait_for_limit(&node, "7").await;
}

/// As Kubernetes mounts files: `policy.yaml` -> `..data/policy.yaml`, `..data` -> a dated folder, swapped by rename.
#[tokio::test(flavor = "multi_thread")]
async fn a_swapped_mount_is_seen() {
    let mut node = Leasehold::prepare(&per_client(5), "");
    let folder = node.folder().to_owned();
    let release = |name: &str, policy: &str| {
        let dated = folder.join(name);
        std::fs::create_dir(&dated).unwrap();
        std::fs::write(dated.join("policy.yaml"), policy).unwrap();
        symlink(name, folder.join("..data_tmp")).unwrap();
        std::fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    };
    std::fs::remove_file(node.policy_file()).unwrap();
    release("..2026_01", &per_client(5));
    symlink(Path::new("..data/policy.yaml"), node.policy_file()).unwrap();
    node.up().await;
    wait_for_limit(&node, "5").await;
    for (name, units) in [("..2026_02", 6), ("..2026_03", 7)] {
        release(name, &per_client(units));
        wait_for_limit(&node, &units.to_string()).await;
    }
    std::fs::remove_dir_all(folder.join("..2026_02")).unwrap();
    release("..2026_04", &per_client(9));
    wait_for_limit(&node, "9").await;
}

/// F8: refused whole, the last good one stays, and an alarm says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_new_policy_changes_nothing() {
    let node = Leasehold::start(&per_client(5)).await;
    assert_eq!(admitted(&node, 2, 3).await, 3);
    let wrong = per_client(50).replace("limits:", "limist:");
    node.write_policy(&wrong);
    eventually("the alarm", async || {
        node.output().contains("limist").then_some(())
    })
    .await;
    assert_eq!(admitted(&node, 2, 5).await, 2, "still 5");
    node.write_policy(&per_client(6));
    wait_for_limit(&node, "6").await;
}

/// In flight and during the grace, requests are answered; then it ends with 0.
#[tokio::test(flavor = "multi_thread")]
async fn sigterm_drains() {
    let settings = "drain.grace_ms = 1000\ndrain.timeout_ms = 5000";
    let mut node = Leasehold::start_with(&per_client(1_000_000), settings).await;
    node.process().signal(Signal::TERM);
    eventually("it to say that it goes", async || {
        let reply = Client::at_proxy().get(node.admin, "/ready").await;
        (reply.status == StatusCode::SERVICE_UNAVAILABLE).then_some(())
    })
    .await;
    let reply = check(&node, 2, "/limited").await;
    assert_eq!(reply.status, StatusCode::OK, "it still takes requests");
    let status = node.process().wait().await;
    assert!(status.success(), "{status}");
}

/// A mapped table outlives the process, however that ends.
#[tokio::test(flavor = "multi_thread")]
async fn counts_survive_a_kill() {
    let folder = tempfile::TempDir::new().unwrap();
    let settings = format!("table.path = {:?}", folder.path().join("table"));
    let mut node = Leasehold::start_with(&per_client(10), &settings).await;
    assert_eq!(admitted(&node, 2, 4).await, 4);
    node.kill();
    node.up().await;
    assert_eq!(admitted(&node, 2, 4).await, 4);
    node.stop().await;
    node.up().await;
    assert_eq!(admitted(&node, 2, 4).await, 2, "10 in all");
    assert_eq!(admitted(&node, 3, 11).await, 10, "others are as new");
}

/// A damaged table file is no crash loop: it is set aside, and what that forgets is told. Where it must not be forgotten,
/// the node refuses to start.
#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_table_is_begun_anew_or_refused_as_configured() {
    let folder = tempfile::TempDir::new().unwrap();
    let table = folder.path().join("table");
    let settings = format!("table.path = {table:?}");
    let mut node = Leasehold::start_with(&per_client(5), &settings).await;
    assert_eq!(node.metric("throttle_table_counts_lost", &[]).await, 0.0);
    assert_eq!(admitted(&node, 2, 9).await, 5);
    node.stop().await;
    let spoilt = &std::fs::read(&table).unwrap()[..10_000];
    std::fs::write(&table, spoilt).unwrap();

    let strict = format!("{settings}\ntable.on_damage = \"refuse\"");
    let strict = Leasehold::prepare(&per_client(5), &strict);
    assert_names(&refused(&strict), &["table", "damaged", "10000 bytes"]);
    assert_eq!(std::fs::read(&table).unwrap(), spoilt, "left as it was");

    node.up().await;
    assert_eq!(admitted(&node, 2, 9).await, 5, "its counts are new");
    assert_eq!(node.metric("throttle_table_counts_lost", &[]).await, 1.0);
    let kept = folder.path().join("table.damaged");
    assert_eq!(std::fs::read(&kept).unwrap(), spoilt);
    let log = node.output();
    let line = log.lines().find(|line| line.contains("table_damaged"));
    let line = line.expect("a line about it").to_lowercase();
    for word in ["error", "10000 bytes", "table.damaged"] {
        assert!(line.contains(word), "no {word:?} in: {line}");
    }
    node.stop().await;
    node.up().await;
    assert_eq!(admitted(&node, 2, 1).await, 0, "it goes on from there");
    assert_eq!(node.metric("throttle_table_counts_lost", &[]).await, 0.0);
}

/// Killed at random instants under load: never more than the limit in all, and never stuck.
#[tokio::test(flavor = "multi_thread")]
async fn kills_under_load_admit_nothing_twice() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    const LIMIT: usize = 2000;
    let folder = tempfile::TempDir::new().unwrap();
    let settings = format!("table.path = {:?}", folder.path().join("table"));
    let mut node = Leasehold::start_with(&per_client(LIMIT), &settings).await;
    // Relaxed throughout: sums, read after the tasks have been joined; the flag only ends them.
    let admitted = Arc::new(AtomicUsize::new(0));
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (admitted, done, port) = (Arc::clone(&admitted), Arc::clone(&done), node.http);
        tasks.spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let headers: [(&str, &[u8]); 3] = [
                    ("x-forwarded-for", b"127.0.0.2"),
                    ("x-forwarded-method", b"GET"),
                    ("x-forwarded-uri", b"/limited"),
                ];
                let reply = Client::at_proxy()
                    .send(
                        port,
                        http::Method::GET,
                        "/v1/check",
                        &headers,
                        bytes::Bytes::new(),
                    )
                    .await;
                match reply {
                    Ok(reply) if reply.status == StatusCode::OK => {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(_) => {}
                    // Between a kill and the next start.
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        });
    }
    for _ in 0..8 {
        let target = admitted.load(Ordering::Relaxed) + LIMIT / 20;
        eventually("load", async || {
            (admitted.load(Ordering::Relaxed) >= target).then_some(())
        })
        .await;
        node.kill();
        node.up().await;
    }
    eventually("the limit to be used up", async || {
        let reply = check(&node, 2, "/limited").await;
        match reply.status {
            StatusCode::OK => {
                admitted.fetch_add(1, Ordering::Relaxed);
                None
            }
            _ => Some(()),
        }
    })
    .await;
    done.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    let total = admitted.load(Ordering::Relaxed);
    assert!(total <= LIMIT, "{total} of {LIMIT}");
    // What was charged and not told, because of a kill, is lost: at most one for each client and kill.
    assert!(total >= LIMIT - 8 * 4, "{total} of {LIMIT}");
}

/// H7, Y6: metrics equal what was charged, and no key is anywhere.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_tell_what_was_charged_and_no_keys() {
    const KEY: &str = "sk_live_raw_key_of_a_customer";
    let node = Leasehold::start_with(
        &per_client(5),
        "log.access = \"all\"\nlog.level = \"debug\"",
    )
    .await;
    assert_eq!(admitted(&node, 2, 9).await, 5);
    for _ in 0..4 {
        let headers: [(&str, &[u8]); 4] = [
            ("x-forwarded-for", b"127.0.0.3"),
            ("x-forwarded-method", b"GET"),
            ("x-forwarded-uri", b"/keyed"),
            ("x-api-key", KEY.as_bytes()),
        ];
        Client::at_proxy()
            .get_with(node.http, "/v1/check", &headers)
            .await;
    }
    let rule = "rule=\"limited\"";
    let requests = node.metric("throttle_requests_total", &[]).await;
    let blocked = node.metric("throttle_requests_blocked_total", &[]).await;
    let exceeded = node
        .metric("throttle_rate_limit_exceeded_total", &[rule])
        .await;
    assert_eq!((requests, blocked, exceeded), (13.0, 5.0, 4.0));
    let scraped = Client::at_proxy().get(node.admin, "/metrics").await;
    for text in [
        String::from_utf8_lossy(&scraped.body).into_owned(),
        node.output(),
    ] {
        assert!(!text.contains(KEY), "a raw key in {text}");
        assert!(!text.contains("127.0.0.3"), "a whole address in {text}");
    }
}
