//! The proxies, with the configurations of `deploy/`: only addresses and time limits are replaced, and each must have
//! been there.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

use super::process::Process;
use super::{free_port, program, project};

/// Which proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Envoy,
    Nginx,
    Caddy,
    HaProxy,
}

/// What it does while Leasehold does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failing {
    Open,
    Closed,
}

/// How long it waits for Leasehold's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// As long as the shipped file says: a fraction of a second.
    Shipped,
    /// So long that a busy machine does not look like an absent Leasehold.
    Long,
}

/// Where the proxy finds the others.
#[derive(Clone, Copy)]
pub struct Neighbours {
    pub check: u16,
    pub rls: u16,
    pub api: u16,
}

/// A running proxy.
pub struct Proxy {
    pub port: u16,
    // Dropped in this order: the process before its files.
    _process: Process,
    _folder: TempDir,
}

impl Kind {
    /// The shipped file, below the project's folder.
    pub fn shipped(self, failing: Failing) -> String {
        let variant = match failing {
            Failing::Open => "fail-open",
            Failing::Closed => "fail-closed",
        };
        match self {
            Self::Envoy => format!("deploy/envoy/{variant}.yaml"),
            Self::Nginx => format!("deploy/nginx/{variant}.conf"),
            Self::Caddy => format!("deploy/caddy/{variant}.Caddyfile"),
            Self::HaProxy => format!("deploy/haproxy/{variant}.cfg"),
        }
    }

    /// Has the proxy itself check a shipped file, unchanged.
    pub fn validate(self, failing: Failing) -> Output {
        let folder = TempDir::new().unwrap();
        let file = self.shipped(failing);
        let mut command = match self {
            Self::Envoy => {
                let mut command = Command::new(program("envoy"));
                command.args(["--mode", "validate", "-c", &file]);
                command
            }
            Self::Nginx => {
                let mut command = nginx(&project().join(file), folder.path());
                command.arg("-t");
                command
            }
            Self::Caddy => {
                let mut command = Command::new(program("caddy"));
                command.args(["validate", "--adapter", "caddyfile", "--config", &file]);
                command
            }
            Self::HaProxy => {
                let mut command = Command::new(program("haproxy"));
                command.args(["-c", "-f", &file]);
                command
            }
        };
        command
            .current_dir(project())
            .env("HOME", folder.path())
            .output()
            .unwrap()
    }

    /// The shipped time limits, and long ones.
    fn patience(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Envoy => &[("timeout: 0.1s", "timeout: 10s")],
            Self::Nginx => &[
                ("proxy_connect_timeout 100ms", "proxy_connect_timeout 10s"),
                ("proxy_send_timeout 100ms", "proxy_send_timeout 10s"),
                ("proxy_read_timeout 250ms", "proxy_read_timeout 10s"),
            ],
            Self::Caddy => &[
                ("dial_timeout 100ms", "dial_timeout 10s"),
                (
                    "response_header_timeout 250ms",
                    "response_header_timeout 10s",
                ),
            ],
            Self::HaProxy => &[
                ("timeout connect 100ms", "timeout connect 10s"),
                ("timeout server 250ms", "timeout server 10s"),
            ],
        }
    }

    /// Starts it from the shipped file, and waits until it answers.
    pub async fn start(self, failing: Failing, to: Neighbours) -> Proxy {
        self.start_edited(failing, Patience::Long, to, &[]).await
    }

    /// As [`Kind::start`], with more text replaced: pairs of old and new.
    pub async fn start_edited(
        self,
        failing: Failing,
        patience: Patience,
        to: Neighbours,
        edits: &[(&str, &str)],
    ) -> Proxy {
        let port = free_port();
        let folder = TempDir::new().unwrap();
        let text = std::fs::read_to_string(project().join(self.shipped(failing))).unwrap();
        let mut text = text;
        let mut replace = |old: &str, new: &str| {
            assert!(
                text.contains(old),
                "{self:?}: no {old:?} in the shipped file"
            );
            text = text.replace(old, new);
        };
        // The edits first: what they put in may speak of the shipped ports.
        for (old, new) in edits {
            replace(old, new);
        }
        if patience == Patience::Long {
            for (old, new) in self.patience() {
                replace(old, new);
            }
        }
        match self {
            Self::Envoy => {
                replace("port_value: 8000", &format!("port_value: {port}"));
                replace("port_value: 8081", &format!("port_value: {}", to.rls));
                replace("port_value: 9000", &format!("port_value: {}", to.api));
            }
            Self::Nginx | Self::Caddy | Self::HaProxy => {
                replace(":8000", &format!(":{port}"));
                replace("127.0.0.1:8080", &format!("127.0.0.1:{}", to.check));
                replace("127.0.0.1:9000", &format!("127.0.0.1:{}", to.api));
            }
        }
        if self == Self::HaProxy {
            // Abstract socket names are the whole machine's.
            replace("abns@leasehold", &format!("abns@leasehold-{port}"));
            let script = "deploy/haproxy/leasehold.lua";
            let copy = folder.path().join("leasehold.lua");
            let mut lua = std::fs::read_to_string(project().join(script)).unwrap();
            if patience == Patience::Long {
                let shipped = "TIMEOUT_MS = 2000";
                assert!(lua.contains(shipped), "no {shipped:?} in {script}");
                lua = lua.replace(shipped, "TIMEOUT_MS = 60000");
            }
            std::fs::write(&copy, lua).unwrap();
            replace(script, copy.to_str().unwrap());
        }
        let file = folder.path().join(match self {
            Self::Envoy => "envoy.yaml",
            Self::Nginx => "nginx.conf",
            Self::Caddy => "Caddyfile",
            Self::HaProxy => "haproxy.cfg",
        });
        std::fs::write(&file, text).unwrap();

        let mut command = match self {
            Self::Envoy => {
                let mut command = Command::new(program("envoy"));
                command
                    .args([
                        "--use-dynamic-base-id",
                        "--concurrency",
                        "2",
                        "-l",
                        "warn",
                        "-c",
                    ])
                    .arg(&file);
                command
            }
            Self::Nginx => nginx(&file, folder.path()),
            Self::Caddy => {
                let mut command = Command::new(program("caddy"));
                command
                    .args(["run", "--adapter", "caddyfile", "--config"])
                    .arg(&file);
                command
            }
            Self::HaProxy => {
                let mut command = Command::new(program("haproxy"));
                command.arg("-db").arg("-f").arg(&file);
                command
            }
        };
        command.current_dir(project()).env("HOME", folder.path());
        let name = format!("{self:?}").to_lowercase();
        let mut process = Process::start(&name, &mut command, folder.path());
        process
            .until("it to listen", async || {
                tokio::net::TcpStream::connect(("127.0.0.1", port))
                    .await
                    .is_ok()
            })
            .await;
        Proxy {
            port,
            _process: process,
            _folder: folder,
        }
    }
}

/// nginx with all that it writes in `folder`.
fn nginx(file: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program("nginx"));
    let folder = folder.display();
    command
        .arg("-c")
        .arg(file)
        .arg("-p")
        .arg(folder.to_string())
        .args(["-e", "stderr"])
        .arg("-g")
        .arg(format!("daemon off; pid {folder}/nginx.pid;"));
    command
}
