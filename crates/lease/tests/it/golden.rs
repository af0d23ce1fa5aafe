//! Scripts of commands and what they print: the protocol's faults, told so that they can be read. Each file in
//! `tests/testdata` is run and compared; `UPDATE_GOLDEN=1` writes what is printed.
//!
//! A block is lines of commands, then `----`, then what they print, then an empty line. `#` begins a comment.

use std::cell::RefCell;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use leasehold_lease::bucket::{Bucket, Subject, WindowId};
use leasehold_lease::config::Config;
use leasehold_lease::id::NodeId;
use leasehold_lease::node::Input;
use leasehold_lease::terms::{Shape, Terms};

use super::fleet::{BASE, Fleet, HELD, MS, Network, terms};

#[derive(Default)]
struct Links {
    cut: Vec<(NodeId, NodeId)>,
    held: Vec<(NodeId, NodeId)>,
}

/// One script's fleet and its one key.
struct Script {
    fleet: Fleet,
    links: Rc<RefCell<Links>>,
    subject: Subject,
    /// The window that was last aligned to.
    bucket: Bucket,
    told: usize,
}

/// The value of `name=value` among words.
fn value<T: std::str::FromStr>(words: &[&str], name: &str) -> Option<T> {
    words
        .iter()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

impl Script {
    /// `fleet nodes=2 units=10 window=1000 [burst=20] [durable] [most_held=2]`
    fn new(words: &[&str]) -> Self {
        let links = Rc::new(RefCell::new(Links::default()));
        let shared = links.clone();
        let network: Network = Box::new(move |from, to, now| {
            let links = shared.borrow();
            if links.cut.contains(&(from, to)) {
                Vec::new()
            } else if links.held.contains(&(from, to)) {
                vec![HELD + now]
            } else {
                vec![now + 300_000]
            }
        });
        let mut config = Config::default();
        if let Some(most) = value(words, "most_held") {
            config.most_held = most;
        }
        let mut fleet = Fleet::new(value(words, "nodes").unwrap(), config, network);
        let subject = Subject((7 << 100) | (9 << 40));
        let mut terms = terms(
            value(words, "units").unwrap(),
            value(words, "window").unwrap(),
        );
        terms.durable = words.contains(&"durable");
        if let Some(burst) = value(words, "burst") {
            terms.shape = Shape::TokenBucket { burst };
        }
        fleet.limits.insert(subject, terms);
        fleet.start_all();
        let bucket = fleet.bucket(0, subject);
        Self {
            fleet,
            links,
            subject,
            bucket,
            told: 0,
        }
    }

    fn terms(&self) -> Terms {
        self.fleet.limits[&self.subject]
    }

    fn pair(words: &[&str]) -> (NodeId, NodeId) {
        (
            NodeId(words[0].parse().unwrap()),
            NodeId(words[1].parse().unwrap()),
        )
    }

    fn run(&mut self, words: &[&str], out: &mut String) {
        let index = |word: &str| word.parse::<usize>().unwrap() - 1;
        match words[0] {
            "run" => self
                .fleet
                .run(Duration::from_millis(words[1].parse().unwrap())),
            "align" => self.align(
                value(words, "owner").unwrap(),
                value(words, "late").unwrap_or(0),
            ),
            "request" => self.request(index(words[1]), value(words, "times").unwrap_or(1), out),
            "cut" => {
                let (one, other) = Self::pair(&words[1..]);
                self.links
                    .borrow_mut()
                    .cut
                    .extend([(one, other), (other, one)]);
            }
            "heal" => self.links.borrow_mut().cut.clear(),
            "hold" => self.links.borrow_mut().held.push(Self::pair(&words[1..])),
            "pass" => self.links.borrow_mut().held.clear(),
            "release" => {
                let (from, to) = Self::pair(&words[1..]);
                self.fleet.release(from, to);
            }
            "crash" => self.fleet.crash(index(words[1])),
            "start" => self.fleet.start(index(words[1])),
            "clock" => {
                self.fleet.members[index(words[1])].skew =
                    words[2].parse::<i64>().unwrap() * MS as i64
            }
            "units" => {
                let known = self.terms();
                let most = self.fleet.most.entry(self.subject).or_insert(known.units);
                *most = known.units.max(*most);
                let units = words[1].parse().unwrap();
                let terms = Terms {
                    units,
                    revision: known.revision + 1,
                    ..known
                };
                *most = units.max(*most);
                self.fleet.limits.insert(self.subject, terms);
            }
            "retune" => {
                let (subject, terms) = (self.subject, self.terms());
                self.fleet
                    .input(index(words[1]), Input::Terms { subject, terms });
            }
            "reset" => {
                let (bucket, request) = (self.bucket, words[2].parse().unwrap());
                self.fleet
                    .input(index(words[1]), Input::Reset { bucket, request });
            }
            "leave" => self.fleet.input(index(words[1]), Input::Leave),
            "stop" => {
                // In order: the floor that is saved is what was used.
                let index = index(words[1]);
                let used = self.fleet.members[index].node.as_ref().unwrap().used();
                self.fleet.crash(index);
                self.fleet.members[index].floor = used;
            }
            "store" => {
                if let Some(it) = self.fleet.store.get(&self.bucket) {
                    writeln!(
                        out,
                        "store: {} authorized, {} of it before",
                        it.total, it.base
                    )
                    .unwrap();
                }
            }
            "state" => self.state(out),
            "events" => {
                for (node, event) in &self.fleet.events[self.told..] {
                    writeln!(out, "node {} tells: {event:?}", node.0).unwrap();
                }
                self.told = self.fleet.events.len();
            }
            other => panic!("no command {other:?}"),
        }
    }

    /// Runs until a window begins that this node owns, and so many milliseconds longer.
    fn align(&mut self, owner: u64, late: u64) {
        let terms = self.terms();
        let mut bucket = self.fleet.bucket(0, self.subject).next();
        while self.fleet.view.issuer(bucket, &terms) != NodeId(owner) {
            bucket = bucket.next();
            assert!(
                bucket.window.0 % 1_000_000 < 999_999,
                "node {owner} owns no window"
            );
        }
        self.fleet
            .run_until(bucket.start(terms.slot_ns()).0 - BASE + late * MS);
        self.bucket = bucket;
    }

    fn request(&mut self, index: usize, times: u64, out: &mut String) {
        let (admitted, denied) = (self.fleet.admitted, self.fleet.denied);
        for _ in 0..times {
            self.fleet.request(index, self.subject, 1);
            self.fleet.run(Duration::from_millis(3));
        }
        let (admitted, denied) = (self.fleet.admitted - admitted, self.fleet.denied - denied);
        writeln!(out, "node {} admits {admitted}, denies {denied}", index + 1).unwrap();
    }

    fn state(&self, out: &mut String) {
        let nodes = || {
            self.fleet
                .members
                .iter()
                .filter_map(|member| Some((member.id.0, member.node.as_ref()?)))
        };
        for (id, node) in nodes() {
            for owned in node.owned().filter(|owned| owned.bucket == self.bucket) {
                let authority = if owned.authority {
                    ""
                } else {
                    " without authority"
                };
                writeln!(
                    out,
                    "owner {id}{authority}: {} of {} charged",
                    owned.charged, owned.allowance
                )
                .unwrap();
                for it in owned.accounts {
                    writeln!(
                        out,
                        "  node {}: granted {}, returned {}, alone {}, held back {}",
                        it.node.0, it.granted, it.returned, it.self_granted, it.holdback
                    )
                    .unwrap();
                }
            }
        }
        for (id, node) in nodes() {
            for held in node.held().filter(|held| held.bucket == self.bucket) {
                writeln!(
                    out,
                    "holder {id}: granted {}, alone {}, returned {}, spent {}, available {}{}",
                    held.granted,
                    held.self_granted,
                    held.returned,
                    held.spent,
                    held.available,
                    if held.exhausted { ", exhausted" } else { "" }
                )
                .unwrap();
            }
        }
        let spent = self.fleet.spent.get(&self.bucket).copied().unwrap_or(0);
        writeln!(out, "spent in all: {spent}").unwrap();
    }
}

/// Runs a script; returns it with what it prints in place of what it says it prints.
fn play(text: &str) -> String {
    let mut played = String::new();
    let mut script: Option<Script> = None;
    let mut out = String::new();
    let mut skipping = false;
    for line in text.lines() {
        if skipping {
            if !line.is_empty() {
                continue;
            }
            skipping = false;
        }
        writeln!(played, "{line}").unwrap();
        let command = line.split('#').next().unwrap();
        let words: Vec<&str> = command.split_whitespace().collect();
        match (words.first().copied(), &mut script) {
            (None, _) => {}
            (Some("----"), _) => {
                played.push_str(&std::mem::take(&mut out));
                skipping = true;
            }
            (Some("fleet"), _) => script = Some(Script::new(&words)),
            (Some(_), Some(script)) => script.run(&words, &mut out),
            (Some(other), None) => panic!("{other:?} before any fleet"),
        }
    }
    assert!(out.is_empty(), "a block without ----: {out}");
    played
}

#[test]
fn every_script_prints_what_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/testdata");
    let mut paths: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    assert!(paths.len() >= 9, "{paths:?}");
    for path in paths {
        let text = fs::read_to_string(&path).unwrap();
        let played = play(&text);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, played).unwrap();
        } else {
            assert_eq!(
                played,
                text,
                "{}: UPDATE_GOLDEN=1 rewrites it",
                path.display()
            );
        }
    }
}

#[test]
fn windows_are_numbered_from_one_shortly_after_time_zero() {
    let subject = Subject((7 << 100) | (9 << 40));
    let bucket = subject.bucket_at(1_000 * MS, leasehold_lease::time::Wall(BASE));
    assert_eq!(bucket.window, WindowId(BASE / (1_000 * MS) + 1));
}
