//! The thread that owns the protocol: it hands it what happens and does what it says, in order.
//!
//! It reads the clock once for each thing that happens. It must never wait for anything but the next thing: not for a
//! peer, not for a disk, not for a request.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use gate::leased::LeasedTable;
use gate::{Dry, Gate};
use lease::config::Config;
use lease::id::{Epoch, NodeId};
use lease::message::Envelope;
use lease::node::{Boot, Event, FastPath, Identity, Input, Node, Output};
use lease::time::{Instant, Wall};
use lease::view::{View, ViewError};
use tokio::sync::{Notify, mpsc, watch};

use super::degraded::Degraded;
use super::disk::{DataDir, DataError, State};
use super::members::{Change, LEAVE_PATIENCE, Members, read};
use super::saver::FloorSaver;
use super::status::{Figures, Rounds, Status, StatusQuery};
use super::store::Store;
use super::terms::Tracked;
use super::waiters::Waiters;
use super::{Ask, Fleet, MOST_ASKING, MOST_WISHES, members};
use store::ledger::DurableLedger;
use store::members::Standing;
use store::nats::Fleet as Known;

use crate::clock::Clock;
use crate::peers::{Frame, Inbox, Transport, open};

/// How often figures are put up for metrics.
const FIGURES_EVERY: Duration = Duration::from_millis(250);

/// How often records of durable windows that are over are removed.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

/// A node that leaves stays for so many rounds, so that what it hands back arrives.
const LEAVING_ROUNDS: u32 = 3;

/// Of one kind of thing that has already happened, so many are taken before the others have their turn.
const BATCH: usize = 64;

/// What a node needs to take its place.
pub struct Start {
    /// The protocol's settings.
    pub config: Config,
    /// This run of this node, begun with [`Start::data`].
    pub incarnation: Incarnation,
    /// The lists of members that it knows, oldest first; at least one.
    pub views: Vec<View>,
    /// Its part in them, if they change.
    pub members: Option<Members>,
    /// Whether it leaves the list when it is told to stop.
    pub leave_on_stop: bool,
    /// Where it keeps what must survive.
    pub data: DataDir,
    /// Decides, and holds the credit.
    pub gate: Arc<Gate>,
    /// Tells the time.
    pub clock: Clock,
    /// Reaches the others.
    pub transport: Arc<dyn Transport>,
    /// What they say.
    pub inbox: Inbox,
    /// Keeps how far durable limits are authorized. None: they are refused.
    pub ledger: Option<Arc<dyn DurableLedger>>,
}

/// One run of a node.
#[derive(Clone, Copy, Debug)]
pub struct Incarnation {
    /// Which.
    pub identity: Identity,
    /// The run before, if it is known.
    pub previous: Option<Epoch>,
    /// What it found.
    pub boot: Boot,
}

impl Incarnation {
    /// Counts a start in the data directory of a node. `first`: the operator says that this fleet has never run before.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn begin(data: &DataDir, node: NodeId, first: bool) -> Result<Self, StartError> {
        let found = data.state()?;
        let state = State {
            starts: found.map_or(0, |state| state.starts).saturating_add(1),
            nonce: getrandom::u64()?,
            floor: found.map_or(Wall(0), |state| state.floor),
        };
        // Before anything is said under the new number.
        data.save(state)?;
        Ok(Self {
            identity: Identity {
                node,
                epoch: Epoch {
                    count: state.starts,
                    nonce: state.nonce,
                },
            },
            previous: found.map(|found| Epoch {
                count: found.starts,
                nonce: found.nonce,
            }),
            boot: Boot {
                floor: state.floor,
                first: first && found.is_none(),
            },
        })
    }
}

/// Why a node did not take its place. Nothing of it runs; its start may have been counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Its data directory.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The protocol's settings or the view.
    #[error("`fleet`: {0}")]
    Protocol(#[from] lease::node::StartError),
    /// No randomness.
    #[error("the operating system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// No thread.
    #[error("the operating system gives no thread: {0}")]
    Thread(#[source] io::Error),
}

/// The thread's end.
#[derive(Debug)]
pub struct Running {
    leave: watch::Sender<bool>,
    thread: thread::JoinHandle<()>,
}

impl Running {
    /// Ends the thread, after which nothing is leased any more.
    pub fn stop(self) {
        let _ = self.leave.send(true);
        if self.thread.join().is_err() {
            tracing::error!(event = "fleet_thread_panicked");
        }
    }
}

impl Start {
    /// Takes the node's place in the fleet, and runs the protocol.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn run(self) -> Result<(Fleet, Running), StartError> {
        let Incarnation { identity, boot, .. } = self.incarnation;
        let now = read(&self.clock);
        let first = self.views.first().ok_or(ViewError::Empty);
        let first = first.map_err(lease::node::StartError::from)?.clone();
        let seed = getrandom::u64()?;
        let node = Node::start(
            self.config.clone(),
            identity,
            first.clone(),
            boot,
            seed,
            now,
        )?;
        // Another incarnation's books are gone, so what it left in the table is nobody's.
        self.gate.table().forget_leased();

        let (asks, incoming) = mpsc::channel(MOST_ASKING);
        let (wishes, wished) = mpsc::channel(MOST_WISHES);
        let (queries, questions) = mpsc::channel(16);
        let (saved, floors) = mpsc::unbounded_channel();
        let (store, answers) = Store::new(self.ledger.clone());
        let (leave, leaving) = watch::channel(false);
        let saver =
            FloorSaver::start(self.data, identity.epoch, saved).map_err(StartError::Thread)?;
        let figures = Arc::new(ArcSwap::from_pointee(Figures::default()));
        let degraded = Arc::new(ArcSwapOption::empty());
        let policy = Arc::new(Notify::new());
        let Self {
            config: Config {
                round, idle_pace, ..
            },
            views,
            members,
            leave_on_stop,
            gate,
            clock,
            transport,
            inbox,
            ..
        } = self;
        let events = Events {
            inbox,
            asks: incoming,
            wishes: wished,
            questions,
            floors,
            answers,
            policy: Arc::clone(&policy),
            list: members.as_ref().map(Members::news),
            leaving,
        };
        let tracked = Tracked::new(&gate.snapshot());
        let shown_degraded = Arc::clone(&degraded);
        let shown = Arc::clone(&figures);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(StartError::Thread)?;
        let thread = thread::Builder::new()
            .name("leasehold-fleet".to_owned())
            .spawn(move || {
                // Made here: who waits is this thread's alone.
                let mut driver = Driver {
                    node,
                    rounds: Rounds { round, idle_pace },
                    views: vec![first],
                    members,
                    leave_on_stop,
                    degraded_owners: BTreeSet::new(),
                    degraded: shown_degraded,
                    tracked,
                    gate,
                    clock,
                    transport,
                    saver,
                    store,
                    waiters: Waiters::default(),
                    figures: shown,
                    refused: 0,
                    next_figures: now.instant,
                    next_sweep: now.instant + SWEEP_EVERY,
                };
                driver.follow(views);
                runtime.block_on(driver.run(events));
            })
            .map_err(StartError::Thread)?;
        let fleet = Fleet {
            asks,
            wishes,
            queries,
            figures,
            policy,
            degraded,
        };
        Ok((fleet, Running { leave, thread }))
    }
}

/// Waits for news of the list of members; for ever if there are none to come.
async fn heard(list: &mut Option<watch::Receiver<Known>>) {
    let heard = match list {
        Some(list) => list.changed().await.is_ok(),
        None => std::future::pending().await,
    };
    if !heard {
        *list = None;
    }
}

/// Where all comes from that happens to it.
struct Events {
    inbox: Inbox,
    asks: mpsc::Receiver<Ask>,
    wishes: mpsc::Receiver<Vec<Dry>>,
    questions: mpsc::Receiver<StatusQuery>,
    floors: mpsc::UnboundedReceiver<Wall>,
    answers: mpsc::UnboundedReceiver<Input>,
    policy: Arc<Notify>,
    list: Option<watch::Receiver<Known>>,
    leaving: watch::Receiver<bool>,
}

struct Driver {
    node: Node,
    rounds: Rounds,
    /// The lists of members that the protocol was told, oldest first; at least one.
    views: Vec<View>,
    members: Option<Members>,
    leave_on_stop: bool,
    /// Who has been out of contact for long, and what others are told of it.
    degraded_owners: BTreeSet<NodeId>,
    degraded: Arc<ArcSwapOption<Degraded>>,
    tracked: Tracked,
    gate: Arc<Gate>,
    clock: Clock,
    transport: Arc<dyn Transport>,
    saver: FloorSaver,
    store: Store,
    waiters: Waiters,
    figures: Arc<ArcSwap<Figures>>,
    /// Frames that were no envelope for this node.
    refused: u64,
    next_figures: Instant,
    next_sweep: Instant,
}

impl Driver {
    async fn run(mut self, events: Events) {
        let Events {
            mut inbox,
            mut asks,
            mut wishes,
            mut questions,
            mut floors,
            mut answers,
            policy,
            mut list,
            mut leaving,
        } = events;
        self.handle(Input::Timeout);
        let mut going = None;
        loop {
            tokio::select! {
                biased;
                _ = leaving.changed(), if going.is_none() => {
                    going = Some(read(&self.clock).instant);
                    self.handle(Input::Leave);
                    if let Some(members) = self.members.as_ref().filter(|_| self.leave_on_stop) {
                        members.leave();
                    }
                }
                Some(floor) = floors.recv() => self.handle(Input::FloorSaved(floor)),
                Some(answer) = answers.recv() => self.handle(answer),
                frame = inbox.receive() => match frame {
                    Some(frame) => {
                        self.take(&frame);
                        for _ in 1..BATCH {
                            let Some(frame) = inbox.try_receive() else { break };
                            self.take(&frame);
                        }
                    }
                    None => break,
                },
                Some(ask) = asks.recv() => {
                    self.ask(ask);
                    for _ in 1..BATCH {
                        let Ok(ask) = asks.try_recv() else { break };
                        self.ask(ask);
                    }
                }
                Some(dry) = wishes.recv() => self.need(&dry, false),
                () = heard(&mut list) => self.handle(Input::Timeout),
                () = policy.notified() => self.tracked.policy(&self.gate.snapshot()),
                // A round that is due begins with whatever is handled.
                () = std::future::ready(()), if self.tracked.has_changed() => self.retune(),
                Some(query) = questions.recv() => self.answer(query),
                () = tokio::time::sleep(self.until_timeout()) => self.handle(Input::Timeout),
            }
            self.put_up_figures();
            if going.is_some_and(|since| self.has_left(since)) {
                break;
            }
        }
        self.saver.finish(self.node.used());
        asks.close();
        self.waiters.give_up();
        while let Ok(ask) = asks.try_recv() {
            let _ = ask.answer.send(FastPath::Missed);
        }
    }

    /// Whether a node that was told to stop at `since` may: what it hands back has had the time to arrive, and if it
    /// leaves the list then a list without it holds, unless that takes too long.
    fn has_left(&self, since: Instant) -> bool {
        let waited = read(&self.clock).instant.since(since);
        let listed = match &self.members {
            Some(members) if self.leave_on_stop => match members.standing() {
                Standing::Left | Standing::Replaced => false,
                Standing::Unknown
                | Standing::Joining
                | Standing::Member
                | Standing::Lapsed
                | Standing::ClockDiffers
                | Standing::NameTaken { .. }
                | Standing::Vanished => true,
            },
            Some(_) | None => false,
        };
        waited >= self.rounds.round * LEAVING_ROUNDS && (!listed || waited >= LEAVE_PATIENCE)
    }

    fn until_timeout(&self) -> Duration {
        let now = read(&self.clock).instant;
        self.node
            .poll_timeout()
            .map_or(FIGURES_EVERY, |at| at.since(now).min(FIGURES_EVERY))
    }

    fn take(&mut self, frame: &Frame) {
        match open(frame, self.node.identity().node) {
            Ok(envelope) => self.handle(Input::Message {
                from: frame.from,
                envelope: Box::new(envelope),
            }),
            Err(error) => {
                self.refused += 1;
                tracing::debug!(
                    event = "frame_refused",
                    node = format_args!("{:016x}", frame.from.0),
                    error_message = %error
                );
            }
        }
    }

    fn ask(&mut self, ask: Ask) {
        // Waiting first: the answer may come out of the very next call.
        let buckets = ask.dry.iter().map(|dry| dry.bucket);
        self.waiters.wait(buckets, ask.answer);
        self.need(&ask.dry, true);
    }

    fn need(&mut self, dry: &[Dry], waits: bool) {
        for dry in dry {
            self.tracked.learn(dry);
            self.handle(Input::Need {
                bucket: dry.bucket,
                terms: dry.terms,
                cost: dry.cost,
                waits,
            });
        }
    }

    /// Tells the protocol some of the terms that another policy has changed.
    fn retune(&mut self) {
        for _ in 0..BATCH {
            let Some((subject, terms)) = self.tracked.next_changed() else {
                break;
            };
            self.handle(Input::Terms { subject, terms });
        }
    }

    fn answer(&self, query: StatusQuery) {
        let now = read(&self.clock);
        let mut status = Status::of(
            &self.node,
            self.view(),
            self.rounds,
            now,
            query.most_buckets,
        );
        status.standing = self.members.as_ref().map(|members| {
            let word = members::word(members.standing());
            word.to_owned()
        });
        // Who asked may have gone.
        let _ = query.answer.send(status);
    }

    /// Hands the protocol one thing, and does all that it then says. Before that, it learns under which lists it may act
    /// now, and how far.
    fn handle(&mut self, input: Input) {
        if let Some(Change { views, members }) = self.members.as_mut().and_then(Members::changed) {
            self.transport.set_members(&members);
            self.follow(views);
        }
        self.hand(input);
    }

    /// Tells the protocol of lists that are new, or that this node may act under for another time.
    fn follow(&mut self, views: Vec<View>) {
        if views.is_empty() {
            return;
        }
        for view in &views {
            if !self.views.contains(view) {
                self.hand(Input::View(view.clone()));
            }
        }
        self.views = views;
        self.show_degraded();
    }

    /// The list that holds.
    fn view(&self) -> &View {
        let now = read(&self.clock).wall;
        let holds = self.views.iter().rev().find(|view| view.active_from <= now);
        holds.unwrap_or(&self.views[0])
    }

    fn hand(&mut self, input: Input) {
        let now = read(&self.clock);
        let gate = Arc::clone(&self.gate);
        let mut credit = LeasedTable::new(gate.table(), gate::time::Now::from_nanos(now.wall.0));
        self.node.handle(now, input, &mut credit);
        while let Some(output) = self.node.poll_output() {
            match output {
                Output::Send(envelope) => self.send(&envelope),
                Output::Wake {
                    bucket,
                    count,
                    outcome,
                } => self.waiters.wake(bucket, count, outcome),
                Output::SaveFloor(floor) => self.saver.save(floor),
                Output::Load(bucket) => self.store.load(bucket),
                Output::Authorize(change) => self.store.authorize(change, self.node.identity()),
                Output::Event(event) => self.tell(event),
            }
        }
    }

    fn send(&self, envelope: &Envelope) {
        // What is not sent now is told again: the protocol is made for loss.
        match wire::peer::encode(envelope) {
            Ok(frame) => {
                if let Err(error) = self.transport.send(envelope.to, frame) {
                    tracing::debug!(event = "frame_not_sent", error_message = %error);
                }
            }
            Err(error) => tracing::error!(event = "envelope_not_encoded", error_message = %error),
        }
    }

    /// Shows surfaces who is out of contact. Who is in no list any more owns nothing that anybody asks for.
    fn show_degraded(&self) {
        let degraded = self.missed_owners().next().map(|_| {
            Arc::new(Degraded {
                views: self.views.clone(),
                owners: self.missed_owners().collect(),
            })
        });
        self.degraded.store(degraded);
    }

    /// Owners that have been out of contact for long, of the list that holds and of those to come.
    fn missed_owners(&self) -> impl Iterator<Item = NodeId> + '_ {
        let from = self.view().active_from;
        let lists = self
            .views
            .iter()
            .filter(move |view| view.active_from >= from);
        let missed = self.degraded_owners.iter().copied();
        missed.filter(move |owner| lists.clone().any(|view| view.contains(*owner)))
    }

    fn tell(&mut self, event: Event) {
        let name = |node: NodeId| format!("{:016x}", node.0);
        match event {
            Event::BehindFloor { read, floor } => tracing::error!(
                event = "clock_behind_floor",
                behind_ms = (floor.0.saturating_sub(read.0)) / 1_000_000,
                "the clock reads earlier than this node has already seen: it only uses credit that others issue"
            ),
            Event::PastFloor => tracing::info!(event = "clock_past_floor"),
            Event::Degraded(owner) => {
                self.degraded_owners.insert(owner);
                self.show_degraded();
                tracing::error!(
                    event = "enforcement_degraded",
                    owner = name(owner),
                    "out of contact for long: each limit that it owns is enforced as its `on_degraded` says"
                );
            }
            Event::Recovered(owner) => {
                self.degraded_owners.remove(&owner);
                self.show_degraded();
                tracing::info!(event = "enforcement_recovered", owner = name(owner));
            }
            Event::OtherView { from, view } => tracing::error!(
                event = "other_view",
                node = name(from),
                view = format_args!("{:016x}", view.0),
                "a member has another list of members: neither takes the other's word"
            ),
            Event::TwoIncarnations(node) => tracing::error!(
                event = "two_incarnations",
                node = name(node),
                "two processes run under one name: neither is heard"
            ),
            Event::ViewRefused(view) => tracing::error!(
                event = "view_refused",
                view = format_args!("{:016x}", view.0),
                "a list of members that does not follow those known was not taken"
            ),
            Event::StoreRefused(bucket) => tracing::error!(
                event = "store_refused",
                subject = format_args!("{:032x}", bucket.subject.0),
                window = bucket.window.0,
                "nothing more of this durable limit is issued here"
            ),
            Event::LedgerFull => tracing::error!(event = "ledger_full"),
            Event::HolderFull => tracing::error!(event = "holder_full"),
            Event::InvariantBroken(bucket) => tracing::error!(
                event = "invariant_broken",
                subject = format_args!("{:032x}", bucket.subject.0),
                window = bucket.window.0,
                "a ledger does not add up: nothing more is issued for this bucket"
            ),
        }
    }

    fn put_up_figures(&mut self) {
        let now = read(&self.clock).instant;
        if now < self.next_figures {
            return;
        }
        self.next_figures = now + FIGURES_EVERY;
        let held = usize::try_from(self.node.stats().held).unwrap_or(usize::MAX);
        let buckets = self.node.held().map(|held| held.bucket);
        self.tracked.forget_unheld(held, buckets);
        let mut figures = Figures::of(
            &self.node,
            self.view(),
            now,
            self.waiters.count(),
            self.refused,
        );
        figures.stats.degraded_owners = self.missed_owners().count() as u64;
        self.figures.store(Arc::new(figures));
        if now >= self.next_sweep {
            self.next_sweep = now + SWEEP_EVERY;
            self.store.sweep(read(&self.clock).wall);
        }
    }
}
