//! Ends of single tasks, for callers that wait for one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delayq_core::{TaskId, TaskType};
use tokio::sync::Notify;

type Key = (TaskType, TaskId);

/// The waiters for tasks of this process. Without waiters, an event costs one atomic read.
#[derive(Debug, Default)]
pub(super) struct Ends {
    count: AtomicUsize,
    alarms: Mutex<HashMap<Key, Vec<Arc<Notify>>>>,
}

impl Ends {
    fn alarms(&self) -> MutexGuard<'_, HashMap<Key, Vec<Arc<Notify>>>> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the waiters of this task.
    pub(super) fn ring(&self, task_type: &TaskType, id: &TaskId) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let alarms = self.alarms();
        let waiting = alarms.get(&(task_type.clone(), id.clone()));
        waiting
            .into_iter()
            .flatten()
            .for_each(|one| one.notify_one());
    }
}

/// An alarm that rings when something happens to one task in this process.
#[derive(Debug)]
pub(crate) struct EndAlarm {
    ends: Arc<Ends>,
    key: Key,
    notify: Arc<Notify>,
}

impl EndAlarm {
    pub(super) fn new(ends: &Arc<Ends>, task_type: &TaskType, id: &TaskId) -> Self {
        let (key, notify) = ((task_type.clone(), id.clone()), Arc::new(Notify::new()));
        let mut alarms = ends.alarms();
        let waiting = alarms.entry(key.clone()).or_default();
        waiting.push(Arc::clone(&notify));
        ends.count.fetch_add(1, Ordering::AcqRel);
        drop(alarms);
        Self {
            ends: Arc::clone(ends),
            key,
            notify,
        }
    }

    /// Completes once for each ring, including one before the call.
    pub(crate) async fn rung(&self) {
        self.notify.notified().await;
    }
}

impl Drop for EndAlarm {
    fn drop(&mut self) {
        let mut alarms = self.ends.alarms();
        if let Some(waiting) = alarms.get_mut(&self.key) {
            waiting.retain(|one| !Arc::ptr_eq(one, &self.notify));
            if waiting.is_empty() {
                alarms.remove(&self.key);
            }
        }
        self.ends.count.fetch_sub(1, Ordering::AcqRel);
    }
}
