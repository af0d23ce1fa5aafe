//! gRPC over HTTP/2 (RFC 9113), as much of it as a unary call needs.
//!
//! Header fields go into the server's dynamic table once and are referred to after that (RFC 7541), as real clients
//! do. Answers are judged by their message; header blocks are not read, so a trailers-only answer is a failure.

use std::collections::VecDeque;

use super::message::Message;
use super::{Answer, Dialect, Finished};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEADER: usize = 9;
/// The largest window.
const WINDOW_MAX: u32 = 0x7FFF_FFFF;
/// The window that either side starts with.
const WINDOW_START: i64 = 65_535;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// Reads a decision from an answer's protobuf message.
pub type Judge = fn(&[u8]) -> Answer;

/// `RateLimitResponse`: `overall_code` comes first; 1 is OK, 2 OVER_LIMIT.
pub fn judge_rls(message: &[u8]) -> Answer {
    match message {
        [0x08, 1, ..] => Answer::Admitted,
        [0x08, 2, ..] => Answer::Refused,
        _ => Answer::Failed,
    }
}

/// `ThrottleResponse`: `allowed` comes first and is left out if false.
pub fn judge_throttlecrab(message: &[u8]) -> Answer {
    match message {
        [0x08, 1, ..] => Answer::Admitted,
        [0x10, ..] => Answer::Refused,
        _ => Answer::Failed,
    }
}

struct Stream {
    due: u64,
    /// Set by its message.
    answer: Option<Answer>,
    done: bool,
}

/// One connection that calls one method.
pub struct Grpc {
    message: Message,
    judge: Judge,
    path: &'static str,
    /// Whether the header fields are in the server's table.
    introduced: bool,
    /// The streams from `first` on, by twos.
    streams: VecDeque<Stream>,
    first: u32,
    open: usize,
    max_open: usize,
    /// What the server still takes from this connection.
    window: i64,
    /// What it has sent since it was last told that it may send more.
    received: u32,
}

impl Grpc {
    /// Calls `path` with `message`.
    pub fn new(path: &'static str, message: Message, judge: Judge) -> Self {
        Self {
            message,
            judge,
            path,
            introduced: false,
            streams: VecDeque::new(),
            first: 1,
            open: 0,
            max_open: 100,
            window: WINDOW_START,
            received: 0,
        }
    }

    fn header_block(&mut self) -> Vec<u8> {
        // Static table: 3 is POST, 6 is http.
        let mut block = vec![0x83, 0x86];
        if self.introduced {
            // Dynamic table, newest first: te 62, content-type 63, :authority 64, :path 65.
            block.extend_from_slice(&[0x80 | 65, 0x80 | 64, 0x80 | 63, 0x80 | 62]);
            return block;
        }
        self.introduced = true;
        // Incremental indexing, the name by its number in the static table or in full.
        for (name, value) in [(4, self.path), (1, "bench"), (31, "application/grpc")] {
            block.push(0x40 | name);
            string(&mut block, value);
        }
        block.push(0x40);
        string(&mut block, "te");
        string(&mut block, "trailers");
        block
    }

    fn stream(&mut self, id: u32) -> Option<&mut Stream> {
        let at = id.checked_sub(self.first)? / 2;
        self.streams.get_mut(at as usize)
    }

    fn end(&mut self, id: u32, finished: &mut Vec<Finished>) {
        let Some(stream) = self.stream(id) else {
            return;
        };
        if stream.done {
            return;
        }
        stream.done = true;
        finished.push((stream.due, stream.answer.unwrap_or(Answer::Failed)));
        self.open -= 1;
        while self.streams.front().is_some_and(|stream| stream.done) {
            self.streams.pop_front();
            self.first += 2;
        }
    }

    fn on_frame(
        &mut self,
        kind: u8,
        flags: u8,
        id: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
        finished: &mut Vec<Finished>,
    ) -> Result<(), String> {
        match kind {
            DATA => {
                let judge = self.judge;
                if let Some(stream) = self.stream(id)
                    && payload.len() >= 5
                {
                    stream.answer = Some(judge(&payload[5..]));
                }
                self.received += payload.len() as u32;
                if self.received > WINDOW_MAX / 4 {
                    frame(out, WINDOW_UPDATE, 0, 0, &self.received.to_be_bytes());
                    self.received = 0;
                }
            }
            SETTINGS if flags & ACK == 0 => {
                for setting in payload.chunks_exact(6) {
                    let value = u32_at(&setting[2..]);
                    match u16::from_be_bytes([setting[0], setting[1]]) {
                        3 => self.max_open = value as usize,
                        4 if (value as usize) < self.message.len() => {
                            return Err(format!("a stream takes only {value} bytes"));
                        }
                        _ => {}
                    }
                }
                frame(out, SETTINGS, ACK, 0, &[]);
            }
            PING if flags & ACK == 0 => frame(out, PING, ACK, 0, payload),
            RST_STREAM => self.end(id, finished),
            GOAWAY => return Err("the server sent GOAWAY".to_owned()),
            WINDOW_UPDATE if id == 0 => {
                self.window += i64::from(u32_at(payload) & WINDOW_MAX);
            }
            _ => {}
        }
        if flags & END_STREAM != 0 && (kind == DATA || kind == HEADERS) {
            self.end(id, finished);
        }
        Ok(())
    }
}

impl Dialect for Grpc {
    fn greet(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(PREFACE);
        // No push; streams may send as much as they like.
        let mut settings = vec![0, 2, 0, 0, 0, 0, 0, 4];
        settings.extend_from_slice(&WINDOW_MAX.to_be_bytes());
        frame(out, SETTINGS, 0, 0, &settings);
        let more = WINDOW_MAX - WINDOW_START as u32;
        frame(out, WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
    }

    fn is_free(&self) -> bool {
        self.open < self.max_open && self.window >= self.message.len() as i64
    }

    fn send(&mut self, number: u64, due: u64, out: &mut Vec<u8>) {
        let id = self.first + 2 * self.streams.len() as u32;
        let block = self.header_block();
        frame(out, HEADERS, END_HEADERS, id, &block);
        frame_header(out, self.message.len(), DATA, END_STREAM, id);
        self.message.write(number, out);
        self.window -= self.message.len() as i64;
        self.streams.push_back(Stream {
            due,
            answer: None,
            done: false,
        });
        self.open += 1;
    }

    fn read(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        finished: &mut Vec<Finished>,
    ) -> Result<usize, String> {
        let mut at = 0;
        while let Some(header) = input.get(at..at + FRAME_HEADER) {
            let length = (u32_at(header) >> 8) as usize;
            let start = at + FRAME_HEADER;
            let Some(payload) = input.get(start..start + length) else {
                break;
            };
            let id = u32_at(&header[5..]) & WINDOW_MAX;
            self.on_frame(header[3], header[4], id, payload, out, finished)?;
            at = start + length;
        }
        Ok(at)
    }
}

/// The first four bytes, big-endian; missing ones are zero.
fn u32_at(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .chain(&[0; 4])
        .take(4)
        .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, id: u32, payload: &[u8]) {
    frame_header(out, payload.len(), kind, flags, id);
    out.extend_from_slice(payload);
}

fn frame_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, id: u32) {
    out.extend_from_slice(&(length as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&id.to_be_bytes());
}

/// An HPACK string without Huffman coding; all of ours are under 127 bytes.
fn string(block: &mut Vec<u8>, text: &str) {
    block.push(text.len() as u8);
    block.extend_from_slice(text.as_bytes());
}
