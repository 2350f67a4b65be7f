//! Public facts about a batch.

use delayq_core::{TaskId, TaskState, TaskType};
use serde::Serialize;

use super::{BatchEnd, Watch};
use crate::receipt::Receipt;

/// The proof that a batch was accepted, with its members and its completion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BatchReceipt {
    /// The batch's name.
    pub name: TaskId,
    /// The receipts of its members, in order.
    pub members: Vec<Receipt>,
    /// The type of the completion.
    pub completion_type: TaskType,
    /// The id of the completion.
    pub completion_id: TaskId,
}

/// A batch, as [`TaskSubmitService::batch`](crate::TaskSubmitService::batch) finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BatchProgress {
    /// The state of the batch, and what it waits for, if anything.
    pub state: BatchState,
    /// The counts of its members so far; `None` once the batch is over: the completion has them.
    pub counts: Option<BatchEnd>,
    /// True if every member has been looked at. Otherwise some later members may have ended without
    /// being counted.
    pub is_exact: bool,
}

/// The state of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BatchState {
    /// Waiting for members that have not ended.
    Waiting,
    /// [`cancel_batch`](crate::TaskSubmitService::cancel_batch) was called, and the members are
    /// being cancelled. No completion is sent.
    Cancelled,
    /// It is over: the completion was sent, unless the batch was cancelled.
    Over,
    /// The task of type `delayq.batch` with its name is dead, and waits to be requeued or
    /// discarded.
    Dead,
}

impl BatchState {
    /// The state of a batch whose watcher is in `state`. `watch` is the watcher's message, until
    /// the watcher has ended.
    pub(crate) fn new(state: TaskState, watch: Option<&Watch>) -> Self {
        match (state, watch) {
            (TaskState::Dead, _) => Self::Dead,
            (_, Some(watch)) if watch.is_cancelled => Self::Cancelled,
            (_, Some(_)) => Self::Waiting,
            (_, None) => Self::Over,
        }
    }
}
