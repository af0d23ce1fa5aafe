//! A node's life over real sockets: readiness, draining, and connections that behave badly.

use bytes::Bytes;
use h2::client::SendRequest;
use leasehold_node::config::Loaded;
use leasehold_node::drain::Phase;
use leasehold_node::serve::{Addresses, Exit, Node, welcome};
use prost::Message as _;
use rustix::process::{Signal, getpid, kill_process};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use wire::rls::{RateLimitRequest, RateLimitResponse};

use crate::fixture::{Fixture, ask_http, channel, get, soon, until};
use crate::rls::{RLS, ask};

fn of(service: &str) -> HealthCheckRequest {
    HealthCheckRequest {
        service: service.to_owned(),
    }
}

#[tokio::test]
async fn a_started_node_is_ready_on_every_surface() {
    let fixture = Fixture::start(&[]).await;
    assert_eq!(fixture.node.phase(), Phase::Serving);
    for address in [fixture.http(), fixture.admin()] {
        for path in ["/live", "/ready", "/startup", "/health"] {
            assert_eq!(get(address, path).await.unwrap().0, 200, "{path}");
        }
    }
    let mut health = HealthClient::new(fixture.channel().await);
    for service in ["", RLS] {
        let answer = health.check(of(service)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
    }
    let unknown = health.check(of("nobody")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let (status, body) = get(fixture.admin(), "/metrics").await.unwrap();
    assert!(
        status == 200 && body.contains("throttle_build_info"),
        "{status} {body}"
    );
    assert_eq!(
        get(fixture.http(), "/metrics").await.unwrap().0,
        404,
        "not for the public"
    );
    let asked = [("X-Original-Method", "GET"), ("X-Original-URI", "/")];
    assert_eq!(ask_http(fixture.http(), &asked).await.unwrap().0, 200);
    assert_eq!(get(fixture.admin(), "/v1/check").await.unwrap().0, 404);
    assert_eq!(fixture.node.stop().await, 0);
}

/// A body that never comes holds nothing for long, and charges nothing.
#[tokio::test]
async fn a_body_that_does_not_come_is_answered_with_408() {
    let fixture = Fixture::start(&["http.body_timeout_ms=100"]).await;
    let mut stream = TcpStream::connect(fixture.http()).await.unwrap();
    let head = "POST /v1/check HTTP/1.1\r\nHost: test\r\nContent-Length: 9\r\n\
                Content-Type: application/json\r\n\r\n{\"p";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    soon(
        "the answer, and the connection's end",
        stream.read_to_string(&mut answer),
    )
    .await
    .unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("BODY_TOO_SLOW"), "{answer}");
    // One that comes is not cut off.
    let asked = [("X-Original-Method", "GET"), ("X-Original-URI", "/")];
    assert_eq!(ask_http(fixture.http(), &asked).await.unwrap().0, 200);
}

#[tokio::test]
async fn a_leaving_node_says_so_and_still_serves() {
    let fixture = Fixture::start(&["drain.grace_ms=3600000"]).await;
    let (http, grpc) = (fixture.http(), fixture.grpc());
    let stopping = tokio::spawn(fixture.node.stop());
    until("/ready is 503", || async {
        get(http, "/ready").await.unwrap().0 == 503
    })
    .await;
    assert_eq!(get(http, "/live").await.unwrap().0, 200);
    let mut health = HealthClient::new(channel(grpc).await);
    for service in ["", RLS] {
        until("health is NOT_SERVING", || {
            let mut health = health.clone();
            async move {
                let answer = health.check(of(service)).await.unwrap().into_inner();
                answer.status() == ServingStatus::NotServing
            }
        })
        .await;
    }
    let mut watch = health.watch(of(RLS)).await.unwrap().into_inner();
    let first = watch.next().await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::NotServing);
    ask(channel(grpc).await, &["k"]).await.unwrap();
    stopping.abort();
}

/// An HTTP/2 connection to the gRPC surface, and a task that ends when it does.
async fn raw(fixture: &Fixture) -> (SendRequest<Bytes>, tokio::task::JoinHandle<()>) {
    let stream = TcpStream::connect(fixture.grpc()).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    let ended = tokio::spawn(async move {
        let _ = connection.await;
    });
    (sender.ready().await.unwrap(), ended)
}

fn call() -> http::Request<()> {
    http::Request::post(format!("http://node/{RLS}/ShouldRateLimit"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap()
}

fn framed(message: &RateLimitRequest) -> Bytes {
    let encoded = message.encode_to_vec();
    let mut frame = vec![0];
    frame.extend_from_slice(&u32::try_from(encoded.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(&encoded);
    frame.into()
}

#[tokio::test]
async fn a_call_under_way_ends_after_goaway() {
    let fixture = Fixture::start(&[]).await;
    let (sender, ended) = raw(&fixture).await;
    let (grpc, message) = (fixture.grpc(), crate::rls::request(&["k"]));
    let (answer, mut body) = sender.clone().send_request(call(), false).unwrap();
    let frame = framed(&message);
    body.send_data(frame.slice(..3), false).unwrap();
    // The server has the stream once a later call on the same connection is answered.
    let (other, mut other_body) = sender.clone().send_request(call(), false).unwrap();
    other_body.send_data(frame.clone(), true).unwrap();
    assert_eq!(soon("the other answer", other).await.unwrap().status(), 200);

    let stopping = tokio::spawn(fixture.node.stop());
    until("GOAWAY came", || {
        let sender = sender.clone();
        async move { sender.ready().await.is_err() }
    })
    .await;
    until("nothing new is accepted", || async {
        TcpStream::connect(grpc).await.is_err()
    })
    .await;
    assert!(!stopping.is_finished(), "it waits for the call");

    body.send_data(frame.slice(3..), true).unwrap();
    let answer = soon("the answer", answer).await.unwrap();
    let mut body = answer.into_body();
    let data = soon("the message", body.data()).await.unwrap().unwrap();
    let response = RateLimitResponse::decode(&data[5..]).unwrap();
    assert_eq!(response.overall_code(), wire::rls::Code::Ok);
    let trailers = soon("the trailers", body.trailers())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(trailers.get("grpc-status").unwrap(), "0");
    assert_eq!(soon("the end", stopping).await.unwrap(), 0);
    soon("the connection's end", ended).await.unwrap();
}

#[tokio::test]
async fn those_who_watch_health_do_not_hold_a_node_up() {
    let fixture = Fixture::start(&["drain.timeout_ms=3600000"]).await;
    let mut health = HealthClient::new(fixture.channel().await);
    let mut watch = health.watch(of("")).await.unwrap().into_inner();
    assert_eq!(
        watch.next().await.unwrap().unwrap().status(),
        ServingStatus::Serving
    );
    assert_eq!(soon("the end", fixture.node.stop()).await, 0);
    assert_eq!(
        watch.next().await.unwrap().unwrap().status(),
        ServingStatus::NotServing
    );
    assert!(watch.next().await.is_none_or(|end| end.is_err()));
}

#[tokio::test]
async fn a_call_that_never_ends_is_cut_off() {
    let fixture = Fixture::start(&["drain.timeout_ms=50"]).await;
    let (sender, ended) = raw(&fixture).await;
    let (_answer, _body) = sender.clone().send_request(call(), false).unwrap();
    let (other, mut other_body) = sender.clone().send_request(call(), false).unwrap();
    other_body
        .send_data(framed(&crate::rls::request(&["k"])), true)
        .unwrap();
    assert_eq!(soon("the other answer", other).await.unwrap().status(), 200);
    assert_eq!(soon("the end", fixture.node.stop()).await, 1);
    soon("the connection's end", ended).await.unwrap();
}

#[tokio::test]
async fn an_idle_http_connection_does_not_hold_a_node_up() {
    let fixture = Fixture::start(&["drain.timeout_ms=3600000"]).await;
    let _idle = TcpStream::connect(fixture.http()).await.unwrap();
    let _idle_too = TcpStream::connect(fixture.grpc()).await.unwrap();
    assert_eq!(soon("the end", fixture.node.stop()).await, 0);
}

#[tokio::test]
async fn an_address_in_use_is_told_with_its_key() {
    let fixture = Fixture::start(&[]).await;
    let taken = format!("grpc.listen={}", fixture.grpc());
    let given = [
        "http.listen=127.0.0.1:0".to_owned(),
        taken,
        "admin.listen=off".to_owned(),
    ];
    let config = Loaded::read(None, [], &given).unwrap().config;
    let error = Node::start(&config, fixture.core.clone())
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with(&format!("`grpc.listen`: {}: ", fixture.grpc())),
        "{error}"
    );
}

#[tokio::test]
async fn connections_over_the_bound_wait_their_turn() {
    let fixture = Fixture::start(&["grpc.max_connections=1"]).await;
    let (first, ended) = raw(&fixture).await;
    let address = fixture.grpc();
    let second = tokio::spawn(async move { ask(channel(address).await, &["k"]).await });
    // The first still works while the second waits.
    let (answer, mut body) = first.clone().send_request(call(), false).unwrap();
    body.send_data(framed(&crate::rls::request(&["k"])), true)
        .unwrap();
    assert_eq!(soon("the answer", answer).await.unwrap().status(), 200);
    assert!(!second.is_finished());
    drop((first, body));
    soon("the first's end", ended).await.unwrap();
    soon("the second's answer", second).await.unwrap().unwrap();
}

#[tokio::test]
async fn pings_and_cancelled_calls_do_not_cost_a_proxy_its_connection() {
    let fixture = Fixture::start(&[]).await;
    let stream = TcpStream::connect(fixture.grpc()).await.unwrap();
    let (sender, mut connection) = h2::client::handshake(stream).await.unwrap();
    let mut pings = connection.ping_pong().unwrap();
    let connection = tokio::spawn(connection);
    for _ in 0..200 {
        soon("a pong", pings.ping(h2::Ping::opaque()))
            .await
            .unwrap();
    }
    let mut sender = sender.ready().await.unwrap();
    for _ in 0..500 {
        let (_answer, mut body) = sender.send_request(call(), false).unwrap();
        body.send_reset(h2::Reason::CANCEL);
        sender = soon("room for a call", sender.ready()).await.unwrap();
    }
    let (answer, mut body) = sender.send_request(call(), false).unwrap();
    body.send_data(framed(&crate::rls::request(&["k"])), true)
        .unwrap();
    assert_eq!(soon("the answer", answer).await.unwrap().status(), 200);
    assert!(!connection.is_finished());
}

#[tokio::test]
async fn reflection_lists_the_services_unless_it_is_off() {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    let list = || ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let fixture = Fixture::start(&[]).await;
    let mut client = ServerReflectionClient::new(fixture.channel().await);
    let mut answers = client
        .server_reflection_info(tokio_stream::once(list()))
        .await
        .unwrap()
        .into_inner();
    let answer = answers.next().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(listed)) = answer.message_response else {
        panic!("{answer:?}");
    };
    let names: Vec<&str> = listed
        .service
        .iter()
        .map(|service| &*service.name)
        .collect();
    assert!(
        names.contains(&RLS) && names.contains(&"grpc.health.v1.Health"),
        "{names:?}"
    );

    let fixture = Fixture::start(&["grpc.reflection=false"]).await;
    let mut client = ServerReflectionClient::new(fixture.channel().await);
    let off = client
        .server_reflection_info(tokio_stream::once(list()))
        .await
        .unwrap_err();
    assert_eq!(off.code(), Code::Unimplemented);
}

#[tokio::test]
async fn a_client_that_dawdles_over_a_head_is_let_go() {
    let fixture = Fixture::start(&["http.header_timeout_ms=100"]).await;
    for start in [&b""[..], b"G", b"GET /live HT", b"PRI *"] {
        let mut stream = TcpStream::connect(fixture.http()).await.unwrap();
        stream.write_all(start).await.unwrap();
        let mut answer = Vec::new();
        let ended = soon("the end", stream.read_to_end(&mut answer)).await;
        assert!(ended.is_err() || answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"));
    }
}

#[tokio::test]
async fn heads_over_the_bounds_are_refused() {
    let fixture = Fixture::start(&["http.max_header_bytes=8192", "http.max_headers=16"]).await;
    let long = format!("x: {}\r\n", "a".repeat(20_000));
    let many: String = (0..30).map(|n| format!("x{n}: y\r\n")).collect();
    for fields in [long, many] {
        let mut stream = TcpStream::connect(fixture.http()).await.unwrap();
        let head = format!("GET /live HTTP/1.1\r\nHost: test\r\n{fields}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = soon("the answer", stream.read_to_end(&mut answer)).await;
        assert!(
            answer.starts_with(b"HTTP/1.1 431"),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    let fine = soon("the answer", get(fixture.http(), "/live"))
        .await
        .unwrap();
    assert_eq!(fine.0, 200);
    until("both are counted", async || {
        bad_requests(&fixture).await == 2
    })
    .await;
}

/// Answered by the parser, which no handler hears of.
#[tokio::test]
async fn what_is_not_http_is_refused_and_counted() {
    let fixture = Fixture::start(&[]).await;
    for field in ["x: a\u{1}b", "x: a\u{7f}b", "x y: z"] {
        let mut stream = TcpStream::connect(fixture.http()).await.unwrap();
        let head = format!("GET /v1/check?mode=403 HTTP/1.1\r\nHost: test\r\n{field}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = soon("the answer", stream.read_to_end(&mut answer)).await;
        assert!(answer.starts_with(b"HTTP/1.1 400"), "{field:?}");
    }
    until("all are counted", async || {
        bad_requests(&fixture).await == 3
    })
    .await;
}

async fn bad_requests(fixture: &Fixture) -> u64 {
    let (_, scrape) = get(fixture.admin(), "/metrics").await.unwrap();
    let name = "throttle_error_total{kind=\"bad_request\"} ";
    let line = scrape.lines().find_map(|line| line.strip_prefix(name));
    line.expect("a count of bad requests").parse().unwrap()
}

/// Sends this process a signal, which only a node that runs in it listens for.
pub fn signal(signal: Signal) {
    kill_process(getpid(), signal).unwrap();
}

fn grace(ms: u64) -> Vec<String> {
    vec![format!("drain.grace_ms={ms}")]
}

/// Runs a node in this process and gives its addresses.
async fn run(
    settings: &[String],
) -> (
    Addresses,
    tokio::task::JoinHandle<Result<Exit, leasehold_node::serve::RunError>>,
) {
    let (ready, addresses) = tokio::sync::oneshot::channel();
    let settings = settings.to_owned();
    let running = tokio::spawn(async move {
        let mut given: Vec<String> = ["http", "grpc", "admin"]
            .map(|door| format!("{door}.listen=127.0.0.1:0"))
            .into();
        given.push("table.live_buckets=1000".to_owned());
        given.extend(settings);
        let config = Loaded::read(None, [], &given).unwrap().config;
        leasehold_node::serve::run(
            &config,
            |_| Ok(()),
            |addresses| ready.send(addresses).unwrap(),
        )
        .await
    });
    match soon("readiness", addresses).await {
        Ok(addresses) => (addresses, running),
        Err(_) => panic!("{:?}", running.await),
    }
}

#[tokio::test]
async fn a_signal_drains_and_a_second_one_ends_at_once() {
    let (addresses, running) = run(&grace(0)).await;
    assert_eq!(get(addresses.http.unwrap(), "/ready").await.unwrap().0, 200);
    signal(Signal::TERM);
    let exit = soon("the end", running).await.unwrap().unwrap();
    assert_eq!(exit, Exit::Drained { cut_off: 0 });

    let (addresses, running) = run(&grace(3_600_000)).await;
    let http = addresses.http.unwrap();
    signal(Signal::INT);
    until("/ready is 503", || async {
        get(http, "/ready").await.unwrap().0 == 503
    })
    .await;
    signal(Signal::TERM);
    assert_eq!(
        soon("the end", running).await.unwrap().unwrap(),
        Exit::Hurried
    );
    until("it is gone", || async {
        TcpStream::connect(http).await.is_err()
    })
    .await;
}

#[test]
fn a_welcome_names_what_is_on() {
    let http = "127.0.0.1:8080".parse().unwrap();
    let text = welcome::text(Addresses {
        http: Some(http),
        ..Addresses::default()
    });
    assert!(text.contains("http://127.0.0.1:8080/v1/check"), "{text}");
    assert!(
        !text.contains("metrics") && !text.contains("grpcurl"),
        "{text}"
    );
}

#[tokio::test]
async fn counts_in_a_file_outlast_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let policy = "version: 1\nrules:\n\
                  - name: per-user\n  when: { domain: api }\n  by: {descriptor: user}\n  limits: [2 per 1h]\n";
    std::fs::write(path("policy.yaml"), policy).unwrap();
    let mut settings = grace(0);
    settings.push(format!("policy.path={}", path("policy.yaml")));
    settings.push(format!("table.path={}", path("table")));
    for (life, remaining) in [1, 0].into_iter().enumerate() {
        let (addresses, running) = run(&settings).await;
        let answer = ask(channel(addresses.grpc.unwrap()).await, &["a"])
            .await
            .unwrap();
        assert_eq!(answer.overall_code(), wire::rls::Code::Ok, "life {life}");
        assert_eq!(answer.statuses[0].limit_remaining, remaining, "life {life}");
        signal(Signal::TERM);
        soon("the end", running).await.unwrap().unwrap();
    }
    let (addresses, running) = run(&settings).await;
    let answer = ask(channel(addresses.grpc.unwrap()).await, &["a"])
        .await
        .unwrap();
    assert_eq!(answer.overall_code(), wire::rls::Code::OverLimit);
    signal(Signal::TERM);
    soon("the end", running).await.unwrap().unwrap();
}
