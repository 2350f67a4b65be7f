//! The jobs of one namespace of delayq with the operations of lmstfy, and its dead letters.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use delayq_plugin::store::{AttemptEnd, NewTask, SettleOutcome, SubmitOutcome};
use delayq_plugin::{
    CancelOutcome, DeadFilter, Error, Lock, OnConflict, Receipt, Result, TaskId, TaskInfo,
    TaskState, TaskType, Timestamp, When,
};
use delayq_service::context::Context;
use delayq_service::operation::{Batch, Submission, submit, submit_one};
use delayq_service::problem::Problem;
use delayq_service::pull::Demand;
use delayq_service::space::Space;
use tracing::{debug, info};

use super::job::{Appetite, NewJob, Taken, describe, is_expired, lifetime, tries_left};
use super::names::QueueName;

/// The largest number of tasks in one step of the store.
const BATCH: usize = 100;
/// How often deleting a job is retried while the job changes.
const LOOKS: usize = 8;
/// The error text of a job that has used all its tries.
const NO_TRIES: &str = "its last try ended without an acknowledgement";

/// The jobs of one namespace of delayq.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    pub(super) space: Arc<Space>,
}

impl Engine {
    pub(super) fn now(&self) -> Timestamp {
        self.space.tasks.clock().now()
    }

    /// Publishes jobs, given as ids and messages. If the server refuses one, it publishes none.
    pub(super) async fn publish(
        &self,
        context: &Context,
        queue: &QueueName,
        new: &NewJob,
        jobs: Vec<(String, Vec<u8>)>,
    ) -> Result<(), Problem> {
        let task_type = queue.task_type()?;
        let mut tasks = Vec::with_capacity(jobs.len());
        for (id, message) in jobs {
            let mut task = NewTask::new(task_type.clone(), TaskId::new(id)?, message);
            task.when = When::After(new.delay);
            task.expiry = lifetime(new.ttl, new.delay);
            describe(&mut task, new.tries, &new.attributes);
            tasks.push(Submission::from(task));
        }
        let submitted = submit(context, Batch::new(tasks.clone()).whole()).await?;
        for (submitted, task) in submitted.into_iter().zip(tasks) {
            if submitted.is_err() {
                // Repeating an uncertain submit is harmless, because the job has an id.
                submit_one(context, task).await?;
            }
        }
        Ok(())
    }

    /// Submits existing tasks again with all their headers; retries each failure once.
    async fn resubmit(&self, tasks: Vec<NewTask>) -> Vec<Result<Receipt>> {
        let service = &self.space.within;
        let mut receipts = service.submit(tasks.clone()).await;
        for (receipt, task) in receipts.iter_mut().zip(tasks) {
            if receipt.is_err()
                && let Some(again) = service.submit(vec![task]).await.pop()
            {
                *receipt = again;
            }
        }
        receipts
    }

    /// Takes jobs that are ready or become ready within `wait`, in the order of the queues.
    pub(super) async fn take(
        &self,
        queues: &[QueueName],
        appetite: Appetite,
        wait: Duration,
    ) -> Result<Taken> {
        let types: Result<Vec<_>> = queues.iter().map(QueueName::task_type).collect();
        let demand = Demand {
            types: types?,
            limit: appetite.count,
            lock_for: appetite.ttr,
            // The number of tries is in the job.
            max_lock_expiries: Some(u32::MAX),
        };
        let handover = self.space.pull.claim(demand, wait).await?;
        let taken = Taken::new(handover, queues);
        for spent in taken.spent() {
            let (bucket, lock) = (spent.bucket.clone(), spent.task.lock.clone());
            self.space.pull.end(bucket, lock, no_tries()).await?;
        }
        Ok(taken)
    }

    /// Finds a job; `None` if it is unknown, expired or ended.
    pub(super) async fn find(&self, queue: &QueueName, id: &str) -> Result<Option<TaskInfo>> {
        let Ok(id) = TaskId::new(id) else {
            return Ok(None);
        };
        let store = self.space.tasks.store();
        let found = store.find(&queue.task_type()?, &id).await?;
        let now = self.now();
        Ok(found.filter(|info| !info.state.is_ended() && !is_expired(info, now)))
    }

    /// Ends a job in any state.
    pub(super) async fn delete(&self, queue: &QueueName, id: &str) -> Result<()> {
        let Ok(id) = TaskId::new(id) else {
            return Ok(());
        };
        let task_type = queue.task_type()?;
        for _ in 0..LOOKS {
            if self.try_delete(&task_type, &id).await? {
                return Ok(());
            }
        }
        // Consumers claim the job again and again. After the cancel it does not come back.
        let outcome = self.cancel(&task_type, &id).await?;
        debug!(%task_type, %id, ?outcome, "cancelled a job that changes too often");
        Ok(())
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let tasks = &self.space.tasks;
        tasks.cancel(task_type.as_str(), id.as_str()).await
    }

    /// Returns true if the job has ended.
    async fn try_delete(&self, task_type: &TaskType, id: &TaskId) -> Result<bool> {
        let store = self.space.tasks.store();
        let Some(info) = store.find(task_type, id).await? else {
            debug!(%task_type, %id, "acknowledged: there is no such job");
            return Ok(true);
        };
        match info.state {
            TaskState::Scheduled => {
                if info.attempt > 0 {
                    info!(%task_type, %id, "acknowledged late: its time to run had ended");
                }
                let outcome = self.cancel(task_type, id).await?;
                Ok(!matches!(outcome, CancelOutcome::Running))
            }
            TaskState::Running => {
                if info.at <= self.now() {
                    info!(%task_type, %id, "acknowledged late: its time to run had ended");
                } else if info.attempt > 1 {
                    let attempt = info.attempt;
                    info!(%task_type, %id, attempt, "acknowledged while a later attempt runs");
                }
                self.end(task_type, &info, AttemptEnd::Done).await
            }
            TaskState::Dead => {
                let these = DeadFilter::Ids(vec![id.clone()]);
                Ok(!store.discard_dead(task_type, &these).await?.is_empty())
            }
            state => {
                debug!(%task_type, %id, %state, "acknowledged again: the job has ended");
                Ok(true)
            }
        }
    }

    /// Ends the running attempt, whoever holds it; returns true if that was still the current one.
    async fn end(&self, task_type: &TaskType, info: &TaskInfo, end: AttemptEnd) -> Result<bool> {
        let Some(fence) = info.fence else {
            return Ok(false);
        };
        for bucket in self.space.tasks.store().buckets(task_type).await? {
            let id = info.id.clone();
            let ended = self.space.pull.end(bucket, Lock { id, fence }, end.clone());
            if ended.await? == SettleOutcome::Settled {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Handles attempts whose time to run is over. Jobs without further tries go to the dead
    /// letters. The others are ready, and are returned.
    async fn overdue(&self, task_type: &TaskType) -> Result<Vec<TaskInfo>> {
        let store = self.space.tasks.store();
        let now = store.stats(task_type).await?.now;
        let (mut ready, mut cursor) = (Vec::new(), None);
        loop {
            let running = TaskState::Running;
            let page = store
                .list(task_type, running, cursor.as_ref(), BATCH)
                .await?;
            let is_last = page.tasks.last().is_none_or(|last| last.at > now);
            for info in page.tasks.into_iter().filter(|info| info.at <= now) {
                if is_expired(&info, now) {
                    continue;
                }
                if tries_left(&info) > 0 {
                    ready.push(info);
                    continue;
                }
                self.end(task_type, &info, no_tries()).await?;
            }
            cursor = page.next;
            if is_last || cursor.is_none() {
                return Ok(ready);
            }
        }
    }

    /// The next job.
    pub(super) async fn peek(&self, queue: &QueueName) -> Result<Option<TaskInfo>> {
        let task_type = queue.task_type()?;
        let mut ready = self.overdue(&task_type).await?;
        if !ready.is_empty() {
            return Ok(Some(ready.swap_remove(0)));
        }
        let (now, mut cursor) = (self.now(), None);
        loop {
            let scheduled = TaskState::Scheduled;
            let store = self.space.tasks.store();
            let page = store
                .list(&task_type, scheduled, cursor.as_ref(), 1)
                .await?;
            let Some(first) = page.tasks.into_iter().next() else {
                return Ok(None);
            };
            if first.at > now {
                return Ok(None);
            }
            if !is_expired(&first, now) {
                return Ok(Some(first));
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(None);
            }
        }
    }

    /// The number of ready jobs.
    pub(super) async fn size(&self, queue: &QueueName) -> Result<u64> {
        let task_type = queue.task_type()?;
        let overdue = self.overdue(&task_type).await?.len() as u64;
        let stats = self.space.tasks.store().stats(&task_type).await?;
        Ok(stats.due + overdue)
    }

    /// Removes the ready and dead jobs of a queue; with `is_all` also delayed and taken ones. No
    /// removed job is remembered.
    pub(super) async fn destroy(&self, queue: &QueueName, is_all: bool) -> Result<()> {
        let task_type = queue.task_type()?;
        let store = self.space.tasks.store();
        for info in self.overdue(&task_type).await? {
            self.end(&task_type, &info, AttemptEnd::Expired).await?;
        }
        if is_all {
            let (running, limit) = (TaskState::Running, BATCH);
            let mut cursor = None;
            loop {
                let page = store
                    .list(&task_type, running, cursor.as_ref(), limit)
                    .await?;
                for info in &page.tasks {
                    self.end(&task_type, info, AttemptEnd::Expired).await?;
                }
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            store.purge(&task_type, TaskState::Scheduled).await?;
        } else {
            self.remove_ready(&task_type).await?;
        }
        for state in [
            TaskState::Dead,
            TaskState::Done,
            TaskState::Cancelled,
            TaskState::Expired,
        ] {
            store.purge(&task_type, state).await?;
        }
        if let Err(error) = store.drop_type(&task_type).await {
            debug!(%task_type, %error, "cannot remove the queue from the list");
        }
        Ok(())
    }

    async fn remove_ready(&self, task_type: &TaskType) -> Result<()> {
        let store = self.space.tasks.store();
        let now = store.stats(task_type).await?.now;
        let mut cursor = None;
        loop {
            let scheduled = TaskState::Scheduled;
            let page = store
                .list(task_type, scheduled, cursor.as_ref(), BATCH)
                .await?;
            for info in page.tasks.iter().filter(|info| info.at <= now) {
                let outcome = self.cancel(task_type, &info.id).await?;
                debug!(%task_type, id = %info.id, ?outcome, "removed a job of a destroyed queue");
            }
            let is_last = page.tasks.last().is_none_or(|last| last.at > now);
            cursor = page.next;
            if is_last || cursor.is_none() {
                return Ok(());
            }
        }
    }

    /// The types of all queues ever used.
    pub(super) async fn queues(&self) -> Result<Vec<TaskType>> {
        self.space.tasks.types().await
    }
}

/// The end of a job without further tries.
fn no_tries() -> AttemptEnd {
    AttemptEnd::Dead {
        error: NO_TRIES.to_owned(),
        succeeded: Vec::new(),
    }
}

/// The dead letters of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeadLetters<'a> {
    pub(super) engine: &'a Engine,
    pub(super) queue: &'a QueueName,
}

impl DeadLetters<'_> {
    /// The number of dead jobs.
    pub(super) async fn size(&self) -> Result<u64> {
        let task_type = self.queue.task_type()?;
        self.engine.overdue(&task_type).await?;
        Ok(self
            .engine
            .space
            .tasks
            .store()
            .stats(&task_type)
            .await?
            .dead)
    }

    /// The job that has been dead longest.
    pub(super) async fn head(&self) -> Result<Option<String>> {
        let task_type = self.queue.task_type()?;
        let store = self.engine.space.tasks.store();
        let page = store.list(&task_type, TaskState::Dead, None, 1).await?;
        Ok(page.tasks.first().map(|info| info.id.to_string()))
    }

    /// Removes dead jobs, longest dead first; returns their number.
    pub(super) async fn delete(&self, limit: usize) -> Result<usize> {
        let task_type = self.queue.task_type()?;
        self.engine.overdue(&task_type).await?;
        let first = DeadFilter::Matching {
            died_before: None,
            error_contains: None,
            limit,
        };
        let removed = self
            .engine
            .space
            .tasks
            .store()
            .discard_dead(&task_type, &first);
        Ok(removed.await?.len())
    }

    /// Makes dead jobs ready again, with one try and the given time to live; returns their number.
    pub(super) async fn respawn(&self, limit: usize, ttl: Duration) -> Result<usize> {
        let task_type = self.queue.task_type()?;
        self.engine.overdue(&task_type).await?;
        let store = self.engine.space.within.store();
        let mut respawned = 0;
        while respawned < limit {
            let most = BATCH.min(limit - respawned);
            let page = store.list(&task_type, TaskState::Dead, None, most).await?;
            let tasks: Vec<_> = page
                .tasks
                .into_iter()
                .map(|info| {
                    let message = info.message.unwrap_or_default();
                    let mut task = NewTask::new(task_type.clone(), info.id, message);
                    task.headers = info.headers;
                    task.expiry = lifetime(ttl, Duration::ZERO);
                    task.on_conflict = OnConflict::Replace;
                    describe(&mut task, 1, &BTreeMap::new());
                    task
                })
                .collect();
            let count = tasks.len();
            let receipts = self.engine.resubmit(tasks).await;
            let replaced = receipts
                .iter()
                .flatten()
                .filter(|one| matches!(one.outcome, SubmitOutcome::Accepted { .. }));
            let done = replaced.count();
            respawned += done;
            let errors = receipts.into_iter().filter_map(Result::err);
            // Another job has the id meanwhile, and it is not dead.
            let mut errors = errors.filter(|error| !matches!(error, Error::Conflict { .. }));
            if let Some(error) = errors.next() {
                return Err(error);
            }
            if done == 0 || count < most {
                break;
            }
        }
        Ok(respawned)
    }
}
