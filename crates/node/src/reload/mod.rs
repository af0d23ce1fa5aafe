//! Policies read from their file and installed whole or not at all.
