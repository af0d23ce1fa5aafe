//! A client with an address of its own choice. It sends paths and header values exactly as given.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::net::TcpSocket;

/// Who asks.
#[derive(Clone, Copy)]
pub struct Client {
    address: IpAddr,
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    /// A header as text; fails the test if it is there twice or is no text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.get_all(name).iter();
        let first = values.next()?;
        assert!(values.next().is_none(), "{name} twice in {self:?}");
        Some(first.to_str().unwrap())
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

impl Client {
    /// A client at `127.0.0.host`. Proxies run at 127.0.0.1, which the tests' policies trust: clients are others.
    pub fn at(host: u8) -> Self {
        assert_ne!(host, 1, "the proxies' address");
        Self {
            address: Ipv4Addr::new(127, 0, 0, host).into(),
        }
    }

    /// Asks from where the proxies are.
    pub fn at_proxy() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
        }
    }

    /// GET, expecting an answer.
    pub async fn get(self, port: u16, target: &str) -> Reply {
        self.get_with(port, target, &[]).await
    }

    /// GET with headers, expecting an answer.
    pub async fn get_with(self, port: u16, target: &str, headers: &[(&str, &[u8])]) -> Reply {
        self.send(port, Method::GET, target, headers, Bytes::new())
            .await
            .unwrap_or_else(|error| panic!("GET {target} on port {port}: {error}"))
    }

    /// One request on a connection of its own.
    ///
    /// # Errors
    /// Whatever keeps a whole answer from coming.
    pub async fn send(
        self,
        port: u16,
        method: Method,
        target: &str,
        headers: &[(&str, &[u8])],
        body: Bytes,
    ) -> Result<Reply, Box<dyn std::error::Error + Send + Sync>> {
        let mut request = Request::builder().method(method).uri(target);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "api.example");
        }
        for (name, value) in headers {
            request = request.header(
                HeaderName::from_bytes(name.as_bytes())?,
                HeaderValue::from_bytes(value)?,
            );
        }
        let request = request.body(Full::new(body))?;

        let exchange = async {
            let socket = TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(self.address, 0))?;
            let stream = socket
                .connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
                .await?;
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
            let connection = tokio::spawn(connection);
            let (parts, body) = sender.send_request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            connection.abort();
            Ok(Reply {
                status: parts.status,
                headers: parts.headers,
                body,
            })
        };
        tokio::time::timeout(Duration::from_secs(20), exchange).await?
    }
}
