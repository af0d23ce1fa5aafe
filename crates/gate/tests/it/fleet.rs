//! Limits that a fleet shares: they admit what credit is installed, and say what to ask for when it runs out.

use std::num::NonZeroU64;

use gate::hash::HashSecret;
use gate::leased::LeasedTable;
use gate::request::{Hits, Part};
use gate::table::{Continued, MapOptions, OnDamage, Table};
use gate::time::Now;
use gate::{CompileError, Decision, Dry, Fleet, Gate, Refusal, Verdict};
use lease::credit::Credit;
use lease::terms;
use lease::time::Wall;
use policy::model::{Algorithm, KeySource, Limit, Mode, OnDegraded, Policy, Sharing};

use crate::fixture::*;

const LEASE: Fleet = Fleet {
    sharing: Sharing::Lease,
    revision: 7,
};

fn try_gate(policy: &Policy, fleet: Fleet) -> Result<Gate, CompileError> {
    let table = Table::anonymous(NonZeroU64::new(1000).unwrap()).unwrap();
    Gate::in_fleet(table, &HashSecret::new(1, [7; 32]), policy, fleet)
}

fn gate_of(limits: Vec<Limit>, fleet: Fleet) -> Gate {
    let by = by(KeySource::ClientAddress);
    try_gate(&policy(vec![rule("a", &[], by, limits)]), fleet).unwrap()
}

fn local(mut limit: Limit) -> Limit {
    limit.sharing = Some(Sharing::Local);
    limit
}

/// Decides one request, and hands what was decided to `told`.
fn decide<T>(gate: &Gate, hits: u64, now: Now, told: impl FnOnce(&Decision<'_>) -> T) -> T {
    get("/").with(|request| {
        let hits = Hits::Take(hits);
        told(&gate.check(&gate.snapshot(), &[Part { request, hits }], now))
    })
}

fn verdict(gate: &Gate, hits: u64) -> Verdict {
    decide(gate, hits, START, |decision| decision.verdict)
}

fn dry(gate: &Gate, hits: u64) -> Vec<Dry> {
    decide(gate, hits, START, |decision| decision.dry.clone())
}

fn install(gate: &Gate, dry: &Dry, units: u64) {
    let mut credit = LeasedTable::new(gate.table(), START);
    assert!(credit.install(dry.bucket, &dry.terms, units));
}

fn available(gate: &Gate, dry: &Dry) -> (u64, u64) {
    let mut credit = LeasedTable::new(gate.table(), START);
    let level = credit.read(dry.bucket, &dry.terms).unwrap();
    (level.available, level.demand)
}

const OVER: Verdict = Verdict::Refused(Refusal::OverLimit);

#[test]
fn a_shared_limit_admits_its_credit_and_asks_for_more() {
    let gate = gate_of(vec![fixed(10, 1000)], LEASE);
    let [ask] = dry(&gate, 3)[..] else {
        panic!("one limit is dry")
    };
    assert_eq!(ask.cost, 3);
    let bucket = ask.bucket.subject.bucket_at(SECOND_NS, Wall(START.nanos()));
    assert_eq!(ask.bucket, bucket);
    let expected = terms::Terms {
        units: 10,
        window_ns: SECOND_NS,
        shape: terms::Shape::FixedWindow,
        durable: false,
        on_degraded: terms::OnDegraded::FairShare,
        mode: terms::Mode::Lease,
        revision: 7,
    };
    assert_eq!(ask.terms, expected);
    install(&gate, &ask, 4);
    decide(&gate, 3, START, |decision| {
        assert_eq!(decision.verdict, Verdict::Admitted);
        assert_eq!(decision.dry, []);
        let outcome = &decision.outcomes[0];
        // What this node holds, of the policy's limit.
        assert_eq!(outcome.remaining, Some(1));
        assert_eq!(outcome.amount(), outcome.facts.amount);
        assert_eq!(
            outcome.reset_after.as_nanos() as u64,
            bucket.end(SECOND_NS).0 - START.nanos()
        );
    });
    decide(&gate, 3, START, |decision| {
        assert_eq!(decision.verdict, OVER);
        assert_eq!(decision.dry, [ask]);
        let outcome = &decision.outcomes[0];
        assert_eq!(outcome.retry_after, Some(outcome.reset_after));
    });
    assert_eq!(verdict(&gate, 1), Verdict::Admitted);
    // What was asked for before there was a slot is told by the question alone.
    assert_eq!(available(&gate, &ask), (0, 3 + 3 + 1));
}

#[test]
fn terms_are_the_policys() {
    let mut bucket = limit(100, 24 * 3600 * 1000, Algorithm::TokenBucket { burst: 30 });
    bucket.on_degraded = OnDegraded::FailClosed;
    bucket.sharing = Some(Sharing::Fixed);
    let mut sliding = limit(100, 60_000, Algorithm::SlidingWindow);
    sliding.on_degraded = OnDegraded::FailOpen;
    let gate = gate_of(vec![bucket, sliding, local(fixed(5, 1000))], LEASE);
    let snapshot = gate.snapshot();
    let found: Vec<_> = snapshot
        .shared()
        .map(|(_, t)| (t.shape, t.durable, t.on_degraded, t.mode, t.window_ns))
        .collect();
    let day = 24 * 3600 * SECOND_NS;
    let closed = terms::OnDegraded::FailClosed;
    let shape = terms::Shape::TokenBucket { burst: 30 };
    let open = terms::OnDegraded::FailOpen;
    assert_eq!(
        found,
        [
            (shape, true, closed, terms::Mode::Fixed, day),
            (
                terms::Shape::SlidingWindow,
                false,
                open,
                terms::Mode::Lease,
                60 * SECOND_NS
            ),
        ]
    );
    gate.install_revision(
        &policy(vec![rule("a", &[], vec![], vec![fixed(5, 1000)])]),
        8,
    )
    .unwrap();
    assert_eq!(gate.snapshot().revision(), 8);
    assert!(gate.snapshot().shared().all(|(_, t)| t.revision == 8));
    assert_eq!(gate.snapshot().shared().count(), 1);
}

/// All or none: credit that one limit took is there again when another refuses.
#[test]
fn several_limits_are_charged_all_or_none() {
    let gate = gate_of(vec![fixed(10, 1000), fixed(99, 60_000)], LEASE);
    let asks = dry(&gate, 2);
    assert_eq!(asks.len(), 2);
    install(&gate, &asks[0], 5);
    assert_eq!(dry(&gate, 2), asks[1..]);
    assert_eq!(available(&gate, &asks[0]), (5, 0));
    install(&gate, &asks[1], 3);
    assert_eq!(verdict(&gate, 2), Verdict::Admitted);
    assert_eq!(verdict(&gate, 2), OVER);
    assert_eq!(available(&gate, &asks[0]), (3, 2));
    assert_eq!(available(&gate, &asks[1]), (1, 4));
    assert_eq!(verdict(&gate, 1), Verdict::Admitted);
}

/// Credit is asked for only if it would get the request through.
#[test]
fn nothing_is_asked_for_in_vain() {
    let gate = gate_of(vec![fixed(10, 1000), local(fixed(1, 60_000))], LEASE);
    let asks = dry(&gate, 1);
    assert_eq!(asks.len(), 1);
    install(&gate, &asks[0], 1);
    assert_eq!(verdict(&gate, 1), Verdict::Admitted);
    // Now the limit of the node's own is used up as well.
    assert_eq!(dry(&gate, 1), []);
    assert_eq!(verdict(&gate, 11), Verdict::Refused(Refusal::Never));
    assert_eq!(dry(&gate, 11), []);
}

/// A shadow limit refuses nobody, and has its credit asked for all the same.
#[test]
fn shadow_limits_ask_without_refusing() {
    let mut shadow = rule("a", &[], by(KeySource::ClientAddress), vec![fixed(5, 1000)]);
    shadow.mode = Mode::Shadow;
    let gate = try_gate(&policy(vec![shadow.clone()]), LEASE).unwrap();
    let both = try_gate(
        &policy(vec![
            shadow,
            rule("b", &[], vec![], vec![local(fixed(5, 1000))]),
        ]),
        LEASE,
    )
    .unwrap();
    for gate in [gate, both] {
        assert_eq!(verdict(&gate, 1), Verdict::Admitted);
        let asks = dry(&gate, 1);
        assert_eq!(asks.len(), 1);
        install(&gate, &asks[0], 1);
        decide(&gate, 1, START, |decision| {
            assert!(decision.outcomes[0].has_room);
            assert_eq!(decision.dry, []);
        });
    }
}

/// A peek costs nothing and is never dry; what is given back later makes no credit.
#[test]
fn peeks_and_refunds_make_no_credit() {
    let gate = gate_of(vec![fixed(10, 1000)], LEASE);
    let asks = dry(&gate, 1);
    assert_eq!(verdict(&gate, 0), Verdict::Admitted);
    install(&gate, &asks[0], 1);
    assert_eq!(verdict(&gate, 1), Verdict::Admitted);
    get("/").with(|request| {
        let hits = Hits::GiveBack(5);
        let policy = gate.snapshot();
        let decision = gate.check(&policy, &[Part { request, hits }], START);
        assert_eq!(decision.verdict, Verdict::Admitted);
        assert_eq!(decision.outcomes[0].remaining, Some(0));
    });
    assert_eq!(verdict(&gate, 1), OVER);
}

/// A decision written over another keeps nothing of it.
#[test]
fn decisions_on_met_limits_ask_too() {
    let gate = gate_of(vec![fixed(10, 1000)], LEASE);
    let snapshot = gate.snapshot();
    let met: Vec<_> = get("/").with(|request| {
        let hits = Hits::Take(1);
        let resolved = gate.resolve(&snapshot, &[Part { request, hits }]);
        resolved.met().unwrap().collect()
    });
    let mut decision = Decision::new();
    gate.check_met_into(&snapshot, &met, Hits::Take(2), START, &mut decision);
    assert_eq!(decision.verdict, OVER);
    let ask = decision.dry[0];
    install(&gate, &ask, 2);
    gate.check_met_into(&snapshot, &met, Hits::Take(2), START, &mut decision);
    assert_eq!(decision.verdict, Verdict::Admitted);
    assert_eq!(decision.dry, []);
}

/// A node alone counts by itself whatever a limit says, and refuses what no fleet could share.
#[test]
fn a_node_alone_counts_by_itself() {
    let mut shared = fixed(2, 1000);
    shared.sharing = Some(Sharing::Lease);
    let by = by(KeySource::ClientAddress);
    let gate = gate(&policy(vec![rule("a", &[], by, vec![shared])]));
    let verdicts = [(); 3].map(|()| verdict(&gate, 1));
    assert_eq!(verdicts, [Verdict::Admitted, Verdict::Admitted, OVER]);
    assert_eq!(dry(&gate, 1), []);
    assert_eq!(gate.snapshot().shared().count(), 0);
}

#[test]
fn what_cannot_be_shared_is_refused_by_name() {
    let error = |limit: Limit, sharing| {
        let fleet = Fleet {
            sharing,
            revision: 1,
        };
        let policy = policy(vec![rule("a", &[], vec![], vec![limit])]);
        try_gate(&policy, fleet)
            .err()
            .map(|error| error.to_string())
    };
    assert_eq!(
        error(quota(5), Sharing::Lease).as_deref(),
        Some(
            "limit `forever` of rule `a` cannot be shared: it never renews: write `sharing: local`, or give it a window"
        )
    );
    assert_eq!(error(local(quota(5)), Sharing::Lease), None);
    let most = (1 << 28) - 1;
    assert_eq!(error(fixed(most, 100), Sharing::Fixed), None);
    assert_eq!(
        error(fixed(most + 1, 100), Sharing::Fixed).as_deref(),
        Some(
            "limit `100ms` of rule `a` cannot be shared: its 268435456 units are more than a node's table holds: at \
             most 268435455, or write `sharing: local`"
        )
    );
    let bucket = |burst| limit(1000, 1000, Algorithm::TokenBucket { burst });
    assert_eq!(error(bucket(100), Sharing::Lease), None);
    assert_eq!(
        error(bucket(99), Sharing::Lease).as_deref(),
        Some(
            "limit `1s` of rule `a` cannot be shared: its burst of 99 is less than what flows in within 100 ms: at \
             least 100, or write `sharing: local`"
        )
    );
    assert_eq!(error(bucket(99), Sharing::Local), None);
}

/// What a node counted by itself is no credit when the limit becomes shared.
#[test]
fn counts_are_no_credit_after_a_change_of_sharing() {
    let with = |sharing| {
        let mut limit = fixed(10, 1000);
        limit.sharing = Some(sharing);
        let by = by(KeySource::ClientAddress);
        policy(vec![rule("a", &[], by, vec![limit])])
    };
    let gate = try_gate(&with(Sharing::Local), LEASE).unwrap();
    assert_eq!(verdict(&gate, 4), Verdict::Admitted);
    gate.install(&with(Sharing::Lease)).unwrap();
    assert_eq!(verdict(&gate, 1), OVER);
    let ask = dry(&gate, 1)[0];
    install(&gate, &ask, 2);
    // Lease and fixed share the bucket, so that the protocol sees what was spent in either.
    gate.install(&with(Sharing::Fixed)).unwrap();
    assert_eq!(dry(&gate, 5)[0].bucket, ask.bucket);
    assert_eq!(verdict(&gate, 2), Verdict::Admitted);
    gate.install(&with(Sharing::Local)).unwrap();
    assert_eq!(verdict(&gate, 6), Verdict::Admitted);
    assert_eq!(verdict(&gate, 1), OVER);
}

/// Threads that spend from two limits at once while credit comes: what was admitted is what left both, to the unit.
#[test]
fn threads_charge_all_or_none() {
    let gate = gate_of(
        vec![fixed(1_000_000, 1000), fixed(2_000_000, 60_000)],
        LEASE,
    );
    let asks = dry(&gate, 1);
    let admitted: u64 = std::thread::scope(|scope| {
        let spend = || {
            let costs = (0..2000).map(|i| 1 + i % 3);
            costs
                .filter(|cost| verdict(&gate, *cost) == Verdict::Admitted)
                .sum::<u64>()
        };
        let spenders: Vec<_> = (0..3).map(|_| scope.spawn(spend)).collect();
        for i in 0..600 {
            // One limit or the other is often the one that is dry.
            install(&gate, &asks[i % 2], 5);
        }
        spenders
            .into_iter()
            .map(|spender| spender.join().unwrap())
            .sum()
    });
    for ask in &asks {
        assert_eq!(admitted + available(&gate, ask).0, 1500);
    }
    assert!(admitted > 0);
}

/// A node that goes on with its table's file keeps its counts, and drops the credit of the process before it: what that
/// one was granted is none of this one's.
#[test]
fn credit_does_not_outlive_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let limits = vec![
        fixed(10, 60_000),
        local(limit(10, 60_000, Algorithm::SlidingWindow)),
    ];
    let policy = policy(vec![rule("a", &[], by(KeySource::ClientAddress), limits)]);
    let start = || {
        let options = MapOptions {
            live_buckets: NonZeroU64::new(100).unwrap(),
            secret_check: 1,
            now: START,
            on_damage: OnDamage::Refuse,
        };
        let (table, became) = Table::mapped(&dir.path().join("table"), &options).unwrap();
        let gate = Gate::in_fleet(table, &HashSecret::new(1, [7; 32]), &policy, LEASE).unwrap();
        (gate, became)
    };
    let (gate, _) = start();
    let ask = dry(&gate, 3)[0];
    install(&gate, &ask, 9);
    assert_eq!(verdict(&gate, 3), Verdict::Admitted);
    drop(gate);
    let (gate, became) = start();
    assert_eq!(became, Continued::Continued);
    assert_eq!(dry(&gate, 3), [ask]);
    install(&gate, &ask, 3);
    decide(&gate, 3, START, |decision| {
        assert_eq!(decision.verdict, Verdict::Admitted);
        assert_eq!(decision.outcomes[0].remaining, Some(0));
        assert_eq!(decision.outcomes[1].remaining, Some(4));
    });
}
