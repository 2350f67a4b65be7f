//! Follow-ups: the jobs that the workers of an attempt want sent at its end.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::TaskContext;
use crate::error::{Error, Result};
use crate::job::DelayQueueJob;

/// Most follow-ups of one worker in one attempt.
const MAX_FOLLOW_UPS: usize = 1_000;

/// What was recorded so far, with the index of its worker. Most attempts record nothing: then it is
/// one word.
#[derive(Debug, Default)]
pub(super) struct FollowUps(OnceLock<Mutex<Vec<(usize, DelayQueueJob)>>>);

impl FollowUps {
    /// Returns whether there was room.
    fn push(&self, worker: usize, job: DelayQueueJob) -> bool {
        let recorded = self.0.get_or_init(Mutex::default);
        let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let of_worker = recorded.iter().filter(|(of, _)| *of == worker).count();
        let has_room = of_worker < MAX_FOLLOW_UPS;
        if has_room {
            recorded.push((worker, job));
        }
        has_room
    }

    fn take(&self, worker: usize) -> Vec<DelayQueueJob> {
        let Some(recorded) = self.0.get() else {
            return Vec::new();
        };
        let mut recorded = recorded.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = recorded.extract_if(.., |(of, _)| *of == worker);
        taken.map(|(_, job)| job).collect()
    }
}

impl TaskContext {
    /// Has `job` sent when the worker has returned `Ok`, before its task ends as done: both happen,
    /// or the attempt is repeated. After an attempt that failed nothing is sent.
    ///
    /// Without an id of its own the job gets one that is made of the task, the worker and the
    /// position among the calls of `then`, so that a repeat of the attempt sends nothing twice: a
    /// repeat records the same jobs in the same order. A job with an id keeps what has the id
    /// already, unless it says [`replace`](DelayQueueJob::replace).
    ///
    /// The job is checked when it is sent: one that is refused fails the attempt.
    ///
    /// # Errors
    /// [`Error::InvalidInput`] in an at-most-once type, whose tasks end before they start; for the
    /// type and id of the task itself, which runs; and for more than 1,000 jobs.
    pub fn then(&self, job: DelayQueueJob) -> Result<()> {
        let invalid = |reason: &str| Err(Error::invalid("follow-up", reason));
        let Some(worker) = self.follow_ups_of else {
            return invalid(
                "an at-most-once task is done before it starts, so that nothing can be sent \
                 with its end: send with Component<TaskSubmitService>",
            );
        };
        if job.task_type() == self.task_type().as_str() && job.task_id() == self.id().as_str() {
            return invalid("it has the type and id of the task itself, which runs: give another");
        }
        if self.shared.follow_ups.push(worker, job) {
            return Ok(());
        }
        invalid("at most 1,000 in one attempt")
    }

    /// Takes what the worker of this context has recorded with [`then`](Self::then). The plugin
    /// does; tests of a worker may, too.
    #[must_use]
    pub fn take_follow_ups(&self) -> Vec<DelayQueueJob> {
        self.follow_ups_of
            .map(|worker| self.shared.follow_ups.take(worker))
            .unwrap_or_default()
    }

    /// The same context for the worker with this index among those of its type, whose follow-ups
    /// are its own; `None`: it can have none. Default: the first one.
    #[must_use]
    pub fn with_follow_ups_of(mut self, worker: Option<usize>) -> Self {
        self.follow_ups_of = worker;
        self
    }
}
