//! A piece of wire that can be cut: a TCP relay whose bytes stop, one way or both, as if packets were lost.
//!
//! Cut, it closes nothing, and takes connections that lead nowhere; mended, what had piled up arrives late. So both
//! ends see what a network does to them that drops packets, without being root.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Which ways bytes go. *Forward* is from who connects to who listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    pub forward: bool,
    pub backward: bool,
}

impl Open {
    pub const BOTH: Self = Self {
        forward: true,
        backward: true,
    };
    pub const FORWARD: Self = Self {
        forward: true,
        backward: false,
    };
    pub const BACKWARD: Self = Self {
        forward: false,
        backward: true,
    };
    pub const NEITHER: Self = Self {
        forward: false,
        backward: false,
    };
}

/// A relay on a port of its own.
pub struct Relay {
    pub port: u16,
    open: watch::Sender<Open>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Relays to a port of this machine, whether or not anything listens there yet.
    pub async fn to(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, seen) = watch::channel(Open::BOTH);
        Self {
            port,
            open,
            task: tokio::spawn(relay(listener, target, seen)),
        }
    }

    /// Cuts or mends.
    pub fn set(&self, open: Open) {
        self.open.send_replace(open);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn relay(listener: TcpListener, target: u16, open: watch::Receiver<Open>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let (near, _) = accepted.unwrap();
                connections.spawn(connection(near, target, open.clone()));
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(near: TcpStream, target: u16, mut open: watch::Receiver<Open>) {
    // A handshake needs both ways.
    if open.wait_for(|open| *open == Open::BOTH).await.is_err() {
        return;
    }
    let Ok(far) = TcpStream::connect(("127.0.0.1", target)).await else {
        return;
    };
    for stream in [&near, &far] {
        let _ = stream.set_nodelay(true);
    }
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let there = pass(near_in, far_out, open.clone(), |open| open.forward);
    let back = pass(far_in, near_out, open, |open| open.backward);
    // Either end's closing closes both, as a process's death does.
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut open: watch::Receiver<Open>,
    way: fn(&Open) -> bool,
) {
    let mut bytes = vec![0; 16 * 1024];
    loop {
        let Ok(count @ 1..) = from.read(&mut bytes).await else {
            // An end is a packet too.
            let _ = open.wait_for(way).await;
            return;
        };
        if open.wait_for(way).await.is_err() || to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}
