//! Access logs: whatever a log holds, reading it ends, accounts for every line, and gives the same records each time;
//! what is said about bad lines is printable and never long.
#![no_main]

use std::io::Cursor;
use std::sync::{Arc, LazyLock};

use gate::hash::{HashSecret, KeyHasher};
use leasehold_fuzz::assert_printable;
use libfuzzer_sys::fuzz_target;
use policy::model::ClientAddressReading;
use sim::log::{LogFormat, LogReader, LogStats, ReadSettings, Record, source};

static HASHER: LazyLock<Arc<KeyHasher>> =
    LazyLock::new(|| Arc::new(KeyHasher::new(&HashSecret::new(1, [7; 32]))));

/// Where the key is, and whose forwarding headers are believed.
fn settings(format: LogFormat, key: &str) -> ReadSettings {
    ReadSettings {
        format,
        key: key.parse().expect("a key's field"),
        client_address: ClientAddressReading {
            trusted: vec!["192.0.2.0/24".parse().expect("a range")],
            ..ClientAddressReading::default()
        },
        most_bad_share: 1.0,
    }
}

fuzz_target!(|input: (u8, &[u8])| {
    let (choice, log) = input;
    let formats = [LogFormat::Auto, LogFormat::Common, LogFormat::Json];
    let keys = ["address", "user", "header:x-api-key", "field:3"];
    let format = formats[usize::from(choice) % formats.len()];
    let key = keys[usize::from(choice) / formats.len() % keys.len()];
    let Some((records, stats)) = read(log, settings(format, key)) else {
        return;
    };
    assert_eq!(stats.records, records.len() as u64);
    assert_eq!(
        stats.records + stats.not_requests + stats.bad_lines(),
        stats.lines,
        "a line is lost"
    );
    for shown in &stats.shown {
        assert_printable(shown);
        assert!(shown.len() < 400, "{shown}");
    }
    if let (Some(first), Some(last)) = (stats.first_unix_ns, stats.last_unix_ns) {
        assert!(first <= last);
        let within = |record: &Record| (first..=last).contains(&record.time_unix_ns);
        assert!(records.iter().all(within));
    }
    assert_eq!(
        read(log, settings(format, key)),
        Some((records, stats)),
        "the same log reads differently"
    );
});

/// All records of a log; none if it is compressed in a way that is refused, or broken gzip.
fn read(log: &[u8], settings: ReadSettings) -> Option<(Vec<Record>, LogStats)> {
    let input = source::decompressed(Cursor::new(log.to_vec())).ok()?;
    let mut reader = LogReader::new("log".to_owned(), input, Arc::new(settings), HASHER.clone());
    let (mut records, mut record) = (Vec::new(), Record::default());
    while reader.advance(&mut record).ok()? {
        records.push(record.clone());
    }
    Some((records, reader.stats().clone()))
}
