//! Logs with stable field names, redacted.
