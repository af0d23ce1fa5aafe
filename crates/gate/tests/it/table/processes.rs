//! Several processes decide on one file while they are killed and stopped at random instants.
//!
//! The parent starts this same test program as children, each of which takes from every key until all are used up,
//! and writes down each admission right after `take` has returned. So a kill hides at most the one admission that the
//! child was in the middle of.

use std::collections::HashMap;
use std::env;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::num::NonZeroU64;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use leasehold_gate::meter::Meter;
use leasehold_gate::table::{Continued, MapOptions, OnDamage, Place, Table};
use leasehold_gate::time::Now;
use rustix::process::{Pid, Signal, kill_process};

use super::fixture::*;

const UNITS: u64 = 60;
const WINDOW_MS: u64 = 60_000;
const LIVE_BUCKETS: u64 = 200;

/// The directory and round that a child works in; set, the test `child` is one.
const DIRECTORY: &str = "LEASEHOLD_TEST_TABLE_DIRECTORY";
const ROUND: &str = "LEASEHOLD_TEST_TABLE_ROUND";
const CHILD: &str = "LEASEHOLD_TEST_TABLE_CHILD";

/// In even rounds every key finds a slot; in odd ones some must share cells.
fn keys(round: u64) -> u64 {
    if round.is_multiple_of(2) { 150 } else { 450 }
}

fn meter(key: u64) -> Meter {
    match key % 3 {
        0 => fixed(UNITS, WINDOW_MS),
        1 => sliding(UNITS, WINDOW_MS),
        // Slow enough that nothing refills within a round, whose time stands still anyway.
        _ => bucket(UNITS, WINDOW_MS, UNITS),
    }
}

/// Rounds are far enough apart that every bucket of the one before is over.
fn round_time(round: u64) -> Now {
    Now::from_nanos(START + round * 10 * WINDOW_MS * MS)
}

fn map(directory: &Path, round: u64) -> (Table, Continued) {
    let live_buckets = NonZeroU64::new(LIVE_BUCKETS).expect("not 0");
    let options = MapOptions {
        live_buckets,
        secret_check: 1,
        now: round_time(round),
        on_damage: OnDamage::Refuse,
    };
    Table::mapped(&directory.join("table"), &options).expect("a table")
}

/// Does nothing unless started by the test below.
#[test]
fn child() {
    let (Ok(directory), Ok(round), Ok(child)) =
        (env::var(DIRECTORY), env::var(ROUND), env::var(CHILD))
    else {
        return;
    };
    let round: u64 = round.parse().expect("a number");
    let directory = Path::new(&directory);
    let (table, _) = map(directory, round);
    let mut log = OpenOptions::new()
        .append(true)
        .create(true)
        .open(directory.join(format!("admitted-{round}-{child}")))
        .expect("a log");
    let mut random = (round << 32 | child.parse::<u64>().expect("a number")) + 1;
    let mut used_up = vec![false; keys(round) as usize];
    while used_up.contains(&false) {
        random = random
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        let key = (random >> 33) % keys(round);
        // Keys change with the rounds, so that slots are taken over.
        let level = table.take(
            id(round * 1000 + key),
            GROUP,
            &meter(key),
            1,
            round_time(round),
        );
        if level.admitted {
            let shared = u64::from(level.place == Place::Shared);
            log.write_all(&[key.to_le_bytes(), shared.to_le_bytes()].concat())
                .expect("logged");
        } else {
            used_up[key as usize] = true;
        }
    }
}

fn start(directory: &Path, round: u64, child: u64) -> Child {
    Command::new(env::current_exe().expect("this program"))
        .args(["--exact", "table::processes::child", "--test-threads", "1"])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .env(CHILD, child.to_string())
        .stdout(Stdio::null())
        .spawn()
        .expect("started")
}

fn signal(child: &Child, signal: Signal) {
    // A child that has ended but was not waited for can still be signalled.
    let pid = Pid::from_raw(child.id() as i32).expect("a process id");
    kill_process(pid, signal).expect("signalled");
}

/// Polls until `done`, for at most a minute.
fn eventually(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..60_000 {
        if done() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("not within a minute: {what}");
}

fn ended(child: &mut Child) -> bool {
    child.try_wait().expect("waited").is_some()
}

#[test]
fn killed_and_stopped_processes_neither_admit_more_nor_hold_up_others() {
    let directory = tempfile::tempdir().expect("a directory");
    let seed = std::process::id().into();
    println!("seed {seed}");
    let mut random: u64 = seed;
    let mut next = || {
        random = random
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        random >> 33
    };
    let mut killed_at_work = 0;
    for round in 0..24 {
        let log = |child: u64| directory.path().join(format!("admitted-{round}-{child}"));
        let length = |child| fs::metadata(log(child)).map_or(0, |log| log.len());
        let mut children: Vec<Child> = (0..3).map(|n| start(directory.path(), round, n)).collect();

        // One is stopped and one killed, at instants spread over their work; the third must finish regardless.
        // (Not before it has begun: a process stopped while it has the file to itself holds up those that open it.)
        let [stop_after, kill_after] = [16 + next() % 40_000, 16 + next() % 40_000];
        eventually("work has begun", || {
            length(0) >= stop_after || ended(&mut children[0]) || ended(&mut children[2])
        });
        if !ended(&mut children[0]) {
            signal(&children[0], Signal::STOP);
        }
        eventually("work goes on", || {
            length(1) >= kill_after || ended(&mut children[1]) || ended(&mut children[2])
        });
        let killed = !ended(&mut children[1]);
        children[1].kill().expect("killed or over");
        children[1].wait().expect("over");
        killed_at_work += u64::from(killed);
        eventually("the third finishes", || ended(&mut children[2]));
        if !ended(&mut children[0]) {
            signal(&children[0], Signal::CONT);
        }
        eventually("the stopped one finishes", || ended(&mut children[0]));
        for child in [0, 2] {
            assert!(
                children[child].wait().expect("over").success(),
                "seed {seed}"
            );
        }

        let mut counts: HashMap<u64, u64> = HashMap::new();
        let mut in_cells: HashMap<u64, u64> = HashMap::new();
        for child in 0..3 {
            for record in fs::read(log(child)).unwrap_or_default().as_chunks::<16>().0 {
                let word = |at: usize| {
                    u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"))
                };
                *counts.entry(word(0)).or_default() += 1;
                *in_cells.entry(word(0)).or_default() += word(8);
            }
        }
        let mut missing = 0;
        for key in 0..keys(round) {
            let count = counts.get(&key).copied().unwrap_or(0);
            assert!(
                count <= UNITS,
                "seed {seed}, round {round}: {count} of key {key}"
            );
            missing += UNITS - count;
        }
        let in_cells: u64 = in_cells.values().sum();
        if round.is_multiple_of(2) {
            assert_eq!(in_cells, 0, "seed {seed}, round {round}");
            assert!(
                missing <= u64::from(killed),
                "seed {seed}, round {round}: {missing} missing"
            );
        } else {
            // What a cell admits counts against all keys that share it: less is admitted, and not nothing.
            assert!(in_cells > 0, "seed {seed}, round {round}");
        }
    }
    assert!(
        killed_at_work >= 5,
        "too few kills at work: {killed_at_work}"
    );
    let (table, became) = map(directory.path(), 24);
    assert_eq!(became, Continued::Continued);
    let stats = table.stats(round_time(24));
    assert_eq!(stats.damaged, 0);
    assert!(stats.reclaimed > 100, "{stats:?}");
}
