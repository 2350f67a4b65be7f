//! Public facts about a batch.

use delayq_core::operate::Cursor;
use delayq_core::{Result, TaskId, TaskInfo, TaskState, TaskType, Timestamp};
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

/// A batch in a list, as its watcher saw it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct BatchSummary {
    /// The batch's name.
    pub name: TaskId,
    /// The state of the batch.
    pub state: BatchState,
    /// The counts of the members up to the first that had not ended at the last look. The members
    /// after it may have ended, too. `None` once the batch is over.
    pub counts: Option<BatchEnd>,
    /// The time when it was sent, if the store still knows.
    pub sent_at: Option<Timestamp>,
    /// The time of the next look at its members, or of its end.
    pub at: Timestamp,
    /// The type of the completion; `None` once the batch is over.
    pub completion_type: Option<TaskType>,
    /// The id of the completion; `None` once the batch is over.
    pub completion_id: Option<TaskId>,
}

/// A page of batches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchPage {
    /// The batches.
    pub batches: Vec<BatchSummary>,
    /// The start of the next page.
    pub next: Option<Cursor>,
}

impl BatchSummary {
    /// The batch of a watcher: of a task of type [`BATCH_TYPE`](crate::BATCH_TYPE), as the store
    /// has it. A batch of a newer release has no counts.
    ///
    /// # Errors
    /// `InvalidInput` for a task that is no watcher.
    pub fn of(watcher: &TaskInfo) -> Result<Self> {
        let message = watcher.message.as_deref();
        let watch = message.map(Watch::read).transpose()?.flatten();
        let watch = watch.as_ref();
        let completion = watch.map(Watch::completion);
        Ok(Self {
            name: watcher.id.clone(),
            state: BatchState::new(watcher.state, watch),
            counts: watch.map(|watch| watch.counts.clone()),
            sent_at: watcher.submitted_at,
            at: watcher.at,
            completion_type: completion.map(|(task_type, _)| task_type.clone()),
            completion_id: completion.map(|(_, id)| id.clone()),
        })
    }
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
