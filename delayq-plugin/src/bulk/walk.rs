//! Reads the tasks of a type that are in a state, page by page.

use delayq_core::operate::{Cursor, TypeStats};
use delayq_core::store::MAX_BATCH;
use delayq_core::{Result, Store, TaskId, TaskInfo, TaskState, TaskType};

use super::TaskFilter;

/// Tasks read beyond those that were there at the start.
const SLACK: u64 = 1_024;
/// How often each task may be met: where it was, where it was moved to, and once more.
const VISITS: u64 = 3;

/// One way through the tasks of a type in a state, by time and id. It only goes forward, and ends
/// after a number of tasks that is fixed at its start.
pub(super) struct Walk<'a> {
    store: &'a dyn Store,
    task_type: &'a TaskType,
    state: TaskState,
    filter: &'a TaskFilter,
    cursor: Option<Cursor>,
    is_over: bool,
    left: u64,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        store: &'a dyn Store,
        task_type: &'a TaskType,
        state: TaskState,
        filter: &'a TaskFilter,
        counts: &TypeStats,
    ) -> Self {
        let count = match state {
            TaskState::Scheduled => counts.scheduled,
            TaskState::Running => counts.running,
            _ => counts.dead,
        };
        Self {
            store,
            task_type,
            state,
            filter,
            cursor: first_cursor(filter),
            is_over: false,
            left: count.saturating_mul(VISITS).saturating_add(SLACK),
        }
    }

    /// The next tasks that match, perhaps none; `None` at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<TaskInfo>>> {
        if self.is_over || self.left == 0 {
            return Ok(None);
        }
        let cursor = self.cursor.as_ref();
        let page = self
            .store
            .list(self.task_type, self.state, cursor, MAX_BATCH)
            .await?;
        let last = page.tasks.last();
        self.is_over = page.next.is_none() || last.is_none_or(|last| self.filter.is_over(last.at));
        self.left = self.left.saturating_sub(page.tasks.len() as u64);
        self.cursor = page.next;
        let mut tasks = page.tasks;
        tasks.retain(|task| self.filter.matches(task));
        Ok(Some(tasks))
    }

    /// Whether it came to the last task.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Where a listing of what matches begins.
pub(super) fn first_cursor(filter: &TaskFilter) -> Option<Cursor> {
    let after = filter.due_after_time()?;
    // No id comes behind this one.
    let last_id = TaskId::new("~".repeat(delayq_core::name::MAX_TASK_ID_BYTES)).ok()?;
    Some(Cursor::new(after, last_id))
}
