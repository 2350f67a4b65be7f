//! Workers without handlers: they run when the application is handed a task.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use delayq_core::store::AttemptEnd;
use delayq_core::worker::{Attempt, StopSignal};
use delayq_core::{
    AttemptHistory, DelayQueueJob, Reply, Store, TaskContext, TaskError, TaskResult, TaskType,
    Timestamp,
};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, info_span, warn};

use crate::attempt::{AttemptFacts, FollowUps, Verdict, WorkerResult};
use crate::error::StartError;
use crate::plugin::{DelayQueuePluginBuilder, Prepared, prepare_set};
use crate::submit::TaskSubmitService;
use crate::workers::{TypeWorkers, Worker, WorkerRegistry};

/// The workers of a builder, for code that brings the tasks itself: nothing is claimed, and nothing
/// runs until [`TypeRunner::run`]. `delayq-endpoint` is built on it.
#[derive(Debug)]
pub struct WorkerSet {
    tasks: TaskSubmitService,
    registry: WorkerRegistry,
}

/// The end of one attempt, as its workers decided it.
#[derive(Debug)]
#[non_exhaustive]
pub struct AttemptResult {
    /// How it ended.
    pub end: AttemptEnd,
    /// The reply of the last worker that gave one.
    pub reply: Option<Reply>,
    /// A worker has called [`settle_later`](TaskContext::settle_later): a success does not end the
    /// task yet.
    pub is_open: bool,
}

/// The workers of one task type.
#[derive(Clone, Debug)]
pub struct TypeRunner {
    tasks: TaskSubmitService,
    workers: TypeWorkers,
}

impl WorkerSet {
    /// Builds the workers of a builder, as [`start`](DelayQueuePluginBuilder::start) does.
    /// Middleware, components, the options of workers and the configuration count; pools, listeners
    /// and recurring tasks do not.
    ///
    /// `component` makes one more component out of the store. A builder without a URL and without a
    /// store gets no such component, and its workers can send nothing.
    ///
    /// # Errors
    /// As for `start`.
    pub async fn build<C: Send + Sync + 'static>(
        builder: DelayQueuePluginBuilder,
        component: fn(&Arc<dyn Store>) -> C,
    ) -> Result<Self, StartError> {
        let Prepared { service, registry } = prepare_set(builder, component).await?;
        for recurring in registry.recurring() {
            let task_type = &recurring.task_type;
            warn!(%task_type, "a recurring task is not started: these workers only run when called");
        }
        Ok(Self {
            tasks: service,
            registry,
        })
    }

    /// The types that are served by name, sorted; a worker of a pattern is not among them.
    #[must_use]
    pub fn types(&self) -> Vec<TaskType> {
        self.registry.exact_types()
    }

    /// The workers of a type, by name or by pattern; `None` where no worker serves it.
    #[must_use]
    pub fn of_type(&self, task_type: &TaskType) -> Option<TypeRunner> {
        let workers = self.registry.of_type(task_type)?;
        Some(TypeRunner {
            tasks: self.tasks.clone(),
            workers,
        })
    }

    /// The present time of the builder's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.tasks.clock.now()
    }
}

impl TypeRunner {
    /// The most tasks of the type that may run at a time. The caller keeps the limit.
    #[must_use]
    pub fn concurrency(&self) -> usize {
        self.workers.combined().concurrency
    }

    /// Runs all workers of the type, each within its time limit, on the runtime of the caller. A
    /// worker that panics or is not done in time has failed. `stop` tells them to stop.
    pub async fn run(&self, attempt: Attempt, message: Vec<u8>, stop: StopSignal) -> AttemptResult {
        let (app, begun) = (Handle::current(), Instant::now());
        let later = Arc::new(AtomicBool::new(false));
        let tried = attempt.tried;
        let cx = TaskContext::new(attempt, stop.clone());
        let message: Arc<[u8]> = message.into();
        let start = |(index, worker): (usize, &Worker)| {
            let one = WorkerRun {
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
                    stop.stop();
                    handle.abort();
                    Err(TaskError::retry(format!("not done within {limit:?}")))
                }
            };
            results.push(WorkerResult { index, result });
        }
        let facts = AttemptFacts {
            workers: &self.workers,
            tried,
            history: &AttemptHistory::default(),
            is_stopped: stop.is_stopped(),
        };
        AttemptResult {
            end: Verdict::of_results(facts, results),
            reply,
            is_open: later.load(Ordering::Acquire),
        }
    }
}

/// One worker of a task.
struct WorkerRun {
    tasks: TaskSubmitService,
    worker: Worker,
    message: Arc<[u8]>,
    cx: TaskContext,
}

impl WorkerRun {
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

    async fn follow_up(&self, jobs: Vec<DelayQueueJob>) -> TaskResult {
        let follow_ups = FollowUps {
            cx: &self.cx,
            worker: &self.worker.name,
            tasks: &self.tasks,
        };
        // Boxed, as the future of every attempt would be as large.
        Box::pin(follow_ups.send(jobs)).await
    }
}
