//! Policies and requests for tests, built from the model: no file is read here.

use std::num::NonZeroU64;

use gate::hash::HashSecret;
use gate::request::{Headers, Hits, Part, Request};
use gate::table::Table;
use gate::time::Now;
use gate::{Decision, Gate, Verdict};
use policy::model::{
    Algorithm, Amount, KeyPart, KeySource, Limit, LimitName, Mode, Normalizer, OnAbsent,
    OnDegraded, PathPattern, Policy, Rule, RuleLimits, RuleName, Segment, When,
};
use policy::rate::{Rate, Window, WindowMs};

pub const SECOND_NS: u64 = 1_000_000_000;

/// An instant well after the epoch, so that tests can go back from it.
pub const START: Now = Now::from_nanos(60_000_000 * SECOND_NS);

pub fn after(ns: u64) -> Now {
    Now::from_nanos(START.nanos() + ns)
}

pub fn limit(units: u64, window_ms: u64, algorithm: Algorithm) -> Limit {
    let window = Window::Millis(WindowMs::new(window_ms).unwrap());
    Limit {
        name: LimitName::new(&window.to_string()),
        amount: Amount::Metered {
            rate: Rate { units, window },
            algorithm,
        },
        cost: 1,
        on_degraded: OnDegraded::FairShare,
        sharing: None,
        disclose: true,
    }
}

/// A quota that never renews: tests that wait meet no boundary of it.
pub fn quota(units: u64) -> Limit {
    let mut limit = fixed(units, 1000);
    limit.name = LimitName::new("forever");
    limit.amount = Amount::Metered {
        rate: Rate {
            units,
            window: Window::Forever,
        },
        algorithm: Algorithm::FixedWindow,
    };
    limit
}

pub fn fixed(units: u64, window_ms: u64) -> Limit {
    limit(units, window_ms, Algorithm::FixedWindow)
}

pub fn pattern(text: &str) -> PathPattern {
    let segments = text
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| match segment {
            "**" => Segment::Rest,
            "{}" => Segment::Any,
            glob if glob.contains('*') => Segment::Glob(glob.split('*').map(Into::into).collect()),
            literal => Segment::Literal(literal.into()),
        })
        .collect();
    PathPattern {
        source: text.into(),
        segments,
    }
}

pub fn by(source: KeySource) -> Vec<KeyPart> {
    vec![KeyPart {
        source,
        normalize: Normalizer::default(),
    }]
}

pub fn rule(name: &str, paths: &[&str], by: Vec<KeyPart>, limits: Vec<Limit>) -> Rule {
    Rule {
        name: RuleName::new(name),
        when: When {
            paths: paths.iter().map(|path| pattern(path)).collect(),
            ..When::default()
        },
        by,
        on_absent: OnAbsent::Share,
        mode: Mode::Enforce,
        limits: RuleLimits::Own(limits),
    }
}

pub fn policy(rules: Vec<Rule>) -> Policy {
    Policy {
        rules,
        ..Policy::default()
    }
}

pub fn gate(policy: &Policy) -> Gate {
    gate_for(10_000, policy)
}

pub fn gate_for(live_buckets: u64, policy: &Policy) -> Gate {
    let table = Table::anonymous(NonZeroU64::new(live_buckets).unwrap()).unwrap();
    Gate::new(table, &HashSecret::new(1, [7; 32]), policy).unwrap()
}

/// A request as HTTP surfaces make it.
pub struct Http {
    pub method: &'static str,
    pub path: String,
    pub headers: Vec<(&'static str, Vec<u8>)>,
    pub peer: &'static str,
}

pub fn get(path: &str) -> Http {
    Http {
        method: "GET",
        path: path.into(),
        headers: vec![],
        peer: "192.0.2.1",
    }
}

impl Http {
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.as_bytes().to_vec()));
        self
    }

    pub fn with<T>(&self, use_it: impl FnOnce(Request<'_>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> = self
            .headers
            .iter()
            .map(|(name, value)| (*name, value.as_slice()))
            .collect();
        let lookup = headers.as_slice();
        use_it(Request {
            method: Some(self.method),
            host: Some("api.example.com"),
            path: Some(self.path.as_bytes()),
            peer: Some(self.peer.parse().unwrap()),
            headers: Headers::new(&lookup),
            ..Request::default()
        })
    }
}

/// What a test wants to know of an answer.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    pub verdict: Verdict,
    /// Rule, remaining and room of each limit met.
    pub limits: Vec<(String, Option<u64>, bool)>,
    /// Units charged to each of them.
    pub charged: Vec<u64>,
}

impl Answer {
    pub fn admitted(&self) -> bool {
        self.verdict == Verdict::Admitted
    }

    pub fn remaining(&self, rule: &str) -> u64 {
        self.limits
            .iter()
            .find(|(name, ..)| name == rule)
            .unwrap()
            .1
            .unwrap()
    }
}

pub fn answer(decision: &Decision<'_>) -> Answer {
    Answer {
        verdict: decision.verdict,
        limits: decision
            .outcomes
            .iter()
            .map(|outcome| {
                (
                    outcome.facts.rule.as_str().to_owned(),
                    outcome.remaining,
                    outcome.has_room,
                )
            })
            .collect(),
        charged: decision
            .outcomes
            .iter()
            .map(|outcome| outcome.charged)
            .collect(),
    }
}

pub fn check(gate: &Gate, http: &Http, hits: Hits, now: Now) -> Answer {
    http.with(|request| answer(&gate.check(&gate.snapshot(), &[Part { request, hits }], now)))
}

/// One hit now.
pub fn hit(gate: &Gate, http: &Http) -> Answer {
    check(gate, http, Hits::Take(1), START)
}
