//! From a frame to an envelope: decoded, and from and to whom it says.
//!
//! This is where a member is kept from speaking for another: no transport can forget it.

use lease::id::NodeId;
use lease::message::Envelope;
use wire::peer::DecodeError;

use super::inbox::Frame;

/// Why a frame is refused, whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// It is no envelope that this build understands.
    #[error(transparent)]
    Malformed(#[from] DecodeError),
    /// It says that it is from somebody else than it is.
    #[error("envelope.from is {:016x}, but node {:016x} sent it", claimed.0, proven.0)]
    NotTheSender {
        /// Who it says to be from.
        claimed: NodeId,
        /// Who sent it.
        proven: NodeId,
    },
    /// It is for another node.
    #[error("envelope.to is {:016x}, which is not this node", .0.0)]
    NotForThisNode(NodeId),
}

/// Opens a frame that was sent to node `me`.
///
/// # Errors
/// [`OpenError`]; nothing of the frame may be used.
pub fn open(frame: &Frame, me: NodeId) -> Result<Envelope, OpenError> {
    let envelope = wire::peer::decode(&frame.bytes)?;
    if envelope.from != frame.from {
        return Err(OpenError::NotTheSender {
            claimed: envelope.from,
            proven: frame.from,
        });
    }
    if envelope.to != me {
        return Err(OpenError::NotForThisNode(envelope.to));
    }
    Ok(envelope)
}
