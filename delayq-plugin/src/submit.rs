//! Submit service: everything that an application says about tasks.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::job::{check_delay, check_message};
use delayq_core::operate::{AuditReport, Cursor, DeadFilter, Page, TypeSettings, TypeStats};
use delayq_core::presence::InstanceInfo;
use delayq_core::store::{CancelOutcome, ChangeOutcome, StoreOptions, SubmitOutcome};
use delayq_core::{
    Clock, DelayQueueJob, Error, Limits, NewTask, Result, Store, SystemClock, TaskId, TaskInfo,
    TaskState, TaskType, Timestamp, When,
};
use serde::Serialize;
use tracing::{debug, trace};

mod sent;

use self::sent::Sent;
use crate::clock_skew::{CallWindow, ClockSkew};
use crate::events::{TaskEventKind, TaskEvents};
use crate::middleware::{Middleware, MiddlewareStack};
use crate::receipt::Receipt;
use crate::telemetry::Telemetry;
use crate::url::{open_store, refuse_missing_file};

/// Sends tasks, changes them, asks for them. Cheap to clone; works from any tokio runtime.
///
/// Every call that names a task takes its type and id as text and validates them. A call fails with
/// a transient error ([`Error::is_transient`]) while the store is down; repeating it is always
/// safe.
#[derive(Clone, Debug)]
pub struct TaskSubmitService {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    limits: Limits,
    telemetry: Telemetry,
    middleware: MiddlewareStack,
}

impl TaskSubmitService {
    /// A service on an open store, with the default limits.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
            telemetry: Telemetry::new(&(Arc::new(SystemClock) as Arc<dyn Clock>)),
            middleware: MiddlewareStack::default(),
        }
    }

    /// A service for an application that only sends tasks and runs none. A file that is not there
    /// is not made, as no plugin would look into it: start the plugin first, or write
    /// `sqlite:PATH?create=true`.
    ///
    /// # Errors
    /// `InvalidInput` for a file that is not there; the store cannot be opened, see
    /// [`open_store`](crate::open_store).
    pub async fn connect(url: &str, options: StoreOptions) -> Result<Self> {
        refuse_missing_file(url)?;
        let service = Self::new(open_store(url, options).await?);
        let clock = Arc::clone(&service.clock);
        let telemetry = service.telemetry.clone().with_unserved(clock);
        Ok(service.with_telemetry(telemetry))
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

    /// The same service, and `middleware` sees each job on its way to the store, after the others.
    #[must_use]
    pub fn with_middleware(mut self, middleware: impl Middleware) -> Self {
        self.middleware = self.middleware.with(middleware);
        self
    }

    pub(crate) fn with_stack(mut self, middleware: MiddlewareStack) -> Self {
        self.middleware = middleware;
        self
    }

    /// The same service with the reports of a plugin: its events, and one line for what both see.
    pub(crate) fn with_telemetry(mut self, telemetry: Telemetry) -> Self {
        self.telemetry = telemetry;
        self
    }

    /// The events of this process from now on: what this service submits and cancels and, of a
    /// plugin's service, what its handlers do.
    #[must_use]
    pub fn events(&self) -> TaskEvents {
        self.telemetry.hub.listen()
    }

    /// The store behind it.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Lets go of the store once nobody needs it any more: an embedded one is left as one tidy
    /// file. After the plugin's shutdown, at the end of the program; not needed for safety.
    pub async fn close(&self) {
        self.store.close().await;
    }

    /// Sends one task. Once this returns `Ok` it will run, or has been known before.
    ///
    /// # Errors
    /// [`Error::Conflict`] when another task has the id; `QueueFull` when the type has as many
    /// scheduled tasks as it may have; `InvalidName` or `LimitExceeded` for a bad job;
    /// `Indeterminate` when the answer was lost: send a clone of the job again. Other errors of the
    /// store mean: certainly not accepted.
    pub async fn send(&self, job: DelayQueueJob) -> Result<Receipt> {
        let no_answer = || Error::Closed("the store");
        self.send_all(vec![job])
            .await
            .pop()
            .unwrap_or_else(|| Err(no_answer()))
    }

    /// Sends many tasks, of any types; one result each, in order. They share round trips and syncs.
    pub async fn send_all(&self, jobs: Vec<DelayQueueJob>) -> Vec<Result<Receipt>> {
        let before = self.clock.now();
        let mut results = Vec::with_capacity(jobs.len());
        let mut tasks = Vec::with_capacity(jobs.len());
        let mut sent = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.task(job, before).await {
                Ok(task) => {
                    sent.push(Sent {
                        index: results.len(),
                        task_type: task.task_type.clone(),
                        id: task.id.clone(),
                        when: task.when,
                    });
                    tasks.push(task);
                    results.push(Err(Error::Closed("the store")));
                }
                Err(error) => results.push(Err(error)),
            }
        }
        if tasks.is_empty() {
            return results;
        }
        let outcomes = self.store.submit(tasks).await;
        let after = self.clock.now();
        let window = CallWindow { before, after };
        for (sent, outcome) in sent.into_iter().zip(outcomes) {
            if let Some(result) = results.get_mut(sent.index) {
                *result = outcome.and_then(|outcome| {
                    let skew = self.clock_skew(sent.when, outcome, window);
                    self.receipt(sent, outcome, skew)
                });
            }
        }
        results
    }

    async fn task(&self, mut job: DelayQueueJob, now: Timestamp) -> Result<NewTask> {
        if !self.middleware.is_empty() {
            job = self.middleware.on_submit(job).await?;
        }
        job.into_task(&self.limits, now)
    }

    /// A relative delay shows the store's clock: the due time less the delay.
    fn clock_skew(
        &self,
        when: When,
        outcome: SubmitOutcome,
        window: CallWindow,
    ) -> Option<ClockSkew> {
        let (When::After(delay), SubmitOutcome::Accepted { due_at, .. }) = (when, outcome) else {
            return None;
        };
        let skew = ClockSkew::measure(due_at.minus(delay), window);
        self.telemetry.skew.observe(skew, self.clock.elapsed());
        skew
    }

    fn receipt(
        &self,
        sent: Sent,
        outcome: SubmitOutcome,
        clock_skew: Option<ClockSkew>,
    ) -> Result<Receipt> {
        let Sent { task_type, id, .. } = sent;
        trace!(%task_type, %id, ?outcome, "submitted");
        if let SubmitOutcome::Accepted { due_at, .. } = outcome {
            let submitted = || TaskEventKind::Submitted { due_at };
            self.telemetry.hub.emit(&task_type, &id, submitted);
            if let Some(unserved) = &self.telemetry.unserved {
                unserved.sent(&task_type, &self.store);
            }
        }
        if let SubmitOutcome::Conflict { state } = outcome {
            let (task_type, id) = (task_type.to_string(), id.to_string());
            return Err(Error::Conflict {
                task_type,
                id,
                state,
            });
        }
        Ok(Receipt {
            id,
            outcome,
            durability: self.store.durability(),
            clock_skew,
        })
    }

    /// Cancels a task. After `Cancelled` it never starts. A running one is asked to stop (its
    /// context's `cancelled()` fires within a third of the lock time) and is not retried.
    ///
    /// # Errors
    /// As for every call, see [`TaskSubmitService`].
    pub async fn cancel(&self, task_type: &str, id: &str) -> Result<CancelOutcome> {
        let (task_type, id) = (TaskType::new(task_type)?, TaskId::new(id)?);
        let outcome = self.store.cancel(&task_type, &id).await?;
        debug!(%task_type, %id, ?outcome, "cancel");
        if outcome == CancelOutcome::Cancelled {
            let cancelled = || TaskEventKind::Cancelled;
            self.telemetry.hub.emit(&task_type, &id, cancelled);
        }
        Ok(outcome)
    }

    /// Moves a scheduled task to another time, earlier or later.
    ///
    /// # Errors
    /// `InvalidInput` for a delay over the limit, and as for every call.
    pub async fn reschedule(&self, task_type: &str, id: &str, when: When) -> Result<ChangeOutcome> {
        check_delay("delay", when, &self.limits, self.clock.now())?;
        let (task_type, id) = (TaskType::new(task_type)?, TaskId::new(id)?);
        let outcome = self.store.reschedule(&task_type, &id, when).await?;
        debug!(%task_type, %id, ?when, ?outcome, "reschedule");
        Ok(outcome)
    }

    /// Makes a scheduled task due now.
    ///
    /// # Errors
    /// As for every call.
    pub async fn run_now(&self, task_type: &str, id: &str) -> Result<ChangeOutcome> {
        self.reschedule(task_type, id, When::After(Duration::ZERO))
            .await
    }

    /// Replaces the message of a scheduled task by `message` as JSON.
    ///
    /// # Errors
    /// `Serialize`, `LimitExceeded`, and as for every call.
    pub async fn update<M: Serialize + Sync + ?Sized>(
        &self,
        task_type: &str,
        id: &str,
        message: &M,
    ) -> Result<ChangeOutcome> {
        let message = serde_json::to_vec(message).map_err(Error::serialize)?;
        self.update_raw(task_type, id, message).await
    }

    /// Replaces the message of a scheduled task by any bytes.
    ///
    /// # Errors
    /// `LimitExceeded`, and as for every call.
    pub async fn update_raw(
        &self,
        task_type: &str,
        id: &str,
        message: impl Into<Vec<u8>>,
    ) -> Result<ChangeOutcome> {
        let message = message.into();
        check_message(&message, &self.limits)?;
        self.store
            .update(&TaskType::new(task_type)?, &TaskId::new(id)?, message)
            .await
    }

    /// What is known of a task; `None` when there is none, or it ended longer ago than the
    /// retention.
    ///
    /// # Errors
    /// As for every call.
    pub async fn find(&self, task_type: &str, id: &str) -> Result<Option<TaskInfo>> {
        self.store
            .find(&TaskType::new(task_type)?, &TaskId::new(id)?)
            .await
    }

    /// Every type that was ever served or sent to, sorted.
    ///
    /// # Errors
    /// As for every call.
    pub async fn types(&self) -> Result<Vec<TaskType>> {
        self.store.types().await
    }

    /// The plugins that work on this store and namespace now, in the order of their starts.
    ///
    /// # Errors
    /// As for every call.
    pub async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.store.instances().await
    }
}

/// Operations on a type, which the store does; the name of the type is validated first.
macro_rules! of_a_type {
    ($($(#[$doc:meta])* $name:ident[$($arg:ident: $ty:ty),*] -> $out:ty;)*) => {
        impl TaskSubmitService {$(
            $(#[$doc])*
            pub async fn $name(&self, task_type: &str, $($arg: $ty),*) -> Result<$out> {
                self.store.$name(&TaskType::new(task_type)?, $($arg),*).await
            }
        )*}
    };
}

of_a_type! {
    /// A page of the scheduled, running or dead tasks of a type; pass the page's `next` for the
    /// next.
    ///
    /// # Errors
    /// `InvalidInput` for the ended states, and as for every call.
    list[state: TaskState, cursor: Option<&Cursor>, limit: usize] -> Page;

    /// Counts, next due time, and pause of a type.
    ///
    /// # Errors
    /// As for every call.
    stats[] -> TypeStats;

    /// Changes settings of a type in the store, for everybody at once; what is not named stays.
    ///
    /// # Errors
    /// As for every call.
    configure_type[settings: &TypeSettings] -> ();

    /// How many tasks are due in each of `steps` equal parts of `from..to`: the forecast.
    ///
    /// # Errors
    /// `InvalidInput` for an empty range or a bad number of steps, and as for every call.
    due_histogram[from: Timestamp, to: Timestamp, steps: usize] -> Vec<u64>;

    /// Schedules dead tasks again, their attempts counted anew: the first now, each next one
    /// `interval` later (zero: all now). Returns which.
    ///
    /// # Errors
    /// As for every call.
    requeue_dead[filter: &DeadFilter, interval: Duration] -> Vec<TaskId>;

    /// Removes dead tasks for good. Returns which.
    ///
    /// # Errors
    /// As for every call.
    discard_dead[filter: &DeadFilter] -> Vec<TaskId>;

    /// Starts nothing of the type until `until`, or until [`resume`](Self::resume) when `None`.
    ///
    /// # Errors
    /// As for every call.
    pause[until: Option<Timestamp>] -> ();

    /// Ends a pause.
    ///
    /// # Errors
    /// As for every call.
    resume[] -> ();

    /// Removes every scheduled or dead task of a type, or forgets its ended ones. Returns how many.
    ///
    /// # Errors
    /// `InvalidInput` for running tasks, and as for every call.
    purge[state: TaskState] -> u64;

    /// Checks the stored structure of a type, and mends it with `repair`.
    ///
    /// # Errors
    /// As for every call.
    audit[repair: bool] -> AuditReport;
}
