//! What is told of a batch.

use delayq_core::{TaskId, TaskState, TaskType};
use serde::Serialize;

use super::{BatchEnd, Watch};
use crate::receipt::Receipt;

/// The proof that a batch was accepted: its members, and what follows them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BatchReceipt {
    /// The batch's name.
    pub name: TaskId,
    /// The receipts of its members, in their order.
    pub members: Vec<Receipt>,
    /// The type of the task that follows.
    pub completion_type: TaskType,
    /// Its id.
    pub completion_id: TaskId,
}

/// A batch, as [`TaskSubmitService::batch`](crate::TaskSubmitService::batch) finds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BatchProgress {
    /// What it waits for, if for anything.
    pub state: BatchState,
    /// What has become of its members so far; `None` once the batch is over: the completion has it.
    pub counts: Option<BatchEnd>,
    /// Whether every member has been looked at. Otherwise some of those that come later in the
    /// batch may have ended and are not counted.
    pub is_exact: bool,
}

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BatchState {
    /// For members that have not ended.
    Waiting,
    /// [`cancel_batch`](crate::TaskSubmitService::cancel_batch) was called, and its members are
    /// being cancelled. Nothing follows.
    Cancelled,
    /// It is over: the completion was sent, unless the batch was cancelled.
    Over,
    /// The task of type `delayq.batch` with its name is dead, and waits to be requeued or
    /// discarded.
    Dead,
}

impl BatchState {
    /// That of a batch whose watcher is in `state`; `watch` is what it says, until it has ended.
    pub(crate) fn new(state: TaskState, watch: Option<&Watch>) -> Self {
        match (state, watch) {
            (TaskState::Dead, _) => Self::Dead,
            (_, Some(watch)) if watch.is_cancelled => Self::Cancelled,
            (_, Some(_)) => Self::Waiting,
            (_, None) => Self::Over,
        }
    }
}
