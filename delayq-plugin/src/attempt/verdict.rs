//! The end of an attempt, decided by the results of its workers.

use std::time::Duration;

use delayq_core::store::AttemptEnd;
use delayq_core::{AttemptHistory, TaskError, TaskResult};

use crate::workers::TypeWorkers;

/// The result of one worker of a type.
#[derive(Debug)]
pub(crate) struct WorkerResult {
    /// Its index among the workers of the type.
    pub(crate) index: usize,
    pub(crate) result: TaskResult,
}

/// The facts about an attempt that a verdict needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptFacts<'a> {
    pub(crate) workers: &'a TypeWorkers,
    /// The number of attempts that its workers have had, this one included.
    pub(crate) tried: u32,
    pub(crate) history: &'a AttemptHistory,
    /// The attempt was told to stop or has lost its lock, so a release is not the worker's own
    /// wish.
    pub(crate) is_stopped: bool,
}

/// The votes of the workers.
///
/// If all succeeded, the task is done. If one returns dead, or has no attempt or release left, it
/// is dead. Otherwise it is retried after the longest wait that a failed worker asks for, or given
/// back if none failed and one asked for a release.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    dead: bool,
    retry: Option<Duration>,
    release: Option<Duration>,
    errors: Vec<String>,
}

impl Verdict {
    /// The end of an attempt whose workers have returned.
    pub(crate) fn of_results(facts: AttemptFacts<'_>, results: Vec<WorkerResult>) -> AttemptEnd {
        let mut verdict = Self::default();
        let mut succeeded = facts.history.succeeded.clone();
        for WorkerResult { index, result } in results {
            let Some(worker) = facts.workers.get(index) else {
                continue;
            };
            let (tried, retry) = (facts.tried, worker.options.retry);
            let (wait, error) = match result {
                Ok(()) => {
                    succeeded.push(worker.name.to_string());
                    continue;
                }
                Err(TaskError::Release(_))
                    if !facts.is_stopped
                        && facts.history.releases >= worker.options.max_releases =>
                {
                    let most = worker.options.max_releases;
                    let error = format!(
                        "it was released {most} times, and max_releases is {most}: return \
                         TaskError::retry_after(..) to wait for what fails, or raise max_releases"
                    );
                    (None, error)
                }
                Err(TaskError::Release(wait)) => {
                    verdict.release = verdict.release.max(Some(wait));
                    continue;
                }
                Err(TaskError::Dead(error)) => (None, error),
                Err(TaskError::RetryAfter(wait, error)) => {
                    ((tried < retry.max_attempts).then_some(wait), error)
                }
                Err(TaskError::Retry(error)) => (retry.wait_after(tried), error),
                // TaskError may grow: an unknown variant from a newer core is retried.
                Err(other) => (retry.wait_after(tried), format!("{other:?}")),
            };
            verdict.vote(wait);
            verdict.errors.push(match facts.workers.len() {
                1 => error,
                _ => format!("{}: {error}", worker.name),
            });
        }
        verdict.end(succeeded)
    }

    /// The end of an attempt that failed as a whole: every open worker failed with this error.
    pub(crate) fn of_failure(facts: AttemptFacts<'_>, error: &str) -> AttemptEnd {
        let mut verdict = Self::default();
        for (_, worker) in facts.workers.open(facts.history) {
            verdict.vote(worker.options.retry.wait_after(facts.tried));
            verdict.errors = vec![error.to_owned()];
        }
        verdict.end(facts.history.succeeded.clone())
    }

    /// A worker failed. `wait` is the time before the next attempt, or `None` if no attempt is
    /// left.
    fn vote(&mut self, wait: Option<Duration>) {
        match wait {
            Some(wait) => self.retry = self.retry.max(Some(wait)),
            None => self.dead = true,
        }
    }

    fn end(self, succeeded: Vec<String>) -> AttemptEnd {
        let error = self.errors.join("; ");
        match (self.dead, self.retry, self.release) {
            (true, ..) => AttemptEnd::Dead { error, succeeded },
            (_, Some(wait), released) => AttemptEnd::Retry {
                after: wait.max(released.unwrap_or(wait)),
                error,
                succeeded,
            },
            (_, None, Some(after)) => AttemptEnd::Release { after, succeeded },
            (_, None, None) => AttemptEnd::Done,
        }
    }
}
