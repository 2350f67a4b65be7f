//! Hub: passes the events of all handlers to the listeners.

use std::sync::{Arc, OnceLock};

use delayq_core::{Clock, TaskId, TaskType};
use tokio::sync::broadcast;

use super::ends::{EndAlarm, Ends};
use super::{TaskEvent, TaskEventKind, TaskEvents};

/// Number of events kept for the slowest listener, about a megabyte. A listener that falls behind
/// further misses events, which are counted.
const CAPACITY: usize = 4_096;

/// The sending end of the events of one process. The channel is created for the first listener;
/// before that an event costs one check.
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

    /// Sends the event that `kind` returns, if there are listeners.
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
        // The last listener may leave meanwhile.
        let _ = sender.send(TaskEvent {
            task_type: task_type.clone(),
            id: id.clone(),
            at: self.clock.now(),
            kind: kind(),
        });
    }

    /// An alarm for everything that happens to one task here.
    pub(crate) fn alarm(&self, task_type: &TaskType, id: &TaskId) -> EndAlarm {
        EndAlarm::new(&self.ends, task_type, id)
    }

    /// The events from now on.
    pub(crate) fn listen(&self) -> TaskEvents {
        let sender = self.sender.get_or_init(|| broadcast::Sender::new(CAPACITY));
        TaskEvents::new(sender.subscribe())
    }
}
