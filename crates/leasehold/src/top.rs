//! `leasehold top`: how a fleet stands, live in a terminal.
//!
//! It only asks, and it always gives the terminal back as it was. Nodes that do not answer are shown as such.

mod draw;
mod picture;

use std::io::{IsTerminal as _, stdout};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{SignalKind, signal};

use self::picture::Picture;
use crate::output::print;
use crate::probe::ask::{NodeUrl, ask_all};
use crate::probe::check;

/// How long the terminal is listened to before the next look at what has come in.
const LISTEN: Duration = Duration::from_millis(50);

/// Show how a fleet stands, live: its nodes, how old their knowledge of each other is, the credit that is out, and the
/// busiest keys as hashes. Ends with q or Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 ended by its user; 2 wrong usage, or with --once no node answered."
)]
pub struct Arguments {
    /// Where each node's operators' surface is (its `admin.listen`): http://HOST:PORT
    #[arg(required = true, value_name = "URL")]
    urls: Vec<NodeUrl>,
    /// How often the nodes are asked, in milliseconds; also how long they may take to answer.
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    every: u64,
    /// Print what there is now as plain text, and end.
    #[arg(long)]
    once: bool,
}

/// What the other thread has to say.
enum News {
    Picture(Box<Picture>),
    /// The process is to end.
    End,
}

/// Shows it.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    check(&arguments.urls)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the async runtime cannot be started")?;
    let (urls, every) = (
        arguments.urls.clone(),
        Duration::from_millis(arguments.every),
    );
    if arguments.once {
        let picture = Picture::of(&runtime.block_on(ask_all(&urls, every)));
        print(&draw::text(&picture)?)?;
        let code = if picture.answered == 0 { 2 } else { 0 };
        return Ok(ExitCode::from(code));
    }
    ensure!(
        stdout().is_terminal(),
        "standard output is no terminal: use --once for plain text"
    );
    let (tell, news) = mpsc::channel();
    // Asks and catches signals, while this thread listens to the terminal. It ends with the process.
    thread::Builder::new()
        .name("leasehold-ask".to_owned())
        .spawn(move || runtime.block_on(look(&urls, every, &tell)))
        .context("no thread can be started")?;
    // Puts the terminal back even when something panics.
    let mut terminal = ratatui::try_init().context("the terminal")?;
    let shown = show(&mut terminal, &news);
    let restored = ratatui::try_restore().context("the terminal");
    shown.and(restored)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks again and again, until nobody listens or the process is to end.
async fn look(urls: &[NodeUrl], every: Duration, tell: &mpsc::Sender<News>) {
    let looking = async {
        let mut next = tokio::time::interval(every);
        loop {
            next.tick().await;
            let picture = Picture::of(&ask_all(urls, every).await);
            if tell.send(News::Picture(Box::new(picture))).is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = looking => {}
        () = ended_by(SignalKind::terminate()) => {}
        () = ended_by(SignalKind::hangup()) => {}
        () = ended_by(SignalKind::interrupt()) => {}
    }
    // If nobody listens, it is over already.
    let _ = tell.send(News::End);
}

async fn ended_by(kind: SignalKind) {
    match signal(kind) {
        Ok(mut signal) => {
            signal.recv().await;
        }
        // Then it ends as processes do by default.
        Err(_) => std::future::pending().await,
    }
}

/// Draws what comes in until the user has enough.
fn show(terminal: &mut DefaultTerminal, news: &mpsc::Receiver<News>) -> anyhow::Result<()> {
    let mut picture = None;
    let mut stale = true;
    loop {
        while let Ok(one) = news.try_recv() {
            match one {
                News::Picture(newer) => (picture, stale) = (Some(newer), true),
                News::End => return Ok(()),
            }
        }
        if stale {
            terminal
                .draw(|frame| draw::frame(frame, picture.as_deref()))
                .context("the terminal")?;
            stale = false;
        }
        if event::poll(LISTEN).context("the terminal")? {
            match event::read().context("the terminal")? {
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    let control = key.modifiers.contains(KeyModifiers::CONTROL);
                    if matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
                        || (control && key.code == KeyCode::Char('c'))
                    {
                        return Ok(());
                    }
                }
                Event::Resize(..) => stale = true,
                Event::Key(_)
                | Event::FocusGained
                | Event::FocusLost
                | Event::Mouse(_)
                | Event::Paste(_) => {}
            }
        }
    }
}
