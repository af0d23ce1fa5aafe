//! What must be true of a run, judged from outside: by code that shares nothing with the protocol.

mod accounts;
mod issuers;
mod spans;
mod starved;

pub use accounts::{Account, OverAdmission};
pub(crate) use accounts::{Accounts, ById};
pub(crate) use issuers::Issuers;
pub use issuers::TwoIssuers;
pub use spans::OverSpan;
pub use starved::Starved;
pub(crate) use starved::starved;
