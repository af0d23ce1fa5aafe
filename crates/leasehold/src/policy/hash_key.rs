//! `leasehold policy hash-key`: from an API key to the hash that may stand in a policy.
//!
//! The key is read from standard input, so that it is in no command line, and is never printed.

use std::io::Read as _;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use gate::hash::KeyHasher;

use super::print;
use crate::secret;

/// The longest API key, in bytes.
const MOST_BYTES: usize = 8192;

/// Read an API key from standard input and print its keyed hash.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    secret: secret::SecretArguments,
}

/// Prints the hash under the node's secret.
pub fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let Some(secret) = secret::read(&arguments.secret)? else {
        bail!(
            "a node so configured makes a secret anew each time it starts, and no hash would be \
             known to it: set `secret` to file:PATH or env:VARIABLE, for the node and here"
        );
    };
    let mut bytes = Vec::new();
    std::io::stdin()
        .take(MOST_BYTES as u64 + 2)
        .read_to_end(&mut bytes)
        .context("standard input")?;
    let key = key(&bytes)?;
    print(&format!("{}\n", KeyHasher::new(&secret).api_key(key)))?;
    Ok(ExitCode::SUCCESS)
}

/// The key: one line, without its end.
fn key(input: &[u8]) -> anyhow::Result<&[u8]> {
    let line = input.strip_suffix(b"\n").unwrap_or(input);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() {
        bail!("standard input holds no API key: write one line");
    }
    if line.len() > MOST_BYTES {
        bail!("the API key has more than {MOST_BYTES} bytes");
    }
    if line.iter().any(u8::is_ascii_control) {
        bail!("standard input holds more than one line, or control characters: write one key");
    }
    if line.first().is_some_and(u8::is_ascii_whitespace)
        || line.last().is_some_and(u8::is_ascii_whitespace)
    {
        bail!("the API key has white space at an end, which no header would carry");
    }
    Ok(line)
}
