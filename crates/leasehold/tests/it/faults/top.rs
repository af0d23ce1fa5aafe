//! `leasehold top` on a real fleet, as plain text and in a real terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use super::fleet::{Fleet, Transport};
use super::load::{Load, POLICY};
use crate::harness::{eventually, program};

fn once(urls: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command
        .arg("top")
        .arg("--once")
        .args(urls)
        .output()
        .unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_picture_shows_nodes_and_busiest_keys() {
    let mut fleet = Fleet::start(3, Transport::Mesh, POLICY).await;
    let ports: Vec<u16> = fleet.nodes.iter().map(|node| node.http).collect();
    let load = Load::start(&ports);
    let urls = fleet.urls();
    eventually("all nodes well, and busy keys", async || {
        let output = tokio::task::block_in_place(|| once(&urls));
        assert_eq!(output.status.code(), Some(0));
        let text = out(&output);
        let all = text.starts_with("leasehold test  3 of 3 nodes answer, the fleet is well");
        // A hash of 32 digits, a demand and an owner.
        let busy = text.lines().any(|line| {
            let cells: Vec<&str> = line.split_whitespace().collect();
            cells.len() == 3 && cells[0].len() == 32 && cells[1].parse::<u64>().is_ok()
        });
        (all && busy && text.contains("2 of 2")).then_some(())
    })
    .await;
    drop(load);

    fleet.nodes[1].kill();
    let output = tokio::task::block_in_place(|| once(&urls));
    assert_eq!(output.status.code(), Some(0));
    let text = out(&output);
    assert!(
        text.contains("2 of 3 nodes answer, the fleet is not well"),
        "{text}"
    );
    assert!(text.contains("cannot connect"), "{text}");

    // Nobody, and no terminal.
    let output = tokio::task::block_in_place(|| once(&urls[1..2]));
    assert_eq!(output.status.code(), Some(2));
    let output = Command::new(env!("CARGO_BIN_EXE_leasehold"))
        .arg("top")
        .args(&urls)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("use --once"), "{error}");
}

/// `top` in a terminal of its own.
struct Screen {
    keys: File,
    /// Its other end, so that its settings can be looked at.
    terminal: File,
    child: Child,
    printed: Arc<Mutex<Vec<u8>>>,
}

impl Screen {
    fn start(urls: &[String]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let size = Winsize {
            ws_row: 40,
            ws_col: 160,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&ours, size).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let terminal = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().unwrap())
            .unwrap();
        let end = || Stdio::from(terminal.try_clone().unwrap());
        // In a session of its own, so that it does not find the terminal that the tests were started from.
        let child = Command::new(program("setsid"))
            .arg(env!("CARGO_BIN_EXE_leasehold"))
            .args(["top", "--every=100"])
            .args(urls)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let keys = File::from(ours);
        let printed = Arc::new(Mutex::new(Vec::new()));
        let (mut reader, seen) = (keys.try_clone().unwrap(), Arc::clone(&printed));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = reader.read(&mut bytes) {
                seen.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self {
            keys,
            terminal,
            child,
            printed,
        }
    }

    fn printed(&self) -> String {
        String::from_utf8_lossy(&self.printed.lock().unwrap()).into_owned()
    }

    async fn shows(&self, text: &str) {
        eventually(text, async || self.printed().contains(text).then_some(())).await;
    }

    fn is_raw(&self) -> bool {
        use rustix::termios::LocalModes;
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        !modes.contains(LocalModes::ICANON)
    }

    /// It ends well, and the terminal is as it was.
    async fn ends(mut self) {
        let status = eventually("top to end", async || self.child.try_wait().unwrap()).await;
        assert!(status.success(), "{status}: {}", self.printed());
        assert!(!self.is_raw());
        // Back from the other screen.
        self.shows("\u{1b}[?1049l").await;
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_shows_a_node_go_and_is_given_back() {
    let mut fleet = Fleet::start(3, Transport::Mesh, POLICY).await;
    let mut screens: Vec<Screen> = (0..3).map(|_| Screen::start(&fleet.urls())).collect();
    for screen in &screens {
        screen.shows("n2").await;
        screen.shows("well").await;
        assert!(screen.is_raw());
    }
    fleet.nodes[1].kill();
    for screen in &screens {
        screen.shows("away").await;
    }
    // q, Ctrl-C, and the signal of a supervisor.
    for key in [b"q", b"\x03"] {
        let mut screen = screens.remove(0);
        screen.keys.write_all(key).unwrap();
        screen.ends().await;
    }
    let screen = screens.remove(0);
    kill_process(Pid::from_child(&screen.child), Signal::TERM).unwrap();
    screen.ends().await;
}
