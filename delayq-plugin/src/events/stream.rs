//! Stream of events.

use tokio::sync::broadcast;

use super::TaskEvent;

/// The events of this process from now on, in the order of each handler. See
/// [`DelayQueuePlugin::events`](crate::DelayQueuePlugin::events).
///
/// The stream holds up to 4,096 events that have not been read. A slower reader misses the oldest
/// ones; tasks never wait for it.
#[derive(Debug)]
pub struct TaskEvents {
    receiver: broadcast::Receiver<TaskEvent>,
    missed: u64,
}

impl TaskEvents {
    pub(super) fn new(receiver: broadcast::Receiver<TaskEvent>) -> Self {
        Self {
            receiver,
            missed: 0,
        }
    }

    /// The next event; `None` once the plugin and its submit services are gone. The future may be
    /// dropped at any point without losing an event.
    pub async fn next(&mut self) -> Option<TaskEvent> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(count)) => self.missed += count,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// The number of events that this reader missed.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }
}
