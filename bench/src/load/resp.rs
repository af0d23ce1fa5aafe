//! Redis' protocol, for one script that answers with an integer: 1 admits, 0 refuses.

use std::collections::VecDeque;

use super::message::{Message, Order};
use super::{Answer, Dialect, Finished};

/// One connection.
pub struct Resp {
    message: Message,
    due: VecDeque<u64>,
}

impl Resp {
    /// Calls `EVALSHA sha 1 k<number> limit window_ms`.
    pub fn evalsha(sha: &str, limit: u64, window_ms: u64, order: Order) -> Self {
        let (limit, window_ms) = (limit.to_string(), window_ms.to_string());
        let words = ["EVALSHA", sha, "1", "k00000000", &limit, &window_ms];
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        Self {
            message: Message::new(bytes.into_bytes(), order),
            due: VecDeque::new(),
        }
    }
}

impl Dialect for Resp {
    fn greet(&mut self, _out: &mut Vec<u8>) {}

    fn is_free(&self) -> bool {
        true
    }

    fn send(&mut self, number: u64, due: u64, out: &mut Vec<u8>) {
        self.message.write(number, out);
        self.due.push_back(due);
    }

    fn read(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        finished: &mut Vec<Finished>,
    ) -> Result<usize, String> {
        let mut used = 0;
        while let Some(end) = input[used..].windows(2).position(|at| at == b"\r\n") {
            let answer = match &input[used..used + end] {
                b":1" => Answer::Admitted,
                b":0" => Answer::Refused,
                _ => Answer::Failed,
            };
            finished.push((self.due.pop_front().ok_or("an answer to nothing")?, answer));
            used += end + 2;
        }
        Ok(used)
    }
}
