//! What must be true of a run, judged from outside: by code that shares nothing with the protocol.

mod accounts;
mod spans;
mod starved;

pub use accounts::{Account, OverAdmission};
pub(crate) use accounts::{Accounts, ById};
pub use spans::OverSpan;
pub use starved::Starved;
pub(crate) use starved::starved;
