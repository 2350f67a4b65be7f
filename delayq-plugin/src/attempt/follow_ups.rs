//! Sends the follow-ups that a worker recorded, before its attempt ends.

use delayq_core::{
    DelayQueueJob, Error, Result, TaskContext, TaskError, TaskId, TaskResult, TaskType, Timestamp,
    seconds,
};
use tracing::debug;
use xxhash_rust::xxh3::Xxh3;

use crate::submit::TaskSubmitService;

/// Number of characters of the task's id at the start of a follow-up's id, for people.
const READABLE: usize = 80;

/// The worker whose attempt succeeded, and the service that sends its follow-ups.
pub(crate) struct FollowUps<'a> {
    pub(crate) cx: &'a TaskContext,
    pub(crate) worker: &'a str,
    pub(crate) tasks: &'a TaskSubmitService,
}

impl FollowUps<'_> {
    /// Sends the recorded jobs; `Ok` once all of them are accepted. While the store is out of reach
    /// or full it tries again, until the attempt is told to stop: the work is done already.
    pub(crate) async fn send(self, jobs: Vec<DelayQueueJob>) -> TaskResult {
        let jobs = self.named(jobs);
        loop {
            let Err((error, job)) = self.send_all(&jobs).await else {
                return Ok(());
            };
            let is_outage = matches!(
                error,
                Error::Unavailable { .. } | Error::Indeterminate { .. } | Error::Full { .. }
            );
            debug!(%error, ?job, "a follow-up was not sent");
            if !is_outage || !self.may_try_again().await {
                return Err(not_sent(job.task_type(), job.task_id(), &error));
            }
        }
    }

    /// Passes the follow-ups recorded so far through the middleware, and records the results
    /// instead.
    pub(super) async fn pass_middleware(self) -> TaskResult {
        for job in self.named(self.cx.take_follow_ups()) {
            let (task_type, id) = (job.task_type().to_owned(), job.task_id().to_owned());
            let passed = self.tasks.pass_middleware(job).await;
            let recorded = passed.and_then(|job| self.cx.then(job));
            recorded.map_err(|error| not_sent(&task_type, &id, &error))?;
        }
        Ok(())
    }

    /// The jobs, each with its id.
    pub(super) fn named(&self, jobs: Vec<DelayQueueJob>) -> Vec<DelayQueueJob> {
        let jobs = jobs.into_iter().enumerate();
        jobs.map(|(index, job)| job.following_as(&self.id_of(index)))
            .collect()
    }

    async fn send_all<'a>(
        &self,
        jobs: &'a [DelayQueueJob],
    ) -> Result<(), (Error, &'a DelayQueueJob)> {
        let mut open = Vec::with_capacity(jobs.len());
        for job in jobs {
            if !self.is_sent(job).await.map_err(|error| (error, job))? {
                open.push(job);
            }
        }
        let results = self.tasks.send_all(open.iter().copied().cloned().collect());
        for (result, job) in results.await.into_iter().zip(open) {
            result.map_err(|error| (error, job))?;
        }
        Ok(())
    }

    /// True if an earlier attempt has sent this job. If that task has ended since, sending it again
    /// with another message would run it again.
    async fn is_sent(&self, job: &DelayQueueJob) -> Result<bool> {
        if !self.cx.is_repeat() || !job.has_generated_id() {
            return Ok(false);
        }
        let found = self.tasks.find(job.task_type(), job.task_id()).await?;
        Ok(found.is_some())
    }

    /// Waits a second. Returns false if the attempt is told to stop.
    async fn may_try_again(&self) -> bool {
        let clock = &self.tasks.clock;
        tokio::select! {
            () = self.cx.cancelled() => false,
            () = clock.sleep_until(clock.elapsed().saturating_add(seconds(1))) => true,
        }
    }

    /// The id of a follow-up: the same for each attempt of the task, also after a requeue, but
    /// different for a later task with the same id.
    fn id_of(&self, index: usize) -> String {
        let cx = self.cx;
        follow_up_id(
            cx.task_type(),
            cx.id(),
            cx.submitted_at(),
            self.worker,
            index,
        )
    }
}

/// The id of the follow-up with this index of a worker, see [`FollowUps::id_of`]. For programs that
/// send follow-ups for workers of other languages.
#[doc(hidden)]
#[must_use]
pub fn follow_up_id(
    task_type: &TaskType,
    id: &TaskId,
    submitted_at: Timestamp,
    worker: &str,
    index: usize,
) -> String {
    let mut hash = Xxh3::new();
    for part in [task_type.as_str(), id.as_str(), worker] {
        hash.update(&part.len().to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.update(&submitted_at.as_millis().to_le_bytes());
    let readable: String = id.as_str().chars().take(READABLE).collect();
    format!("{readable}+{index}.{:032x}", hash.digest128())
}

fn not_sent(task_type: &str, id: &str, error: &Error) -> TaskError {
    TaskError::retry(format!(
        "the worker succeeded, but its follow-up {task_type} {id} was not sent: {error}"
    ))
}
