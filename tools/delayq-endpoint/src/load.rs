//! The tasks that run in an endpoint.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delayq_core::{TaskId, TaskType};
use tokio::sync::Notify;

/// The tasks that run, by type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load(Arc<LoadState>);

#[derive(Debug, Default)]
struct LoadState {
    running: Mutex<Running>,
    /// A task has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct Running {
    by_type: HashMap<TaskType, HashSet<TaskId>>,
    is_closed: bool,
}

/// Whether a task may start.
#[derive(Debug)]
pub(crate) enum Entry {
    /// It may.
    Entered(Permit),
    /// As many of its type run as may.
    Full,
    /// An earlier attempt of it still runs here.
    Repeated,
    /// The endpoint ends.
    Closed,
}

/// The permit of a task that runs; dropped when its workers have ended.
#[derive(Debug)]
pub(crate) struct Permit {
    load: Load,
    task_type: TaskType,
    id: TaskId,
}

impl Load {
    /// Lets a task in, if fewer than `most` of its type run.
    pub(crate) fn enter(&self, task_type: &TaskType, id: &TaskId, most: usize) -> Entry {
        let mut running = self.lock();
        if running.is_closed {
            return Entry::Closed;
        }
        let of_type = running.by_type.get(task_type);
        if of_type.is_some_and(|ids| ids.contains(id)) {
            return Entry::Repeated;
        }
        if of_type.is_some_and(|ids| ids.len() >= most) {
            return Entry::Full;
        }
        let of_type = running.by_type.entry(task_type.clone()).or_default();
        of_type.insert(id.clone());
        Entry::Entered(Permit {
            load: self.clone(),
            task_type: task_type.clone(),
            id: id.clone(),
        })
    }

    /// Lets nothing in any more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
    }

    /// Waits until nothing runs.
    pub(crate) async fn emptied(&self) {
        loop {
            let mut ended = std::pin::pin!(self.0.ended.notified());
            // Listening begins before the look, so that no end is missed.
            ended.as_mut().enable();
            if self.lock().by_type.is_empty() {
                return;
            }
            ended.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut running = self.load.lock();
        if let Some(ids) = running.by_type.get_mut(&self.task_type) {
            ids.remove(&self.id);
            if ids.is_empty() {
                running.by_type.remove(&self.task_type);
            }
        }
        drop(running);
        self.load.0.ended.notify_waiters();
    }
}
