//! Submit service: all calls of an application concerning tasks.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::job::check_delay;
use delayq_core::operate::{Cursor, Page};
use delayq_core::store::{CancelOutcome, ChangeOutcome, SqlPlace, StoreOptions};
use delayq_core::{
    Clock, DelayQueueJob, Error, Limits, NewTask, Result, Store, SystemClock, TaskId, TaskState,
    TaskType, When,
};
use delayq_transaction::DynTransaction;
use serde::Serialize;

mod batches;
mod declared;
mod new_message;
pub(crate) mod recurrence;
mod reply_wait;
mod sent;
mod task_call;

pub(crate) use self::batches::{cancel_members, with_largest_messages};
pub(crate) use self::recurrence::{ensure_all, ensure_one, may_start};

pub use self::reply_wait::{ReplyOutcome, TaskReply};
pub use self::task_call::{CallAnswer, TaskCall};

use self::declared::Declared;
use self::new_message::NewMessage;
use self::reply_wait::ReplyWait;
use self::task_call::{Cancel, Named, Reschedule, SendAll, SendOne, Update};
use crate::batch::BatchPage;
use crate::bulk::{self, BulkChange, Desk, TaskFilter};
use crate::events::TaskEvents;
use crate::history::{HistoryStore, KeptHistory, TaskHistory};
use crate::metered_store::metered;
use crate::metric::{INTERVAL, Metrics, Own, Sampler};
use crate::middleware::{Middleware, MiddlewareStack};
use crate::receipt::Receipt;
use crate::recurring::{RecurringInfo, RecurringOfType};
use crate::telemetry::Telemetry;
use crate::url::{open_store, refuse_missing_file};
use crate::within::Within;

mod of_type;

/// Sends, changes and looks up tasks. Cheap to clone; works from any tokio runtime.
///
/// Every call that names a task takes its type and id as text and validates them. A call fails with
/// a transient error ([`Error::is_transient`]) while the store is down; repeating it is always
/// safe.
#[derive(Clone, Debug)]
pub struct TaskSubmitService {
    store: Arc<dyn Store>,
    /// Where a transaction of the application leaves calls for the store, if not in the store.
    outbox: Option<SqlPlace>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) limits: Limits,
    pub(crate) telemetry: Telemetry,
    pub(crate) declared: Declared,
    pub(crate) middleware: MiddlewareStack,
    pub(crate) history: Option<KeptHistory>,
}

impl TaskSubmitService {
    /// A service on an open store, with the default limits.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            outbox: None,
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
            telemetry: Telemetry::new(&(Arc::new(SystemClock) as Arc<dyn Clock>)),
            declared: Declared::default(),
            middleware: MiddlewareStack::default(),
            history: None,
        }
    }

    /// A service for an application that only sends tasks and runs none. A missing file is not
    /// created, because no plugin would read it: start the plugin first, or write
    /// `sqlite:PATH?create=true`.
    ///
    /// # Errors
    /// `InvalidInput` for a missing file; the store cannot be opened, see
    /// [`open_store`](crate::open_store).
    pub async fn connect(url: &str, options: StoreOptions) -> Result<Self> {
        refuse_missing_file(url)?;
        let service = Self::new(open_store(url, options).await?);
        let telemetry = service.telemetry.clone();
        Ok(service.with_telemetry(telemetry.with_unserved(Arc::new(SystemClock))))
    }

    /// The same service with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// The same service with another clock, for tests.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// The same service, whose calls in a transaction of the application go to an outbox in the
    /// application's PostgreSQL database. A relay applies them to the store of this service.
    /// Without a transaction nothing changes.
    ///
    /// A send answers [`Accepted`](delayq_core::store::SubmitOutcome::Accepted), whatever the store
    /// has, and a change `Relayed`.
    #[must_use]
    pub fn with_outbox(mut self, place: SqlPlace) -> Self {
        self.outbox = Some(place);
        self
    }

    /// The same service with a history. A plugin's service has that of the plugin.
    #[must_use]
    pub fn with_history(mut self, history: Arc<HistoryStore>) -> Self {
        self.history = Some(KeptHistory::new(history));
        self
    }

    /// The history of the tasks, if there is one.
    #[must_use]
    pub fn history(&self) -> Option<TaskHistory> {
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let history = TaskHistory::new(store, self.history.clone()?, clock);
        Some(history.counted(self.telemetry.metrics.as_ref()))
    }

    /// The calls in a transaction.
    pub(crate) fn within<'t>(&self, tx: &'t mut dyn DynTransaction) -> Result<Within<'t>> {
        match &self.outbox {
            Some(place) => Ok(Within::at(place.clone(), tx)),
            None => Within::new(&*self.store, tx),
        }
    }

    /// The same service, but [counting](crate::METRICS) its sends and its store calls for the
    /// recorder of the crate `metrics` that is installed at this moment. A plugin's service counts
    /// already.
    #[must_use]
    pub fn with_metrics(mut self) -> Self {
        let metrics = Metrics::new(self.store.namespace());
        self.store = metered(self.store, &metrics, &self.clock);
        self.telemetry = self.telemetry.with_metrics(metrics);
        self
    }

    /// Updates the gauges of a service [with metrics](Self::with_metrics): asks the store for the
    /// counts of up to 100 types every 15 s, until the future is dropped. For a process without a
    /// plugin; a plugin with metrics does this itself. Without metrics it waits for ever and does
    /// nothing.
    pub async fn keep_gauges(&self) {
        let Some(metrics) = self.telemetry.metrics.clone() else {
            return std::future::pending().await;
        };
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.clock));
        let mut sampler = Sampler::new(store, clock, metrics);
        loop {
            sampler.round(&Own::default()).await;
            let next = self.clock.elapsed().saturating_add(INTERVAL);
            self.clock.sleep_until(next).await;
        }
    }

    /// The same service with one more middleware, which sees each job on its way to the store after
    /// the others.
    #[must_use]
    pub fn with_middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware = self.middleware.with(middleware);
        self
    }

    pub(crate) fn with_stack(mut self, middleware: MiddlewareStack) -> Self {
        self.middleware = middleware;
        self
    }

    /// The same service with a plugin's reports: its events, and one log line for problems that
    /// both meet.
    pub(crate) fn with_telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// The events of this process from now on: what this service submits and cancels and, if it
    /// belongs to a plugin, what the plugin's handlers do.
    #[must_use]
    pub fn events(&self) -> TaskEvents {
        self.telemetry.hub.listen()
    }

    /// The clock of this host, or that of a test.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The underlying store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Closes the store once nobody needs it any more: an embedded one is left as one tidy file.
    /// Call it after the plugin's shutdown, at the end of the program; it is not needed for safety.
    pub async fn close(&self) {
        self.store.close().await;
    }

    /// Sends one task. Once this returns `Ok`, the task will run or was already known.
    ///
    /// # Errors
    /// [`Error::Conflict`] when another task has the id; `QueueFull` when the type has reached its
    /// limit of scheduled tasks; `InvalidName` or `LimitExceeded` for a bad job; `Indeterminate`
    /// when the answer was lost: send a clone of the job again. Other errors of the store mean:
    /// certainly not accepted.
    pub fn send(&self, job: DelayQueueJob) -> TaskCall<'_, Result<Receipt>> {
        TaskCall::new(self, SendOne(job))
    }

    /// Sends many tasks, of any types; one result for each, in order. They share round trips and
    /// syncs.
    pub fn send_all(&self, jobs: Vec<DelayQueueJob>) -> TaskCall<'_, Vec<Result<Receipt>>> {
        TaskCall::new(self, SendAll(jobs))
    }

    /// The task for a job, as [`send`](Self::send) would submit it: it has passed the middleware
    /// and is within the limits. A refusal is counted.
    ///
    /// # Errors
    /// `InvalidName`, `InvalidInput` or `LimitExceeded` for a bad job; errors of the middleware.
    pub async fn prepare(&self, job: DelayQueueJob) -> Result<NewTask> {
        sent::prepare(self, job, self.clock.now()).await
    }

    /// Submits complete tasks and reports them as [`send_all`](Self::send_all) does; one result for
    /// each, in order. For front ends that receive tasks in their own format: the tasks pass no
    /// middleware, and no limit is checked.
    pub async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<Receipt>> {
        sent::submit(self, tasks, self.clock.now()).await
    }

    /// Sends one task and waits for its end, for at most `timeout`. Returns the worker's
    /// [reply](crate::TaskContext::reply), or why there is none. After a time-out the task goes on.
    ///
    /// # Errors
    /// Those of [`send`](Self::send), and of [`wait_for_reply`](Self::wait_for_reply) afterwards.
    pub async fn send_and_wait(&self, job: DelayQueueJob, timeout: Duration) -> Result<TaskReply> {
        let until = self.clock.elapsed().saturating_add(timeout);
        let task_type = TaskType::new(job.task_type())?;
        let id = self.send(job).await?.id;
        ReplyWait::new(self, task_type, id).end(until).await
    }

    /// Waits for the end of a task, for at most `timeout`. The end of a task that runs in this
    /// process is noticed at once. Otherwise the store is polled after pauses of 5 to 250 ms: 125
    /// times in 30 s.
    ///
    /// # Errors
    /// As for every call; a transient error is returned only if it lasts until the time-out.
    pub async fn wait_for_reply(
        &self,
        task_type: &str,
        id: &str,
        timeout: Duration,
    ) -> Result<TaskReply> {
        let until = self.clock.elapsed().saturating_add(timeout);
        let (task_type, id) = (TaskType::new(task_type)?, TaskId::new(id)?);
        ReplyWait::new(self, task_type, id).end(until).await
    }

    /// Sends jobs in a transaction of the application; one result for each, in order.
    pub(crate) async fn send_all_within(
        &self,
        jobs: Vec<DelayQueueJob>,
        tx: &mut dyn DynTransaction,
    ) -> Vec<Result<Receipt>> {
        sent::send_within(self, jobs, tx).await
    }

    /// Passes a job through the middleware, unless it has been through already.
    pub(crate) async fn pass_middleware(&self, job: DelayQueueJob) -> Result<DelayQueueJob> {
        if self.middleware.is_empty() || job.has_passed_middleware() {
            return Ok(job);
        }
        Ok(self.middleware.on_submit(job).await?.passed_middleware())
    }

    /// Cancels a task. After `Cancelled` it never starts. A running one is asked to stop (its
    /// context's `cancelled()` fires within a third of the lock time) and is not retried.
    ///
    /// # Errors
    /// As for every call, see [`TaskSubmitService`].
    pub fn cancel(&self, task_type: &str, id: &str) -> TaskCall<'_, Result<CancelOutcome>> {
        TaskCall::new(self, Cancel(Named::new(task_type, id)))
    }

    /// Cancels several tasks of a type by their ids; one result for each, in order. They share
    /// round trips and syncs. Tasks that are running or gone do not keep the others from being
    /// cancelled.
    pub async fn cancel_each<T: AsRef<str>>(
        &self,
        task_type: &str,
        ids: impl IntoIterator<Item = T>,
    ) -> Vec<Result<CancelOutcome>> {
        let ids = ids.into_iter().map(|id| TaskId::new(id.as_ref())).collect();
        bulk::cancel_each(&self.desk(), TaskType::new(task_type), ids).await
    }

    /// Moves a scheduled task to another time, earlier or later.
    ///
    /// # Errors
    /// `InvalidInput` for a delay over the limit, and as for every call.
    pub fn reschedule(
        &self,
        task_type: &str,
        id: &str,
        when: When,
    ) -> TaskCall<'_, Result<ChangeOutcome>> {
        let task = Named::new(task_type, id);
        TaskCall::new(self, Reschedule { task, when })
    }

    /// Makes a scheduled task due now.
    ///
    /// # Errors
    /// As for every call.
    pub fn run_now(&self, task_type: &str, id: &str) -> TaskCall<'_, Result<ChangeOutcome>> {
        self.reschedule(task_type, id, When::After(Duration::ZERO))
    }

    /// Replaces the message of a scheduled task by `message` as JSON.
    ///
    /// # Errors
    /// `Serialize`, `LimitExceeded`, and as for every call.
    pub fn update<M: Serialize + Sync + ?Sized>(
        &self,
        task_type: &str,
        id: &str,
        message: &M,
    ) -> TaskCall<'_, Result<ChangeOutcome>> {
        let message = serde_json::to_vec(message).map_err(Error::serialize);
        let task = Named::new(task_type, id);
        TaskCall::new(self, Update { task, message })
    }

    /// Replaces the message of a scheduled task by raw bytes.
    ///
    /// # Errors
    /// `LimitExceeded`; `InvalidInput` if the task's header `content-type` promises JSON and the
    /// message is none; and as for every call.
    pub async fn update_raw(
        &self,
        task_type: &str,
        id: &str,
        message: impl Into<Vec<u8>>,
    ) -> Result<ChangeOutcome> {
        let (task_type, id) = (TaskType::new(task_type)?, TaskId::new(id)?);
        NewMessage::new(message.into(), &self.limits)?
            .put(&*self.store, &task_type, &id)
            .await
    }

    /// Replaces the message of a scheduled task by raw bytes of another content type, which also
    /// replaces the task's header `content-type`. A task that was sent without it stays without it,
    /// and takes only `text/plain` and JSON.
    ///
    /// # Errors
    /// `InvalidInput` for another type of a task without that header, and for a message that is not
    /// the JSON that the type promises; and as [`update_raw`](Self::update_raw).
    pub async fn update_raw_as(
        &self,
        task_type: &str,
        id: &str,
        message: impl Into<Vec<u8>>,
        content_type: &str,
    ) -> Result<ChangeOutcome> {
        let (task_type, id) = (TaskType::new(task_type)?, TaskId::new(id)?);
        NewMessage::new(message.into(), &self.limits)?
            .of_type(content_type)
            .put(&*self.store, &task_type, &id)
            .await
    }

    /// The recurring tasks of this plugin, each with its next occurrence in the store. Empty for a
    /// service without a plugin, as schedules are declared with the workers.
    ///
    /// # Errors
    /// As for every call.
    pub async fn recurring(&self) -> Result<Vec<RecurringInfo>> {
        recurrence::list(self).await
    }

    /// The recurring tasks of a type whose next occurrences wait in the store, whoever declares
    /// them. Reads up to 1,024 waiting tasks of the type, in up to eight calls, and says whether
    /// these were all.
    ///
    /// # Errors
    /// As for every call.
    pub async fn recurring_of(&self, task_type: &str) -> Result<RecurringOfType> {
        recurrence::stored(self, &TaskType::new(task_type)?).await
    }

    /// A page of the batches whose watchers are in `state`: scheduled or running while they wait,
    /// done once they are over. Pass a page's `next` to get the following page. Batches that are
    /// over are known for the retention, latest first. A batch of a newer release is listed without
    /// its counts.
    ///
    /// # Errors
    /// As for every call.
    pub async fn batches(
        &self,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<BatchPage> {
        batches::list(self, state, cursor, limit).await
    }

    /// Cancels the waiting occurrences of a recurring task and returns how many there were. `name`
    /// is empty unless one was given. For use after a deploy that no longer declares the task. A
    /// process that still declares it sends the next occurrence within a minute; the plugin's
    /// `remove_recurring` ends that.
    ///
    /// # Errors
    /// As for every call; some occurrences may have been cancelled by then.
    pub async fn remove_recurring(&self, task_type: &str, name: &str) -> Result<usize> {
        recurrence::remove(self, task_type, name).await
    }

    /// Up to `limit` (at most 128) tasks of one type that match, after `cursor`; pass a page's
    /// `next` to get the following page. A call reads up to 2,048 tasks: if few match, a page can
    /// have fewer than `limit` tasks, even none, and still have a `next`.
    ///
    /// # Errors
    /// `InvalidInput` for a contradictory filter, and as for every call.
    pub async fn list_by(
        &self,
        task_type: &str,
        filter: &TaskFilter,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let task_type = TaskType::new(task_type)?;
        bulk::list_by(&*self.store, &task_type, filter, cursor, limit).await
    }

    /// Cancels every task that matches. Running ones are asked to stop, and counted apart.
    ///
    /// ```
    /// # use delayq_plugin::{BulkError, TaskFilter, TaskSubmitService};
    /// # async fn leave(tasks: &TaskSubmitService) -> Result<(), BulkError> {
    /// let filter = TaskFilter::new().group("tenant-7");
    /// let expected = tasks.cancel_all("remind.*", &filter).dry_run().await?;
    /// let report = tasks.cancel_all("remind.*", &filter).await?;
    /// println!("{} cancelled, {} asked to stop", report.changed, report.running);
    /// # let _ = expected; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`BulkError`](crate::BulkError), which includes the changes made so far: `InvalidInput` for
    /// a filter without a condition, unless it is [`TaskFilter::all`], and for dead tasks; as for
    /// every call.
    pub fn cancel_all<'a>(&self, types: &'a str, filter: &'a TaskFilter) -> BulkChange<'a> {
        BulkChange::cancel(self.desk(), types, filter)
    }

    /// Moves every scheduled task that matches to one time: a delay counts from the beginning of
    /// the call, by the store's clock; if a pattern matches several types, from the beginning of
    /// each type. Running tasks stay as they are.
    ///
    /// # Errors
    /// As for [`cancel_all`](Self::cancel_all), and `InvalidInput` for a delay over the limit.
    pub fn reschedule_all<'a>(
        &self,
        types: &'a str,
        filter: &'a TaskFilter,
        when: When,
    ) -> BulkChange<'a> {
        let checked = check_delay("delay", when, &self.limits, self.clock.now());
        BulkChange::reschedule(self.desk(), types, filter, checked.map(|()| when))
    }

    fn desk(&self) -> Desk {
        Desk::new(&self.store, &self.telemetry)
    }
}
