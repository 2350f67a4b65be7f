//! One attempt under way: its workers, on the application's runtime.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use delayq_core::{Clock, TaskContext, TaskError, TaskResult, Trail};
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, Id, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, info_span};

use crate::held::RunOut;
use crate::roster::Hand;
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

/// What workers are given, and the lock that must not have run out before their first line.
#[derive(Clone)]
pub(crate) struct Invocation {
    pub(crate) cx: TaskContext,
    pub(crate) message: Vec<u8>,
    /// `None`: the task runs now or never.
    pub(crate) lock: Option<(Arc<dyn Clock>, RunOut)>,
}

impl Invocation {
    /// Runs one worker within a span that names the attempt, so that its own events can be told apart. A runtime that was
    /// busy, or a process that was stopped, may come to it too late: then the task is given back.
    async fn run(&self, hand: &Hand) -> TaskResult {
        let cx = &self.cx;
        if let Some((clock, run_out)) = &self.lock
            && (cx.is_cancelled() || run_out.at() <= clock.elapsed())
        {
            return Err(TaskError::release(Duration::ZERO));
        }
        let span = info_span!(
            "attempt",
            task_type = %cx.task_type(),
            id = %cx.id(),
            attempt = cx.attempt(),
            worker = %hand.name,
        );
        let worker = hand.worker.invoke_bytes(&self.message, cx);
        worker.instrument(span).await
    }
}

/// Starts the workers that are `open`, on the application's runtime. A blocking worker gets a thread of the runtime's
/// blocking pool.
pub(crate) fn start<'a>(
    results: &mut JoinSet<Vec<HandResult>>,
    app: &Handle,
    open: impl Iterator<Item = (usize, &'a Hand)>,
    invocation: Invocation,
) -> Running {
    let mut open: Vec<_> = open.map(|(n, hand)| (n, hand.clone())).collect();
    match (open.pop(), open.is_empty()) {
        (Some((index, hand)), true) if hand.options.blocking => {
            let handle = app.clone();
            let run = move || vec![(index, handle.block_on(invocation.run(&hand)))];
            Running::single(results.spawn_blocking_on(run, app))
        }
        (Some((index, hand)), true) => {
            let run = async move { vec![(index, invocation.run(&hand).await)] };
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
            let task = results.spawn_on(together.run(open, invocation), app);
            Running {
                task,
                stop: Some(stop),
                succeeded,
            }
        }
    }
}

/// Several workers side by side; a panic of one does not touch the others.
struct Together {
    app: Handle,
    stop: CancellationToken,
    succeeded: Succeeded,
}

impl Together {
    async fn run(self, hands: Vec<(usize, Hand)>, invocation: Invocation) -> Vec<HandResult> {
        let mut running = JoinSet::new();
        let mut started = Vec::new();
        for (index, hand) in hands {
            let (invocation, name) = (invocation.clone(), Arc::clone(&hand.name));
            let handle = if hand.options.blocking {
                let app = self.app.clone();
                let run = move || app.block_on(invocation.run(&hand));
                running.spawn_blocking_on(run, &self.app)
            } else {
                let run = async move { invocation.run(&hand).await };
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use async_trait::async_trait;
    use delayq_core::worker::Attempt;
    use delayq_core::{
        TaskId, TaskType, TaskWorker, Timestamp, TypePattern, VirtualClock, WorkerOptions, seconds,
    };

    use super::*;
    use crate::held::HeldLocks;

    struct Counting(Arc<AtomicUsize>);

    #[async_trait]
    impl TaskWorker for Counting {
        async fn invoke(&self, _message: &str, _cx: &TaskContext) -> TaskResult {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    /// How many of two workers began, and of one that blocks, when the runtime came to them `late` after the claim.
    async fn begun(late: Duration, is_cancelled: bool, at_most_once: bool) -> (usize, usize) {
        let clock = VirtualClock::default();
        let run_out = HeldLocks::new(seconds(30), seconds(100)).run_out_of(clock.elapsed());
        clock.advance(late);
        let cancel = CancellationToken::new();
        if is_cancelled {
            cancel.cancel();
        }
        let attempt = Attempt {
            id: TaskId::new("a").unwrap(),
            attempt: 1,
            due_at: Timestamp::from_millis(0),
            claimed_at: Timestamp::from_millis(0),
            submitted_at: Timestamp::from_millis(0),
            fence: 1,
            headers: std::collections::BTreeMap::new(),
            task_type: TaskType::new("job").unwrap(),
        };
        let lock: (Arc<dyn Clock>, _) = (Arc::new(clock), run_out);
        let invocation = Invocation {
            cx: TaskContext::new(attempt, cancel),
            message: Vec::new(),
            lock: (!at_most_once).then_some(lock),
        };
        let begun = [2, 1].map(|workers| {
            let count = Arc::new(AtomicUsize::new(0));
            let hand = |index| Hand {
                name: format!("w{index}").into(),
                pattern: TypePattern::new("job").unwrap(),
                options: WorkerOptions {
                    blocking: workers == 1,
                    ..WorkerOptions::DEFAULT
                },
                worker: Arc::new(Counting(Arc::clone(&count))),
            };
            let hands: Vec<_> = (0..workers).map(hand).collect();
            (hands, count)
        });
        let mut results = JoinSet::new();
        for (hands, _) in &begun {
            let open = hands.iter().enumerate();
            start(&mut results, &Handle::current(), open, invocation.clone());
        }
        for result in results.join_all().await.into_iter().flatten() {
            let given_back = result.1.is_err();
            assert_eq!(
                given_back,
                begun.iter().all(|(_, n)| n.load(Ordering::Relaxed) == 0)
            );
        }
        let [two, one] = begun.map(|(_, count)| count.load(Ordering::Relaxed));
        (two, one)
    }

    #[tokio::test]
    async fn a_worker_begins_only_while_its_lock_holds_and_at_most_once_in_any_case() {
        assert_eq!(begun(seconds(29), false, false).await, (2, 1));
        assert_eq!(begun(seconds(30), false, false).await, (0, 0), "run out");
        assert_eq!(begun(seconds(1), true, false).await, (0, 0), "told to stop");
        assert_eq!(begun(seconds(30), true, true).await, (2, 1), "now or never");
    }
}
