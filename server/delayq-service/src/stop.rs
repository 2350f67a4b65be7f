//! The end of the server, as its parts hear of it.

use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Says in two steps that the server stops: first to those who choose a server, then to its own
/// parts. Cheap to clone; all clones are one.
#[derive(Clone, Debug, Default)]
pub struct Stopping {
    leaving: CancellationToken,
    ended: CancellationToken,
}

impl Stopping {
    /// The server is not ready for new requests from here on, and answers them still.
    pub fn leave(&self) {
        self.leaving.cancel();
    }

    /// No connection is accepted any more, and long waits end with an empty answer.
    pub fn end(&self) {
        self.leaving.cancel();
        self.ended.cancel();
    }

    /// Whether the server is about to stop.
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_cancelled()
    }

    /// Waits for the moment from which on the server is about to stop.
    pub fn left(&self) -> WaitForCancellationFuture<'_> {
        self.leaving.cancelled()
    }

    /// Waits for the moment at which long waits and streams have to end.
    pub fn ended(&self) -> WaitForCancellationFuture<'_> {
        self.ended.cancelled()
    }
}
