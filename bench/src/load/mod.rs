//! The load generator: one thread, non-blocking sockets, a few hundred nanoseconds of its own per request, because it
//! shares the machine with what it measures.
//!
//! Closed loop: every connection keeps so many requests in flight. Open loop: requests fall due on a fixed schedule
//! and their latency counts from then, sent or not, so that a stalled server is charged for the requests it held up.

mod connection;
pub mod http1;
pub mod http2;
pub mod message;
mod report;
pub mod resp;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use connection::Connection;
pub use report::{LoadError, Report};

/// What a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The server would admit it.
    Admitted,
    /// The server would refuse it.
    Refused,
    /// No decision: an error status, or an answer that is none.
    Failed,
}

/// A finished request: when it was due, in nanoseconds since the load's start, and what it came to.
pub type Finished = (u64, Answer);

/// How one connection speaks. It keeps the requests in flight in whatever order its answers come.
pub trait Dialect {
    /// What is sent before the first request.
    fn greet(&mut self, out: &mut Vec<u8>);
    /// Whether another request may be sent now.
    fn is_free(&self) -> bool;
    /// Appends request number `number`, due at `due`.
    fn send(&mut self, number: u64, due: u64, out: &mut Vec<u8>);
    /// Reads whole messages from `input`, pushes what is finished, and returns how many bytes it used. It may have
    /// something to say in return.
    ///
    /// # Errors
    /// What the server said that cannot be gone on from.
    fn read(
        &mut self,
        input: &[u8],
        out: &mut Vec<u8>,
        finished: &mut Vec<Finished>,
    ) -> Result<usize, String>;
}

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// So many in flight on each connection, always.
    Closed {
        /// Requests in flight on each connection.
        in_flight: usize,
    },
    /// So many a second over all connections.
    Open {
        /// Requests per second.
        per_second: f64,
    },
}

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// After this long.
    Time(Duration),
    /// After so many requests.
    Count(u64),
}

/// A load to be put on a server.
pub struct Load<'a> {
    /// Where the server listens.
    pub address: SocketAddr,
    /// How many connections.
    pub connections: usize,
    /// When requests are sent.
    pub pace: Pace,
    /// Not counted, so that connections are up and code is warm.
    pub warm_up: Duration,
    /// When to stop.
    pub until: Until,
    /// Makes the dialect of each connection.
    pub dialect: &'a dyn Fn() -> Box<dyn Dialect>,
    /// Called when counting starts.
    pub on_start: &'a mut dyn FnMut(),
}

const STALLED_AFTER: Duration = Duration::from_secs(10);

/// The tag of the timer among the events; connections have their numbers.
const TIMER: u64 = u64::MAX;

/// The timer ticks no oftener than this; what falls due between ticks is sent together.
const SHORTEST_TICK: Duration = Duration::from_micros(100);

/// Puts a load on a server and waits until it is done.
///
/// # Errors
/// See [`LoadError`].
pub fn run(load: Load<'_>) -> Result<Report, LoadError> {
    let address = load.address;
    let io = |error: io::Error| LoadError::Io { address, error };
    let mut generator = Generator::new(load).map_err(io)?;
    generator.run()
}

struct Generator<'a> {
    load: Load<'a>,
    epoll: OwnedFd,
    /// Ticks as often as requests fall due.
    timer: Option<OwnedFd>,
    connections: Vec<Connection>,
    start: Instant,
    /// Requests sent so far; the next one's number.
    sent: u64,
    /// Requests due but not sent, open loop: their due times.
    waiting: VecDeque<u64>,
    /// Requests that have fallen due so far, open loop.
    fallen_due: u64,
    /// The connection that the next open-loop request is tried on.
    turn: usize,
    /// Counting began at this time; none yet if it has not.
    counted_from: Option<u64>,
    report: Report,
}

impl<'a> Generator<'a> {
    fn new(load: Load<'a>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut connections = Vec::with_capacity(load.connections);
        for number in 0..load.connections {
            let connection = Connection::open(load.address, (load.dialect)())?;
            let events = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
            let tag = epoll::EventData::new_u64(number as u64);
            epoll::add(&epoll, connection.socket(), tag, events)?;
            connections.push(connection);
        }
        let timer = match load.pace {
            Pace::Closed { .. } => None,
            Pace::Open { per_second } => {
                let tick = Duration::from_secs_f64(1.0 / per_second).max(SHORTEST_TICK);
                Some(ticking(&epoll, tick)?)
            }
        };
        Ok(Self {
            load,
            epoll,
            timer,
            connections,
            start: Instant::now(),
            sent: 0,
            waiting: VecDeque::new(),
            fallen_due: 0,
            turn: 0,
            counted_from: None,
            report: Report {
                spent: Duration::ZERO,
                latency_us: Histogram::new_with_bounds(1, 60_000_000, 3)
                    .expect("the bounds are in order"),
                admitted: 0,
                refused: 0,
                failed: 0,
            },
        })
    }

    fn run(&mut self) -> Result<Report, LoadError> {
        let address = self.load.address;
        let io = |error: io::Error| LoadError::Io { address, error };
        let mut events = Vec::with_capacity(256);
        let mut finished = Vec::new();
        let mut chunk = vec![0; 64 * 1024];
        let mut last_answer = self.now();
        if self.load.warm_up.is_zero() {
            // Every request counts, so counting starts before the first.
            self.counted_from = Some(0);
            (self.load.on_start)();
        }
        for number in 0..self.connections.len() {
            self.top_up(number);
            self.connections[number].flush().map_err(io)?;
        }
        loop {
            events.clear();
            let timeout = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            let spare = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, spare, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(io(error.into())),
            }
            let now = self.now();
            for event in &events {
                let tag = event.data.u64();
                if tag == TIMER {
                    if let Some(timer) = &self.timer {
                        // It ticks no further until it is read. How often it has does not matter.
                        let _ = rustix::io::read(timer, &mut [0; 8]);
                    }
                    continue;
                }
                let number = tag as usize;
                let connection = &mut self.connections[number];
                connection
                    .receive(&mut chunk, &mut finished)
                    .map_err(|said| LoadError::Server { address, said })?;
                if !finished.is_empty() {
                    last_answer = now;
                }
                for (due, answer) in finished.drain(..) {
                    self.count(now, due, answer);
                }
                self.top_up(number);
                self.connections[number].flush().map_err(io)?;
            }
            self.send_due(now).map_err(io)?;
            if self.is_over(now) {
                return Ok(self.finish(now));
            }
            if now - last_answer > STALLED_AFTER.as_nanos() as u64 {
                return Err(LoadError::Stalled { address });
            }
        }
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn count(&mut self, now: u64, due: u64, answer: Answer) {
        let Some(from) = self.counted_from else {
            return;
        };
        if due < from {
            return;
        }
        // Saturates at the histogram's minute: a later answer would have stalled the load.
        self.report
            .latency_us
            .saturating_record((now.saturating_sub(due)) / 1000);
        match answer {
            Answer::Admitted => self.report.admitted += 1,
            Answer::Refused => self.report.refused += 1,
            Answer::Failed => self.report.failed += 1,
        }
    }

    /// Closed loop: fills the connection up to its requests in flight.
    fn top_up(&mut self, number: usize) {
        let Pace::Closed { in_flight } = self.load.pace else {
            return;
        };
        let due = self.now();
        let connection = &mut self.connections[number];
        while connection.in_flight() < in_flight && connection.is_free() {
            if let Until::Count(count) = self.load.until
                && self.sent >= count
            {
                return;
            }
            connection.send(self.sent, due);
            self.sent += 1;
        }
    }

    /// Open loop: sends what has fallen due, each on the next connection that is free.
    fn send_due(&mut self, now: u64) -> io::Result<()> {
        let Pace::Open { per_second } = self.load.pace else {
            return Ok(());
        };
        let step = 1e9 / per_second;
        while (self.fallen_due as f64 * step) as u64 <= now {
            self.waiting
                .push_back((self.fallen_due as f64 * step) as u64);
            self.fallen_due += 1;
        }
        while let Some(due) = self.waiting.front().copied() {
            let count = self.connections.len();
            let free = (0..count)
                .map(|offset| (self.turn + offset) % count)
                .find(|number| self.connections[*number].is_free());
            let Some(number) = free else { return Ok(()) };
            self.waiting.pop_front();
            self.connections[number].send(self.sent, due);
            self.connections[number].flush()?;
            self.sent += 1;
            self.turn = (number + 1) % count;
        }
        Ok(())
    }

    fn is_over(&mut self, now: u64) -> bool {
        let warm_up = self.load.warm_up.as_nanos() as u64;
        if self.counted_from.is_none() && now >= warm_up {
            self.counted_from = Some(now);
            (self.load.on_start)();
        }
        let Some(from) = self.counted_from else {
            return false;
        };
        match self.load.until {
            Until::Time(time) => now - from >= time.as_nanos() as u64,
            Until::Count(count) => self.report.total() >= count,
        }
    }

    fn finish(&mut self, now: u64) -> Report {
        let from = self.counted_from.unwrap_or(now);
        let empty = Histogram::new_from(&self.report.latency_us);
        Report {
            spent: Duration::from_nanos(now - from),
            latency_us: std::mem::replace(&mut self.report.latency_us, empty),
            admitted: self.report.admitted,
            refused: self.report.refused,
            failed: self.report.failed,
        }
    }
}

fn ticking(epoll: &OwnedFd, tick: Duration) -> io::Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
    let every = Timespec {
        tv_sec: tick.as_secs() as i64,
        tv_nsec: tick.subsec_nanos().into(),
    };
    let spec = Itimerspec {
        it_interval: every,
        it_value: every,
    };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &spec)?;
    let events = epoll::EventFlags::IN;
    epoll::add(epoll, &timer, epoll::EventData::new_u64(TIMER), events)?;
    Ok(timer)
}
