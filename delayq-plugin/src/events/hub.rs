//! Hub: takes events of all handlers to whoever listens.

use std::sync::{Arc, OnceLock};

use delayq_core::{Clock, TaskId, TaskType};
use tokio::sync::broadcast;

use super::ends::{EndAlarm, Ends};
use super::{TaskEvent, TaskEventKind, TaskEvents};

/// Events that wait for the slowest listener; more are missed by it, and counted. About a megabyte.
const CAPACITY: usize = 4_096;

/// The sending end of the events of one process. The channel is made for the first listener;
/// without one an event costs a look.
#[derive(Clone, Debug)]
pub(crate) struct EventHub {
    sender: Arc<OnceLock<broadcast::Sender<TaskEvent>>>,
    ends: Arc<Ends>,
    clock: Arc<dyn Clock>,
}

impl EventHub {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            sender: Arc::default(),
            ends: Arc::default(),
            clock,
        }
    }

    /// Sends what `kind` returns, if anybody listens.
    pub(crate) fn emit(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        kind: impl FnOnce() -> TaskEventKind,
    ) {
        self.ends.ring(task_type, id);
        let Some(sender) = self.sender.get() else {
            return;
        };
        if sender.receiver_count() == 0 {
            return;
        }
        // The last listener may go meanwhile.
        let _ = sender.send(TaskEvent {
            task_type: task_type.clone(),
            id: id.clone(),
            at: self.clock.now(),
            kind: kind(),
        });
    }

    /// An alarm for whatever becomes of one task here.
    pub(crate) fn alarm(&self, task_type: &TaskType, id: &TaskId) -> EndAlarm {
        EndAlarm::new(&self.ends, task_type, id)
    }

    /// The events from now on.
    pub(crate) fn listen(&self) -> TaskEvents {
        let sender = self.sender.get_or_init(|| broadcast::Sender::new(CAPACITY));
        TaskEvents::new(sender.subscribe())
    }
}
