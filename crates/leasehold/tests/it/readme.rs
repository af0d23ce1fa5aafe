//! What the README tells a new user to do works as it says.

use std::process::Command;

use http::{Method, StatusCode};

use crate::harness::client::Client;
use crate::harness::process::Process;
use crate::harness::{free_port, project};

fn readme() -> String {
    std::fs::read_to_string(project().join("README.md")).unwrap()
}

/// The README's first code block of a language that contains `part`.
fn block(language: &str, part: &str) -> String {
    let readme = readme();
    let fence = format!("```{language}\n");
    let mut blocks = readme
        .split(&fence)
        .skip(1)
        .filter_map(|rest| rest.split_once("```").map(|(block, _)| block));
    blocks
        .find(|block| block.contains(part))
        .unwrap_or_else(|| panic!("no {language} block with {part:?} in the README"))
        .to_owned()
}

/// The first command, on other ports, and the `curl` after it.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_command_serves_what_the_next_one_asks() {
    let first = block("sh", "cargo run");
    let arguments = first.trim().split_once(" -- ").unwrap().1;
    let (http, grpc, admin) = (free_port(), free_port(), free_port());
    let folder = tempfile::TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_leasehold"));
    command
        .args(arguments.split(' '))
        .current_dir(folder.path());
    for (surface, port) in [("http", http), ("grpc", grpc), ("admin", admin)] {
        command.arg(format!("--set={surface}.listen=127.0.0.1:{port}"));
    }
    let mut node = Process::start("leasehold", &mut command, folder.path());
    node.until("it to listen", async || {
        tokio::net::TcpStream::connect(("127.0.0.1", http))
            .await
            .is_ok()
    })
    .await;

    let curl = block("sh", "curl -i");
    let (target, quoted) = curl
        .trim()
        .strip_prefix("curl -i http://127.0.0.1:8080")
        .and_then(|rest| rest.split_once(' '))
        .unwrap_or_else(|| panic!("another command than this test knows: {curl}"));
    let headers: Vec<(String, String)> = quoted
        .split('\'')
        .filter_map(|header| header.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    assert_eq!(headers.len(), 2, "{curl}");
    let headers: Vec<(&str, &[u8])> = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .collect();
    let ask = async || {
        Client::at(2)
            .send(http, Method::GET, target, &headers, bytes::Bytes::new())
            .await
            .unwrap()
    };
    for _ in 0..5 {
        let reply = ask().await;
        assert_eq!(reply.status, StatusCode::OK, "{reply:?}");
        assert!(reply.headers.contains_key("ratelimit"), "{reply:?}");
    }
    let reply = ask().await;
    assert_eq!(reply.status, StatusCode::TOO_MANY_REQUESTS, "{reply:?}");
    assert!(reply.headers.contains_key("retry-after"), "{reply:?}");
}

#[test]
fn its_policy_is_valid_and_explained() {
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::write(
        folder.path().join("policy.yaml"),
        block("yaml", "version: 1"),
    )
    .unwrap();
    let mut ran = 0;
    for line in block("sh", "policy check").lines() {
        let arguments = line.strip_prefix("leasehold ").unwrap();
        // The one that stays is for the other test.
        if arguments.starts_with("serve ") {
            continue;
        }
        let output = Command::new(env!("CARGO_BIN_EXE_leasehold"))
            .args(arguments.split(' '))
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        ran += 1;
    }
    assert_eq!(ran, 2);
}
