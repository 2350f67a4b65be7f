//! The running and ended jobs of this process.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use delayq_plugin::Timestamp;

use crate::job::{BulkJob, Errand, JobState};

/// The largest number of jobs in the list. Running jobs are always kept.
const MAX_JOBS: usize = 50;
/// The largest number of concurrent jobs. Each keeps one call of the store under way.
const MAX_RUNNING: usize = 8;

/// The list of jobs.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    list: Mutex<VecDeque<Arc<BulkJob>>>,
    last: AtomicU64,
}

impl Jobs {
    /// Starts a job; `None` if too many are running.
    pub(crate) fn begin<F>(
        &self,
        errand: Errand,
        now: Timestamp,
        work: impl FnOnce(Arc<BulkJob>) -> F,
    ) -> Option<Arc<BulkJob>>
    where
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        let mut list = self.lock();
        if list.iter().filter(|job| job.is_running()).count() >= MAX_RUNNING {
            return None;
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let job = Arc::new(BulkJob::new(number, errand, now));
        while list.len() >= MAX_JOBS {
            let ended = list.iter().rposition(|job| !job.is_running());
            ended.and_then(|nth| list.remove(nth));
        }
        list.push_front(Arc::clone(&job));
        drop(list);
        let (work, own) = (work(Arc::clone(&job)), Arc::clone(&job));
        let handle = tokio::spawn(async move {
            let state = match work.await {
                Ok(said) => JobState::Done(said),
                Err(error) => JobState::Failed(error),
            };
            own.end(state);
        });
        job.runs_as(handle.abort_handle());
        Some(job)
    }

    /// All jobs, latest first.
    pub(crate) fn all(&self) -> Vec<Arc<BulkJob>> {
        self.lock().iter().cloned().collect()
    }

    pub(crate) fn find(&self, number: u64) -> Option<Arc<BulkJob>> {
        self.lock().iter().find(|job| job.number == number).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<BulkJob>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
