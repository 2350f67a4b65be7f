//! Run of the workers of one task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delayq_core::store::AttemptEnd;
use delayq_core::worker::StopSignal;
use delayq_core::{AttemptHistory, Reply, TaskContext, TaskError, TaskResult};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, info_span};

use super::call::Invocation;
use crate::attempt::{AttemptFacts, FollowUps, Verdict, WorkerResult};
use crate::submit::TaskSubmitService;
use crate::workers::{TypeWorkers, Worker};

/// How a task ended here.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: AttemptEnd,
    pub(super) reply: Option<Reply>,
    /// A success is no end yet: the task is settled later.
    pub(super) is_open: bool,
}

/// The workers of a task, and what they are called with.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) tasks: TaskSubmitService,
    pub(super) workers: TypeWorkers,
    pub(super) call: Invocation,
    pub(super) stop: StopSignal,
}

impl Run {
    /// Runs all workers of the type, each within its time limit.
    pub(super) async fn all(self) -> Ended {
        let (app, begun) = (Handle::current(), Instant::now());
        let later = Arc::new(AtomicBool::new(false));
        let cx = self.call.context(self.tasks.clock.now(), self.stop.clone());
        let message: Arc<[u8]> = self.call.message.clone().into();
        let start = |(index, worker): (usize, &Worker)| {
            let one = One {
                tasks: self.tasks.clone(),
                worker: worker.clone(),
                message: Arc::clone(&message),
                cx: cx
                    .clone()
                    .with_retry(worker.options.retry)
                    .with_later(Arc::clone(&later))
                    .with_follow_ups_of(Some(index)),
            };
            one.start(&app)
        };
        let running: Vec<_> = self.workers.iter().enumerate().map(start).collect();
        let (mut results, mut reply) = (Vec::new(), None);
        for ((index, worker), mut handle) in self.workers.iter().enumerate().zip(running) {
            let limit = worker.options.timeout;
            let result = match timeout_at(begun + limit, &mut handle).await {
                Ok(Ok(Ok(answered))) => {
                    reply = answered.or(reply);
                    Ok(())
                }
                Ok(Ok(Err(error))) => Err(error),
                Ok(Err(panicked)) => Err(TaskError::retry(format!("the worker: {panicked}"))),
                Err(_) => {
                    self.stop.stop();
                    handle.abort();
                    Err(TaskError::retry(format!("not done within {limit:?}")))
                }
            };
            results.push(WorkerResult { index, result });
        }
        let facts = AttemptFacts {
            workers: &self.workers,
            attempt: self.call.attempt(),
            history: &AttemptHistory::default(),
            is_stopped: self.stop.is_stopped(),
        };
        Ended {
            end: Verdict::of_results(facts, results),
            reply,
            is_open: later.load(Ordering::Acquire),
        }
    }
}

/// One worker of a task.
struct One {
    tasks: TaskSubmitService,
    worker: Worker,
    message: Arc<[u8]>,
    cx: TaskContext,
}

impl One {
    fn start(self, app: &Handle) -> JoinHandle<Result<Option<Reply>, TaskError>> {
        if self.worker.options.blocking {
            let handle = app.clone();
            app.spawn_blocking(move || handle.block_on(self.run()))
        } else {
            app.spawn(async move { self.run().await })
        }
    }

    async fn run(&self) -> Result<Option<Reply>, TaskError> {
        let cx = &self.cx;
        let span = info_span!(
            "attempt",
            task_type = %cx.task_type(),
            id = %cx.id(),
            attempt = cx.attempt(),
            worker = %self.worker.name,
        );
        let run = async {
            self.worker.code.invoke_bytes(&self.message, cx).await?;
            let jobs = cx.take_follow_ups();
            if !jobs.is_empty() {
                self.follow_up(jobs).await?;
            }
            Ok(cx.take_reply())
        };
        run.instrument(span).await
    }

    async fn follow_up(&self, jobs: Vec<delayq_core::DelayQueueJob>) -> TaskResult {
        let follow_ups = FollowUps {
            cx: &self.cx,
            worker: &self.worker.name,
            tasks: &self.tasks,
        };
        // Boxed, as the future of every attempt would be as large.
        Box::pin(follow_ups.send(jobs)).await
    }
}
