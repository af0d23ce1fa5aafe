//! Who asks for what, when and where: streams of requests, each drawn from chance that the seed decides.
//!
//! Traffic is open-loop: no request waits for another's answer. Nothing here knows how a request fares.

mod keys;
mod stream;

pub use keys::{Choice, Zipf};
pub(crate) use stream::{Arrival, Flow};
pub use stream::{Arrivals, Logged, Place, Stream};
