//! Call of one worker.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use delayq_core::{DelayQueueJob, TaskContext, TaskError, TaskResult};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};
use tracing::{Instrument, info_span, warn};

use super::LeaseDeadline;
use super::answer;
use super::end_within::{AttemptEndWithin, WithinFlag};
use super::follow_ups::FollowUps;
use super::suspect::Suspect;
use crate::submit::{TaskSubmitService, may_start};
use crate::workers::Worker;

/// The error of an attempt whose worker has settled it in a transaction and returned `Ok`. It is
/// one only if the transaction was not committed.
const NOT_COMMITTED: &str = "the transaction of settle_within was not committed";

/// Everything that the workers of one attempt are called with.
#[derive(Clone)]
pub(crate) struct Invocation {
    pub(crate) cx: TaskContext,
    pub(crate) message: Arc<Vec<u8>>,
    /// The index of the worker among those of its type.
    pub(crate) worker: usize,
    /// No other worker of the task is called.
    pub(crate) is_only_worker: bool,
    pub(crate) tasks: Arc<TaskSubmitService>,
    /// The end of the lock; `None` for an at-most-once task, which runs now or never.
    pub(crate) deadline: Option<LeaseDeadline>,
    /// It runs alone before its workers are called.
    pub(crate) suspect: Option<Arc<Suspect>>,
    pub(crate) within: WithinFlag,
}

impl Invocation {
    /// Starts one worker on the application's runtime. A blocking one gets a thread of the
    /// runtime's blocking pool.
    pub(crate) fn start(
        self,
        worker: Worker,
        results: &mut JoinSet<TaskResult>,
        app: &Handle,
    ) -> AbortHandle {
        if worker.options.blocking {
            let handle = app.clone();
            results.spawn_blocking_on(move || handle.block_on(self.run(&worker)), app)
        } else {
            results.spawn_on(async move { self.run(&worker).await }, app)
        }
    }

    /// Runs one worker, that of a suspect once the suspect is alone.
    async fn run(&self, worker: &Worker) -> TaskResult {
        let Some(suspect) = &self.suspect else {
            return self.run_worker(worker).await;
        };
        // Boxed, or the future of every attempt would be as large.
        let may_start = tokio::select! {
            may_start = Box::pin(suspect.begin()) => may_start,
            () = self.cx.cancelled() => false,
        };
        if !may_start {
            return Err(TaskError::release(Duration::ZERO));
        }
        let result = Box::pin(self.run_worker(worker)).await;
        Box::pin(suspect.returned()).await;
        result
    }

    /// Runs one worker in a span that names the attempt, so that its events can be told apart. A
    /// busy runtime or a suspended process may start it only after the lock has expired: then the
    /// task is given back.
    async fn run_worker(&self, worker: &Worker) -> TaskResult {
        // An at-most-once task is settled before it starts, so it has no other attempt.
        let max_attempts = match self.deadline {
            Some(_) => worker.options.retry.max_attempts,
            None => 1,
        };
        let follow_ups_of = self.deadline.as_ref().map(|_| self.worker);
        let cx = self.cx.clone().with_max_attempts(max_attempts);
        let cx = &cx
            .with_follow_ups_of(follow_ups_of)
            .with_end_within(Arc::new(self.end_within(worker)));
        if self.is_over(cx) {
            return Err(TaskError::release(Duration::ZERO));
        }
        let span = info_span!(
            "attempt",
            task_type = %cx.task_type(),
            id = %cx.id(),
            attempt = cx.attempt(),
            worker = %worker.name,
        );
        let run = async {
            if !may_start(&self.tasks, cx, &self.message).await {
                return Ok(());
            }
            // The store's answer may have been late.
            if self.is_over(cx) {
                return Err(TaskError::release(Duration::ZERO));
            }
            worker.code.invoke_bytes(&self.message, cx).await?;
            let (follow_ups, reply) = (cx.take_follow_ups(), cx.take_reply());
            // Boxed, or the future of every attempt would be as large.
            if !follow_ups.is_empty() {
                Box::pin(self.send_follow_ups(worker, cx, follow_ups)).await?;
            }
            if let Some(reply) = reply {
                Box::pin(answer::keep(cx, &self.tasks, reply)).await?;
            }
            if self.within.is_set() {
                return Err(TaskError::retry(NOT_COMMITTED));
            }
            Ok(())
        };
        run.instrument(span).await
    }

    fn end_within(&self, worker: &Worker) -> AttemptEndWithin {
        AttemptEndWithin {
            tasks: Arc::clone(&self.tasks),
            worker: Arc::clone(&worker.name),
            flag: self.within.clone(),
            is_at_most_once: self.deadline.is_none(),
            is_only_worker: self.is_only_worker,
            sent: Mutex::default(),
        }
    }

    async fn send_follow_ups(
        &self,
        worker: &Worker,
        cx: &TaskContext,
        jobs: Vec<DelayQueueJob>,
    ) -> TaskResult {
        if self.within.is_set() {
            let (task_type, id, late) = (cx.task_type(), cx.id(), jobs.len());
            warn!(%task_type, %id, late, "these follow-ups are not sent: they were recorded after \
                settle_within, which ends the task with those recorded before it");
            return Ok(());
        }
        if self.is_lock_over() {
            // The next holder of the lock sends its own follow-ups.
            return Err(TaskError::retry(
                "its lock expired before its follow-ups were sent",
            ));
        }
        let follow_ups = FollowUps {
            cx,
            worker: &worker.name,
            tasks: &self.tasks,
        };
        follow_ups.send(jobs).await
    }

    /// True if a task that can be given back should not start any more.
    fn is_over(&self, cx: &TaskContext) -> bool {
        self.is_lock_over() || (self.deadline.is_some() && cx.is_cancelled())
    }

    fn is_lock_over(&self) -> bool {
        let deadline = self.deadline.as_ref();
        deadline.is_some_and(|deadline| deadline.at() <= self.tasks.clock.elapsed())
    }
}
