//! The connections that members make to this node: who each is from, and what it brings.
//!
//! Nothing is read from a connection before its certificate has proven a member of this cluster.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use lease::id::NodeId;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_stream::Stream;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status, Streaming};
use wire::peer::peer_server::{Peer as Service, PeerServer};
use wire::peer::{Ended, Frame};

use super::super::MOST_FRAME_BYTES;
use super::super::identity::{Identity, IdentityError};
use super::super::name::{ClusterName, NodeName};
use super::dial::{CLUSTER, NODE, WINDOW_BYTES};
use super::member::Peer;
use super::{Security, Shared};

/// The most connections at once that have not proven to be a member's.
const MOST_UNPROVEN: usize = 256;

/// The most calls at once on a connection. A member makes one.
const MOST_CALLS: u32 = 4;

/// What a frame's message adds to its envelope: a key and a length.
const FRAME_BYTES: usize = 16;

/// Why a connection is refused.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error("no handshake within the time")]
    TimedOut,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no certificate")]
    NoCertificate,
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("{0} is of another cluster")]
    OtherCluster(Box<Identity>),
    #[error("{0} is not a member")]
    NotAMember(Box<Identity>),
}

/// Accepts until the task is aborted.
pub(super) async fn run(socket: TcpListener, shared: Arc<Shared>) {
    let unproven = Arc::new(Semaphore::new(MOST_UNPROVEN));
    loop {
        let place = Arc::clone(&unproven).acquire_owned().await;
        let place = place.expect("the semaphore is never closed");
        match socket.accept().await {
            Ok((stream, _)) => {
                let (shared, (handle, own)) = (Arc::clone(&shared), oneshot::channel());
                let task = tokio::spawn(async move {
                    // A task learns its own handle only from outside.
                    if let Ok(own) = own.await {
                        serve(stream, &shared, own, place).await;
                    }
                });
                // It fails only if the task is gone already.
                let _ = handle.send(task.abort_handle());
            }
            Err(error) => {
                tracing::warn!(event = "accept_failed", surface = "peers", error_message = %error);
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn serve(
    stream: TcpStream,
    shared: &Arc<Shared>,
    own: tokio::task::AbortHandle,
    place: OwnedSemaphorePermit,
) {
    let from = stream.peer_addr();
    // A socket that refuses the option still works.
    let _ = stream.set_nodelay(true);
    match &shared.security {
        Security::Plaintext(_) => {
            let receiver = Receiver {
                shared: Arc::clone(shared),
                proven: None,
            };
            // Unproven to its end.
            speak(stream, receiver, shared).await;
            drop(place);
        }
        Security::Tls(credentials) => {
            let acceptor = TlsAcceptor::from(Arc::clone(&credentials.session().server));
            let handshake = timeout(shared.settings.connect_timeout, acceptor.accept(stream));
            let proven = match handshake.await {
                Err(_) => Err(Refusal::TimedOut),
                Ok(Err(error)) => Err(error.into()),
                Ok(Ok(stream)) => {
                    let certificate = stream.get_ref().1.peer_certificates();
                    let identity = certificate
                        .and_then(<[_]>::first)
                        .ok_or(Refusal::NoCertificate)
                        .and_then(|certificate| Ok(Identity::of(certificate)?));
                    identity
                        .and_then(|identity| member(shared, identity))
                        .map(|member| (stream, member))
                }
            };
            drop(place);
            match proven {
                Ok((stream, (id, peer))) => {
                    peer.accept(own);
                    let receiver = Receiver {
                        shared: Arc::clone(shared),
                        proven: Some((id, peer)),
                    };
                    speak(stream, receiver, shared).await;
                }
                Err(refusal) => {
                    shared.strangers.refused();
                    let from = from.map_or_else(|_| "unknown".to_owned(), |from| from.to_string());
                    tracing::warn!(
                        event = "peer_refused",
                        address = from,
                        error_message = %refusal
                    );
                }
            }
        }
    }
}

fn member(shared: &Shared, identity: Identity) -> Result<(NodeId, Arc<Peer>), Refusal> {
    if identity.cluster != shared.me().cluster {
        return Err(Refusal::OtherCluster(Box::new(identity)));
    }
    let id = identity.node.id();
    match shared.member(id) {
        Some(peer) if peer.name == identity.node => Ok((id, peer)),
        Some(_) | None => Err(Refusal::NotAMember(Box::new(identity))),
    }
}

/// Serves the one call.
async fn speak<S>(stream: S, receiver: Receiver, shared: &Shared)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service =
        PeerServer::new(receiver).max_decoding_message_size(MOST_FRAME_BYTES + FRAME_BYTES);
    let service = service_fn(move |request: http::Request<Incoming>| {
        let mut service = service.clone();
        async move {
            let answer = tonic::codegen::Service::call(&mut service, request).await;
            Ok::<Response<tonic::body::Body>, Infallible>(
                answer.unwrap_or_else(|never| match never {}),
            )
        }
    });
    let ended = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(MOST_CALLS)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .keep_alive_interval(shared.settings.keepalive_interval)
        .keep_alive_timeout(shared.settings.keepalive_timeout)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = ended {
        tracing::debug!(event = "connection_ended", surface = "peers", error_message = %error);
    }
}

/// Takes the frames of one connection.
struct Receiver {
    shared: Arc<Shared>,
    /// Who it is from. None where nobody proves it: then each call says so itself.
    proven: Option<(NodeId, Arc<Peer>)>,
}

impl Receiver {
    fn said(&self, metadata: &MetadataMap) -> Result<(NodeId, Arc<Peer>), Status> {
        let said = |key| {
            let value = metadata.get(key).and_then(|value| value.to_str().ok());
            value.ok_or_else(|| Status::invalid_argument(format!("{key} is absent")))
        };
        let wrong = |error: super::super::NameError| Status::invalid_argument(error.to_string());
        let identity = Identity {
            cluster: ClusterName::new(said(CLUSTER)?).map_err(wrong)?,
            node: NodeName::new(said(NODE)?).map_err(wrong)?,
        };
        member(&self.shared, identity).map_err(|refusal| {
            self.shared.strangers.refused();
            Status::permission_denied(refusal.to_string())
        })
    }
}

#[tonic::async_trait]
impl Service for Receiver {
    type SendStream = Receiving;

    async fn send(
        &self,
        request: Request<Streaming<Frame>>,
    ) -> Result<tonic::Response<Receiving>, Status> {
        let (from, peer) = match &self.proven {
            Some((from, peer)) => (*from, Arc::clone(peer)),
            None => self.said(request.metadata())?,
        };
        Ok(tonic::Response::new(Receiving {
            shared: Arc::clone(&self.shared),
            from,
            peer,
            frames: request.into_inner(),
        }))
    }
}

/// The answer to a call, which never says anything: making it is what takes the frames in.
struct Receiving {
    shared: Arc<Shared>,
    from: NodeId,
    peer: Arc<Peer>,
    frames: Streaming<Frame>,
}

/// After so many frames in one go, others have their turn.
const MOST_AT_ONCE: usize = 32;

impl Stream for Receiving {
    type Item = Result<Ended, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        for _ in 0..MOST_AT_ONCE {
            if self.peer.is_gone() {
                let gone = Status::permission_denied("no member any more");
                return Poll::Ready(Some(Err(gone)));
            }
            match Pin::new(&mut self.frames).poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Ready(Some(Err(status))) => {
                    // Too large, or no frame; or the connection broke, which is the sender's to count.
                    if matches!(
                        status.code(),
                        tonic::Code::OutOfRange
                            | tonic::Code::Internal
                            | tonic::Code::ResourceExhausted
                    ) {
                        self.peer.traffic.refused();
                    }
                    return Poll::Ready(Some(Err(status)));
                }
                Poll::Ready(Some(Ok(Frame { envelope }))) => {
                    let bytes = envelope.len();
                    let dropped = self.shared.deliver.deliver(self.from, envelope);
                    self.peer.traffic.received(bytes, dropped);
                }
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}
