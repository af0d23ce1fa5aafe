//! Tables in files: continuing them, refusing what is none, living with damage.

use std::fs;
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use leasehold_gate::table::{
    Continued, Discard, MapOptions, OnDamage, Table, TableError, set_aside,
};
use leasehold_gate::time::Now;
use proptest::prelude::*;

use super::fixture::*;

const HEADER: usize = 4096;

fn options(live_buckets: u64, secret_check: u64) -> MapOptions {
    MapOptions {
        live_buckets: NonZeroU64::new(live_buckets).expect("not 0"),
        secret_check,
        now: Now::from_nanos(START),
        on_damage: OnDamage::Refuse,
    }
}

fn file(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("table")
}

fn open(path: &Path) -> (Table, Continued) {
    Table::mapped(path, &options(100, 1)).expect("a table")
}

fn write(path: &Path, offset: u64, bytes: &[u8]) {
    let file = fs::OpenOptions::new().write(true).open(path);
    let file = file.expect("it exists");
    file.write_all_at(bytes, offset).expect("it can be written");
}

fn set_len(path: &Path, length: u64) {
    let file = fs::OpenOptions::new().write(true).open(path);
    file.expect("it exists").set_len(length).expect("cut");
}

#[test]
fn counts_survive_a_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let meters = [
        fixed(5, DAY_MS),
        sliding(5, DAY_MS),
        bucket(5, DAY_MS, 5),
        forever(5),
    ];
    let now = Now::from_nanos(START);
    let (table, became) = open(&file(&dir));
    assert_eq!(became, Continued::Fresh);
    for (n, meter) in meters.iter().enumerate() {
        assert!(table.take(id(n as u64), GROUP, meter, 3, now).admitted);
    }
    drop(table);
    let (table, became) = open(&file(&dir));
    assert_eq!(became, Continued::Continued);
    assert_eq!(table.latest(), now);
    for (n, meter) in meters.iter().enumerate() {
        let level = table.take(id(n as u64), GROUP, meter, 3, now);
        assert!(!level.admitted);
        assert_eq!(level.remaining(meter), 2);
    }
}

#[test]
fn two_that_map_a_file_share_its_counts() {
    let dir = tempfile::tempdir().expect("a directory");
    let (one, _) = open(&file(&dir));
    let (two, became) = open(&file(&dir));
    assert_eq!(became, Continued::Continued);
    let meter = fixed(5, 1000);
    let now = Now::from_nanos(START);
    let admitted = (0..10).filter(|n| {
        let table = if n % 2 == 0 { &one } else { &two };
        table.take(id(1), GROUP, &meter, 1, now).admitted
    });
    assert_eq!(admitted.count(), 5);
}

#[test]
fn what_does_not_fit_is_begun_anew_and_told() {
    let discarded = |spoil: &dyn Fn(&Path), options: MapOptions| {
        let dir = tempfile::tempdir().expect("a directory");
        let meter = fixed(1, DAY_MS);
        let (table, _) = open(&file(&dir));
        assert!(
            table
                .take(id(1), GROUP, &meter, 1, Now::from_nanos(START))
                .admitted
        );
        drop(table);
        spoil(&file(&dir));
        let (table, became) = Table::mapped(&file(&dir), &options).expect("begun anew");
        assert!(table.take(id(1), GROUP, &meter, 1, options.now).admitted);
        became
    };
    assert_eq!(
        discarded(&|_| {}, options(100, 2)),
        Continued::Discarded(Discard::Secret)
    );
    assert_eq!(
        discarded(&|_| {}, options(200, 1)),
        Continued::Discarded(Discard::Slots {
            found: 150,
            expected: 300
        })
    );
    let early = MapOptions {
        now: Now::from_nanos(START - 3601 * SECOND),
        ..options(100, 1)
    };
    assert_eq!(
        discarded(&|_| {}, early),
        Continued::Discarded(Discard::AheadOfClock)
    );
    // Never finished.
    let spoilt = discarded(&|path| write(path, 0, &[0; 72]), options(100, 1));
    assert_eq!(spoilt, Continued::Discarded(Discard::Unfinished));
}

#[test]
fn a_file_in_use_is_not_begun_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let (table, _) = open(&file(&dir));
    let meter = fixed(1, DAY_MS);
    let now = Now::from_nanos(START);
    assert!(table.take(id(1), GROUP, &meter, 1, now).admitted);
    let refused = Table::mapped(&file(&dir), &options(100, 2));
    assert!(matches!(
        refused,
        Err(TableError::InUse {
            why: Discard::Secret,
            ..
        })
    ));
    assert!(!table.take(id(1), GROUP, &meter, 1, now).admitted);
}

#[test]
fn what_is_no_table_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(&dir);
    for content in [
        b"x".to_vec(),
        b"LSHTABL".to_vec(),
        vec![0; 72],
        vec![b'y'; 5000],
        b"LSHTABLF".repeat(2000),
    ] {
        fs::write(&path, &content).expect("written");
        let refused = Table::mapped(&path, &options(100, 1));
        assert!(matches!(refused, Err(TableError::NotATable { .. })));
        assert_eq!(fs::read(&path).expect("still there"), content);
    }
    let refused = Table::mapped(dir.path(), &options(100, 1));
    assert!(matches!(
        refused,
        Err(TableError::File { .. } | TableError::NotATable { .. })
    ));
    let refused = Table::mapped(&dir.path().join("no/such"), &options(100, 1));
    assert!(matches!(refused, Err(TableError::File { .. })));
    std::os::unix::fs::symlink(&path, dir.path().join("link")).expect("linked");
    let refused = Table::mapped(&dir.path().join("link"), &options(100, 1));
    assert!(matches!(refused, Err(TableError::File { .. })));
}

/// What spoils a file.
type Spoil = Box<dyn Fn(&Path)>;

/// Ways to spoil a table's file of so many bytes, and what each is then called.
fn damage(whole: u64) -> Vec<(Spoil, Discard)> {
    let mut all: Vec<(Spoil, Discard)> = Vec::new();
    for length in [8, 71, 72, HEADER as u64 - 1] {
        let why = Discard::CutOff {
            found: length,
            expected: None,
        };
        all.push((Box::new(move |path| set_len(path, length)), why));
    }
    for length in [HEADER as u64, whole - 64, whole - 1, whole + 1] {
        let why = Discard::CutOff {
            found: length,
            expected: Some(whole),
        };
        all.push((Box::new(move |path| set_len(path, length)), why));
    }
    // Within the preamble the checksum tells; in a slot, words that no table writes.
    for offset in [8, 24, 47, 56, 64, HEADER as u64 + 64 * 5 + 40] {
        let spoil = move |path: &Path| write(path, offset, b"\xa5");
        all.push((Box::new(spoil), Discard::Damaged));
    }
    all
}

#[test]
fn damage_is_refused_where_that_is_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(&dir);
    drop(open(&path));
    let whole = fs::read(&path).expect("read");
    for (spoil, expected) in damage(whole.len() as u64) {
        spoil(&path);
        let spoilt = fs::read(&path).expect("read");
        match Table::mapped(&path, &options(100, 1)).map(|(_, became)| became) {
            Err(TableError::Damaged { why, .. }) => assert_eq!(why, expected),
            other => panic!("{expected:?}: {other:?}"),
        }
        assert_eq!(fs::read(&path).expect("read"), spoilt, "left as it was");
        assert!(!set_aside(&path).exists());
        fs::write(&path, &whole).expect("written");
    }
}

#[test]
fn damage_is_set_aside_and_begun_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(&dir);
    let options = MapOptions {
        on_damage: OnDamage::StartAnew,
        ..options(100, 1)
    };
    let meter = fixed(1, DAY_MS);
    let take = |table: &Table| table.take(id(1), GROUP, &meter, 1, options.now).admitted;
    drop(open(&path));
    let whole = fs::metadata(&path).expect("it exists").len();
    for (spoil, why) in damage(whole) {
        spoil(&path);
        let spoilt = fs::read(&path).expect("read");
        let (table, became) = Table::mapped(&path, &options).expect("begun anew");
        assert_eq!(became, Continued::Damaged { why, kept: true });
        // One copy, the latest, for its owner's eyes.
        assert_eq!(fs::read(set_aside(&path)).expect("kept"), spoilt);
        let mode = fs::metadata(set_aside(&path)).expect("kept").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 2);
        assert!(take(&table) && !take(&table), "it counts");
        drop(table);
        let (table, became) = Table::mapped(&path, &options).expect("continued");
        assert_eq!(became, Continued::Continued);
        assert!(!take(&table), "it goes on");
    }
}

/// No copy is no reason not to start.
#[test]
fn damage_that_cannot_be_kept_is_begun_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(&dir);
    drop(open(&path));
    set_len(&path, 5000);
    fs::create_dir(set_aside(&path)).expect("made");
    let options = MapOptions {
        on_damage: OnDamage::StartAnew,
        ..options(100, 1)
    };
    let (_, became) = Table::mapped(&path, &options).expect("begun anew");
    assert!(matches!(became, Continued::Damaged { kept: false, .. }));
    assert!(set_aside(&path).is_dir(), "not ours to remove");
}

/// Another process decides on it: beginning it anew would refill that one's keys under its feet.
#[test]
fn a_damaged_file_in_use_is_not_begun_anew() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = file(&dir);
    let (table, _) = open(&path);
    let meter = fixed(1, DAY_MS);
    let now = Now::from_nanos(START);
    assert!(table.take(id(1), GROUP, &meter, 1, now).admitted);
    let whole = fs::metadata(&path).expect("it exists").len();
    set_len(&path, whole + 1);
    let options = MapOptions {
        on_damage: OnDamage::StartAnew,
        ..options(100, 1)
    };
    let refused = Table::mapped(&path, &options);
    assert!(matches!(
        refused,
        Err(TableError::InUse {
            why: Discard::CutOff { .. },
            ..
        })
    ));
    assert!(!table.take(id(1), GROUP, &meter, 1, now).admitted);
}

#[test]
fn too_large_a_table_is_refused() {
    let huge = NonZeroU64::new(u64::MAX).expect("not 0");
    assert!(matches!(
        Table::anonymous(huge),
        Err(TableError::TooLarge { .. })
    ));
    let dir = tempfile::tempdir().expect("a directory");
    let refused = Table::mapped(&file(&dir), &options(u64::MAX, 1));
    assert!(matches!(refused, Err(TableError::TooLarge { .. })));
    assert!(!file(&dir).exists());
}

/// A table's time that another user of the file has spoilt is no panic and no refill.
#[test]
fn a_spoilt_time_is_no_panic() {
    for spoilt in [u64::MAX, u64::MAX / 2, 100 * 366 * DAY_MS * MS] {
        let dir = tempfile::tempdir().expect("a directory");
        let (table, _) = open(&file(&dir));
        let file = fs::OpenOptions::new()
            .write(true)
            .open(file(&dir))
            .expect("it exists");
        for (n, meter) in [
            fixed(2, 1000),
            sliding(2, 1000),
            bucket(2, 1000, 2),
            forever(2),
        ]
        .iter()
        .enumerate()
        {
            let take = |now| {
                table
                    .take(id(n as u64), GROUP, meter, 1, Now::from_nanos(now))
                    .admitted
            };
            assert!(take(START));
            // The first cell after the preamble, on a line of its own.
            file.write_all_at(&spoilt.to_le_bytes(), 128)
                .expect("written");
            let admitted = (0..10).filter(|i| take(START + i * SECOND)).count();
            assert!(admitted <= 2, "{admitted}");
            file.write_all_at(&START.to_le_bytes(), 128)
                .expect("written");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever words a file holds, nothing panics, and from then on no window admits more than its units.
    #[test]
    fn damage_never_admits_more(seed in any::<u64>(), dense in any::<bool>()) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = file(&dir);
        let meters = [fixed(5, 1000), sliding(5, 1000), bucket(5, 1000, 5), forever(5)];
        let start = Now::from_nanos(START);
        let (table, _) = open(&path);
        for n in 0..80 {
            let _ = table.take(id(n), GROUP, &meters[n as usize % 4], 1, start);
        }
        drop(table);

        // Random words and liveness; with `dense`, the tags stay, so that the damage is met.
        let mut bytes = fs::read(&path).expect("read");
        let mut random = seed | 1;
        for slot in bytes[HEADER..].chunks_exact_mut(64) {
            for (at, byte) in slot.iter_mut().enumerate().take(40) {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let in_tag = matches!(at, 8..16 | 24..32);
                if !(dense && in_tag) && random >> 60 != 0 {
                    *byte = (random >> 32) as u8;
                }
            }
        }
        fs::write(&path, &bytes).expect("written");

        let (table, became) = open(&path);
        prop_assert_eq!(became, Continued::Continued);
        let mut at = START;
        for round in 0..6u64 {
            for n in 0..200u64 {
                let meter = &meters[n as usize % 4];
                let mut windows = std::collections::HashMap::<u64, u64>::new();
                for _ in 0..12 {
                    let level = table.take(id(n), GROUP, meter, 1, Now::from_nanos(at));
                    prop_assert!(level.remaining(meter) <= 5);
                    let _ = (level.reset_after_ns(meter), level.retry_after_ns(meter, 5));
                    if level.admitted {
                        *windows.entry(level.window_end_ns(meter)).or_default() += 1;
                    }
                }
                let most = if n % 4 == 2 { windows.values().sum() } else {
                    windows.values().copied().max().unwrap_or(0)
                };
                prop_assert!(most <= 5, "{} of key {} in round {}", most, n, round);
            }
            at += 300 * MS;
        }
    }
}
