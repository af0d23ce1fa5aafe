//! Several logs as one stream in the order of time. Each log is taken as it comes: a line that is out of order in its
//! log is out of order here, and no other log waits for it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::log::{LogError, LogReader, Record};

/// Logs, each with the number of the node that wrote it.
#[derive(Debug)]
pub struct Merge {
    logs: Vec<Log>,
    /// The logs that have a next record, by its time.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    /// The log whose record was given last: it is read on when the next one is asked for.
    given: Option<usize>,
}

#[derive(Debug)]
struct Log {
    node: usize,
    reader: LogReader,
    record: Record,
}

impl Merge {
    /// Begins at the start of every log.
    ///
    /// # Errors
    /// If the first record of a log cannot be read.
    pub fn new(logs: impl IntoIterator<Item = (usize, LogReader)>) -> Result<Self, LogError> {
        let mut merge = Self {
            logs: Vec::new(),
            next: BinaryHeap::new(),
            given: None,
        };
        for (node, reader) in logs {
            let record = Record::default();
            merge.logs.push(Log {
                node,
                reader,
                record,
            });
            merge.read(merge.logs.len() - 1)?;
        }
        Ok(merge)
    }

    /// The next request of all logs, with its node; none at the end of all.
    ///
    /// # Errors
    /// As [`LogReader::advance`].
    pub fn advance(&mut self) -> Result<Option<(usize, &Record)>, LogError> {
        if let Some(given) = self.given.take() {
            self.read(given)?;
        }
        let Some(Reverse((_, log))) = self.next.pop() else {
            return Ok(None);
        };
        self.given = Some(log);
        Ok(Some((self.logs[log].node, &self.logs[log].record)))
    }

    /// The logs with the numbers of their nodes, in the order in which they were given.
    pub fn logs(&self) -> impl Iterator<Item = (usize, &LogReader)> {
        self.logs.iter().map(|log| (log.node, &log.reader))
    }

    fn read(&mut self, at: usize) -> Result<(), LogError> {
        let log = &mut self.logs[at];
        if log.reader.advance(&mut log.record)? {
            self.next.push(Reverse((log.record.time_unix_ns, at)));
        }
        Ok(())
    }
}
