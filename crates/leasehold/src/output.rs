//! What a command says on standard output, and the files that it writes.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

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

/// Writes a file, replacing one that is there.
pub fn write(
    file: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let written = || -> anyhow::Result<()> {
        let mut out = BufWriter::new(File::create(file)?);
        fill(&mut out)?;
        Ok(out.flush()?)
    };
    written().with_context(|| file.display().to_string())
}

/// A file to draw to: its name says how, which is better known before the work than after it.
pub fn plot_file(text: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(text);
    match sim::plot::Format::of(&file) {
        Ok(_) => Ok(file),
        Err(error) => Err(error.to_string()),
    }
}
