//! A measurement as a decision record: a page for people and, beside it, its data as CSV and as a plot. No key is in any
//! of them, not even hashed, so that all can be kept with the code. A record that is there already is never overwritten.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::figure::figure;
use super::report::{Report, Shares};
use super::text;
use super::{EVEN_ENOUGH, Measured};
use crate::log::time::Utc;
use crate::plot::{self, PlotError};

/// The steps of the distribution in the data: 0 to 1000 per mille.
const STEPS: u32 = 1000;

/// Why a record was not written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The name says what it is.
    #[error("{}: a record's name ends in .md", .0.display())]
    Name(PathBuf),
    /// It is there already, or cannot be written.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// The plot cannot be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
}

/// Writes the record `file` (`.md`) and beside it its data (`.csv`) and its plot (`.svg`). `now_unix_ns` dates it.
///
/// # Errors
/// [`RecordError`]; if the data or the plot cannot be written the page is not.
pub fn write(file: &Path, report: &Report, now_unix_ns: u64) -> Result<PathBuf, RecordError> {
    if file.extension().is_none_or(|extension| extension != "md") {
        return Err(RecordError::Name(file.to_owned()));
    }
    let data = file.with_extension("csv");
    let name = |file: &Path| {
        let name = file.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let create = |file: &Path, text: &[u8]| {
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options
                .write(true)
                .create_new(true)
                .open(file)?
                .write_all(text)
        };
        write().map_err(|source| RecordError::Io {
            file: file.to_owned(),
            source,
        })
    };
    // Looked at first, so that no data is left without its page.
    let drawing = file.with_extension("svg");
    for file in [file, &drawing] {
        if file.exists() {
            let source = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(RecordError::Io {
                file: file.to_owned(),
                source,
            });
        }
    }
    let has_plot = report.whole.is_some() || report.busy.is_some();
    let picture = has_plot.then(|| plot::svg(&figure(report))).transpose()?;
    create(&data, distribution(report).as_bytes())?;
    let shown = picture.is_some().then(|| name(&drawing));
    if let Some(picture) = picture {
        create(&drawing, picture.as_bytes())?;
    }
    let page = page(report, &name(&data), shown.as_deref(), now_unix_ns);
    create(file, page.as_bytes())?;
    Ok(data)
}

/// The page, with the names of the files of its data and its plot.
#[must_use]
pub fn page(report: &Report, data: &str, plot: Option<&str>, now_unix_ns: u64) -> String {
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut out, report, data, now_unix_ns);
    if let Some(plot) = plot {
        let _ = writeln!(out, "\n![How keys are spread]({plot})");
    }
    out
}

fn write_page(out: &mut String, report: &Report, data: &str, now_unix_ns: u64) -> std::fmt::Result {
    let nodes = report.nodes.len();
    let mode = report.verdict.mode.name();
    writeln!(out, "# Mode for {nodes} nodes by {}: {mode}\n", report.key)?;
    writeln!(
        out,
        "Measured {} by `leasehold measure` from the access logs of {nodes} nodes: {} requests{}.\n",
        Utc(now_unix_ns),
        text::grouped(report.requests),
        report.common_span.map_or_else(String::new, |span| format!(
            ", all nodes from {} to {}",
            Utc(span.first_unix_ns),
            Utc(span.last_unix_ns)
        ))
    )?;
    for reason in &report.verdict.reasons {
        writeln!(out, "- {reason}.")?;
    }
    for warning in &report.warnings {
        writeln!(out, "- Warning: {}.", warning.replace('\n', " "))?;
    }
    writeln!(
        out,
        "\nThe largest node's share of a key's requests times {nodes}: 1 is an even spread, {nodes} a key that is \
         pinned to one\nnode; up to {EVEN_ENOUGH} at the 95th percentile of keys, fixed shares are enough.\n"
    )?;
    writeln!(out, "| | keys | requests | p50 | p90 | p95 | p99 | max |")?;
    writeln!(out, "|---|---|---|---|---|---|---|---|")?;
    let slice = text::length(report.slice_ms);
    let within = format!("within {slice}");
    for (name, shares) in [
        ("over all time", &report.whole),
        (within.as_str(), &report.busy),
    ] {
        if let Some(shares) = shares {
            write_row(out, &format!("{name}, by key"), shares, false)?;
            write_row(out, &format!("{name}, by request"), shares, true)?;
        }
    }
    if let Some(limit) = &report.limit {
        let refused = limit.limit_admits.saturating_sub(limit.fixed_admits);
        writeln!(
            out,
            "\nOf a limit of {} per {}, fixed shares would have refused {} of {} requests that it admits; {:.1}% of \
             keys\nwould have been cut short by more than 1%.",
            text::grouped(limit.units),
            text::length(limit.window_ms),
            text::grouped(refused),
            text::grouped(limit.limit_admits),
            limit.share_of_keys_short * 100.0
        )?;
    }
    let keys = &report.keys;
    writeln!(
        out,
        "\nKeys with fewer than {} requests ({} of {}) are not judged: chance alone makes such a key look uneven.\n\
         The whole distribution is in [{data}]({data}).",
        text::grouped(keys.fewest_requests),
        text::grouped(keys.not_judged.iter().map(|band| band.keys).sum()),
        text::grouped(keys.all / keys.kept_one_in)
    )
}

fn write_row(out: &mut String, name: &str, shares: &Shares, by_request: bool) -> std::fmt::Result {
    let quantiles = if by_request {
        shares.by_request
    } else {
        shares.by_key
    };
    writeln!(
        out,
        "| {name} | {} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} |",
        text::grouped(shares.keys),
        text::grouped(shares.requests),
        quantiles.p50,
        quantiles.p90,
        quantiles.p95,
        quantiles.p99,
        quantiles.max
    )
}

/// The distribution as CSV: for each tenth of a percent of keys or requests, the share times N that so many are at or
/// below. Cells of what was not measured are empty.
#[must_use]
pub fn distribution(report: &Report) -> String {
    let mut out =
        "per_mille,whole_by_key,whole_by_request,slice_by_key,slice_by_request\n".to_owned();
    for step in 0..=STEPS {
        let share = f64::from(step) / f64::from(STEPS);
        out.push_str(&step.to_string());
        for shares in [&report.whole, &report.busy] {
            let spreads = shares
                .as_ref()
                .map(|shares| [&shares.key_spread, &shares.request_spread]);
            for at in 0..2 {
                out.push(',');
                if let Some(value) = spreads.and_then(|spreads| spreads[at].quantile(share)) {
                    out.push_str(&format!("{value:.4}"));
                }
            }
        }
        out.push('\n');
    }
    out
}

/// Writes all keys kept as CSV, in no order. Keys are keyed hashes.
///
/// # Errors
/// If writing fails.
pub fn write_keys(measured: &Measured, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(
        out,
        "key,requests,share_times_nodes,slice_requests,slice_share_times_nodes,limit_admits,fixed_admits"
    )?;
    let is_tried = measured.settings.limit.is_some();
    for key in measured.keys.iter() {
        write!(
            out,
            "{:032x},{},{:.4},",
            key.hash,
            key.requests(),
            key.share_times_nodes()
        )?;
        match key.busy_share_times_nodes() {
            Some(share) => write!(out, "{},{share:.4},", key.sums.busy)?,
            None => write!(out, ",,")?,
        }
        if is_tried {
            writeln!(out, "{},{}", key.sums.limit_admits, key.sums.fixed_admits)?;
        } else {
            writeln!(out, ",")?;
        }
    }
    Ok(())
}
