//! The gate's tests against its public face.

mod table;
