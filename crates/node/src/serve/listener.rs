//! Accepting connections on one surface: bounded in number, closed gracefully.
//!
//! What is served on them is the caller's; this knows nothing of requests.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::drain::{Life, Phase};

/// Which surface a listener lets in to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// The check endpoint.
    Http,
    /// Envoy's rate limit service.
    Grpc,
    /// Metrics and health.
    Admin,
}

impl Door {
    /// Its name, as in the configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
            Self::Admin => "admin",
        }
    }
}

/// How many connections wait to be accepted before the kernel turns others away, which clients notice as delays of a
/// second and more. The kernel's own bound (`net.core.somaxconn`) may be lower.
const BACKLOG: u32 = 1024;

/// A socket that listens, not yet accepting.
#[derive(Debug)]
pub struct Listener {
    door: Door,
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens. To be called within a runtime.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn bind(door: Door, address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // So that a node that starts again need not wait for the connections of the one before to be forgotten.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let socket = socket.listen(BACKLOG)?;
        let address = socket.local_addr()?;
        Ok(Self {
            door,
            socket,
            address,
        })
    }

    /// What it lets in to.
    #[must_use]
    pub const fn door(&self) -> Door {
        self.door
    }

    /// Where it really listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Accepts until the node closes, then waits for the connections to end, at most for `patience`.
    ///
    /// `serve` must end soon after [`Phase::Closing`] once the calls under way on its connection have. Returns how
    /// many connections were cut off.
    pub async fn run<F>(
        self,
        most: usize,
        life: Life,
        patience: Duration,
        serve: impl Fn(TcpStream, SocketAddr) -> F,
    ) -> usize
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Self {
            door,
            socket,
            address: _,
        } = self;
        let places = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        let mut connections = JoinSet::new();
        let closing = life.reached(Phase::Closing);
        tokio::pin!(closing);
        let mut backoff = Backoff::default();
        loop {
            let next = async {
                let place = Arc::clone(&places).acquire_owned().await;
                (
                    place.expect("the semaphore is never closed"),
                    socket.accept().await,
                )
            };
            tokio::select! {
                () = &mut closing => break,
                (place, accepted) = next => match accepted {
                    Ok((stream, peer)) => {
                        backoff = Backoff::default();
                        // Answers are small and wanted at once. A socket that refuses the option still works.
                        let _ = stream.set_nodelay(true);
                        let served = serve(stream, peer);
                        connections.spawn(async move {
                            served.await;
                            drop(place);
                        });
                    }
                    Err(error) => {
                        let surface = door.name();
                        tracing::warn!(event = "accept_failed", surface, error_message = %error);
                        tokio::time::sleep(backoff.next()).await;
                    }
                },
                Some(ended) = connections.join_next() => tell(door, ended),
            }
        }
        drop(socket);
        let ended = tokio::time::timeout(patience, async {
            while let Some(ended) = connections.join_next().await {
                tell(door, ended);
            }
        });
        match ended.await {
            Ok(()) => 0,
            Err(_) => {
                let left = connections.len();
                connections.shutdown().await;
                left
            }
        }
    }
}

fn tell(door: Door, ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        let surface = door.name();
        tracing::error!(event = "connection_panicked", surface, error_message = %error);
    }
}

/// Waits between accepts that fail, as they do when the process has no file descriptors left.
struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(Duration::from_millis(5))
    }
}

impl Backoff {
    fn next(&mut self) -> Duration {
        let wait = self.0;
        self.0 = (wait * 2).min(Duration::from_secs(1));
        wait
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    /// More connect at once than the usual 128 places hold, and nobody accepts yet.
    #[tokio::test]
    async fn a_burst_of_connections_waits_its_turn() {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        assert!(most.trim().parse::<u32>().unwrap() >= 400, "{most}");
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let listener = Listener::bind(Door::Http, address).unwrap();
        let burst = async {
            let mut waiting = Vec::new();
            for _ in 0..300 {
                waiting.push(TcpStream::connect(listener.address()).await.unwrap());
            }
            waiting.len()
        };
        let connected = tokio::time::timeout(Duration::from_secs(10), burst).await;
        assert_eq!(connected, Ok(300));
    }

    #[tokio::test]
    async fn an_address_is_listened_at_once() {
        for address in [
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            (Ipv6Addr::LOCALHOST, 0).into(),
        ] {
            let first = Listener::bind(Door::Admin, address).unwrap();
            let again = Listener::bind(Door::Admin, first.address());
            assert_eq!(again.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        }
    }
}
