//! One socket with its buffers. It never blocks and never decides when to send.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::{Dialect, Finished};

/// A connection and how it speaks.
pub struct Connection {
    socket: TcpStream,
    dialect: Box<dyn Dialect>,
    out: Vec<u8>,
    input: Vec<u8>,
    in_flight: usize,
}

impl Connection {
    /// Connects, and prepares the greeting.
    pub fn open(address: SocketAddr, mut dialect: Box<dyn Dialect>) -> io::Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
        let mut out = Vec::new();
        dialect.greet(&mut out);
        Ok(Self {
            socket,
            dialect,
            out,
            input: Vec::new(),
            in_flight: 0,
        })
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub fn is_free(&self) -> bool {
        self.dialect.is_free()
    }

    /// Puts a request into the outgoing buffer.
    pub fn send(&mut self, number: u64, due: u64) {
        self.dialect.send(number, due, &mut self.out);
        self.in_flight += 1;
    }

    /// Writes what is outgoing, as far as the socket takes it.
    pub fn flush(&mut self) -> io::Result<()> {
        while !self.out.is_empty() {
            match self.socket.write(&self.out) {
                Ok(written) => {
                    self.out.drain(..written);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads all there is, a chunk at a time, and pushes what is finished.
    pub fn receive(
        &mut self,
        chunk: &mut [u8],
        finished: &mut Vec<Finished>,
    ) -> Result<(), String> {
        let before = finished.len();
        loop {
            match self.socket.read(chunk) {
                Ok(0) => return Err("the server closed the connection".to_owned()),
                Ok(length) => {
                    self.understand(&chunk[..length], finished)?;
                    // A short read emptied the socket; what comes after it is an event of its own.
                    if length < chunk.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        self.in_flight -= finished.len() - before;
        Ok(())
    }

    fn understand(&mut self, chunk: &[u8], finished: &mut Vec<Finished>) -> Result<(), String> {
        if self.input.is_empty() {
            let used = self.dialect.read(chunk, &mut self.out, finished)?;
            self.input.extend_from_slice(&chunk[used..]);
        } else {
            self.input.extend_from_slice(chunk);
            let used = self.dialect.read(&self.input, &mut self.out, finished)?;
            self.input.drain(..used);
        }
        Ok(())
    }
}
