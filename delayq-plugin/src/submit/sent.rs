//! A task on its way to the store.

use delayq_core::{TaskId, TaskType, When};

/// What the receipt of a task is made from, beside the store's answer.
pub(super) struct Sent {
    /// Where its result belongs.
    pub(super) index: usize,
    pub(super) task_type: TaskType,
    pub(super) id: TaskId,
    pub(super) when: When,
}
