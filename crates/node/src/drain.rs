//! Going away without dropping a call.
