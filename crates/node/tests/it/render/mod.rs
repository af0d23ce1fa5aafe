//! Golden answers: every dialect against every verdict, and the cases H4, H8, A10 and A11.

mod bodies;
mod fields;

use std::time::Duration;

use gate::decision::{Decision, LimitFacts, LimitNumber, Outcome, Refusal, Verdict};
use gate::time::Now;
use leasehold_node::render::{
    self, BodyForm, Cors, Dialect, Options, Retry, SubSecond, Summary, Told,
};
use policy::model::{Algorithm, Amount, LimitName, Mode, OnDegraded, RuleName};
use policy::rate::{Rate, Window, WindowMs};
use proptest::prelude::*;
use smallvec::{SmallVec, smallvec};

/// 2026-11-30T19:34:15.250Z.
fn now() -> Now {
    Now::from_unix_nanos(1_796_067_255_250_000_000)
}

fn metered(units: u64, window_ms: u64, algorithm: Algorithm) -> Amount {
    let window = Window::Millis(WindowMs::new(window_ms).expect("a window in range"));
    Amount::Metered {
        rate: Rate { units, window },
        algorithm,
    }
}

fn facts(number: u32, rule: &str, limit: &str, amount: Amount, disclose: bool) -> LimitFacts {
    LimitFacts {
        number: LimitNumber(number),
        rule: RuleName::new(rule),
        name: LimitName::new(limit),
        envoy_name: None,
        amount,
        mode: Mode::Enforce,
        on_degraded: OnDegraded::FairShare,
        disclose,
    }
}

fn outcome(facts: &LimitFacts, remaining: u64, reset_ms: u64) -> Outcome<'_> {
    Outcome {
        part: 0,
        facts,
        brought: None,
        has_room: true,
        charged: 1,
        remaining: Some(remaining),
        reset_after: Duration::from_millis(reset_ms),
        retry_after: None,
    }
}

fn dry(facts: &LimitFacts, reset_ms: u64, retry_ms: Option<u64>) -> Outcome<'_> {
    Outcome {
        has_room: false,
        charged: 0,
        remaining: Some(0),
        retry_after: retry_ms.map(Duration::from_millis),
        ..outcome(facts, 0, reset_ms)
    }
}

fn refused(why: Refusal, outcomes: SmallVec<[Outcome<'_>; 4]>) -> Decision<'_> {
    Decision {
        dry: vec![],
        verdict: Verdict::Refused(why),
        outcomes,
    }
}

fn admitted(outcomes: SmallVec<[Outcome<'_>; 4]>) -> Decision<'_> {
    Decision {
        dry: vec![],
        verdict: Verdict::Admitted,
        outcomes,
    }
}

fn told_fields(
    decision: &Decision<'_>,
    options: &Options,
    origin: Option<&str>,
) -> Vec<(String, String)> {
    let mut told = Vec::new();
    render::fields(
        &Summary::of(decision),
        now(),
        options,
        origin,
        &mut |name, value| {
            told.push((name.to_owned(), value.to_owned()));
        },
    );
    told
}

fn lines(decision: &Decision<'_>, options: &Options) -> String {
    let fields = told_fields(decision, options, None);
    fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect()
}

fn dialect(dialect: Dialect) -> Options {
    Options {
        dialect,
        ..Options::default()
    }
}

fn value_of<'a>(fields: &'a [(String, String)], name: &str) -> Option<&'a str> {
    fields
        .iter()
        .find(|(n, _)| n == name)
        .map(|(_, v)| v.as_str())
}
