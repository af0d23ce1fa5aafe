//! What a question may be: what is missing, wrong, too large or slipped in by a client is refused and named.

use super::*;

#[tokio::test]
async fn a_client_cannot_choose_what_is_asked() {
    let bench = Bench::new(&by_path(1));
    let with = |extra: &[(&'static str, &'static str)]| [NGINX, extra].concat();
    for (fields, field) in [
        (with(&[("x-forwarded-uri", "/cheap")]), "x-original-uri"),
        (with(&[("x-original-uri", "/cheap")]), "x-original-uri"),
        (
            with(&[("x-forwarded-method", "OPTIONS")]),
            "x-original-method",
        ),
        (with(&[("x-forwarded-host", "a, b")]), "x-forwarded-host"),
    ] {
        let reply = bench.ask("", &fields).await;
        assert_eq!(
            (reply.status, reply.json()["field"].as_str()),
            (400, Some(field))
        );
    }
    // Nor by a body in JSON, if the proxy sends it along.
    let mut request = question("", NGINX);
    *request.method_mut() = http::Method::POST;
    request
        .headers_mut()
        .insert("content-type", "application/json".parse().expect("a value"));
    *request.body_mut() = Body::from(r#"{"path":"/cheap","hits":0}"#);
    assert_eq!(
        bench.send(request).await.field("x-ratelimit-remaining"),
        Some("0")
    );
    // Nor by the query, if the proxy sends it along: it would set its own price.
    let fields = [
        ("x-forwarded-method", "GET"),
        ("x-forwarded-uri", "/things?hits=0"),
    ];
    let reply = bench.ask("?hits=0", &fields).await;
    assert_eq!(
        (reply.status, reply.json()["field"].as_str()),
        (400, Some("hits"))
    );
}

/// Caddy's `forward_auth` as it is short: the client's query stands in the question too.
#[tokio::test]
async fn a_clients_query_in_the_question_means_nothing() {
    let bench = Bench::new(&by_path(2));
    for (query, status) in [("?page=2", 200), ("?hits=0&page=2", 200), ("?x", 429)] {
        let uri = format!("/things{query}");
        let fields = [("x-forwarded-method", "GET"), ("x-forwarded-uri", &*uri)];
        assert_eq!(bench.ask(query, &fields).await.status, status, "{query}");
    }
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_named() {
    let bench = Bench::new(&by_path(1));
    for (query, fields, named) in [
        ("", &[][..], "X-Original-Method or X-Forwarded-Method"),
        ("", &NGINX[..2], "X-Original-URI or X-Forwarded-Uri"),
        ("?hits=many", NGINX, "hits"),
        ("?mode=500", NGINX, "mode"),
        ("?verbose", NGINX, "query"),
    ] {
        let reply = bench.ask(query, fields).await;
        assert_eq!(
            (reply.status, reply.json()["field"].as_str()),
            (400, Some(named))
        );
        assert_eq!(reply.field("cache-control"), Some("no-store"));
    }
    let reply = bench.ask_json(&json!({"paht": "/"})).await;
    assert_eq!(
        (reply.status, reply.json()["field"].as_str()),
        (400, Some("paht"))
    );
    let mut request = question("", NGINX);
    *request.method_mut() = http::Method::DELETE;
    let reply = bench.send(request).await;
    assert_eq!(
        (reply.status, reply.field("allow")),
        (405, Some("GET, HEAD, POST"))
    );
    // Nothing was charged.
    assert_eq!(bench.ask("", NGINX).await.status, 200);
    let scrape = series(&bench.telemetry.scrape(&TableStats::default()));
    assert_eq!(scrape[r#"throttle_error_total{kind="bad_request"}"#], 6.0);
    assert_eq!(scrape[r#"throttle_error_total{kind="not_served"}"#], 1.0);
}

/// Rules for methods and paths would not apply to such a question, and it would be allowed.
#[tokio::test]
async fn a_program_must_say_what_rules_choose_by() {
    let bench = Bench::new(&by_path(1));
    for (question, named) in [
        (json!({}), "method"),
        (json!({"path": "/x"}), "method"),
        (json!({"method": "GET"}), "path"),
        (json!({"domain": "d"}), "method"),
    ] {
        let reply = bench.ask_json(&question).await;
        assert_eq!(
            (reply.status, reply.json()["field"].as_str()),
            (400, Some(named)),
            "{question}"
        );
    }
    let entries =
        json!({"domain": "d", "hits": 0, "entries": [{"key": "path", "value": "/things"}]});
    assert_eq!(bench.ask_json(&entries).await.status, 200);
}

/// A client's body and its type, handed on by a proxy, are no question: only POST asks in JSON.
#[tokio::test]
async fn a_get_never_asks_in_json() {
    let bench = Bench::new(&by_path(1));
    let asked = |method: http::Method| {
        let request = Request::builder()
            .method(method)
            .uri("/v1/check")
            .header("content-type", "application/json")
            .body(Body::from(r#"{"method":"GET","path":"/cheap","hits":0}"#));
        bench.send(request.expect("a request"))
    };
    let reply = asked(http::Method::GET).await;
    assert_eq!(
        (reply.status, reply.json()["field"].as_str()),
        (400, Some("X-Original-Method or X-Forwarded-Method"))
    );
    assert_eq!(asked(http::Method::HEAD).await.status, 400);
    assert_eq!(asked(http::Method::POST).await.status, 200);
}

/// G2: too large is never taken for over the limit.
#[tokio::test]
async fn a_body_over_the_bound_is_413() {
    let bench = Bench::new(&by_path(1));
    let sizes = [
        (MOST_BODY_BYTES, 400),
        (MOST_BODY_BYTES + 1, 413),
        (5_000_000, 413),
    ];
    for (bytes, status) in sizes {
        for declared in [true, false] {
            let body = if declared {
                Body::from(vec![b' '; bytes])
            } else {
                Body::new(OneChunk(Some(vec![b' '; bytes].into())))
            };
            let request = Request::post("/v1/check").header("content-type", "application/json");
            let reply = bench.send(request.body(body).expect("a request")).await;
            assert_eq!(
                (reply.status, reply.json()["field"].as_str()),
                (status, Some("body"))
            );
            assert_eq!(reply.field("retry-after"), None);
        }
    }
}

/// One chunk of unknown length.
struct OneChunk(Option<bytes::Bytes>);

impl hyper::body::Body for OneChunk {
    type Data = bytes::Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<bytes::Bytes>, std::io::Error>>> {
        let frame = self
            .0
            .take()
            .map(|chunk| Ok(hyper::body::Frame::data(chunk)));
        std::task::Poll::Ready(frame)
    }
}

/// K8, K10, K11: keys of any bytes and length, and headers given twice, over a real connection.
#[tokio::test]
async fn odd_bytes_over_a_connection() {
    let mut policy = by_path(1000);
    policy
        .rules
        .push(rule("per-key", KeySource::ApiKey, vec![limit(1, 60_000)]));
    let bench = Bench::new(&policy);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let service =
        check::routes(Arc::clone(&bench.check)).into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async move { axum::serve(listener, service).await });

    let send = async |head: Vec<u8>| {
        let mut stream = tokio::net::TcpStream::connect(address)
            .await
            .expect("a listener");
        stream.write_all(&head).await.expect("a peer that reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.expect("an answer");
        String::from_utf8_lossy(&answer).into_owned()
    };
    let ask = async |method: &str, uri: &[u8], key: &[u8]| {
        let mut head =
            format!("{method} /v1/check HTTP/1.1\r\nhost: a\r\nconnection: close\r\n").into_bytes();
        head.extend_from_slice(b"x-original-method: GET\r\nx-original-uri: ");
        head.extend_from_slice(uri);
        head.extend_from_slice(b"\r\nx-api-key: ");
        head.extend_from_slice(key);
        head.extend_from_slice(b"\r\n\r\n");
        send(head).await
    };
    let status = |answer: &str| answer.split(' ').nth(1).unwrap_or("none").to_owned();

    // A key of 300 bytes, one that is no text, one in Cyrillic: each its own bucket, each limited.
    for key in [
        &[b'k'; 300][..],
        b"\xff\xfe",
        "\u{430}\u{431}".as_bytes(),
        &[b'k'; 301],
    ] {
        assert_eq!(status(&ask("GET", b"/x", key).await), "200");
        assert_eq!(status(&ask("GET", b"/x", key).await), "429");
    }
    // A path that is no text.
    assert_eq!(status(&ask("GET", b"/\xff%00", b"path").await), "200");
    // NUL is no header.
    assert_eq!(status(&ask("GET", b"/x", b"a\0b").await), "400");
    // HEAD has the fields and no body.
    let head = ask("HEAD", b"/x", b"path").await;
    assert_eq!(status(&head), "429");
    assert!(
        head.contains("retry-after: 60\r\n") && head.ends_with("\r\n\r\n"),
        "{head}"
    );
    // A key given twice differently counts as absent: the shared bucket, which is limited too.
    let twice =
        b"GET /v1/check HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-original-method: GET\r\n\
                  x-original-uri: /x\r\nx-api-key: one\r\nx-api-key: two\r\n\r\n";
    assert_eq!(status(&send(twice.to_vec()).await), "200");
    assert_eq!(status(&send(twice.to_vec()).await), "429");
    server.abort();
}
