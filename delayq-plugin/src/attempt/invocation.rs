//! Call of one worker.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::{Clock, TaskContext, TaskError, TaskResult};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinSet};
use tracing::{Instrument, info_span};

use super::LeaseDeadline;
use crate::workers::Worker;

/// What the workers of one attempt are called with.
#[derive(Clone)]
pub(crate) struct Invocation {
    pub(crate) cx: TaskContext,
    pub(crate) message: Arc<Vec<u8>>,
    pub(crate) clock: Arc<dyn Clock>,
    /// The end of the lock; `None`: the task runs now or never.
    pub(crate) deadline: Option<LeaseDeadline>,
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

    /// Runs one worker within a span that names the attempt, so that its events can be told apart.
    /// A busy runtime, or a process that was stopped, may come to it only after the lock has
    /// expired: then the task is given back.
    async fn run(&self, worker: &Worker) -> TaskResult {
        // Settled before it starts, an at-most-once task has no other attempt.
        let max_attempts = match self.deadline {
            Some(_) => worker.options.retry.max_attempts,
            None => 1,
        };
        let cx = &self.cx.clone().with_max_attempts(max_attempts);
        if let Some(deadline) = &self.deadline
            && (cx.is_cancelled() || deadline.at() <= self.clock.elapsed())
        {
            return Err(TaskError::release(Duration::ZERO));
        }
        let span = info_span!(
            "attempt",
            task_type = %cx.task_type(),
            id = %cx.id(),
            attempt = cx.attempt(),
            worker = %worker.name,
        );
        let run = worker.code.invoke_bytes(&self.message, cx);
        run.instrument(span).await
    }
}
