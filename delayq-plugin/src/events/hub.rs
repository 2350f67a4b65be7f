//! Hub: takes events of all handlers to whoever listens.

use std::sync::Arc;

use delayq_core::Clock;
use delayq_core::{TaskId, TaskType};
use tokio::sync::broadcast;

use super::{TaskEvent, TaskEventKind, TaskEvents};

/// Events that wait for the slowest listener; more are missed by it, and counted. About a megabyte.
const CAPACITY: usize = 4_096;

/// The sending end of the events of one process. Costs an atomic read while nobody listens.
#[derive(Clone, Debug)]
pub(crate) struct EventHub {
    sender: broadcast::Sender<TaskEvent>,
    clock: Arc<dyn Clock>,
}

impl EventHub {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        let sender = broadcast::Sender::new(CAPACITY);
        Self { sender, clock }
    }

    /// Sends what `kind` returns, if anybody listens.
    pub(crate) fn emit(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        kind: impl FnOnce() -> TaskEventKind,
    ) {
        if self.sender.receiver_count() == 0 {
            return;
        }
        let event = TaskEvent {
            task_type: task_type.clone(),
            id: id.clone(),
            at: self.clock.now(),
            kind: kind(),
        };
        // The last listener may have gone meanwhile.
        let _ = self.sender.send(event);
    }

    /// The events from now on.
    pub(crate) fn listen(&self) -> TaskEvents {
        TaskEvents::new(self.sender.subscribe())
    }
}
