//! What a command says on standard output.

use std::io::{self, Write as _};

use anyhow::Context as _;

/// Prints text as it is. A reader that has gone away (`| head`) is no fault.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("standard output")
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
