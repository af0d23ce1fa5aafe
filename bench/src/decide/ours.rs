//! Leasehold in process: the gate over its own table, with the node's own clock.
//!
//! Policies are built from the model, so that nothing of their reading is measured. Limits are too high to be reached.

use std::hint::black_box;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use gate::hash::HashSecret;
use gate::request::{HeaderLookup, Headers};
use gate::table::Table;
use gate::time::Now;
use gate::{Decision, Gate, Hits, Met, Part, Request, Verdict};
use node::clock::Clock;
use policy::model::{
    Algorithm, Amount, KeyPart, KeySource, Limit, LimitName, Mode, Normalizer, OnAbsent,
    OnDegraded, PathPattern, Policy, Rule, RuleLimits, RuleName, Segment, When,
};
use policy::rate::{Rate, Window, WindowMs};

use super::draws::Draws;
use super::subject::{Role, Subject};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;

/// Units that no run uses up.
const PLENTY: u64 = 1_000_000_000;

/// A gate with some rules, the last of which the requests meet.
struct Setting {
    gate: Gate,
    clock: Clock,
    /// What the requests' path begins with.
    path: String,
}

impl Setting {
    fn new(keys: u32, rules: usize, limits: &[Limit]) -> Self {
        let live = NonZeroU64::new(u64::from(keys) * limits.len() as u64);
        let live = live.expect("there are keys and limits");
        let table = Table::anonymous(live).expect("there is memory for the table");
        let policy = Policy {
            rules: (0..rules).map(|number| rule(number, limits)).collect(),
            ..Policy::default()
        };
        let secret = HashSecret::new(1, [7; 32]);
        let gate = Gate::new(table, &secret, &policy).expect("the policy is in order");
        let clock = Clock::system(Now::default());
        Self {
            gate,
            clock,
            path: format!("/service{}/v1/items", rules - 1),
        }
    }

    /// Calls `with` with a request for key number `index`.
    fn request<R>(&self, index: u32, with: impl FnOnce(&[Part<'_>]) -> R) -> R {
        let headers = KeyHeader(name_of(index));
        let request = Request {
            method: Some("GET"),
            host: Some("api.example.com"),
            path: Some(self.path.as_bytes()),
            peer: Some(IpAddr::from([127, 0, 0, 1])),
            headers: Headers::new(&headers),
            ..Request::default()
        };
        with(&[Part {
            request,
            hits: Hits::Take(1),
        }])
    }

    fn met<const LIMITS: usize>(&self, index: u32) -> [Met; LIMITS] {
        let policy = self.gate.snapshot();
        let resolved = self.request(index, |parts| self.gate.resolve(&policy, parts));
        let mut met = resolved
            .met()
            .expect("the request has one part and its key");
        [(); LIMITS].map(|()| met.next().expect("each limit is met"))
    }

    /// Charges every key once, so that each has its bucket.
    fn fill(&self, keys: u32) {
        let policy = self.gate.snapshot();
        for index in 0..keys {
            let now = self.clock.now();
            let verdict = self.request(index, |parts| self.gate.check(&policy, parts, now).verdict);
            assert_eq!(
                verdict,
                Verdict::Admitted,
                "the benchmark's limits are never reached"
            );
        }
    }
}

/// A request's only header: `x-client: k0000042`.
struct KeyHeader([u8; 8]);

impl HeaderLookup for KeyHeader {
    fn values<'a>(&'a self, name: &str, each: &mut dyn FnMut(&'a [u8])) {
        if name == "x-client" {
            each(&self.0);
        }
    }
}

/// `k` and seven digits, without the formatting machinery: it is in the timed loop of full matching.
fn name_of(index: u32) -> [u8; 8] {
    let mut name = *b"k0000000";
    let mut rest = index;
    for digit in name[1..].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
    name
}

fn rule(number: usize, limits: &[Limit]) -> Rule {
    let first: Arc<str> = format!("service{number}").into();
    Rule {
        name: RuleName::new(&format!("rule{number}")),
        when: When {
            paths: vec![PathPattern {
                source: format!("/service{number}/v1/{{collection}}").into(),
                segments: vec![
                    Segment::Literal(first),
                    Segment::Literal("v1".into()),
                    Segment::Any,
                ],
            }],
            methods: vec!["GET".into(), "POST".into()],
            ..When::default()
        },
        by: vec![KeyPart {
            source: KeySource::Header("x-client".into()),
            normalize: Normalizer::default(),
        }],
        on_absent: OnAbsent::default(),
        mode: Mode::Enforce,
        limits: RuleLimits::Own(limits.to_vec()),
    }
}

fn limit(window_ms: u64, algorithm: Algorithm) -> Limit {
    let window = WindowMs::new(window_ms).expect("the window is in range");
    let rate = Rate {
        units: PLENTY,
        window: Window::Millis(window),
    };
    Limit {
        name: LimitName::new(&window.get().to_string()),
        amount: Amount::metered(rate, algorithm).expect("the rate is in range"),
        cost: 1,
        on_degraded: OnDegraded::default(),
        sharing: None,
        disclose: false,
    }
}

const TOKEN_BUCKET: Algorithm = Algorithm::TokenBucket { burst: 1_000_000 };

/// Deciding on keys that were resolved before.
pub struct OnResolved<const LIMITS: usize> {
    name: &'static str,
    role: Role,
    setting: Setting,
    /// Of every key.
    met: Vec<[Met; LIMITS]>,
    /// For each thread, in the order of its draws.
    drawn: Vec<Vec<[Met; LIMITS]>>,
}

/// One limit, a fixed window: what the goals are for.
pub fn fixed_window(keys: u32) -> OnResolved<1> {
    let limits = [limit(HOUR_MS, Algorithm::FixedWindow)];
    OnResolved::new("leasehold resolved key", Role::Ours, keys, limits)
}

/// One limit, a token bucket: as governor counts.
pub fn token_bucket(keys: u32) -> OnResolved<1> {
    let limits = [limit(HOUR_MS, TOKEN_BUCKET)];
    OnResolved::new(
        "leasehold resolved key, token bucket",
        Role::Ours,
        keys,
        limits,
    )
}

/// One limit, a sliding window.
pub fn sliding_window(keys: u32) -> OnResolved<1> {
    let limits = [limit(HOUR_MS, Algorithm::SlidingWindow)];
    OnResolved::new(
        "leasehold resolved key, sliding window",
        Role::Ours,
        keys,
        limits,
    )
}

/// Two limits, charged both or none.
pub fn two_limits(keys: u32) -> OnResolved<2> {
    let limits = [
        limit(HOUR_MS, Algorithm::FixedWindow),
        limit(DAY_MS, Algorithm::FixedWindow),
    ];
    OnResolved::new(
        "leasehold resolved key, two limits",
        Role::Shown,
        keys,
        limits,
    )
}

impl<const LIMITS: usize> OnResolved<LIMITS> {
    fn new(name: &'static str, role: Role, keys: u32, limits: [Limit; LIMITS]) -> Self {
        let setting = Setting::new(keys, 1, &limits);
        setting.fill(keys);
        let met = (0..keys).map(|index| setting.met(index)).collect();
        Self {
            name,
            role,
            setting,
            met,
            drawn: Vec::new(),
        }
    }
}

impl<const LIMITS: usize> Subject for OnResolved<LIMITS> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn role(&self) -> Role {
        self.role
    }

    fn prepare(&mut self, draws: &[Draws]) {
        let met = &self.met;
        let in_order = |draws: &Draws| draws.indexes.iter().map(|i| met[*i as usize]).collect();
        self.drawn = draws.iter().map(in_order).collect();
    }

    fn run(&self, thread: usize, _draws: &Draws, from: usize, to: usize) {
        let Setting { gate, clock, .. } = &self.setting;
        let policy = gate.snapshot();
        let mut decision = Decision::new();
        for met in &self.drawn[thread][from..to] {
            gate.check_met_into(&policy, met, Hits::Take(1), clock.now(), &mut decision);
            // By reference: by value it would be copied once more.
            black_box(&decision);
        }
    }
}

/// Deciding on whole requests, under so many rules of which one matches.
pub struct Matching {
    name: &'static str,
    setting: Setting,
}

/// One rule.
pub const MATCHING_1: &str = "leasehold full matching, 1 rule";
/// A thousand rules.
pub const MATCHING_1000: &str = "leasehold full matching, 1000 rules";

impl Matching {
    /// Under 1, 100 and 1,000 rules.
    pub fn all(keys: u32) -> [Self; 3] {
        [
            (MATCHING_1, 1),
            ("leasehold full matching, 100 rules", 100),
            (MATCHING_1000, 1000),
        ]
        .map(|(name, rules)| {
            let limits = [limit(HOUR_MS, Algorithm::FixedWindow)];
            let setting = Setting::new(keys, rules, &limits);
            setting.fill(keys);
            Self { name, setting }
        })
    }
}

impl Subject for Matching {
    fn name(&self) -> &'static str {
        self.name
    }

    fn role(&self) -> Role {
        Role::Shown
    }

    fn slower_by(&self) -> usize {
        2
    }

    fn run(&self, _thread: usize, draws: &Draws, from: usize, to: usize) {
        let Setting { gate, clock, .. } = &self.setting;
        for index in &draws.indexes[from..to] {
            self.setting.request(*index, |parts| {
                let policy = gate.snapshot();
                black_box(&gate.check(&policy, parts, clock.now()));
            });
        }
    }
}

/// Makes a table of so many buckets in this process and tells how much resident memory each took, in bytes.
pub fn bytes_per_bucket(keys: u32) -> f64 {
    let before = crate::server::resident_of("self");
    let setting = Setting::new(keys, 1, &[limit(HOUR_MS, Algorithm::FixedWindow)]);
    setting.fill(keys);
    (crate::server::resident_of("self") - before) / f64::from(keys)
}
