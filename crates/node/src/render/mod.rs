//! What a decision looks like to a client: headers, body, status.
