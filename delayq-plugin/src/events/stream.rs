//! Stream of events.

use tokio::sync::broadcast;

use super::TaskEvent;

/// The events of this process from now on, in the order of each handler. See
/// [`DelayQueuePlugin::events`](crate::DelayQueuePlugin::events).
///
/// It holds 4,096 events that have not been taken yet. A reader that is slower misses the oldest
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

    /// The next event; `None` once the plugin and its submit services are gone. May be dropped at
    /// any point without losing an event.
    pub async fn next(&mut self) -> Option<TaskEvent> {
        loop {
            match self.receiver.recv().await {
                Ok(event) => return Some(event),
                Err(broadcast::error::RecvError::Lagged(count)) => self.missed += count,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// How many events this reader was too slow for.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }
}
