//! The stop signal of the server.

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Signals in two steps that the server stops: first to load balancers, then to its own parts.
/// Cheap to clone; all clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Stopping {
    leaving: CancellationToken,
    ended: CancellationToken,
}

impl Stopping {
    /// The server reports that it is not ready, but still answers requests.
    pub fn leave(&self) {
        self.leaving.cancel();
    }

    /// No more connections are accepted, and long waits end with an empty answer.
    pub fn end(&self) {
        self.leaving.cancel();
        self.ended.cancel();
    }

    /// Returns true if the server is about to stop.
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_cancelled()
    }

    /// Completes when the server is about to stop.
    pub fn left(&self) -> WaitForCancellationFuture<'_> {
        self.leaving.cancelled()
    }

    /// Completes when long waits and streams must end.
    pub fn ended(&self) -> WaitForCancellationFuture<'_> {
        self.ended.cancelled()
    }
}
