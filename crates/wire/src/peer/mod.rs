//! The lease protocol's envelopes as bytes.
//!
//! [`decode`] understands the whole of an envelope or refuses the whole of it (S3), whatever the bytes are: it looks at
//! the schema first, and counts what is in a message before it makes room for it.

mod read;
mod scan;
mod write;

use std::ops::RangeInclusive;

use lease::message::{Envelope, MOST_RECORDS, SCHEMA};
use prost::Message as _;
use prost::bytes::Bytes;

use crate::leasehold::peer::v1;
pub use crate::leasehold::peer::v1::{Ended, Frame, peer_client, peer_server};

/// The schemas that are understood: this build's, and the one before it.
pub const SCHEMAS: RangeInclusive<u16> = (if SCHEMA > 1 { SCHEMA - 1 } else { SCHEMA })..=SCHEMA;

/// The most bytes of an envelope. A full one, with [`MOST_RECORDS`] each way, has some 40 kB in operation.
pub const MOST_BYTES: usize = 1 << 20;

/// The most ledgers that one record may have returned units of, and the most deputies that it may have given units to.
pub const MOST_PARTS: usize = 64;

/// The most ledgers that all records of a report may name.
pub const MOST_LEDGERS: usize = 512;

/// The shortest window, in nanoseconds: 100 ms.
pub const LEAST_WINDOW_NS: u64 = 100_000_000;

/// Why an envelope cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A list is too long.
    #[error("{field}: {count} are too many, at most {most}")]
    TooMany {
        /// The list.
        field: &'static str,
        /// How many there are.
        count: usize,
        /// The most.
        most: usize,
    },
    /// Too many bytes in all.
    #[error(
        "an envelope of {bytes} bytes is too large, at most {MOST_BYTES}: send it in more chunks"
    )]
    TooLarge {
        /// How many.
        bytes: usize,
    },
}

/// Why bytes are no envelope. Nothing of them may be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Too many bytes.
    #[error("an envelope of {bytes} bytes is too large, at most {MOST_BYTES}")]
    TooLarge {
        /// How many.
        bytes: usize,
    },
    /// Another format than this build knows; 0 if the schema is absent.
    #[error("schema is {schema}: this build understands {} to {}", SCHEMAS.start(), SCHEMAS.end())]
    UnknownSchema {
        /// The schema.
        schema: u64,
    },
    /// Not the encoding.
    #[error("not a protobuf envelope: {0}")]
    NotProtobuf(#[from] prost::DecodeError),
    /// A list is too long.
    #[error("{field}: {count} are too many, at most {most}")]
    TooMany {
        /// The list.
        field: &'static str,
        /// How many there are, or so many at least.
        count: usize,
        /// The most.
        most: usize,
    },
    /// A field is absent.
    #[error("{field} is absent")]
    Absent {
        /// The field.
        field: String,
    },
    /// A value that cannot be.
    #[error("{field} is {value}: expected {expected}")]
    OutOfRange {
        /// The field.
        field: String,
        /// Its value.
        value: u64,
        /// What would be right.
        expected: String,
    },
}

/// Writes an envelope.
///
/// In operation a record takes some 40 bytes, and an envelope without records 150: see the test `bytes_a_record`.
///
/// # Errors
/// [`EncodeError`] if a receiver would refuse it for its length.
pub fn encode(envelope: &Envelope) -> Result<Bytes, EncodeError> {
    let message = write::envelope(envelope)?;
    let bytes = message.encoded_len();
    if bytes > MOST_BYTES {
        return Err(EncodeError::TooLarge { bytes });
    }
    Ok(message.encode_to_vec().into())
}

/// Reads an envelope.
///
/// # Errors
/// [`DecodeError`], which names the field at fault.
pub fn decode(bytes: &[u8]) -> Result<Envelope, DecodeError> {
    if bytes.len() > MOST_BYTES {
        return Err(DecodeError::TooLarge { bytes: bytes.len() });
    }
    let schema = scan::envelope(bytes)?;
    read::envelope(schema, v1::Envelope::decode(bytes)?)
}

#[cfg(test)]
mod tests;
