//! Through Envoy: one Envoy with four listeners that differ in their limiter alone. The API behind them is a fifth
//! listener of the same Envoy that answers by itself, so that no upstream's noise is measured along.

use std::fs;
use std::net::SocketAddr;
use std::time::Duration;

use crate::load::http1::Http1;
use crate::load::message::{Message, Order};
use crate::load::{self, Dialect, Load, Pace, Report, Until};
use crate::plan::Plan;
use crate::row::{Goal, Row, median};
use crate::server::{Server, free_address};
use crate::{Failure, leasehold, tools};

const NONE: &str = "no limiter";
const LOCAL: &str = "local_ratelimit";
const EMPTY: &str = "empty tonic service";
const OURS: &str = "leasehold";

/// Keys that requests are spread over.
const KEYS: u64 = 100_000;

/// Measures what the plan wants of this part.
///
/// # Errors
/// If a server or the load on it fails.
pub fn measure(plan: &Plan) -> Result<Vec<Row>, Failure> {
    let groups = [
        ("envoy/1 connection", 1, Pace::Closed { in_flight: 1 }),
        (
            "envoy/2000 a second on 32 connections",
            32,
            Pace::Open { per_second: 2000.0 },
        ),
    ];
    if !groups.iter().any(|(group, _, _)| plan.wants(group)) {
        return Ok(Vec::new());
    }
    plan.say("envoy: starting the servers");
    let (empty, ours) = (free_address()?, free_address()?);
    let empty = Server::start(
        EMPTY,
        empty,
        &tools::sibling("empty-rls"),
        &[&empty.to_string()],
    )?;
    let ours = leasehold::start(OURS, ours)?;
    let listeners = [NONE, LOCAL, EMPTY, OURS]
        .map(|name| free_address().map(|address| (name, address)))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    let _envoy = start(&listeners, empty.address, ours.address)?;
    let mut rows = Vec::new();
    for (group, connections, pace) in groups {
        if !plan.wants(group) {
            continue;
        }
        plan.say(group);
        let mut all: Vec<(&str, Vec<Report>)> = listeners
            .iter()
            .map(|(name, _)| (*name, Vec::new()))
            .collect();
        for _ in 0..plan.rounds() {
            for ((_, address), (_, runs)) in listeners.iter().zip(&mut all) {
                runs.push(load_on(*address, connections, pace, plan.load_time())?);
            }
        }
        rows.extend(compared(group, &all));
    }
    Ok(rows)
}

fn load_on(
    address: SocketAddr,
    connections: usize,
    pace: Pace,
    time: Duration,
) -> Result<Report, Failure> {
    let request = "GET /api HTTP/1.1\r\nhost: bench\r\nx-key: k00000000\r\n\r\n";
    let message = Message::new(request.into(), Order::Scattered(KEYS));
    Ok(load::run(Load {
        address,
        connections,
        pace,
        warm_up: Duration::from_millis(300),
        until: Until::Time(time),
        dialect: &|| -> Box<dyn Dialect> { Box::new(Http1::new(message.clone())) },
        on_start: &mut || {},
    })?)
}

fn compared(group: &str, all: &[(&str, Vec<Report>)]) -> Vec<Row> {
    type Figure = (&'static str, &'static str, fn(&Report) -> f64);
    let figures: [Figure; 3] = [
        ("requests", "1/s", Report::per_second),
        ("p50", "ms", |report| report.latency_ms(0.5)),
        ("p99", "ms", |report| report.latency_ms(0.99)),
    ];
    let mut rows = Vec::new();
    for (figure, unit, value) in figures {
        for (name, runs) in all {
            let of = |runs: &[Report]| runs.iter().map(value).collect::<Vec<_>>();
            let row = Row::new(format!("{group}/{name}/{figure}"), unit, of(runs));
            if *name == OURS {
                for (other, runs) in all.iter().filter(|(other, _)| *other != OURS) {
                    rows.push(row.clone().against(*other, median(&of(runs))));
                }
            } else {
                rows.push(row);
            }
        }
    }
    // The limits are out of reach and a failing limiter is made to show, so any of these is a fault.
    for (name, runs) in all {
        let wrong: Vec<f64> = runs
            .iter()
            .map(|run| (run.refused + run.failed) as f64)
            .collect();
        if wrong.iter().any(|count| *count > 0.0) {
            let name = format!("{group}/{name}/refused or failed");
            rows.push(Row::new(name, "requests", wrong).goal(Goal::AtMost(0.0)));
        }
    }
    rows
}

fn start(
    listeners: &[(&str, SocketAddr)],
    empty: SocketAddr,
    ours: SocketAddr,
) -> Result<Server, Failure> {
    let api = free_address()?;
    let listed: String = listeners
        .iter()
        .map(|(name, at)| listener(name, *at))
        .collect();
    let api_listener = at(LISTENER, api)
        .replace(
            "ROUTE",
            "direct_response: {status: 200, body: {inline_string: ok}}",
        )
        .replace("          FILTER\n", "");
    let clusters = [
        ("empty", empty, HTTP2),
        ("leasehold", ours, HTTP2),
        ("api", api, ""),
    ]
    .map(|(name, address, options)| {
        at(CLUSTER, address)
            .replace("NAME", name)
            .replace("    OPTIONS\n", options)
    })
    .concat();
    let config =
        format!("static_resources:\n  listeners:\n{listed}{api_listener}  clusters:\n{clusters}");
    let last = listeners.last().map_or(empty, |(_, address)| *address);
    let file = std::env::temp_dir().join(format!("leasehold-bench-envoy-{}.yaml", last.port()));
    fs::write(&file, config)?;
    let path = file.display().to_string();
    let arguments = [
        "-c",
        &path,
        "--concurrency",
        "1",
        "--use-dynamic-base-id",
        "--log-level",
        "error",
        "--disable-hot-restart",
    ];
    let server = Server::start("envoy", last, &tools::envoy(), &arguments);
    fs::remove_file(&file)?;
    Ok(server?)
}

fn listener(name: &str, address: SocketAddr) -> String {
    let filter = match name {
        LOCAL => LOCAL_FILTER.to_owned(),
        EMPTY => RLS_FILTER.replace("CLUSTER", "empty"),
        OURS => RLS_FILTER.replace("CLUSTER", "leasehold"),
        _ => String::new(),
    };
    at(LISTENER, address)
        .replace("ROUTE", "route: {cluster: api}")
        .replace("          FILTER\n", &filter)
}

fn at(template: &str, address: SocketAddr) -> String {
    template
        .replace("ADDRESS", &address.ip().to_string())
        .replace("PORT", &address.port().to_string())
}

const LISTENER: &str = r#"  - address: {socket_address: {address: ADDRESS, port_value: PORT}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          route_config:
            virtual_hosts:
            - name: api
              domains: ["*"]
              routes:
              - match: {prefix: "/"}
                ROUTE
              rate_limits:
              - actions:
                - request_headers: {header_name: x-key, descriptor_key: key}
          http_filters:
          FILTER
          - name: envoy.filters.http.router
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router
"#;

const LOCAL_FILTER: &str = r#"          - name: envoy.filters.http.local_ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
              stat_prefix: local
              token_bucket: {max_tokens: 1000000000, tokens_per_fill: 1000000000, fill_interval: 1s}
              filter_enabled: {default_value: {numerator: 100}}
              filter_enforced: {default_value: {numerator: 100}}
"#;

const RLS_FILTER: &str = r#"          - name: envoy.filters.http.ratelimit
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
              domain: bench
              timeout: 1s
              failure_mode_deny: true
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {envoy_grpc: {cluster_name: CLUSTER}}
"#;

const CLUSTER: &str = r#"  - name: NAME
    type: STATIC
    connect_timeout: 1s
    OPTIONS
    load_assignment:
      cluster_name: NAME
      endpoints:
      - lb_endpoints:
        - endpoint: {address: {socket_address: {address: ADDRESS, port_value: PORT}}}
"#;

const HTTP2: &str = r#"    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
"#;
