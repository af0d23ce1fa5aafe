//! Lines of bounded length from a stream. A longer line is told as such and skipped; it never grows the buffer.

use std::io::{self, BufRead};

/// The longest line that is read, in bytes, its end not counted. nginx's and Envoy's limits on headers keep real lines
/// well below it.
pub const MOST_LINE_BYTES: usize = 64 * 1024;

/// Gives the lines of a stream one by one.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    number: u64,
}

/// One step through the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'l> {
    /// A line without its end (`\n` or `\r\n`).
    Whole(&'l [u8]),
    /// A line of more than [`MOST_LINE_BYTES`]; it has been skipped.
    TooLong,
}

impl<R: BufRead> Lines<R> {
    /// Begins before the first line.
    pub const fn new(input: R) -> Self {
        Self {
            input,
            buffer: Vec::new(),
            number: 0,
        }
    }

    /// The number of the line given last, counted from 1; 0 before the first.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The next line; none at the end. A last line without an end is a line.
    ///
    /// # Errors
    /// What the stream fails with.
    pub fn advance(&mut self) -> io::Result<Option<Line<'_>>> {
        self.buffer.clear();
        let mut is_too_long = false;
        let mut any = false;
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                break;
            }
            any = true;
            let end = memchr::memchr(b'\n', available);
            let part = &available[..end.unwrap_or(available.len())];
            // One byte over the bound is kept, for a `\r` that is part of the end.
            if self.buffer.len() + part.len() > MOST_LINE_BYTES + 1 {
                is_too_long = true;
            } else if !is_too_long {
                self.buffer.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                break;
            }
        }
        if !any {
            return Ok(None);
        }
        self.number += 1;
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        Ok(Some(
            if is_too_long || self.buffer.len() > MOST_LINE_BYTES {
                Line::TooLong
            } else {
                Line::Whole(&self.buffer)
            },
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::BufReader;

    fn all(input: &[u8], capacity: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(BufReader::with_capacity(capacity, input));
        let mut all = Vec::new();
        while let Some(line) = lines.advance().unwrap() {
            all.push(match line {
                Line::Whole(line) => Some(line.to_vec()),
                Line::TooLong => None,
            });
        }
        assert_eq!(lines.number(), all.len() as u64);
        all
    }

    #[test]
    fn a_line_at_the_bound_is_read_and_one_byte_more_is_not() {
        let at = vec![b'a'; MOST_LINE_BYTES];
        let over = vec![b'b'; MOST_LINE_BYTES + 1];
        let far_over = vec![b'c'; 5 * MOST_LINE_BYTES];
        for end in ["\n", "\r\n"] {
            let mut input = Vec::new();
            for line in [&at, &over, &far_over, &at] {
                input.extend_from_slice(line);
                input.extend_from_slice(end.as_bytes());
            }
            let expected = vec![Some(at.clone()), None, None, Some(at.clone())];
            assert_eq!(all(&input, 8192), expected);
        }
    }

    #[test]
    fn the_buffer_stays_within_its_bound() {
        let input = vec![b'x'; 20 * MOST_LINE_BYTES];
        let mut lines = Lines::new(BufReader::with_capacity(1000, &input[..]));
        assert_eq!(lines.advance().unwrap(), Some(Line::TooLong));
        assert!(lines.buffer.capacity() <= 2 * MOST_LINE_BYTES + 2);
    }

    proptest! {
        #[test]
        fn lines_are_those_of_the_standard_split(
            input in proptest::collection::vec(
                prop_oneof![Just(b'\n'), Just(b'\r'), any::<u8>()], 0..200),
            capacity in 1_usize..40,
        ) {
            let mut expected: Vec<Vec<u8>> =
                input.split(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
            if expected.last().is_some_and(Vec::is_empty) {
                expected.pop();
            }
            let expected: Vec<_> = expected
                .into_iter()
                .map(|mut line| {
                    if line.last() == Some(&b'\r') {
                        line.pop();
                    }
                    Some(line)
                })
                .collect();
            prop_assert_eq!(all(&input, capacity), expected);
        }
    }
}
