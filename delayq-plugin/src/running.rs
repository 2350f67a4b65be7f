//! One attempt under way: its workers, on the application's runtime.

use std::sync::{Arc, Mutex, PoisonError};

use delayq_core::{TaskContext, TaskError, TaskResult, Trail};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use crate::roster::{Crew, Hand};
use crate::run::{HandResult, describe};

/// The handle of an attempt under way.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    task: AbortHandle,
    /// For several workers: the task that awaits them is told, so that it still waits for those that
    /// cannot be stopped.
    stop: Option<CancellationToken>,
    succeeded: Succeeded,
}

/// The names of the workers that have succeeded in this attempt, before all are through.
type Succeeded = Arc<Mutex<Vec<String>>>;

impl Running {
    /// A single worker's task.
    pub(crate) fn single(task: AbortHandle) -> Self {
        Self {
            task,
            stop: None,
            succeeded: Succeeded::default(),
        }
    }

    /// The id under which the results will come.
    pub(crate) fn id(&self) -> Id {
        self.task.id()
    }

    /// Stops the workers that can be stopped. The task ends once the blocking ones have returned, too.
    pub(crate) fn stop(&self) {
        match &self.stop {
            Some(stop) => stop.cancel(),
            None => self.task.abort(),
        }
    }

    /// `trail` with the workers that have succeeded in this attempt so far.
    pub(crate) fn trail_so_far(&self, trail: &Trail) -> Trail {
        let mut trail = trail.clone();
        let succeeded = self
            .succeeded
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        trail.succeeded.extend(succeeded.iter().cloned());
        trail
    }
}

/// Starts the workers of `crew` that have not succeeded yet, on the application's runtime. A blocking
/// worker gets a thread of the runtime's blocking pool.
pub(crate) fn start(
    results: &mut JoinSet<Vec<HandResult>>,
    app: &Handle,
    crew: &Crew,
    attempt: (TaskContext, Vec<u8>, &Trail),
) -> Running {
    let (cx, message, trail) = attempt;
    let mut open: Vec<_> = crew
        .open(trail)
        .map(|(n, hand)| (n, hand.clone()))
        .collect();
    match (open.pop(), open.is_empty()) {
        (Some((index, hand)), true) if hand.options.blocking => {
            let handle = app.clone();
            let run = move || vec![(index, handle.block_on(invoke(&hand, &message, &cx)))];
            Running::single(results.spawn_blocking_on(run, app))
        }
        (Some((index, hand)), true) => {
            let run = async move { vec![(index, invoke(&hand, &message, &cx).await)] };
            Running::single(results.spawn_on(run, app))
        }
        (last, _) => {
            open.extend(last);
            let (stop, succeeded) = (CancellationToken::new(), Succeeded::default());
            let together = Together {
                app: app.clone(),
                stop: stop.clone(),
                succeeded: Arc::clone(&succeeded),
            };
            let task = results.spawn_on(together.run(open, message, cx), app);
            Running {
                task,
                stop: Some(stop),
                succeeded,
            }
        }
    }
}

/// Runs one worker within a span that names the attempt, so that its own events can be told apart.
async fn invoke(hand: &Hand, message: &[u8], cx: &TaskContext) -> TaskResult {
    let span = info_span!(
        "attempt",
        task_type = %cx.task_type(),
        id = %cx.id(),
        attempt = cx.attempt(),
        worker = %hand.name,
    );
    hand.worker.invoke_bytes(message, cx).instrument(span).await
}

/// Several workers side by side; a panic of one does not touch the others.
struct Together {
    app: Handle,
    stop: CancellationToken,
    succeeded: Succeeded,
}

impl Together {
    async fn run(
        self,
        hands: Vec<(usize, Hand)>,
        message: Vec<u8>,
        cx: TaskContext,
    ) -> Vec<HandResult> {
        let mut running = JoinSet::new();
        let mut started = Vec::new();
        for (index, hand) in hands {
            let (message, cx, name) = (message.clone(), cx.clone(), Arc::clone(&hand.name));
            let handle = if hand.options.blocking {
                let app = self.app.clone();
                let run = move || app.block_on(invoke(&hand, &message, &cx));
                running.spawn_blocking_on(run, &self.app)
            } else {
                let run = async move { invoke(&hand, &message, &cx).await };
                running.spawn_on(run, &self.app)
            };
            started.push((handle.id(), index, name));
        }
        let mut results = Vec::new();
        let mut stopped = false;
        loop {
            let joined = tokio::select! {
                joined = running.join_next_with_id() => joined,
                () = self.stop.cancelled(), if !stopped => {
                    stopped = true;
                    running.abort_all();
                    continue;
                }
            };
            let Some(joined) = joined else { return results };
            let (id, result) = match joined {
                Ok((id, result)) => (id, result),
                Err(error) => (error.id(), Err(TaskError::Retry(describe(error)))),
            };
            let Some((_, index, name)) = started.iter().find(|(task, ..)| *task == id) else {
                continue;
            };
            if result.is_ok() {
                let mut succeeded = self
                    .succeeded
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                succeeded.push(name.to_string());
            }
            results.push((*index, result));
        }
    }
}
