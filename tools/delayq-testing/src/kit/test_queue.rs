//! A complete plugin in memory, with a clock controlled by the test.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::memory::MemoryStore;
use delayq_core::operate::Cursor;
use delayq_core::store::StoreOptions;
use delayq_core::{
    Clock, DelayQueueJob, Delivery, FleetLimits, IntoDelay, Result, RetryPolicy, Store, TaskId,
    TaskInfo, TaskState, TaskType, Timestamp, TypePattern, VirtualClock,
};
use delayq_plugin::{
    BuiltWorker, DelayQueuePlugin, DelayQueuePluginBuilder, Receipt, StartError, TaskEvents,
    TaskSubmitService,
};

use super::done::Done;
use super::faults::Faults;
use crate::faulty::{Fault, FaultyStore, Inline, InlineStore};

/// Time limit for workers, in real time, before a wait for them fails.
const PATIENCE: Duration = Duration::from_secs(10);
/// Number of tasks in one page of a listing.
const PAGE: usize = 1_000;

/// A queue for the tests of an application: a plugin whose tasks are in memory, on a clock that
/// stands still until the test moves it.
///
/// Each queue is separate, so tests can run in parallel. It works in any `#[tokio::test]`. Its
/// clock begins at 2026-01-01T00:00:00Z.
///
/// ```
/// use delayq_plugin::{TaskResult, task_worker};
/// use delayq_testing::{TestQueue, assert_done, assert_scheduled};
///
/// #[task_worker(type = "order.cancel")]
/// async fn cancel_order(order: &str) -> TaskResult {
///     println!("{order} is cancelled");
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let queue = TestQueue::start(|builder| builder).await?;
/// queue.send(cancel_order::job("lamp")?.id("order-42").after("30m")).await?;
/// assert_scheduled!(queue, "order.cancel", "order-42", after = "30m");
/// queue.advance("30m").await;
/// assert_done!(queue, "order.cancel", "order-42");
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct TestQueue {
    plugin: DelayQueuePlugin,
    tasks: TaskSubmitService,
    clock: VirtualClock,
    faults: Faults,
    pub(super) done: Done,
}

impl TestQueue {
    /// Starts a queue with the workers linked into the test program, and everything that `build`
    /// adds: components, workers, listeners. `.without_registered_workers()` leaves out the
    /// program's workers.
    ///
    /// # Errors
    /// As [`DelayQueuePluginBuilder::start`]; `build` must not set a URL or anything else about the
    /// store.
    pub async fn start(
        build: impl FnOnce(DelayQueuePluginBuilder) -> DelayQueuePluginBuilder,
    ) -> Result<Self, StartError> {
        Self::start_with(None, build).await
    }

    /// Like [`start`](Self::start), but every task that has a worker here runs within the send,
    /// whatever its delay. The send returns the worker's result: a failure is
    /// [`Error::TaskFailed`](delayq_core::Error::TaskFailed), and the task is dead, without further
    /// attempts. A task sent by a worker runs before that worker continues. An occurrence of a
    /// recurring task waits for its time, as in [`start`](Self::start).
    ///
    /// In such a queue every type is at-least-once and has no fleet limits, and a pool has as many
    /// slots as requested.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn inline(
        build: impl FnOnce(DelayQueuePluginBuilder) -> DelayQueuePluginBuilder,
    ) -> Result<Self, StartError> {
        Self::start_with(Some(Inline::default()), build).await
    }

    async fn start_with(
        inline: Option<Inline>,
        build: impl FnOnce(DelayQueuePluginBuilder) -> DelayQueuePluginBuilder,
    ) -> Result<Self, StartError> {
        let clock = VirtualClock::default();
        let (faults, done) = (Faults::default(), Done::default());
        let store = store(&clock, &faults, &done, inline.clone());
        let builder = DelayQueuePlugin::builder()
            .store(store)
            .clock(Arc::new(clock.clone()))
            .on_application_runtime();
        let mut builder = build(builder);
        let pooled = inline.clone();
        if let Some(inline) = inline {
            builder = builder.map_workers(move |built| run_inline(&inline, built));
        }
        let plugin = builder.start().await?;
        for pool in pooled.map_or_else(Vec::new, |inline| inline.pools()) {
            plugin.set_pool(pool, usize::MAX)?;
        }
        Ok(Self {
            tasks: plugin.submit_service(),
            plugin,
            clock,
            faults,
            done,
        })
    }

    /// Sends one task.
    ///
    /// # Errors
    /// As [`TaskSubmitService::send`].
    pub async fn send(&self, job: DelayQueueJob) -> Result<Receipt> {
        self.tasks.send(job).await
    }

    /// The submit service, for the code under test.
    #[must_use]
    pub fn tasks(&self) -> &TaskSubmitService {
        &self.tasks
    }

    /// The plugin.
    #[must_use]
    pub fn plugin(&self) -> &DelayQueuePlugin {
        &self.plugin
    }

    /// The events from now on.
    #[must_use]
    pub fn events(&self) -> TaskEvents {
        self.plugin.events()
    }

    /// The clock of the queue and the store. For moving it while a worker runs: time limits, lost
    /// locks.
    #[must_use]
    pub fn clock(&self) -> &VirtualClock {
        &self.clock
    }

    /// The present time of the clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Lets `span` pass, from one due time to the next: each task that becomes due starts at its
    /// time and runs to its end before the clock moves on, with its retries and the tasks it sends.
    /// Returns when there is nothing left to do at the new time.
    ///
    /// # Panics
    /// If `span` is not a delay, or if a worker has not ended after 10 s of real time. For a worker
    /// that waits for the clock, move [`clock`](Self::clock) instead.
    pub async fn advance(&self, span: impl IntoDelay) {
        let span = match span.into_delay() {
            Ok(span) => span,
            Err(error) => panic!("{error}"),
        };
        let end = self.clock.elapsed().saturating_add(span);
        while let Some(next_at) = self.until_idle().await.filter(|at| *at <= end) {
            self.pass(next_at, end);
        }
        self.pass(end, end);
        self.until_idle().await;
    }

    /// Returns when every due task has run to its end, including due tasks sent by those.
    ///
    /// # Panics
    /// As [`advance`](Self::advance).
    pub async fn run_due(&self) {
        self.until_idle().await;
    }

    /// Moves the clock to `at`, by at least a millisecond, and at most to `end`.
    fn pass(&self, at: Duration, end: Duration) {
        let now = self.clock.elapsed();
        let span = at.saturating_sub(now).as_micros().div_ceil(1_000).max(1);
        let span = Duration::from_millis(u64::try_from(span).unwrap_or(u64::MAX));
        self.clock.advance(span.min(end.saturating_sub(now)));
    }

    async fn until_idle(&self) -> Option<Duration> {
        let idle = tokio::time::timeout(PATIENCE, self.plugin.until_idle()).await;
        let Ok(next_at) = idle else {
            let running = self.running().await;
            panic!("after {PATIENCE:?} there is still work: {running}");
        };
        next_at
    }

    async fn running(&self) -> String {
        let mut running = Vec::new();
        for task_type in self.tasks.types().await.unwrap_or_default() {
            for task in self.list(task_type.as_str(), TaskState::Running).await {
                running.push(format!("{task_type} {} runs", task.id));
            }
        }
        if running.is_empty() {
            running.push("calls to the store, or tasks that are due again at once".to_owned());
        }
        running.join(", ")
    }

    /// The scheduled tasks of a type, by due time.
    ///
    /// # Panics
    /// If the name is not a task type, or the store fails.
    pub async fn scheduled(&self, task_type: &str) -> Vec<TaskInfo> {
        self.list(task_type, TaskState::Scheduled).await
    }

    /// The dead tasks of a type, by the time of death; `history.last_error` has the reason.
    ///
    /// # Panics
    /// As [`scheduled`](Self::scheduled).
    pub async fn dead(&self, task_type: &str) -> Vec<TaskInfo> {
        self.list(task_type, TaskState::Dead).await
    }

    pub(super) async fn list(&self, task_type: &str, state: TaskState) -> Vec<TaskInfo> {
        let (mut tasks, mut cursor) = (Vec::new(), None::<Cursor>);
        loop {
            let page = self.tasks.list(task_type, state, cursor.as_ref(), PAGE);
            match page.await {
                Ok(page) => {
                    tasks.extend(page.tasks);
                    cursor = page.next;
                }
                Err(error) => panic!("the {state} tasks of type {task_type}: {error}"),
            }
            if cursor.is_none() {
                return tasks;
            }
        }
    }

    /// The store's record of a task.
    ///
    /// # Panics
    /// As [`scheduled`](Self::scheduled), and if `id` is not a valid id.
    pub async fn find(&self, task_type: &str, id: &str) -> Option<TaskInfo> {
        match self.tasks.find(task_type, id).await {
            Ok(found) => found,
            Err(error) => panic!("task {id} of type {task_type}: {error}"),
        }
    }

    pub(super) fn is_done(&self, task_type: &str, id: &str) -> bool {
        let names = (TaskType::new(task_type), TaskId::new(id));
        matches!(names, (Ok(task_type), Ok(id)) if self.done.has(&task_type, &id))
    }

    /// Makes the next call of a store's operation fail: `fail_next("submit", Fault::AnswerLost)`.
    /// The operations are the methods of [`Store`], [`Operate`](delayq_core::Operate) and
    /// [`Presence`](delayq_core::Presence). The plugin repeats a failed call after a short time on
    /// the clock.
    ///
    /// # Panics
    /// If there is no operation with this name.
    pub fn fail_next(&self, operation: &str, fault: Fault) {
        self.faults.plan(operation, 1, fault);
    }

    /// Like [`fail_next`](Self::fail_next), for the `nth` call from now on, counted from 1: for the
    /// third settlement use `fail_nth("settle", 3, Fault::NotApplied)`. One call may settle or
    /// submit several tasks.
    ///
    /// # Panics
    /// As [`fail_next`](Self::fail_next), and for 0.
    pub fn fail_nth(&self, operation: &str, nth: usize, fault: Fault) {
        self.faults.plan(operation, nth, fault);
    }
}

fn store(
    clock: &VirtualClock,
    faults: &Faults,
    done: &Done,
    inline: Option<Inline>,
) -> Arc<dyn Store> {
    let memory = MemoryStore::new(Arc::new(clock.clone()), StoreOptions::default());
    let (faults, done, observer) = (faults.clone(), done.clone(), inline.clone());
    let store = FaultyStore::new(Arc::new(memory), move |operation| faults.of_call(operation));
    let store = store.with_witness(move |observed| {
        done.observe(observed);
        if let Some(inline) = &observer {
            inline.observe(observed);
        }
    });
    match inline {
        Some(inline) => Arc::new(InlineStore::new(store, inline)),
        None => Arc::new(store),
    }
}

/// The worker with only one attempt, and without limits that would make a sender wait for another
/// task.
fn run_inline(inline: &Inline, mut built: BuiltWorker) -> BuiltWorker {
    if let Ok(pattern) = TypePattern::new(&built.task_type) {
        inline.serve(pattern);
    }
    inline.note_pool(built.options.pool);
    let options = &mut built.options;
    options.retry = RetryPolicy::NEVER;
    options.delivery = Delivery::AtLeastOnce;
    options.fleet = FleetLimits::NONE;
    options.concurrency = options.concurrency.max(256);
    built
}
