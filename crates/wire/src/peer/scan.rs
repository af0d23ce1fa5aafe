//! A look over an envelope's bytes before they are decoded: which schema, and how many of each list.
//!
//! An empty record takes two bytes to send and over a hundred to keep, so lists are counted before room is made for
//! them. This walks the bytes once and allocates nothing.

use prost::DecodeError as NotProtobuf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

use super::{DecodeError, MOST_PARTS, MOST_RECORDS, SCHEMAS};

/// Field numbers of the schema.
mod field {
    pub(super) const SCHEMA: u32 = 1;
    pub(super) const REPORT: u32 = 7;
    pub(super) const GRANT: u32 = 8;
    pub(super) const REPORT_TERMS: u32 = 7;
    pub(super) const REPORT_RECORDS: u32 = 9;
    pub(super) const RECORD_RETURNED: u32 = 7;
    pub(super) const RECORD_GIVEN: u32 = 9;
    pub(super) const GRANT_RECORDS: u32 = 7;
}

/// A list's length so far.
struct Count {
    field: &'static str,
    count: usize,
    most: usize,
}

impl Count {
    const fn new(field: &'static str, most: usize) -> Self {
        Self {
            field,
            count: 0,
            most,
        }
    }

    const fn one_more(&mut self) -> Result<(), DecodeError> {
        self.count += 1;
        if self.count > self.most {
            return Err(DecodeError::TooMany {
                field: self.field,
                count: self.count,
                most: self.most,
            });
        }
        Ok(())
    }
}

/// The schema of an envelope whose lists are not too long.
pub(super) fn envelope(bytes: &[u8]) -> Result<u16, DecodeError> {
    let mut schema = None;
    // First the schema alone: in one that is not understood, the other fields may be anything.
    fields(bytes, |number, value| match (number, value) {
        (field::SCHEMA, Value::Varint(value)) => {
            schema = Some(known(value)?);
            Ok(())
        }
        _ => Ok(()),
    })?;
    let schema = schema.ok_or(DecodeError::UnknownSchema { schema: 0 })?;
    let mut terms = Count::new("report.terms", MOST_RECORDS);
    let mut records = Count::new("report.records", MOST_RECORDS);
    let mut granted = Count::new("grant.records", MOST_RECORDS);
    fields(bytes, |number, value| match (number, value) {
        (field::REPORT, Value::Bytes(report)) => {
            fields(report, |number, value| match (number, value) {
                (field::REPORT_TERMS, Value::Bytes(_)) => terms.one_more(),
                (field::REPORT_RECORDS, Value::Bytes(bytes)) => {
                    records.one_more()?;
                    record(bytes)
                }
                _ => Ok(()),
            })
        }
        (field::GRANT, Value::Bytes(grant)) => {
            fields(grant, |number, value| match (number, value) {
                (field::GRANT_RECORDS, Value::Bytes(_)) => granted.one_more(),
                _ => Ok(()),
            })
        }
        _ => Ok(()),
    })?;
    Ok(schema)
}

fn record(bytes: &[u8]) -> Result<(), DecodeError> {
    let mut returned = Count::new("report.records[].returned", MOST_PARTS);
    let mut given = Count::new("report.records[].given", MOST_PARTS);
    fields(bytes, |number, value| match (number, value) {
        (field::RECORD_RETURNED, Value::Bytes(_)) => returned.one_more(),
        (field::RECORD_GIVEN, Value::Bytes(_)) => given.one_more(),
        _ => Ok(()),
    })
}

fn known(schema: u64) -> Result<u16, DecodeError> {
    u16::try_from(schema)
        .ok()
        .filter(|schema| SCHEMAS.contains(schema))
        .ok_or(DecodeError::UnknownSchema { schema })
}

/// A field's value, as far as this module looks at it.
enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    Other,
}

/// Shows each field of a message.
fn fields<'a>(
    mut bytes: &'a [u8],
    mut show: impl FnMut(u32, Value<'a>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    while !bytes.is_empty() {
        let (number, wire_type) = decode_key(&mut bytes)?;
        let value = match wire_type {
            WireType::Varint => Value::Varint(decode_varint(&mut bytes)?),
            WireType::LengthDelimited => {
                let length = decode_varint(&mut bytes)?;
                let (value, rest) = usize::try_from(length)
                    .ok()
                    .and_then(|length| bytes.split_at_checked(length))
                    .ok_or_else(ends_early)?;
                bytes = rest;
                Value::Bytes(value)
            }
            WireType::SixtyFourBit
            | WireType::ThirtyTwoBit
            | WireType::StartGroup
            | WireType::EndGroup => {
                skip_field(wire_type, number, &mut bytes, DecodeContext::default())?;
                Value::Other
            }
        };
        show(number, value)?;
    }
    Ok(())
}

/// What prost says of bytes that end within a field.
fn ends_early() -> NotProtobuf {
    // A length of one, and nothing there.
    skip_field(
        WireType::LengthDelimited,
        1,
        &mut [1_u8].as_slice(),
        DecodeContext::default(),
    )
    .expect_err("the field ends early")
}
