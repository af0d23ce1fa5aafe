//! HTTP/1.1 with keep-alive, one request at a time: what a client of the protected API sends through Envoy.

use super::message::Message;
use super::{Answer, Dialect, Finished};

/// One connection.
pub struct Http1 {
    message: Message,
    due: Option<u64>,
}

impl Http1 {
    /// Sends `message`, a whole request.
    pub fn new(message: Message) -> Self {
        Self { message, due: None }
    }
}

impl Dialect for Http1 {
    fn greet(&mut self, _out: &mut Vec<u8>) {}

    fn is_free(&self) -> bool {
        self.due.is_none()
    }

    fn send(&mut self, number: u64, due: u64, out: &mut Vec<u8>) {
        self.message.write(number, out);
        self.due = Some(due);
    }

    fn read(
        &mut self,
        input: &[u8],
        _out: &mut Vec<u8>,
        finished: &mut Vec<Finished>,
    ) -> Result<usize, String> {
        let Some(head) = input.windows(4).position(|at| at == b"\r\n\r\n") else {
            return Ok(0);
        };
        let text = std::str::from_utf8(&input[..head]).map_err(|error| error.to_string())?;
        let mut lines = text.split("\r\n");
        let status = lines
            .next()
            .and_then(|line| line.split(' ').nth(1))
            .unwrap_or_default();
        let length: usize = lines
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .and_then(|(_, value)| value.trim().parse().ok())
            .ok_or("an answer without content-length")?;
        let end = head + 4 + length;
        if input.len() < end {
            return Ok(0);
        }
        let answer = match status {
            "200" => Answer::Admitted,
            "429" => Answer::Refused,
            _ => Answer::Failed,
        };
        finished.push((self.due.take().ok_or("an answer to nothing")?, answer));
        Ok(end)
    }
}
