//! Tasks of a type with workers still running in this process.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delayq_core::TaskId;

/// The ids, shared by all handlers of a type.
///
/// After a lost lock, another attempt of the same task can be claimed here while the worker of the
/// earlier one is still running. The new attempt is given back until that worker has returned, so
/// that one process never runs two attempts of a task side by side.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunningTasks(Arc<Mutex<HashSet<TaskId>>>);

/// Proof that no other attempt of the task runs here; dropped with its worker.
#[derive(Debug)]
pub(crate) struct RunningTask {
    tasks: RunningTasks,
    id: TaskId,
}

impl RunningTasks {
    /// Enters a task; `None` while an earlier attempt of it is running.
    pub(crate) fn enter(&self, id: &TaskId) -> Option<RunningTask> {
        let is_new = self.lock().insert(id.clone());
        is_new.then(|| RunningTask {
            tasks: self.clone(),
            id: id.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<TaskId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        self.tasks.lock().remove(&self.id);
    }
}
