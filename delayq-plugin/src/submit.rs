//! The submit service: everything an application says about tasks.

use std::sync::Arc;
use std::time::Duration;

use delayq_core::job::{check_delay, check_message};
use delayq_core::store::{
    AuditReport, CancelOutcome, ChangeOutcome, Cursor, DeadFilter, Durability, InstanceInfo, Page,
    StoreOptions, SubmitOutcome, TypeSettings, TypeStats,
};
use delayq_core::{
    Clock, DelayQueueJob, Error, Limits, Result, Store, SystemClock, TaskId, TaskInfo, TaskState,
    TaskType, Timestamp, When,
};
use serde::Serialize;
use tracing::{debug, trace};

/// The proof that a task was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The task's id.
    pub id: TaskId,
    /// Accepted (with its due time), or known already.
    pub outcome: SubmitOutcome,
    /// What the acknowledgement survives.
    pub durability: Durability,
}

impl Receipt {
    /// When the task is due; `None` when it existed already.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        match self.outcome {
            SubmitOutcome::Accepted { due_at, .. } => Some(due_at),
            _ => None,
        }
    }
}

/// Sends tasks, changes them, asks for them. Cheap to clone; works from any tokio runtime.
///
/// Every call that names a task takes its type and id as text and validates them. A call fails with a
/// transient error ([`Error::is_transient`]) while the store is down; repeating it is always safe.
#[derive(Clone, Debug)]
pub struct TaskSubmitService {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    limits: Limits,
}

impl TaskSubmitService {
    /// A service on an open store, with the default limits.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            clock: Arc::new(SystemClock),
            limits: Limits::default(),
        }
    }

    /// A service for an application that only sends tasks and runs none.
    ///
    /// # Errors
    /// The store cannot be opened, see [`open_store`](crate::open_store).
    pub async fn connect(url: &str, options: StoreOptions) -> Result<Self> {
        Ok(Self::new(crate::open_store(url, options).await?))
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

    /// The store behind it.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Lets go of the store once nobody needs it any more: an embedded one is left as one tidy file. After
    /// the plugin's shutdown, at the end of the program; not needed for safety.
    pub async fn close(&self) {
        self.store.close().await;
    }

    /// Sends one task. Once this returns `Ok` it will run, or has been known before.
    ///
    /// # Errors
    /// [`Error::Conflict`] when another task has the id; `QueueFull` when the type has as many scheduled
    /// tasks as it may have; `InvalidName` or `LimitExceeded` for a bad job;
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
        let now = self.clock.now();
        let mut results = Vec::with_capacity(jobs.len());
        let mut tasks = Vec::with_capacity(jobs.len());
        let mut sent = Vec::with_capacity(jobs.len());
        for job in jobs {
            match job.into_task(&self.limits, now) {
                Ok(task) => {
                    sent.push((results.len(), task.task_type.clone(), task.id.clone()));
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
        for ((index, task_type, id), outcome) in sent.into_iter().zip(outcomes) {
            if let Some(result) = results.get_mut(index) {
                *result = outcome.and_then(|outcome| self.receipt(&task_type, id, outcome));
            }
        }
        results
    }

    fn receipt(&self, task_type: &TaskType, id: TaskId, outcome: SubmitOutcome) -> Result<Receipt> {
        trace!(%task_type, %id, ?outcome, "submitted");
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
        })
    }

    /// Cancels a task. After `Cancelled` it never starts. A running one is asked to stop (its context's
    /// `cancelled()` fires within a third of the lock time) and is not retried.
    ///
    /// # Errors
    /// As for every call, see [`TaskSubmitService`].
    pub async fn cancel(&self, task_type: &str, id: &str) -> Result<CancelOutcome> {
        let (task_type, id) = (TaskType::new(task_type)?, TaskId::new(id)?);
        let outcome = self.store.cancel(&task_type, &id).await?;
        debug!(%task_type, %id, ?outcome, "cancel");
        Ok(outcome)
    }

    /// Moves a scheduled task to another time, earlier or later.
    ///
    /// # Errors
    /// `LimitExceeded` for a delay over the limit, and as for every call.
    pub async fn reschedule(&self, task_type: &str, id: &str, when: When) -> Result<ChangeOutcome> {
        check_delay("delay in ms", when, &self.limits, self.clock.now())?;
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
    pub async fn update(
        &self,
        task_type: &str,
        id: &str,
        message: &(impl Serialize + Sync + ?Sized),
    ) -> Result<ChangeOutcome> {
        let message = serde_json::to_vec(message).map_err(|e| Error::Serialize(e.to_string()))?;
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

    /// What is known of a task; `None` when there is none, or it ended longer ago than the retention.
    ///
    /// # Errors
    /// As for every call.
    pub async fn find(&self, task_type: &str, id: &str) -> Result<Option<TaskInfo>> {
        self.store
            .find(&TaskType::new(task_type)?, &TaskId::new(id)?)
            .await
    }

    /// A page of the scheduled, running or dead tasks of a type; pass the page's `next` for the next.
    ///
    /// # Errors
    /// `InvalidInput` for the ended states, and as for every call.
    pub async fn list(
        &self,
        task_type: &str,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.store
            .list(&TaskType::new(task_type)?, state, cursor, limit)
            .await
    }

    /// Every type that was ever served or sent to, sorted.
    ///
    /// # Errors
    /// As for every call.
    pub async fn types(&self) -> Result<Vec<TaskType>> {
        self.store.types().await
    }

    /// Counts, next due time, and pause of a type.
    ///
    /// # Errors
    /// As for every call.
    pub async fn stats(&self, task_type: &str) -> Result<TypeStats> {
        self.store.stats(&TaskType::new(task_type)?).await
    }

    /// Changes settings of a type in the store, for everybody at once; what is not named stays as it is.
    ///
    /// # Errors
    /// As for every call.
    pub async fn configure_type(&self, task_type: &str, settings: &TypeSettings) -> Result<()> {
        let task_type = TaskType::new(task_type)?;
        self.store.configure_type(&task_type, settings).await
    }

    /// The plugins that work on this store and namespace now, in the order of their starts.
    ///
    /// # Errors
    /// As for every call.
    pub async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.store.instances().await
    }

    /// How many tasks are due in each of `steps` equal parts of `from..to`: the forecast.
    ///
    /// # Errors
    /// `InvalidInput` for an empty range or a bad number of steps, and as for every call.
    pub async fn due_histogram(
        &self,
        task_type: &str,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        self.store
            .due_histogram(&TaskType::new(task_type)?, from, to, steps)
            .await
    }

    /// Schedules dead tasks again, their attempts counted anew: the first now, each next one `interval`
    /// later (zero: all now). Returns which.
    ///
    /// # Errors
    /// As for every call.
    pub async fn requeue_dead(
        &self,
        task_type: &str,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        self.store
            .requeue_dead(&TaskType::new(task_type)?, filter, interval)
            .await
    }

    /// Removes dead tasks for good. Returns which.
    ///
    /// # Errors
    /// As for every call.
    pub async fn discard_dead(&self, task_type: &str, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        self.store
            .discard_dead(&TaskType::new(task_type)?, filter)
            .await
    }

    /// Starts nothing of the type until `until`, or until [`resume`](Self::resume) when `None`.
    ///
    /// # Errors
    /// As for every call.
    pub async fn pause(&self, task_type: &str, until: Option<Timestamp>) -> Result<()> {
        self.store.pause(&TaskType::new(task_type)?, until).await
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// As for every call.
    pub async fn resume(&self, task_type: &str) -> Result<()> {
        self.store.resume(&TaskType::new(task_type)?).await
    }

    /// Removes every scheduled or dead task of a type, or forgets its ended ones. Returns how many.
    ///
    /// # Errors
    /// `InvalidInput` for running tasks, and as for every call.
    pub async fn purge(&self, task_type: &str, state: TaskState) -> Result<u64> {
        self.store.purge(&TaskType::new(task_type)?, state).await
    }

    /// Checks the stored structure of a type, and mends it with `repair`.
    ///
    /// # Errors
    /// As for every call.
    pub async fn audit(&self, task_type: &str, repair: bool) -> Result<AuditReport> {
        self.store.audit(&TaskType::new(task_type)?, repair).await
    }
}
