//! The policy file under a node that serves: what changes it, and what must not (F2, F8).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gate::request::{Hits, Part, Request};
use gate::table::TableStats;
use gate::{Gate, Verdict};
use leasehold_node::clock::Clock;
use leasehold_node::config::{Loaded, PolicyFormat, PolicySource};
use leasehold_node::drain::{Life, Phase};
use leasehold_node::log::{Form, Line, Redactor, SERVICE, subscriber};
use leasehold_node::metrics::Reload;
use leasehold_node::reload::{self, Document, Pace, ReadError, Reloader, Source, Why};
use leasehold_node::serve::Core;
use tempfile::TempDir;
use tokio::sync::Notify;

use crate::fixture::{self, START, soon, until};
use crate::log::Lines;
use crate::metrics::series;

/// A policy of ours: so many a minute in all.
fn ours(units: u64) -> String {
    format!("version: 1\nrules:\n  - {{name: all, by: address, limits: [{units}/m]}}\n")
}

/// A policy of envoyproxy/ratelimit's.
fn envoys(domain: &str, units: u64) -> String {
    format!(
        "domain: {domain}\ndescriptors:\n  - key: k\n    rate_limit: {{unit: minute, requests_per_unit: {units}}}\n"
    )
}

fn settings(path: &Path, format: PolicyFormat) -> PolicySource {
    PolicySource {
        path: Some(path.into()),
        format,
        watch: true,
    }
}

fn source(path: &Path, format: PolicyFormat) -> Source {
    Source::new(&settings(path, format))
}

/// A node's parts under a policy file in a directory of its own.
struct Bench {
    directory: TempDir,
    path: PathBuf,
    core: Core,
    reloader: Arc<Reloader>,
}

impl Bench {
    fn new(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.yaml");
        fs::write(&path, text).unwrap();
        Self::of(directory, path)
    }

    fn of(directory: TempDir, path: PathBuf) -> Self {
        Self::of_source(directory, path, Source::new)
    }

    fn of_source(
        directory: TempDir,
        path: PathBuf,
        source: impl FnOnce(&PolicySource) -> Source,
    ) -> Self {
        let source = source(&settings(&path, PolicyFormat::Auto));
        let document = source.read().unwrap();
        let (core, _) = fixture::core(&document.policy);
        let reloader = Arc::new(Reloader::new(source, core.clone(), &document));
        Self {
            directory,
            path,
            core,
            reloader,
        }
    }

    fn write(&self, text: &str) {
        fs::write(&self.path, text).unwrap();
    }

    /// What is left of the one limit after one more request; none if it was refused.
    fn take(&self) -> Option<u64> {
        take(&self.core.gate)
    }

    fn metric(&self, name: &str) -> f64 {
        series(&self.core.telemetry.scrape(&TableStats::default()))[name]
    }

    fn is_alarmed(&self) -> bool {
        self.metric("throttle_policy_reload_failed") > 0.0
    }

    /// The units of the one limit in force.
    fn units(&self) -> u64 {
        let policy = self.core.gate.snapshot();
        let facts = policy.limits().next().expect("a limit");
        match facts.amount {
            policy::model::Amount::Metered { rate, .. } => rate.units,
            policy::model::Amount::Unlimited | policy::model::Amount::Deny => 0,
        }
    }

    /// Watches until the life that it returns closes.
    fn watch(
        &self,
        on_change: bool,
        pace: Pace,
    ) -> (Life, Arc<Notify>, tokio::task::JoinHandle<()>) {
        let (life, hangup) = (Life::default(), Arc::new(Notify::new()));
        let watching = tokio::spawn(reload::watch(
            Arc::clone(&self.reloader),
            Arc::clone(&hangup),
            on_change,
            pace,
            life.clone(),
        ));
        (life, hangup, watching)
    }
}

/// Whether a rule of this domain is in force.
fn has_rule(gate: &Gate, domain: &str) -> bool {
    let policy = gate.snapshot();
    policy
        .limits()
        .any(|facts| facts.rule.as_str().starts_with(domain))
}

fn take(gate: &Gate) -> Option<u64> {
    let policy = gate.snapshot();
    let part = Part {
        request: Request::default(),
        hits: Hits::Take(1),
    };
    let decision = gate.check(&policy, &[part], START);
    let left = decision
        .outcomes
        .first()
        .and_then(|outcome| outcome.remaining);
    (decision.verdict == Verdict::Admitted)
        .then_some(left)
        .flatten()
}

/// Quick, and no regular look: only what is watched is found.
const WATCHING_ONLY: Pace = Pace {
    read_at_most: Duration::from_secs(10),
    quiet: Duration::from_millis(10),
    at_most: Duration::from_millis(500),
    look_every: Duration::from_secs(3600),
};

/// F2.
#[test]
fn an_identical_file_changes_nothing() {
    let bench = Bench::new(&ours(20));
    assert_eq!(bench.take(), Some(19));
    for left in (9..19).rev() {
        bench.write(&ours(20));
        assert_eq!(bench.reloader.reload(Why::Asked), Reload::Unchanged);
        assert_eq!(bench.take(), Some(left));
    }
    assert_eq!(
        bench.metric(r#"throttle_policy_reloads_total{outcome="applied"}"#),
        1.0
    );
    assert_eq!(
        bench.metric(r#"throttle_policy_reloads_total{outcome="unchanged"}"#),
        10.0
    );
}

#[test]
fn counters_survive_a_change() {
    let bench = Bench::new(&ours(20));
    assert_eq!(bench.take(), Some(19));
    bench.write(&format!("# A comment.\n{}", ours(20)));
    assert_eq!(bench.reloader.reload(Why::Asked), Reload::Applied);
    assert_eq!(bench.take(), Some(18));
    bench.write(&ours(2));
    assert_eq!(bench.reloader.reload(Why::Asked), Reload::Applied);
    assert_eq!(bench.take(), None);
    bench.write(&ours(30));
    assert_eq!(bench.reloader.reload(Why::Asked), Reload::Applied);
    assert_eq!(bench.take(), Some(27));
    assert!(!bench.is_alarmed());
}

/// F8: a rule deleted in the same file as a faulty one.
#[test]
fn a_faulty_file_is_refused_whole() {
    let lines = Lines::default();
    let (clock, _) = Clock::manual(START);
    let line = Line {
        form: Form::Json,
        service: SERVICE,
        clock,
        redactor: Redactor::new(b"x"),
    };
    let log = subscriber("info", line, lines.clone()).unwrap();
    tracing::subscriber::with_default(log, || {
        let bench = Bench::new(&ours(3));
        let before = bench.metric("throttle_policy_loaded_timestamp_seconds");
        bench.write("version: 1\nrules:\n  - {name: other, by: address, limits: [5/m, {rate: 0/fortnight}]}\n");
        for _ in 0..3 {
            assert_eq!(bench.reloader.reload(Why::Noticed), Reload::Refused);
        }
        assert!(bench.is_alarmed());
        assert_eq!(
            bench.metric("throttle_policy_loaded_timestamp_seconds"),
            before
        );
        assert_eq!(
            bench.metric(r#"throttle_error_total{kind="policy_refused"}"#),
            1.0
        );
        // The rule that the file deletes still holds.
        assert_eq!(
            [bench.take(), bench.take(), bench.take(), bench.take()],
            [Some(2), Some(1), Some(0), None]
        );
        // The last good file again: the alarm ends, the counters are as they were.
        bench.write(&ours(3));
        assert_eq!(bench.reloader.reload(Why::Noticed), Reload::Unchanged);
        assert!(!bench.is_alarmed());
        assert_eq!(bench.take(), None);
    });
    let refused: Vec<_> = lines
        .objects()
        .into_iter()
        .filter(|line| {
            line.get("event")
                .is_some_and(|event| event == "policy_refused")
        })
        .collect();
    // Told once, naming the field.
    assert_eq!(refused.len(), 1, "{}", lines.text());
    assert_eq!(refused[0]["level"], "ERROR");
    assert_eq!(refused[0]["field"], "rules[0].limits[1].rate");
    assert_eq!(refused[0]["line"], 3);
}

#[test]
fn a_file_that_is_gone_empty_or_broken_off_changes_nothing() {
    let whole = "version: 1\nrules:\n  - name: all\n    by: address\n    limits: [7/m]\n  - name: more\n    by: address\n    limits: [9/h]\n";
    let bench = Bench::new(&ours(2));
    for text in [
        "",
        "\n",
        "# nothing\n",
        "version: 1\n",
        "version: 1\nrules: []\n",
        "\u{0}",
        "{",
    ] {
        bench.write(text);
        assert_eq!(
            bench.reloader.reload(Why::Asked),
            Reload::Refused,
            "{text:?}"
        );
        assert!(bench.is_alarmed());
    }
    // Broken off anywhere, it is refused or at least limits: never nothing.
    for end in 0..whole.len() {
        bench.write(&whole[..end]);
        if bench.reloader.reload(Why::Asked) == Reload::Applied {
            assert!(
                bench.core.gate.snapshot().limits().next().is_some(),
                "{end}"
            );
            bench.write(&ours(2));
            assert_eq!(bench.reloader.reload(Why::Asked), Reload::Applied);
        }
    }
    fs::write(&bench.path, [0xff, 0xfe]).unwrap();
    assert_eq!(bench.reloader.reload(Why::Asked), Reload::Refused);
    let unreadable = bench.metric(r#"throttle_error_total{kind="policy_unreadable"}"#);
    fs::remove_file(&bench.path).unwrap();
    assert_eq!(bench.reloader.reload(Why::Asked), Reload::Refused);
    assert_eq!(
        bench.metric(r#"throttle_error_total{kind="policy_unreadable"}"#),
        unreadable + 1.0
    );
    assert_eq!(bench.units(), 2);
}

#[test]
fn the_format_is_told_apart() {
    let read = |text: &str, format| -> Result<Document, ReadError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy");
        fs::write(&path, text).unwrap();
        source(&path, format).read()
    };
    assert_eq!(
        read(&ours(1), PolicyFormat::Auto)
            .unwrap()
            .policy
            .rules
            .len(),
        1
    );
    assert_eq!(
        read(&envoys("d", 1), PolicyFormat::Auto)
            .unwrap()
            .policy
            .domains
            .len(),
        1
    );
    assert_eq!(
        read(&envoys("d", 1), PolicyFormat::Envoy)
            .unwrap()
            .policy
            .domains
            .len(),
        1
    );
    assert!(read(&envoys("d", 1), PolicyFormat::Leasehold).is_err());
    assert!(read(&ours(1), PolicyFormat::Envoy).is_err());
    let sample = Source::new(&PolicySource::default()).read().unwrap();
    assert!(!sample.policy.rules.is_empty());
}

/// Half-written files read as a domain without limits: they must not put the limits in force out of force.
#[test]
fn files_that_limit_nothing_are_refused() {
    let bench = Bench::new(&envoys("a", 1));
    for text in [
        "domain: a\n",
        "domain: a\ndescriptors:\n",
        "domain: a\ndescriptors: []\n",
        "domain: a\ndescriptors: [{key: k}]\n",
        "domain: a\ndescriptors: [{key: k, descriptors: [{key: l}]}]\n",
    ] {
        fs::write(&bench.path, text).unwrap();
        assert_eq!(
            bench.reloader.reload(Why::Asked),
            Reload::Refused,
            "{text:?}"
        );
        assert!(has_rule(&bench.core.gate, "a"), "{text:?}");
        let error = source(&bench.path, PolicyFormat::Envoy).read().unwrap_err();
        assert!(
            error.to_string().ends_with("nothing would be limited"),
            "{error}"
        );
    }
    // That a limit is none is said, not left out.
    let unlimited = "domain: a\ndescriptors: [{key: k, rate_limit: {unlimited: true}}]\n";
    fs::write(&bench.path, unlimited).unwrap();
    assert_eq!(bench.reloader.reload(Why::Asked), Reload::Applied);
}

#[test]
fn a_directory_is_read_whole() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    let source = source(&root, PolicyFormat::Auto);
    let error = source.read().unwrap_err().to_string();
    assert!(error.contains("no file ends in .yaml or .yml"), "{error}");

    fs::write(root.join("a.yaml"), envoys("a", 1)).unwrap();
    fs::write(root.join("b.yml"), envoys("b", 2)).unwrap();
    fs::write(root.join(".hidden.yaml"), "nonsense").unwrap();
    fs::write(root.join("notes.txt"), "nonsense").unwrap();
    let document = source.read().unwrap();
    let names: Vec<&str> = document
        .policy
        .domains
        .iter()
        .map(|domain| &*domain.name)
        .collect();
    assert_eq!(names, ["a", "b"]);

    // A file that limits nothing is told of.
    fs::write(root.join("z.yaml"), "domain: z\n").unwrap();
    let warnings = source.read().unwrap().warnings;
    let (file, warning) = &warnings[0];
    assert!(warnings.len() == 1 && file.ends_with("z.yaml"));
    assert!(warning.to_string().contains("nothing in `z` is limited"));
    fs::remove_file(root.join("z.yaml")).unwrap();

    // One faulty file, and none of them counts.
    let bench = Bench::of(directory, root.clone());
    fs::write(root.join("c.yaml"), "domain: c\ndescriptors: [{kez: k}]\n").unwrap();
    assert_eq!(bench.reloader.reload(Why::Asked), Reload::Refused);
    assert!(!has_rule(&bench.core.gate, "c") && has_rule(&bench.core.gate, "a"));
    fs::write(root.join("c.yaml"), envoys("c", 3)).unwrap();
    assert_eq!(bench.reloader.reload(Why::Asked), Reload::Applied);
    assert!(has_rule(&bench.core.gate, "c"));
    for name in ["a.yaml", "b.yml", "c.yaml"] {
        fs::remove_file(root.join(name)).unwrap();
    }
    assert_eq!(bench.reloader.reload(Why::Asked), Reload::Refused);
    assert!(has_rule(&bench.core.gate, "c"));

    let ours = Source::new(&PolicySource {
        path: Some(root),
        format: PolicyFormat::Leasehold,
        watch: true,
    });
    assert!(
        ours.read()
            .unwrap_err()
            .to_string()
            .contains("policy.format")
    );
}

#[tokio::test]
async fn a_change_in_place_and_a_rename_are_seen() {
    let bench = Bench::new(&ours(5));
    let (life, _, watching) = bench.watch(true, WATCHING_ONLY);
    // The watch may begin a moment later than the task; until then a write is written again.
    until("a write is seen", async || {
        bench.write(&ours(6));
        bench.units() == 6
    })
    .await;

    // As editors do: a new file beside it, renamed over it.
    for units in 7..12 {
        let new = bench.directory.path().join(".policy.yaml.swp");
        fs::write(&new, ours(units)).unwrap();
        fs::rename(&new, &bench.path).unwrap();
        until("a rename is seen", async || bench.units() == units).await;
    }
    fs::remove_file(&bench.path).unwrap();
    until("a loss is seen", async || bench.is_alarmed()).await;
    assert_eq!(bench.units(), 11);
    bench.write(&ours(12));
    until("a return is seen", async || bench.units() == 12).await;
    assert!(!bench.is_alarmed());

    life.go_on_to(Phase::Closing);
    soon("the watch to end", watching).await.unwrap();
}

/// As Kubernetes mounts a config map: `policy.yaml -> ..data/policy.yaml`, `..data -> ..N`.
#[tokio::test]
async fn a_swapped_link_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().to_owned();
    let put = |version: u32, units: u64| {
        let data = root.join(format!("..{version}"));
        fs::create_dir(&data).unwrap();
        fs::write(data.join("policy.yaml"), ours(units)).unwrap();
        let link = root.join("..data_tmp");
        std::os::unix::fs::symlink(format!("..{version}"), &link).unwrap();
        fs::rename(&link, root.join("..data")).unwrap();
        if version > 1 {
            fs::remove_dir_all(root.join(format!("..{}", version - 1))).unwrap();
        }
    };
    put(1, 5);
    let path = root.join("policy.yaml");
    std::os::unix::fs::symlink("..data/policy.yaml", &path).unwrap();
    let bench = Bench::of(directory, path);
    let (life, hangup, watching) = bench.watch(true, WATCHING_ONLY);
    // What is asked for is answered only once the watch has begun.
    let asked = bench.metric(r#"throttle_policy_reloads_total{outcome="unchanged"}"#);
    hangup.notify_one();
    until("the watch has begun", async || {
        bench.metric(r#"throttle_policy_reloads_total{outcome="unchanged"}"#) > asked
    })
    .await;
    for version in 2..6 {
        put(version, u64::from(version) * 10);
        until("a swap is seen", async || {
            bench.units() == u64::from(version) * 10
        })
        .await;
    }
    life.go_on_to(Phase::Closing);
    soon("the watch to end", watching).await.unwrap();
}

#[tokio::test]
async fn a_hangup_reads_again_though_nothing_is_watched() {
    let bench = Bench::new(&ours(5));
    let (life, hangup, watching) = bench.watch(false, WATCHING_ONLY);
    bench.write(&ours(6));
    hangup.notify_one();
    until("it is read", async || bench.units() == 6).await;
    life.go_on_to(Phase::Closing);
    soon("the watch to end", watching).await.unwrap();
}

#[tokio::test]
async fn a_regular_look_finds_what_was_not_seen() {
    // The link leads to a directory that is swapped for another: no watch of the old one sees it.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.yaml");
    fs::write(&path, ours(5)).unwrap();
    let bench = Bench::of(directory, path);
    let pace = Pace {
        look_every: Duration::from_millis(20),
        ..WATCHING_ONLY
    };
    let (life, _, watching) = bench.watch(true, pace);
    fs::rename(
        bench.directory.path(),
        bench.directory.path().with_extension("old"),
    )
    .unwrap();
    until("the loss is seen", async || bench.is_alarmed()).await;
    fs::create_dir(bench.directory.path()).unwrap();
    bench.write(&ours(9));
    until("the new directory is seen", async || bench.units() == 9).await;
    life.go_on_to(Phase::Closing);
    soon("the watch to end", watching).await.unwrap();
    fs::remove_dir_all(bench.directory.path().with_extension("old")).unwrap();
}

fn fifo(path: &Path) {
    let (mode, kind) = (rustix::fs::Mode::RWXU, rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
}

/// To open a pipe waits for a writer: the watch would never come back.
#[tokio::test]
async fn a_pipe_in_the_files_place_is_refused_and_the_next_file_is_read() {
    let bench = Bench::new(&ours(5));
    let (life, hangup, watching) = bench.watch(true, WATCHING_ONLY);
    fs::remove_file(&bench.path).unwrap();
    fifo(&bench.path);
    hangup.notify_one();
    until("the pipe is refused", async || bench.is_alarmed()).await;
    fs::remove_file(&bench.path).unwrap();
    bench.write(&ours(6));
    hangup.notify_one();
    until("the file is read", async || bench.units() == 6).await;
    assert!(!bench.is_alarmed());
    life.go_on_to(Phase::Closing);
    soon("the watch to end", watching).await.unwrap();
}

/// A disk that hangs, as far as a test can have one: a pipe that nobody writes to, opened as one that is read once.
#[tokio::test]
async fn a_reading_that_hangs_is_an_alarm_and_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.yaml");
    fs::write(&path, ours(5)).unwrap();
    let bench = Bench::of_source(directory, path, Source::once);
    let pace = Pace {
        read_at_most: Duration::from_millis(20),
        look_every: Duration::from_millis(20),
        ..WATCHING_ONLY
    };
    let (life, _, watching) = bench.watch(true, pace);
    fs::remove_file(&bench.path).unwrap();
    fifo(&bench.path);
    until("the alarm", async || bench.is_alarmed()).await;
    // The disk comes back: opening for writing is what the reader waits for.
    let path = bench.path.clone();
    let written = tokio::task::spawn_blocking(move || fs::write(path, "nonsense"));
    soon("the reader to open it", written)
        .await
        .unwrap()
        .unwrap();
    fs::remove_file(&bench.path).unwrap();
    bench.write(&ours(7));
    until("the file is read", async || bench.units() == 7).await;
    life.go_on_to(Phase::Closing);
    soon("the watch to end", watching).await.unwrap();
}

/// Nothing of the rules would be left in force.
#[test]
fn a_file_of_the_other_format_is_refused() {
    for (before, after) in [(ours(5), envoys("a", 5)), (envoys("a", 5), ours(5))] {
        let bench = Bench::new(&before);
        bench.write(&after);
        assert_eq!(bench.reloader.reload(Why::Noticed), Reload::Refused);
        assert!(bench.is_alarmed());
        bench.write(&before);
        assert_eq!(bench.reloader.reload(Why::Noticed), Reload::Unchanged);
        assert!(!bench.is_alarmed());
    }
}

/// Our own reading is no change, or it would be read for ever.
#[tokio::test]
async fn reading_is_no_change() {
    let bench = Bench::new(&ours(5));
    let (life, hangup, watching) = bench.watch(true, WATCHING_ONLY);
    let readings = || {
        ["applied", "unchanged", "refused"]
            .map(|outcome| {
                bench.metric(&format!(
                    "throttle_policy_reloads_total{{outcome=\"{outcome}\"}}"
                ))
            })
            .iter()
            .sum::<f64>()
    };
    let before = readings();
    for asked in 1..=20 {
        fs::read(&bench.path).unwrap();
        hangup.notify_one();
        until("it is read", async || {
            readings() >= before + f64::from(asked)
        })
        .await;
    }
    assert_eq!(readings(), before + 20.0);
    life.go_on_to(Phase::Closing);
    soon("the watch to end", watching).await.unwrap();
}

/// The whole node: SIGHUP makes it read, and what it read is what `/v1/check` says.
#[tokio::test]
async fn a_node_that_runs_heeds_sighup() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("policy.yaml");
    fs::write(&path, disclosed(5)).unwrap();
    let (ready, addresses) = tokio::sync::oneshot::channel();
    let mut given: Vec<String> = ["http", "grpc", "admin"]
        .map(|door| format!("{door}.listen=127.0.0.1:0"))
        .into();
    given.extend([
        format!("policy.path={}", path.display()),
        "policy.watch=false".into(),
        "drain.grace_ms=0".into(),
        "table.live_buckets=1000".into(),
    ]);
    let config = Loaded::read(None, [], &given).unwrap().config;
    let running = tokio::spawn(async move {
        let ready = |addresses| ready.send(addresses).unwrap();
        leasehold_node::serve::run(&config, |_| Ok(()), ready).await
    });
    let addresses = soon("readiness", addresses).await.unwrap();
    let (http, admin) = (addresses.http.unwrap(), addresses.admin.unwrap());
    let ask = async || {
        let fields = [("x-original-method", "GET"), ("x-original-uri", "/")];
        fixture::ask_http(http, &fields).await.unwrap().0
    };
    assert_eq!(ask().await, 200);
    fs::write(&path, disclosed(1)).unwrap();
    crate::serve::signal(rustix::process::Signal::HUP);
    until("the new limit holds", async || ask().await == 429).await;

    fs::write(&path, "version: 1\n").unwrap();
    crate::serve::signal(rustix::process::Signal::HUP);
    until("the alarm is raised", async || {
        let scrape = fixture::get(admin, "/metrics").await.unwrap().1;
        scrape.contains("throttle_policy_reload_failed 1\n")
    })
    .await;
    assert_eq!(ask().await, 429);
    crate::serve::signal(rustix::process::Signal::TERM);
    soon("the end", running).await.unwrap().unwrap();
}

fn disclosed(units: u64) -> String {
    format!(
        "version: 1\nrules:\n  - {{name: all, by: address, limits: [{{rate: {units}/h, disclose: true}}]}}\n"
    )
}
