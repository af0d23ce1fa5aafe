//! From the protocol's envelope to the generated message. What many records share is written once.

use lease::id::{Epoch, LedgerId};
use lease::message::{
    Chunk, Envelope, Given, Grant, GrantRecord, MOST_RECORDS, Pledge, Report, ReportRecord,
};
use lease::terms::{Mode, OnDegraded, Shape, Terms};

use super::{EncodeError, MOST_LEDGERS, MOST_PARTS};
use crate::leasehold::peer::v1;

pub(super) fn envelope(from: &Envelope) -> Result<v1::Envelope, EncodeError> {
    let Envelope {
        schema,
        view,
        from: sender,
        epoch: incarnation,
        to,
        sent_at,
        report: holders,
        grant: owners,
    } = from;
    Ok(v1::Envelope {
        schema: u32::from(*schema),
        view: view.0,
        from: sender.0,
        to: to.0,
        epoch: Some(epoch(*incarnation)),
        sent_at_ns: sent_at.0,
        report: holders.as_ref().map(report).transpose()?,
        grant: owners.as_ref().map(grant).transpose()?,
    })
}

const fn epoch(from: Epoch) -> v1::Epoch {
    let Epoch { count, nonce } = from;
    v1::Epoch { count, nonce }
}

fn chunk(from: Chunk) -> v1::Chunk {
    let Chunk { index, count } = from;
    v1::Chunk {
        index: index.into(),
        count: count.into(),
    }
}

const fn bounded(field: &'static str, count: usize, most: usize) -> Result<(), EncodeError> {
    if count > most {
        return Err(EncodeError::TooMany { field, count, most });
    }
    Ok(())
}

/// A list of different values, in which records find theirs by place.
struct Places<T>(Vec<T>);

impl<T: Copy + PartialEq> Places<T> {
    fn place(&mut self, value: T) -> u64 {
        // The last ones first: neighbouring records tend to share.
        let place = self.0.iter().rposition(|known| *known == value);
        place.unwrap_or_else(|| {
            self.0.push(value);
            self.0.len() - 1
        }) as u64
    }
}

fn report(from: &Report) -> Result<v1::Report, EncodeError> {
    let Report {
        seq,
        chunk: piece,
        since,
        owner_epoch,
        pledge: promise,
        acked_grant,
        urgent,
        records,
    } = from;
    bounded("report.records", records.len(), MOST_RECORDS)?;
    let (mut all_terms, mut ledgers) = (Places(Vec::new()), Places(Vec::new()));
    let records = records
        .iter()
        .map(|record| report_record(record, &mut all_terms, &mut ledgers))
        .collect::<Result<_, _>>()?;
    bounded("report.ledgers", ledgers.0.len(), MOST_LEDGERS)?;
    Ok(v1::Report {
        seq: seq.0,
        chunk: Some(chunk(*piece)),
        since: since.0,
        owner_epoch: owner_epoch.map(epoch),
        pledge: promise.map(|Pledge { from, until }| v1::Pledge {
            from_ns: from.0,
            until_ns: until.0,
        }),
        acked_grant: acked_grant.0,
        urgent: *urgent,
        terms: all_terms.0.into_iter().map(terms).collect(),
        ledgers: ledgers.0,
        records,
    })
}

fn report_record(
    from: &ReportRecord,
    all_terms: &mut Places<Terms>,
    ledgers: &mut Places<u64>,
) -> Result<v1::ReportRecord, EncodeError> {
    let ReportRecord {
        bucket,
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
    bounded("report.records[].returned", returned.len(), MOST_PARTS)?;
    bounded("report.records[].given", given.len(), MOST_PARTS)?;
    let (subject_high, subject_low) = halves(bucket.subject.0);
    Ok(v1::ReportRecord {
        subject_high,
        subject_low,
        window: bucket.window.0,
        terms: all_terms.place(*terms),
        generation: generation.0,
        spent: *spent,
        returned: returned
            .iter()
            .map(|(LedgerId(ledger), units)| v1::Returned {
                ledger: ledgers.place(*ledger),
                units: *units,
            })
            .collect(),
        self_granted: *self_granted,
        given: given
            .iter()
            .map(
                |Given {
                     to,
                     epoch: of,
                     units,
                 }| v1::Given {
                    to: to.0,
                    epoch: Some(epoch(*of)),
                    units: *units,
                },
            )
            .collect(),
        demand: *demand,
        available: *available,
        pending: *pending,
        quantum: *quantum,
    })
}

const fn halves(subject: u128) -> (u64, u64) {
    ((subject >> 64) as u64, subject as u64)
}

fn terms(from: Terms) -> v1::Terms {
    let Terms {
        units,
        window_ns,
        shape,
        durable,
        on_degraded,
        mode,
        revision,
    } = from;
    let (shape, burst) = match shape {
        Shape::FixedWindow => (v1::Shape::FixedWindow, 0),
        Shape::SlidingWindow => (v1::Shape::SlidingWindow, 0),
        Shape::TokenBucket { burst } => (v1::Shape::TokenBucket, burst),
    };
    let on_degraded = match on_degraded {
        OnDegraded::FairShare => v1::OnDegraded::FairShare,
        OnDegraded::FailOpen => v1::OnDegraded::FailOpen,
        OnDegraded::FailClosed => v1::OnDegraded::FailClosed,
    };
    let mode = match mode {
        Mode::Lease => v1::Mode::Lease,
        Mode::Fixed => v1::Mode::Fixed,
    };
    v1::Terms {
        units,
        window_ns,
        shape: shape.into(),
        burst,
        durable,
        on_degraded: on_degraded.into(),
        mode: mode.into(),
        revision,
    }
}

fn grant(from: &Grant) -> Result<v1::Grant, EncodeError> {
    let Grant {
        seq,
        chunk: piece,
        since,
        holder_epoch,
        ledger,
        authority_from,
        acked_report,
        records,
    } = from;
    bounded("grant.records", records.len(), MOST_RECORDS)?;
    Ok(v1::Grant {
        seq: seq.0,
        chunk: Some(chunk(*piece)),
        since: since.0,
        holder_epoch: Some(epoch(*holder_epoch)),
        ledger: ledger.0,
        authority_from_ns: authority_from.0,
        acked_report: acked_report.0,
        records: records.iter().map(grant_record).collect(),
    })
}

const fn grant_record(from: &GrantRecord) -> v1::GrantRecord {
    let GrantRecord {
        bucket,
        generation,
        granted_total,
        recall_to,
        exhausted,
        fleet_remaining,
        allowance,
    } = *from;
    let (subject_high, subject_low) = halves(bucket.subject.0);
    v1::GrantRecord {
        subject_high,
        subject_low,
        window: bucket.window.0,
        generation: generation.0,
        granted_total,
        recall_to,
        exhausted,
        fleet_remaining,
        allowance,
    }
}
