//! Clients that ask without pause and count every admission, by key and window.
//!
//! Which window an answer was of, its `X-RateLimit-Reset` tells: with `answer.dialect = "github"` the end of the window
//! in whole seconds since 1970, rounded up. Windows of whole seconds never share that number. So nothing here depends
//! on how late an answer came, and what is counted is never more than what was admitted.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use crate::harness::eventually;

/// The policy that the clients ask under. Its answers must be in the dialect `github`.
pub const POLICY: &str = "version: 1
rules:
  - name: hot
    when: {path: /hot}
    by: everyone
    limits: [{rate: 100 per 1s, disclose: true}]
  - name: many
    when: {path: /many}
    by: [{header: x-key}]
    limits: [{rate: 10 per 2s, disclose: true}]
  - name: long
    when: {path: /long}
    by: everyone
    limits: [{rate: 2000 per 50m, disclose: true}]
  - name: durable
    when: {path: /durable}
    by: everyone
    limits: [{rate: 2000 per 30d, disclose: true}]
";

/// Keys on `/many`.
const MANY: u64 = 16;

/// What one client asks for in turn.
const ROUND: [Limit; 8] = [
    Limit::Hot,
    Limit::Many,
    Limit::Hot,
    Limit::Many,
    Limit::Long,
    Limit::Hot,
    Limit::Many,
    Limit::Durable,
];

/// Clients of each node.
const CLIENTS: u64 = 4;

/// One request of each client in so long, if the node keeps up.
const EVERY: Duration = Duration::from_millis(30);

/// Longer than any fault lasts: a node that was frozen answers late, and what it admitted counts.
const PATIENCE: Duration = Duration::from_secs(60);

/// A limit of [`POLICY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    Hot,
    Many,
    Long,
    Durable,
}

impl Limit {
    const fn path(self) -> &'static str {
        match self {
            Self::Hot => "/hot",
            Self::Many => "/many",
            Self::Long => "/long",
            Self::Durable => "/durable",
        }
    }

    /// Units of a window.
    pub const fn units(self) -> u64 {
        match self {
            Self::Hot => 100,
            Self::Many => 10,
            Self::Long | Self::Durable => 2000,
        }
    }
}

/// One window of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Window {
    pub limit: Limit,
    pub key: u64,
    /// Its end in seconds since 1970, rounded up.
    pub end: u64,
}

/// What was answered in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    pub admitted: u64,
    pub refused: u64,
}

/// All answers so far.
type Tally = BTreeMap<Window, Answers>;

/// Clients at work. They end with it.
pub struct Load {
    tally: Arc<Mutex<Tally>>,
    _clients: JoinSet<()>,
}

impl Load {
    /// Sets clients upon the nodes at these ports.
    pub fn start(ports: &[u16]) -> Self {
        let tally = Arc::new(Mutex::new(Tally::new()));
        let mut clients = JoinSet::new();
        for (port, index) in ports.iter().zip(0..) {
            for client in 0..CLIENTS {
                let (port, tally) = (*port, Arc::clone(&tally));
                clients.spawn(client_at(port, index * CLIENTS + client, tally));
            }
        }
        Self {
            tally,
            _clients: clients,
        }
    }

    fn tally(&self) -> Tally {
        self.tally.lock().unwrap().clone()
    }

    /// Fails if more was admitted in any window than its limit says.
    pub fn assert_bounded(&self, when: &str) {
        for (window, answers) in self.tally() {
            let (admitted, units) = (answers.admitted, window.limit.units());
            assert!(
                admitted <= units,
                "{when}: {admitted} of {units} in {window:?}"
            );
        }
    }

    /// Admissions at a limit, in all.
    pub fn admitted(&self, limit: Limit) -> u64 {
        let tally = self.tally();
        let of_limit = tally.iter().filter(|(window, _)| window.limit == limit);
        of_limit.map(|(_, answers)| answers.admitted).sum()
    }

    /// The end of the latest window of the hot key that anybody has answered in.
    pub fn latest(&self) -> u64 {
        let tally = self.tally();
        let hot = tally.keys().filter(|window| window.limit == Limit::Hot);
        hot.map(|window| window.end).max().unwrap_or(0)
    }

    /// Waits until so many more windows of the hot key have ended.
    pub async fn windows(&self, count: u64) {
        let end = self.latest() + count + 1;
        eventually("windows to end", async || {
            (self.latest() >= end).then_some(())
        })
        .await;
    }

    /// Waits until a window of the hot key, begun from now on, has admitted most of what could be admitted in it. The
    /// share of its units.
    pub async fn served(&self, what: &str) -> f64 {
        // The next one after the latest may have begun already.
        let after = 1 + eventually("an answer", async || {
            let latest = self.latest();
            (latest > 0).then_some(latest)
        })
        .await;
        eventually(what, async || {
            let latest = self.latest();
            let tally = self.tally();
            let ended = tally.iter().filter(|(window, _)| {
                window.limit == Limit::Hot && window.end > after && window.end < latest
            });
            ended
                .map(|(window, answers)| {
                    let could = window.limit.units().min(answers.admitted + answers.refused);
                    (answers.admitted, could)
                })
                .find(|(admitted, could)| admitted * 2 >= *could)
                .map(|(admitted, _)| admitted as f64 / Limit::Hot.units() as f64)
        })
        .await
    }
}

/// One client, on one connection for as long as that lasts.
async fn client_at(port: u16, number: u64, tally: Arc<Mutex<Tally>>) {
    let mut pace = tokio::time::interval(EVERY);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut asker = Asker::at(port);
    for turn in 0_u64.. {
        pace.tick().await;
        let limit = ROUND[usize::try_from((turn + number) % ROUND.len() as u64).unwrap()];
        let key = match limit {
            Limit::Many => (turn + number) % MANY,
            Limit::Hot | Limit::Long | Limit::Durable => 0,
        };
        // A node that is not there: again at the next turn.
        let Some(Answer { end, admitted }) = asker.ask(limit.path(), key).await else {
            continue;
        };
        let mut tally = tally.lock().unwrap();
        let answers = tally.entry(Window { limit, key, end }).or_default();
        if admitted {
            answers.admitted += 1;
        } else {
            answers.refused += 1;
        }
    }
}

/// What a node said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The end of the window that answered, in seconds since 1970, rounded up.
    pub end: u64,
    pub admitted: bool,
}

/// Asks one node, on one connection for as long as that lasts.
pub struct Asker {
    port: u16,
    sender: Option<SendRequest<Empty<Bytes>>>,
}

impl Asker {
    pub const fn at(port: u16) -> Self {
        Self { port, sender: None }
    }

    /// Asks for a path, with a key in `x-key`. `None` if there was no whole answer.
    pub async fn ask(&mut self, path: &str, key: u64) -> Option<Answer> {
        let asking = self.ask_and_wait(path, key);
        let answer = tokio::time::timeout(PATIENCE, asking).await.ok().flatten();
        if answer.is_none() {
            self.sender = None;
        }
        answer
    }

    async fn ask_and_wait(&mut self, path: &str, key: u64) -> Option<Answer> {
        let request = Request::get("/v1/check")
            .header("host", "api.example")
            .header("x-forwarded-method", "GET")
            .header("x-forwarded-uri", path)
            .header("x-key", key)
            .body(Empty::new())
            .unwrap();
        let sender = self.connected().await?;
        let (head, body) = sender.send_request(request).await.ok()?.into_parts();
        body.collect().await.ok()?;
        let admitted = match head.status {
            StatusCode::OK => true,
            StatusCode::TOO_MANY_REQUESTS => false,
            other => panic!("{other} for {path}"),
        };
        let end = head
            .headers
            .get("x-ratelimit-reset")
            .unwrap_or_else(|| panic!("no reset: {:?}", head.headers));
        let end = end.to_str().unwrap().parse().unwrap();
        Some(Answer { end, admitted })
    }

    async fn connected(&mut self) -> Option<&mut SendRequest<Empty<Bytes>>> {
        let ready = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !ready {
            let stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
            stream.set_nodelay(true).unwrap();
            let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                .await
                .ok()?;
            tokio::spawn(connection);
            self.sender = Some(sender);
        }
        self.sender.as_mut()
    }
}
