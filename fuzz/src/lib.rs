//! What the targets share: a node's parts under a policy that has something of everything, and checks of what is
//! written for people and proxies to read.

use std::num::NonZeroU64;
use std::sync::Arc;

use gate::Gate;
use gate::hash::HashSecret;
use gate::table::Table;
use gate::time::Now;
use node::clock::{Clock, Hand};
use node::config;
use node::log::{AccessLog, Redactor};
use node::metrics::{MOST_LIMITS, Telemetry};
use policy::envoy::{File, read_files};
use policy::model::Policy;

/// 2026-11-30T19:34:15Z.
const START: Now = Now::from_unix_nanos(1_796_067_255_000_000_000);

const OWN: &[u8] = include_bytes!("../policy.yaml");
const TREE: &[u8] = include_bytes!("../descriptors.yaml");

/// The parts that surfaces are made of.
pub struct Parts {
    /// Decides.
    pub gate: Arc<Gate>,
    /// Stands still until the hand moves it.
    pub clock: Clock,
    /// Moves the clock.
    pub hand: Hand,
    /// Counts.
    pub telemetry: Arc<Telemetry>,
}

impl Parts {
    /// A log that takes every request; nobody reads it.
    #[must_use]
    pub fn access_log(&self) -> AccessLog {
        let log = config::Log {
            access: config::AccessLog::All,
            ..config::Log::default()
        };
        AccessLog::new(&log, Redactor::new(b"x"), self.telemetry.clone())
    }
}

/// The policy that the surfaces' targets run under: own rules and a descriptor tree.
#[must_use]
pub fn policy() -> Policy {
    let mut policy = policy::file::read(OWN).expect("the targets' policy is right");
    let file = File {
        name: "descriptors.yaml",
        bytes: TREE,
    };
    policy.domains = read_files(&[file])
        .expect("the targets' tree is right")
        .domains;
    policy
}

/// A small table, so that it fills up.
#[must_use]
pub fn parts(policy: &Policy) -> Parts {
    let (clock, hand) = Clock::manual(START);
    let slots = NonZeroU64::new(1000).expect("not 0");
    let table = Table::anonymous(slots).expect("there is memory for a small table");
    let gate = Gate::new(table, &HashSecret::new(1, [7; 32]), policy).expect("it compiles");
    let telemetry = Telemetry::new(MOST_LIMITS, START);
    telemetry.learn(gate.snapshot().limits());
    Parts {
        gate: Arc::new(gate),
        clock,
        hand,
        telemetry: Arc::new(telemetry),
    }
}

/// Text for a log or a terminal: on as many lines as it means to be, and nothing that moves a cursor.
pub fn assert_printable(text: &str) {
    assert!(
        !text.chars().any(|c| c.is_control() && c != '\n'),
        "{text:?}"
    );
}

/// A response field that a proxy will pass on.
pub fn assert_field(name: &str, value: &[u8]) {
    assert!(
        http::HeaderName::from_bytes(name.as_bytes()).is_ok(),
        "{name:?}"
    );
    assert!(
        http::HeaderValue::from_bytes(value).is_ok(),
        "{name}: {}",
        value.escape_ascii()
    );
    if name.eq_ignore_ascii_case("retry-after") {
        assert!(value.iter().all(u8::is_ascii_digit) && !value.is_empty());
    }
}
