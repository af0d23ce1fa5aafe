//! The connection that this node makes to one member, made again whenever it is gone.
//!
//! Nothing is sent before the other end has proven to be that member.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_stream::Stream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use wire::peer::peer_client::PeerClient;
use wire::peer::{Ended, Frame};

use super::super::Link;
use super::super::identity::{Identity, IdentityError};
use super::backoff::{Backoff, jittered};
use super::member::Peer;
use super::{Security, Shared};

/// How much may be on its way and not taken by the other end. A stuck member costs so much, and its queue.
pub(super) const WINDOW_BYTES: u32 = 1 << 20;

/// The names under which nodes say who they are where nobody proves it.
pub(super) const CLUSTER: &str = "leasehold-cluster";
pub(super) const NODE: &str = "leasehold-node";

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
enum DialError {
    #[error("no connection within the time")]
    TimedOut,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("the other end has no certificate")]
    NoCertificate,
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("the other end is {found}, not {expected}")]
    OtherNode {
        found: Box<Identity>,
        expected: Box<Identity>,
    },
    #[error("{0}")]
    Transport(#[from] tonic::transport::Error),
    #[error("{}: {}", .0.code(), .0.message())]
    Status(Box<Status>),
    #[error("the other end closed the connection")]
    Ended,
}

/// Why a connection that was made is over.
enum Over {
    Broken(DialError),
    NewCredentials,
}

/// Connects to a member, sends what its queue holds, and begins again, until the task is aborted.
pub(super) async fn keep_connected(shared: Arc<Shared>, peer: Arc<Peer>) {
    let settings = &shared.settings;
    let mut backoff = Backoff::new(settings.backoff_least, settings.backoff_most);
    let mut told = String::new();
    loop {
        peer.set_link(Link::Connecting);
        // Before the credentials are looked at, so that no change is missed.
        let mut changes = match &shared.security {
            Security::Tls(credentials) => Some(credentials.changes()),
            Security::Plaintext(_) => None,
        };
        let attempt = timeout(settings.connect_timeout, connect(&shared, &peer)).await;
        let error = match attempt.unwrap_or(Err(DialError::TimedOut)) {
            Ok(mut connection) => {
                peer.traffic.connected();
                peer.set_link(Link::Up);
                tracing::info!(event = "peer_connected", peer = %peer.name);
                told.clear();
                let since = Instant::now();
                let new_credentials = async {
                    let changed = match &mut changes {
                        Some(changes) => changes.changed().await.is_ok(),
                        None => false,
                    };
                    if changed {
                        // Not all connections of a fleet at once.
                        sleep(jittered(settings.backoff_least, (shared.chance)())).await;
                    } else {
                        std::future::pending::<()>().await;
                    }
                };
                let over = tokio::select! {
                    error = connection.run() => Over::Broken(error),
                    () = new_credentials => Over::NewCredentials,
                };
                drop(connection);
                if since.elapsed() >= settings.backoff_most {
                    backoff.reset();
                }
                match over {
                    Over::Broken(error) => error,
                    Over::NewCredentials => continue,
                }
            }
            Err(error) => error,
        };
        peer.set_link(Link::Down);
        peer.traffic.failed();
        if matches!(
            error,
            DialError::OtherNode { .. } | DialError::Identity(_) | DialError::NoCertificate
        ) {
            peer.traffic.refused();
        }
        // What waited is older than the attempt that failed; newer totals will follow.
        peer.traffic.dropped_out(peer.queue.clear());
        let why = error.to_string();
        if why == told {
            tracing::debug!(event = "peer_unreachable", peer = %peer.name, error_message = %why);
        } else {
            tracing::warn!(event = "peer_unreachable", peer = %peer.name, error_message = %why);
            told = why;
        }
        sleep(backoff.wait((shared.chance)())).await;
    }
}

/// Where a connection stands, for the stream that takes frames from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The member has not said yet that it takes frames from this node.
    Asking,
    /// It has.
    Accepted,
    /// The connection is given up: what it would still take from the queue is the next one's.
    Over,
}

#[derive(Debug)]
struct Course(Mutex<(Stage, Option<Waker>)>);

impl Course {
    fn state(&self) -> MutexGuard<'_, (Stage, Option<Waker>)> {
        // Nothing panics while it is locked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn go_on_to(&self, stage: Stage) {
        let waiting = {
            let mut state = self.state();
            state.0 = stage;
            state.1.take()
        };
        if let Some(waiting) = waiting {
            waiting.wake();
        }
    }
}

/// A connection to a member that has accepted this node.
struct Connection {
    course: Arc<Course>,
    answers: Streaming<Ended>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.course.go_on_to(Stage::Over);
    }
}

impl Connection {
    /// Waits for its end.
    async fn run(&mut self) -> DialError {
        match self.answers.message().await {
            Ok(Some(Ended {}) | None) => DialError::Ended,
            Err(status) => DialError::Status(Box::new(status)),
        }
    }
}

async fn connect(shared: &Shared, peer: &Arc<Peer>) -> Result<Connection, DialError> {
    let stream = TcpStream::connect(&peer.address).await?;
    stream.set_nodelay(true)?;
    let expected = Identity {
        cluster: shared.me().cluster.clone(),
        node: peer.name.clone(),
    };
    let channel = match &shared.security {
        Security::Plaintext(_) => {
            if !stream.peer_addr()?.ip().is_loopback() {
                let error = "`peers.insecure` demands loopback addresses";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, error).into());
            }
            channel(shared, stream).await?
        }
        Security::Tls(credentials) => {
            let connector = TlsConnector::from(Arc::clone(&credentials.session().client));
            // The name is neither sent nor checked: who the other end is, is checked below.
            let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
            let stream = connector.connect(name, stream).await?;
            let (_, session) = stream.get_ref();
            let certificate = session
                .peer_certificates()
                .and_then(<[_]>::first)
                .ok_or(DialError::NoCertificate)?;
            let found = Identity::of(certificate)?;
            if found != expected {
                return Err(DialError::OtherNode {
                    found: Box::new(found),
                    expected: Box::new(expected),
                });
            }
            channel(shared, stream).await?
        }
    };
    let course = Arc::new(Course(Mutex::new((Stage::Asking, None))));
    let frames = Frames {
        peer: Arc::clone(peer),
        course: Arc::clone(&course),
    };
    let mut request = Request::new(frames);
    if let Security::Plaintext(me) = &shared.security {
        let metadata = request.metadata_mut();
        for (key, name) in [(CLUSTER, me.cluster.as_str()), (NODE, me.node.as_str())] {
            metadata.insert(key, name.parse().expect("names are plain ASCII"));
        }
    }
    // It answers before the first frame. Until then it may still refuse this node's certificate.
    let answer = PeerClient::new(channel)
        .send(request)
        .await
        .map_err(|status| DialError::Status(Box::new(status)))?;
    course.go_on_to(Stage::Accepted);
    Ok(Connection {
        course,
        answers: answer.into_inner(),
    })
}

/// HTTP/2 on a stream that is there already.
async fn channel<S>(shared: &Shared, stream: S) -> Result<Channel, DialError>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut stream = Some(TokioIo::new(stream));
    let once = tower::service_fn(move |_| {
        // A second one would not have been checked.
        let stream = stream.take().ok_or(io::ErrorKind::NotConnected);
        std::future::ready(stream.map_err(io::Error::from))
    });
    Ok(Endpoint::from_static("http://peer")
        .http2_keep_alive_interval(shared.settings.keepalive_interval)
        .keep_alive_timeout(shared.settings.keepalive_timeout)
        .keep_alive_while_idle(true)
        .connect_with_connector(once)
        .await?)
}

/// What is sent: the frames of the queue, once the member has accepted this node.
struct Frames {
    peer: Arc<Peer>,
    course: Arc<Course>,
}

impl Stream for Frames {
    type Item = Frame;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Frame>> {
        {
            let mut state = self.course.state();
            match state.0 {
                Stage::Accepted => {}
                Stage::Over => return Poll::Ready(None),
                Stage::Asking => {
                    state.1 = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
        }
        self.peer.queue.poll_pop(context).map(|frame| {
            let envelope = frame?;
            self.peer.traffic.sent(envelope.len());
            Some(Frame { envelope })
        })
    }
}
