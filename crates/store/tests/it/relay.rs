//! A relay between a client and the server, which can lose what the server says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Passes bytes on, for as long as its test.
pub struct Relay {
    port: u16,
    /// Bytes of the server that still pass are counted by reads, each of which is an answer when one call at a time is
    /// made. Sequentially consistent throughout: this is a test.
    left: Arc<AtomicU64>,
}

impl Relay {
    pub async fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let left = Arc::new(AtomicU64::new(u64::MAX));
        let allowed = Arc::clone(&left);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else {
                    continue;
                };
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                tokio::spawn(
                    async move { tokio::io::copy(&mut from_client, &mut to_server).await },
                );
                let left = Arc::clone(&allowed);
                tokio::spawn(async move {
                    let mut bytes = vec![0; 1 << 16];
                    while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
                        let passes = left.fetch_update(
                            Ordering::SeqCst,
                            Ordering::SeqCst,
                            |left| match left {
                                0 => None,
                                u64::MAX => Some(u64::MAX),
                                more => Some(more - 1),
                            },
                        );
                        // What is lost in the middle of a stream ends it, once it is to pass again.
                        if passes.is_err() {
                            while left.load(Ordering::SeqCst) == 0 {
                                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
                            }
                            return;
                        }
                        if to_client.write_all(&bytes[..read]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, left }
    }

    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// After so many more answers of the server none passes.
    pub fn deafen_after(&self, answers: u64) {
        self.left.store(answers, Ordering::SeqCst);
    }

    /// All pass again, on new connections.
    pub fn heal(&self) {
        self.left.store(u64::MAX, Ordering::SeqCst);
    }
}
