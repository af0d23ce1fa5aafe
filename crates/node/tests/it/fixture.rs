//! A node of the real parts, on free ports and with a clock that stands still until a test moves it.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use gate::Gate;
use gate::hash::HashSecret;
use gate::table::Table;
use gate::time::Now;
use leasehold_node::clock::{Clock, Hand};
use leasehold_node::config::Loaded;
use leasehold_node::log::Redactor;
use leasehold_node::metrics::{MOST_LIMITS, Telemetry};
use leasehold_node::serve::{Core, Node};
use policy::model::{
    Algorithm, Amount, KeyPart, KeySource, Limit, LimitName, Mode, Normalizer, OnAbsent,
    OnDegraded, Policy, Rule, RuleLimits, RuleName, When,
};
use policy::rate::{Rate, Window, WindowMs};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};

/// 2026-11-30T19:34:15Z.
pub const START: Now = Now::from_unix_nanos(1_796_067_255_000_000_000);

/// A node and what a test moves and reads of it.
pub struct Fixture {
    pub node: Node,
    pub hand: Hand,
    pub core: Core,
}

impl Fixture {
    /// Starts a node without rules.
    pub async fn start(settings: &[&str]) -> Self {
        Self::with(&Policy::default(), settings).await
    }

    /// Starts a node with these settings on top of free ports and no grace.
    pub async fn with(policy: &Policy, settings: &[&str]) -> Self {
        Self::with_table(policy, settings, 10_000).await
    }

    /// The same, with a table for so many live buckets.
    pub async fn with_table(policy: &Policy, settings: &[&str], live_buckets: u64) -> Self {
        let mut given: Vec<String> = ["http", "grpc", "admin"]
            .iter()
            .map(|surface| format!("{surface}.listen=127.0.0.1:0"))
            .collect();
        given.push("drain.grace_ms=0".into());
        given.extend(settings.iter().map(|setting| (*setting).to_owned()));
        let config = Loaded::read(None, [], &given).unwrap().config;
        let (core, hand) = core_with_table(policy, live_buckets);
        let node = Node::start(&config, core.clone()).await.unwrap();
        Self { node, hand, core }
    }

    pub fn http(&self) -> SocketAddr {
        self.node.addresses().http.unwrap()
    }

    pub fn grpc(&self) -> SocketAddr {
        self.node.addresses().grpc.unwrap()
    }

    pub fn admin(&self) -> SocketAddr {
        self.node.addresses().admin.unwrap()
    }

    /// A connection to the gRPC surface.
    pub async fn channel(&self) -> Channel {
        channel(self.grpc()).await
    }
}

/// The parts of a node under a policy, and the hand of its clock.
pub fn core(policy: &Policy) -> (Core, Hand) {
    core_with_table(policy, 10_000)
}

fn core_with_table(policy: &Policy, live_buckets: u64) -> (Core, Hand) {
    let (clock, hand) = Clock::manual(START);
    let table = Table::anonymous(NonZeroU64::new(live_buckets).unwrap()).unwrap();
    let gate = Gate::new(table, &HashSecret::new(1, [7; 32]), policy).unwrap();
    let telemetry = Telemetry::new(MOST_LIMITS, START);
    telemetry.learn(gate.snapshot().limits());
    let core = Core {
        gate: Arc::new(gate),
        clock,
        telemetry: Arc::new(telemetry),
        redactor: Redactor::new(&[7; 32]),
        fleet: None,
    };
    (core, hand)
}

/// A gRPC connection.
pub async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .connect()
        .await
        .unwrap()
}

/// One GET: the status and the body. An error if there is no connection.
pub async fn get(address: SocketAddr, path: &str) -> std::io::Result<(u16, String)> {
    get_with(address, path, &[]).await
}

/// Asks `/v1/check` as a proxy does.
pub async fn ask_http(
    address: SocketAddr,
    fields: &[(&str, &str)],
) -> std::io::Result<(u16, String)> {
    get_with(address, "/v1/check", fields).await
}

async fn get_with(
    address: SocketAddr,
    path: &str,
    fields: &[(&str, &str)],
) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let fields: String = fields
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{fields}\r\n");
    stream.write_all(head.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .unwrap_or(0);
    let body = answer
        .split_once("\r\n\r\n")
        .map_or("", |(_, body)| body)
        .to_owned();
    Ok((status, body))
}

/// Waits until something holds; fails the test after ten seconds.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait)
        .await
        .unwrap_or_else(|_| panic!("waited in vain until {what}"));
}

/// Fails the test if a future takes more than ten seconds.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future)
        .await
        .unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// So many per window, by fixed window, disclosed.
pub fn limit(units: u64, window_ms: u64) -> Limit {
    let window = Window::Millis(WindowMs::new(window_ms).unwrap());
    Limit {
        name: LimitName::new(&window.to_string()),
        amount: Amount::Metered {
            rate: Rate { units, window },
            algorithm: Algorithm::FixedWindow,
        },
        cost: 1,
        on_degraded: OnDegraded::default(),
        sharing: None,
        disclose: true,
    }
}

/// A rule for the domain `api` that counts by the descriptor entry `by`.
pub fn rule(name: &str, by: &str, limits: Vec<Limit>) -> Rule {
    Rule {
        name: RuleName::new(name),
        when: When {
            domain: Some("api".into()),
            ..When::default()
        },
        by: vec![KeyPart {
            source: KeySource::Descriptor(by.into()),
            normalize: Normalizer::default(),
        }],
        on_absent: OnAbsent::Skip,
        mode: Mode::Enforce,
        limits: RuleLimits::Own(limits),
    }
}

/// A policy of these rules.
pub fn policy(rules: Vec<Rule>) -> Policy {
    Policy {
        rules,
        ..Policy::default()
    }
}
