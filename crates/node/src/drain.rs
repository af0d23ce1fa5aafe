//! Going away without dropping a call: the phases of a node's life, which only ever go on.
//!
//! [`Phase::Leaving`] gives balancers time to turn away while everything is still served; [`Phase::Closing`] sends
//! GOAWAY (or `Connection: close`) and lets calls under way end.

use std::sync::Arc;

use tokio::sync::watch;

/// Where a node is in its life, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Not yet serving.
    Starting,
    /// Serving.
    Serving,
    /// Says that it goes, and still serves.
    Leaving,
    /// Takes nothing new; calls under way go on to their end.
    Closing,
}

/// The phase that a node is in. Clones speak of the same node.
#[derive(Clone, Debug)]
pub struct Life(Arc<watch::Sender<Phase>>);

impl Default for Life {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Phase::Starting)))
    }
}

impl Life {
    /// The phase now.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Goes on to a phase; does nothing in that or a later one.
    pub fn go_on_to(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let on = phase > *now;
            *now = phase.max(*now);
            on
        });
    }

    /// Waits for a phase or a later one.
    pub fn reached(&self, phase: Phase) -> impl Future<Output = ()> + Send + use<> {
        let mut receiver = self.0.subscribe();
        // Held so that the channel stays open: a wait on it then cannot fail.
        let sender = Arc::clone(&self.0);
        async move {
            let waited = receiver.wait_for(|now| *now >= phase).await;
            debug_assert!(waited.is_ok());
            drop(sender);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn phases_go_on_and_never_back() {
        let life = Life::default();
        assert_eq!(life.phase(), Phase::Starting);
        let leaving = tokio::spawn(life.reached(Phase::Leaving));
        life.go_on_to(Phase::Serving);
        life.go_on_to(Phase::Closing);
        life.go_on_to(Phase::Leaving);
        assert_eq!(life.phase(), Phase::Closing);
        leaving.await.unwrap();
        life.reached(Phase::Serving).await;
    }
}
