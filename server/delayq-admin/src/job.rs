//! A long change that runs in the background of this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use delayq_plugin::Timestamp;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// The state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    Running,
    /// The job has ended, with this result.
    Done(String),
    /// The store failed during the job.
    Failed(String),
    /// This viewer stopped the job.
    Stopped(String),
}

/// A change of many tasks.
#[derive(Debug)]
pub(crate) struct BulkJob {
    pub(crate) number: u64,
    /// The verb, such as `requeue`.
    pub(crate) verb: &'static str,
    pub(crate) task_type: String,
    /// The selected tasks, in words.
    pub(crate) target: String,
    /// The viewer who started it.
    pub(crate) actor: String,
    pub(crate) began_at: Timestamp,
    done: AtomicU64,
    count: AtomicU64,
    state: watch::Sender<JobState>,
    abort: Mutex<Option<AbortHandle>>,
}

/// The subject of a job.
pub(crate) struct Errand {
    pub(crate) verb: &'static str,
    pub(crate) task_type: String,
    pub(crate) target: String,
    pub(crate) actor: String,
    pub(crate) count: u64,
}

impl BulkJob {
    pub(crate) fn new(number: u64, errand: Errand, began_at: Timestamp) -> Self {
        Self {
            number,
            verb: errand.verb,
            task_type: errand.task_type,
            target: errand.target,
            actor: errand.actor,
            began_at,
            done: AtomicU64::new(0),
            count: AtomicU64::new(errand.count),
            state: watch::Sender::new(JobState::Running),
            abort: Mutex::default(),
        }
    }

    /// Updates the progress: `done` tasks of `count`.
    pub(crate) fn advance(&self, done: u64, count: u64) {
        self.done.store(done, Ordering::Relaxed);
        self.count.store(count, Ordering::Relaxed);
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    pub(crate) fn state(&self) -> JobState {
        self.state.borrow().clone()
    }

    pub(crate) fn is_running(&self) -> bool {
        *self.state.borrow() == JobState::Running
    }

    /// Ends the job; returns true unless it had already ended.
    pub(crate) fn end(&self, state: JobState) -> bool {
        self.state.send_if_modified(|present| {
            let ends = *present == JobState::Running;
            if ends {
                *present = state;
            }
            ends
        })
    }

    /// Waits for the end of the job.
    pub(crate) async fn ended(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| *state != JobState::Running).await;
    }

    pub(crate) fn runs_as(&self, handle: AbortHandle) {
        *self.abort() = Some(handle);
    }

    /// Stops the job; completed changes stay. Returns true if it was running.
    pub(crate) fn stop(&self, viewer: &str) -> bool {
        let stopped = self.end(JobState::Stopped(viewer.to_owned()));
        if let Some(handle) = self.abort().take().filter(|_| stopped) {
            handle.abort();
        }
        stopped
    }

    fn abort(&self) -> MutexGuard<'_, Option<AbortHandle>> {
        self.abort.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
