//! From the generated message to the protocol's envelope, each field checked. It never repairs: a value that cannot be
//! refuses the whole.

use lease::bucket::{Bucket, Subject, WindowId};
use lease::id::{Epoch, Generation, LedgerId, NodeId, Seq, ViewId};
use lease::message::{Chunk, Envelope, Given, Grant, GrantRecord, Pledge, Report, ReportRecord};
use lease::terms::{Mode, OnDegraded, Shape, Terms};
use lease::time::Wall;

use super::{DecodeError, LEAST_WINDOW_NS, MOST_LEDGERS};
use crate::leasehold::peer::v1;

pub(super) fn envelope(schema: u16, from: v1::Envelope) -> Result<Envelope, DecodeError> {
    Ok(Envelope {
        schema,
        view: ViewId(from.view),
        from: NodeId(from.from),
        epoch: epoch(from.epoch, || "epoch".into())?,
        to: NodeId(from.to),
        sent_at: Wall(from.sent_at_ns),
        report: from.report.map(report).transpose()?,
        grant: from.grant.map(grant).transpose()?,
    })
}

fn epoch(from: Option<v1::Epoch>, field: impl FnOnce() -> String) -> Result<Epoch, DecodeError> {
    match from {
        Some(v1::Epoch { count, nonce }) => Ok(Epoch { count, nonce }),
        None => Err(DecodeError::Absent { field: field() }),
    }
}

fn chunk(from: Option<v1::Chunk>, of: &str) -> Result<Chunk, DecodeError> {
    let v1::Chunk { index, count } = from.ok_or_else(|| DecodeError::Absent {
        field: format!("{of}.chunk"),
    })?;
    let out_of_range = |name: &str, value, expected: String| DecodeError::OutOfRange {
        field: format!("{of}.chunk.{name}"),
        value,
        expected,
    };
    let checked = u32::try_from(count)
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| out_of_range("count", count, format!("1 to {}", u32::MAX)))?;
    match u32::try_from(index).ok().filter(|index| *index < checked) {
        Some(index) => Ok(Chunk {
            index,
            count: checked,
        }),
        None => Err(out_of_range("index", index, format!("less than {checked}"))),
    }
}

fn report(from: v1::Report) -> Result<Report, DecodeError> {
    let v1::Report {
        seq,
        chunk: piece,
        since,
        owner_epoch,
        pledge: promise,
        acked_grant,
        urgent,
        terms: all_terms,
        ledgers,
        records,
    } = from;
    if ledgers.len() > MOST_LEDGERS {
        return Err(DecodeError::TooMany {
            field: "report.ledgers",
            count: ledgers.len(),
            most: MOST_LEDGERS,
        });
    }
    let all_terms = numbered(all_terms, terms)?;
    Ok(Report {
        seq: Seq(seq),
        chunk: chunk(piece, "report")?,
        since: Seq(since),
        owner_epoch: owner_epoch.map(|v1::Epoch { count, nonce }| Epoch { count, nonce }),
        pledge: promise.map(pledge).transpose()?,
        acked_grant: Seq(acked_grant),
        urgent,
        records: numbered(records, |place, from| {
            report_record(place, from, &all_terms, &ledgers)
        })?,
    })
}

fn numbered<F, T>(
    from: Vec<F>,
    mut read: impl FnMut(usize, F) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let numbered = from.into_iter().enumerate();
    numbered.map(|(place, from)| read(place, from)).collect()
}

fn pledge(from: v1::Pledge) -> Result<Pledge, DecodeError> {
    let v1::Pledge { from_ns, until_ns } = from;
    if from_ns > until_ns {
        return Err(DecodeError::OutOfRange {
            field: "report.pledge.until_ns".into(),
            value: until_ns,
            expected: format!("at least from_ns, {from_ns}"),
        });
    }
    Ok(Pledge {
        from: Wall(from_ns),
        until: Wall(until_ns),
    })
}

fn terms(place: usize, from: v1::Terms) -> Result<Terms, DecodeError> {
    let out_of_range = |name: &str, value, expected: &str| DecodeError::OutOfRange {
        field: format!("report.terms[{place}].{name}"),
        value,
        expected: expected.into(),
    };
    // Enumerators are encoded as the two's complement in 64 bits.
    let unknown =
        |name, value: i32, expected| out_of_range(name, i64::from(value) as u64, expected);
    if from.window_ns < LEAST_WINDOW_NS {
        let expected = format!("at least {LEAST_WINDOW_NS}");
        return Err(out_of_range("window_ns", from.window_ns, &expected));
    }
    let shape = match v1::Shape::try_from(from.shape) {
        Ok(v1::Shape::FixedWindow) => Shape::FixedWindow,
        Ok(v1::Shape::SlidingWindow) => Shape::SlidingWindow,
        Ok(v1::Shape::TokenBucket) => Shape::TokenBucket { burst: from.burst },
        Ok(v1::Shape::Unspecified) | Err(_) => return Err(unknown("shape", from.shape, "1 to 3")),
    };
    let on_degraded = match v1::OnDegraded::try_from(from.on_degraded) {
        Ok(v1::OnDegraded::FairShare) => OnDegraded::FairShare,
        Ok(v1::OnDegraded::FailOpen) => OnDegraded::FailOpen,
        Ok(v1::OnDegraded::FailClosed) => OnDegraded::FailClosed,
        Ok(v1::OnDegraded::Unspecified) | Err(_) => {
            return Err(unknown("on_degraded", from.on_degraded, "1 to 3"));
        }
    };
    let mode = match v1::Mode::try_from(from.mode) {
        Ok(v1::Mode::Lease) => Mode::Lease,
        Ok(v1::Mode::Fixed) => Mode::Fixed,
        Ok(v1::Mode::Unspecified) | Err(_) => return Err(unknown("mode", from.mode, "1 or 2")),
    };
    Ok(Terms {
        units: from.units,
        window_ns: from.window_ns,
        shape,
        durable: from.durable,
        on_degraded,
        mode,
        revision: from.revision,
    })
}

/// The value at a place of a list.
fn at<T: Copy>(
    list: &[T],
    place: u64,
    of: &str,
    field: impl FnOnce() -> String,
) -> Result<T, DecodeError> {
    let value = usize::try_from(place)
        .ok()
        .and_then(|place| list.get(place));
    value.copied().ok_or_else(|| DecodeError::OutOfRange {
        field: field(),
        value: place,
        expected: format!("less than the {} {of} of the report", list.len()),
    })
}

const fn bucket(high: u64, low: u64, window: u64) -> Bucket {
    Bucket {
        subject: Subject(((high as u128) << 64) | low as u128),
        window: WindowId(window),
    }
}

fn report_record(
    place: usize,
    from: v1::ReportRecord,
    all_terms: &[Terms],
    ledgers: &[u64],
) -> Result<ReportRecord, DecodeError> {
    let v1::ReportRecord {
        subject_high,
        subject_low,
        window,
        terms,
        generation,
        spent,
        returned,
        self_granted,
        given,
        demand,
        available,
        pending,
        quantum,
    } = from;
    let returned = numbered(returned, |number, v1::Returned { ledger, units }| {
        let ledger = at(ledgers, ledger, "ledgers", || {
            format!("report.records[{place}].returned[{number}].ledger")
        })?;
        Ok((LedgerId(ledger), units))
    })?;
    let given = numbered(
        given,
        |number,
         v1::Given {
             to,
             epoch: of,
             units,
         }| {
            let of = epoch(of, || {
                format!("report.records[{place}].given[{number}].epoch")
            })?;
            Ok(Given {
                to: NodeId(to),
                epoch: of,
                units,
            })
        },
    )?;
    Ok(ReportRecord {
        bucket: bucket(subject_high, subject_low, window),
        terms: at(all_terms, terms, "terms", || {
            format!("report.records[{place}].terms")
        })?,
        generation: Generation(generation),
        spent,
        returned,
        self_granted,
        given,
        demand,
        available,
        pending,
        quantum,
    })
}

fn grant(from: v1::Grant) -> Result<Grant, DecodeError> {
    let v1::Grant {
        seq,
        chunk: piece,
        since,
        holder_epoch,
        ledger,
        authority_from_ns,
        acked_report,
        records,
    } = from;
    Ok(Grant {
        seq: Seq(seq),
        chunk: chunk(piece, "grant")?,
        since: Seq(since),
        holder_epoch: epoch(holder_epoch, || "grant.holder_epoch".into())?,
        ledger: LedgerId(ledger),
        authority_from: Wall(authority_from_ns),
        acked_report: Seq(acked_report),
        records: records.into_iter().map(grant_record).collect(),
    })
}

const fn grant_record(from: v1::GrantRecord) -> GrantRecord {
    let v1::GrantRecord {
        subject_high,
        subject_low,
        window,
        generation,
        granted_total,
        recall_to,
        exhausted,
        fleet_remaining,
        allowance,
    } = from;
    GrantRecord {
        bucket: bucket(subject_high, subject_low, window),
        generation: Generation(generation),
        granted_total,
        recall_to,
        exhausted,
        fleet_remaining,
        allowance,
    }
}
