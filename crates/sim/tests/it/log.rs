//! Logs of real programs are read as they are meant.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gate::hash::{HashSecret, KeyHasher};
use policy::model::ClientAddressReading;
use sim::log::{Cause, KeyField, LogFormat, LogReader, ReadSettings, Record, source};

pub fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../testdata/access-log")
        .join(name)
}

pub fn settings(key: &str) -> ReadSettings {
    ReadSettings {
        format: LogFormat::Auto,
        key: key.parse::<KeyField>().unwrap(),
        client_address: ClientAddressReading::default(),
        most_bad_share: 1.0,
    }
}

pub fn hasher() -> Arc<KeyHasher> {
    Arc::new(KeyHasher::new(&HashSecret::new(1, [7; 32])))
}

fn open(path: &Path, settings: ReadSettings) -> LogReader {
    let name = path.file_name().unwrap().to_str().unwrap().to_owned();
    let input = source::open(path).unwrap();
    LogReader::new(name, input, Arc::new(settings), hasher())
}

fn of_bytes(bytes: &[u8], settings: ReadSettings) -> LogReader {
    let input = source::decompressed(std::io::Cursor::new(bytes.to_vec())).unwrap();
    LogReader::new("a.log".into(), input, Arc::new(settings), hasher())
}

/// All that is read from a log, as text. Keys are numbered as they appear: what matters is which are the same.
fn told(path: &Path, key: &str) -> String {
    let mut reader = open(path, settings(key));
    let mut keys = HashMap::new();
    let (mut record, mut text) = (Record::default(), format!("key {key}\n"));
    while reader.advance(&mut record).unwrap() {
        let known = keys.len() + 1;
        let key = record.key.map_or("-".to_owned(), |key| {
            format!("key {}", keys.entry(key).or_insert(known))
        });
        let Record {
            time_unix_ns,
            method,
            path,
            host,
            status,
            ..
        } = &record;
        writeln!(
            text,
            "{time_unix_ns} {key} {method} {path:?} {host:?} {status:?}"
        )
        .unwrap();
    }
    let stats = reader.stats();
    writeln!(
        text,
        "{} lines, {} not requests, {} not UTF-8, {} keyless, {} bad",
        stats.lines,
        stats.not_requests,
        stats.not_utf8,
        stats.keyless,
        stats.bad_lines()
    )
    .unwrap();
    for line in &stats.shown {
        writeln!(text, "{line}").unwrap();
    }
    text
}

#[test]
fn logs_of_real_programs_are_read_as_noted() {
    for (log, keys) in [
        ("nginx-combined", &["address", "user"][..]),
        ("nginx-common", &["address"]),
        (
            "nginx-main",
            &["field:10", "header:user-agent", "header:x-api-key"],
        ),
        ("nginx-json", &["address", "header:X-Api-Key", "user"]),
        ("nginx-unescaped", &["address"]),
        (
            "caddy-json",
            &["address", "header:x-api-key", "field:request.method"],
        ),
        (
            "envoy-json",
            &["address", "header:x-api-key", "field:x_forwarded_for"],
        ),
        ("envoy-text", &["address"]),
    ] {
        let path = testdata(&format!("{log}.log"));
        let told = keys
            .iter()
            .map(|key| told(&path, key))
            .collect::<Vec<_>>()
            .join("\n");
        let expected = path.with_extension("txt");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&expected, &told).unwrap();
        }
        assert_eq!(
            told,
            std::fs::read_to_string(&expected).unwrap_or_default(),
            "{log}"
        );
    }
}

#[test]
fn nothing_of_a_line_is_shown() {
    let line = "203.0.113.99 secret-key [now] \"GET /private HTTP/1.1\" 200\n";
    let json = "{\"msec\":\"203.0.113.99\",\"x_api_key\":\"secret-key\"}\n";
    let mut reader = of_bytes(format!("{line}{json}").as_bytes(), settings("address"));
    assert!(!reader.advance(&mut Record::default()).unwrap());
    let shown = reader.stats().shown.join("\n") + &format!("{reader:?}");
    assert!(
        shown.contains("a.log:1: ") && shown.contains("a.log:2: "),
        "{shown}"
    );
    for part in ["203", "secret", "private", "now"] {
        assert!(!shown.contains(part), "{shown}");
    }
}

#[test]
fn too_many_bad_lines_fail_and_fewer_do_not() {
    let good = "192.0.2.1 - - [30/Nov/2026:22:39:53 +0000] \"GET / HTTP/1.1\" 200 3\n";
    let log = |bad: usize| format!("{}{}\n\n", good.repeat(99), "junk\n".repeat(bad));
    let limited = || ReadSettings {
        most_bad_share: 0.01,
        ..settings("address")
    };
    let mut record = Record::default();

    let mut reader = of_bytes(log(1).as_bytes(), limited());
    while reader.advance(&mut record).unwrap() {}
    assert_eq!(reader.stats().records, 99);
    assert_eq!(reader.stats().bad[Cause::Format as usize], 1);

    let mut reader = of_bytes(log(2).as_bytes(), limited());
    let error = loop {
        match reader.advance(&mut record) {
            Ok(more) => assert!(more, "the log was believed"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(
        error.starts_with(
            "a.log: 2 of 101 lines could not be read, which is more than 1.000%\n  a.log:100: "
        ),
        "{error}"
    );
}

#[test]
fn an_empty_log_is_a_log_of_nothing() {
    for empty in ["", "\n", "\r\n \n\n"] {
        let limited = ReadSettings {
            most_bad_share: 0.0,
            ..settings("address")
        };
        let mut reader = of_bytes(empty.as_bytes(), limited);
        assert!(!reader.advance(&mut Record::default()).unwrap());
        assert_eq!(reader.stats().lines, 0);
        assert_eq!(reader.stats().first_unix_ns, None);
    }
}

#[test]
fn a_clock_that_goes_back_is_counted() {
    let log: String = [100, 105, 103, 104, 90, 110]
        .map(|time| format!("{{\"msec\":{time},\"request\":\"GET / HTTP/1.1\"}}\n"))
        .concat();
    let mut reader = of_bytes(log.as_bytes(), settings("address"));
    let mut record = Record::default();
    while reader.advance(&mut record).unwrap() {}
    let stats = reader.stats();
    assert_eq!((stats.records, stats.keyless), (6, 6));
    assert_eq!(
        (stats.backward_steps, stats.most_backward_ns),
        (2, 15_000_000_000)
    );
    assert_eq!(
        (stats.first_unix_ns, stats.last_unix_ns),
        (Some(90_000_000_000), Some(110_000_000_000))
    );
}

#[test]
fn a_truncated_gzip_names_the_file_and_the_line() {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(&b"junk\n".repeat(10_000)).unwrap();
    let mut bytes = encoder.finish().unwrap();
    bytes.truncate(bytes.len() - 8);
    let mut reader = of_bytes(&bytes, settings("address"));
    let error = reader
        .advance(&mut Record::default())
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("a.log: after line "), "{error}");
}
