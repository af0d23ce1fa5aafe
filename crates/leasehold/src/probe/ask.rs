//! Asking a node how it stands in its fleet: `GET /fleet` on its operators' surface.
//!
//! Never trusts what answers: time and size are bounded, and what is no such answer is said to be none.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_util::rt::TokioIo;
use node::fleet::Answer;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The most bytes of an answer. One with every list full has a tenth of it.
const MOST_BYTES: usize = 4 << 20;

/// Where a node's operators' surface is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeUrl {
    /// As DNS or an address family knows it, an IPv6 address without brackets.
    host: String,
    port: u16,
    /// `host:port`, as it is written in a URL.
    authority: String,
}

/// Why a text does not say where a node is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It is nothing like it.
    #[error("{} is no URL of a node: {RIGHT}", shown(.0))]
    NotAUrl(String),
    /// Another scheme.
    #[error("{}: nodes speak plain HTTP on this surface, so it must begin with http://", shown(.0))]
    NotHttp(String),
    /// No port.
    #[error("{}: the port is missing: {RIGHT}", shown(.0))]
    NoPort(String),
    /// A path or more.
    #[error("{}: nothing may follow the port, the path is always /fleet", shown(.0))]
    PathGiven(String),
    /// Credentials.
    #[error("a URL with a user's name: nodes ask for none on this surface")]
    UserGiven,
}

/// What would be right.
const RIGHT: &str = "http://HOST:PORT of its `admin.listen`";

/// A text of anybody's, for a message.
fn shown(text: &str) -> String {
    const MOST: usize = 200;
    let mut start: String = text.chars().take(MOST).collect();
    if start.len() < text.len() {
        start.push_str("...");
    }
    format!("{start:?}")
}

impl FromStr for NodeUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let given = || text.to_owned();
        let uri = if text.contains("://") {
            text.parse::<Uri>()
        } else {
            format!("http://{text}").parse::<Uri>()
        };
        let uri = uri.map_err(|_| UrlError::NotAUrl(given()))?;
        if uri.scheme_str() != Some("http") {
            return Err(UrlError::NotHttp(given()));
        }
        let authority = uri.authority().ok_or_else(|| UrlError::NotAUrl(given()))?;
        if authority.as_str().contains('@') {
            return Err(UrlError::UserGiven);
        }
        if !matches!(uri.path(), "" | "/" | "/fleet") || uri.query().is_some() {
            return Err(UrlError::PathGiven(given()));
        }
        let host = authority.host();
        let host = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'))
            .unwrap_or(host);
        if host.is_empty() {
            return Err(UrlError::NotAUrl(given()));
        }
        let port = match authority.port() {
            None => return Err(UrlError::NoPort(given())),
            Some(port) => port.as_str().parse::<u16>().ok().filter(|port| *port != 0),
        };
        Ok(Self {
            host: host.to_owned(),
            port: port.ok_or_else(|| UrlError::NotAUrl(given()))?,
            authority: authority.as_str().to_owned(),
        })
    }
}

impl fmt::Display for NodeUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority)
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// Nothing within the time.
    #[error("no answer within {} ms", .0.as_millis())]
    Late(Duration),
    /// The connection did not come about.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke off, or what came is not HTTP.
    #[error("no HTTP answer: {0}")]
    Http(String),
    /// It is of no fleet.
    #[error("the node there is of no fleet (`fleet.members` is empty)")]
    NoFleet,
    /// It is going.
    #[error("the node there has left its fleet")]
    Left,
    /// Anything else.
    #[error("answers {0}: is this the operators' surface (`admin.listen`) of a node?")]
    Status(StatusCode),
    /// The body is too large.
    #[error("the answer is larger than {MOST_BYTES} bytes")]
    TooLarge,
    /// The body is something else.
    #[error("the answer is not that of a node of this version: {0}")]
    NotAnAnswer(String),
}

/// What asking one node came to.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Where.
    pub url: NodeUrl,
    /// What it said.
    pub answer: Result<Answer, AskError>,
}

/// Asks all nodes at once; the answers come in the order of the URLs.
pub async fn ask_all(urls: &[NodeUrl], within: Duration) -> Vec<Asked> {
    let mut tasks = JoinSet::new();
    for (index, url) in urls.iter().cloned().enumerate() {
        tasks.spawn(async move {
            let answer = tokio::time::timeout(within, ask(&url)).await;
            let answer = answer.unwrap_or(Err(AskError::Late(within)));
            (index, Asked { url, answer })
        });
    }
    let mut asked = tasks.join_all().await;
    asked.sort_by_key(|(index, _)| *index);
    asked.into_iter().map(|(_, asked)| asked).collect()
}

async fn ask(url: &NodeUrl) -> Result<Answer, AskError> {
    let broken = |error: hyper::Error| AskError::Http(error.to_string());
    let stream = TcpStream::connect((url.host.as_str(), url.port))
        .await
        .map_err(|error| AskError::Connect(error.to_string()))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let mut connection = std::pin::pin!(connection);
    let exchange = async {
        let request = Request::get("/fleet")
            .header(HOST, &url.authority)
            .body(Empty::<Bytes>::new())
            .map_err(|error| AskError::Http(error.to_string()))?;
        let (head, body) = sender
            .send_request(request)
            .await
            .map_err(broken)?
            .into_parts();
        match head.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Err(AskError::NoFleet),
            StatusCode::SERVICE_UNAVAILABLE => return Err(AskError::Left),
            other => return Err(AskError::Status(other)),
        }
        let body = Limited::new(body, MOST_BYTES).collect().await;
        body.map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(error) => broken(*error),
            Err(_) => AskError::TooLarge,
        })
    };
    let mut exchange = std::pin::pin!(exchange);
    let body = tokio::select! {
        biased;
        body = &mut exchange => body?,
        ended = &mut connection => {
            ended.map_err(broken)?;
            // What had come in before the end is with the exchange now.
            exchange.await?
        }
    };
    serde_json::from_slice(&body.to_bytes())
        .map_err(|error| AskError::NotAnAnswer(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_as_people_write_them() {
        for (text, host, port, shown) in [
            (
                "http://127.0.0.1:8082",
                "127.0.0.1",
                8082,
                "http://127.0.0.1:8082",
            ),
            ("127.0.0.1:8082", "127.0.0.1", 8082, "http://127.0.0.1:8082"),
            (
                "http://node-1.example:1/",
                "node-1.example",
                1,
                "http://node-1.example:1",
            ),
            ("http://[::1]:8082/fleet", "::1", 8082, "http://[::1]:8082"),
        ] {
            let url: NodeUrl = text.parse().unwrap();
            assert_eq!((url.host.as_str(), url.port), (host, port), "{text}");
            assert_eq!(url.to_string(), shown);
        }
    }

    #[test]
    fn what_is_no_url_is_refused_with_what_would_be_right() {
        for (text, expected) in [
            ("", "http://HOST:PORT"),
            ("http://", "http://HOST:PORT"),
            (":8082", "http://HOST:PORT"),
            ("http://h", "the port is missing"),
            ("h:0", "http://HOST:PORT"),
            ("h:65536", "http://HOST:PORT"),
            ("h:x", "http://HOST:PORT"),
            ("a b:1", "http://HOST:PORT"),
            ("https://h:1", "must begin with http://"),
            ("h:1/metrics", "nothing may follow the port"),
            ("h:1?x=1", "nothing may follow the port"),
            ("http://me:word@h:1", "a user's name"),
        ] {
            let error = text.parse::<NodeUrl>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
            assert!(!error.contains("word"), "{error}");
        }
        let huge = "x".repeat(1 << 20).parse::<NodeUrl>().unwrap_err();
        assert!(huge.to_string().len() < 400);
    }
}
