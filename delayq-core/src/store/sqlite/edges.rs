//! The [`Store`] contract, in calls to the engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::SqliteStore;
use super::audit::Audit;
use super::dead::{DeadEdge, STEP_TASKS as DEAD_STEP, Walk};
use super::error::Outcome;
use super::queue::{Lane, Size};
use super::schema;
use super::tx::{Bucket, Tx};
use crate::error::{Error, Result};
use crate::job::{NewTask, When};
use crate::name::{TaskId, TaskType};
use crate::state::TaskState;
use crate::store::{
    AuditReport, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Cursor, DeadFilter,
    Durability, ExtendOutcome, InstanceId, InstanceInfo, Page, SettleOutcome, Settlement, Store,
    SubmitOutcome, TypeSettings, TypeStats, Wakeups,
};
use crate::task::{Lock, TaskInfo};
use crate::time::Timestamp;

/// Most tasks of one submit or settle step: some milliseconds of work. Larger batches are split.
const STEP_TASKS: usize = 1_000;

/// Most bytes of messages of one submit step, so that steps with large messages are short, too.
const STEP_BYTES: usize = 4 << 20;

/// A step of a walk, a purge or an audit.
const STEP: Size = Size::tasks(DEAD_STEP);

impl SqliteStore {
    /// Submits one step of a batch.
    async fn submit_step(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let count = tasks.len();
        let bytes = tasks.iter().map(|task| task.message.len()).sum();
        let size = Size {
            tasks: count,
            bytes,
        };
        let edge = move |tx: &mut Tx<'_>| -> Outcome<Vec<Result<SubmitOutcome>>> {
            let submit = |task| tx.submit(task);
            tasks.iter().map(submit).collect()
        };
        match self.engine.write(Lane::Submits, size, edge).await {
            Ok(outcomes) => outcomes,
            Err(error) => vec![Err(error); count],
        }
    }

    /// Walks over dead tasks, a step at a time.
    async fn walk_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        change: DeadEdge,
    ) -> Result<Vec<TaskId>> {
        let filter = Arc::new(filter.clone());
        let mut walk = Walk::default();
        while !walk.is_over {
            let (filter, before) = (Arc::clone(&filter), walk.clone());
            let edge =
                move |bucket: &mut Bucket<'_>| bucket.walk_dead(&filter, change, before.clone());
            let walked = self.edit_known(task_type, STEP, edge).await?;
            let Some(walked) = walked else {
                break;
            };
            walk = walked;
        }
        Ok(walk.changed)
    }

    /// Goes through an audit, a step at a time.
    async fn walk_audit(&self, task_type: &TaskType, mut audit: Audit) -> Result<Audit> {
        while !audit.is_over {
            let (before, repairs) = (audit.clone(), audit.repairs);
            let edge = move |bucket: &mut Bucket<'_>| bucket.audit(before.clone());
            let step = if repairs {
                self.edit_known(task_type, STEP, edge).await?
            } else {
                self.look(task_type, edge).await?
            };
            let Some(step) = step else {
                break;
            };
            audit = step;
        }
        Ok(audit)
    }
}

/// The steps that a batch is split into: by number of tasks, and by their size.
pub(super) fn steps(tasks: Vec<NewTask>) -> Vec<Vec<NewTask>> {
    let mut steps: Vec<Vec<NewTask>> = Vec::new();
    let mut bytes = 0;
    for task in tasks {
        bytes += task.message.len();
        match steps.last_mut() {
            Some(step) if step.len() < STEP_TASKS && bytes <= STEP_BYTES => step.push(task),
            _ => {
                bytes = task.message.len();
                steps.push(vec![task]);
            }
        }
    }
    steps
}

#[async_trait]
impl Store for SqliteStore {
    fn name(&self) -> String {
        self.engine.store().to_owned()
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    async fn check(&self) -> Result<()> {
        let check = |tx: &mut Tx<'_>| schema::check_settings(tx.connection, &tx.world.store);
        self.engine.write(Lane::Edges, Size::ONE, check).await
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let mut outcomes = Vec::with_capacity(tasks.len());
        let mut steps = steps(tasks).into_iter();
        // While one step is written, the next is in line.
        let mut pending = steps.next().map(|step| self.submit_step(step));
        while let Some(current) = pending.take() {
            match steps.next() {
                None => outcomes.append(&mut current.await),
                Some(step) => {
                    let next = self.submit_step(step);
                    let (mut done, mut more) = tokio::join!(current, next);
                    outcomes.append(&mut done);
                    outcomes.append(&mut more);
                    pending = steps.next().map(|step| self.submit_step(step));
                }
            }
        }
        outcomes
    }

    async fn claim(&self, task_type: &TaskType, request: &ClaimRequest) -> Result<Claimed> {
        self.engine.claim(task_type.clone(), request.clone()).await
    }

    async fn settle(
        &self,
        task_type: &TaskType,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        let mut outcomes = Vec::with_capacity(settlements.len());
        for step in chunks(settlements) {
            let count = step.len();
            let edge = move |bucket: &mut Bucket<'_>| -> Outcome<Vec<SettleOutcome>> {
                step.iter().map(|end| bucket.settle(end)).collect()
            };
            let settled = self.edit_known(task_type, Size::tasks(count), edge).await?;
            outcomes.append(&mut settled.unwrap_or(vec![SettleOutcome::LockLost; count]));
        }
        Ok(outcomes)
    }

    async fn extend(
        &self,
        task_type: &TaskType,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let mut outcomes = Vec::with_capacity(locks.len());
        for step in chunks(locks) {
            let count = step.len();
            let edge = move |bucket: &mut Bucket<'_>| -> Outcome<Vec<ExtendOutcome>> {
                let until = bucket.now.plus(lock_for);
                step.iter().map(|lock| bucket.extend(lock, until)).collect()
            };
            let extended = self.edit_known(task_type, Size::tasks(count), edge).await?;
            outcomes.append(&mut extended.unwrap_or(vec![ExtendOutcome::LockLost; count]));
        }
        Ok(outcomes)
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        let id = id.clone();
        let edge = move |bucket: &mut Bucket<'_>| bucket.cancel(&id);
        let outcome = self.edit_known(task_type, Size::ONE, edge).await?;
        Ok(outcome.unwrap_or(CancelOutcome::NotFound))
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let id = id.clone();
        let edge = move |bucket: &mut Bucket<'_>| bucket.reschedule(&id, when);
        let outcome = self.edit_known(task_type, Size::ONE, edge).await?;
        Ok(outcome.unwrap_or(ChangeOutcome::NotFound))
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        let size = Size {
            tasks: 1,
            bytes: message.len(),
        };
        let id = id.clone();
        let edge = move |bucket: &mut Bucket<'_>| bucket.update(&id, &message);
        let outcome = self.edit_known(task_type, size, edge).await?;
        Ok(outcome.unwrap_or(ChangeOutcome::NotFound))
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        let id = id.clone();
        let found = self.look(task_type, move |bucket| bucket.find(&id)).await?;
        Ok(found.flatten())
    }

    async fn types(&self) -> Result<Vec<TaskType>> {
        self.engine.read(|tx| tx.types()).await
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        let list = |bucket: &mut Bucket<'_>| {
            bucket.list_type();
            Ok(())
        };
        self.edit(task_type, list).await
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        let settings = settings.clone();
        let edge = move |bucket: &mut Bucket<'_>| {
            bucket.configure(&settings);
            Ok(())
        };
        self.edit(task_type, edge).await
    }

    /// O(log n), but for the number of due tasks, which are counted.
    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        let task_type = task_type.clone();
        let look = move |tx: &mut Tx<'_>| tx.stats(&task_type);
        self.engine.read(look).await
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        if state.is_ended() {
            let reason = format!("{state} tasks cannot be listed: find answers for one id");
            return Err(Error::InvalidInput(reason));
        }
        let cursor = cursor.cloned();
        let look = move |bucket: &mut Bucket<'_>| bucket.list(state, cursor.as_ref(), limit);
        Ok(self.look(task_type, look).await?.unwrap_or_default())
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        if to <= from || !(1..=1_000).contains(&steps) {
            let reason = format!("cannot split {from}..{to} into {steps} steps: use 1 to 1000");
            return Err(Error::InvalidInput(reason));
        }
        let look = move |bucket: &mut Bucket<'_>| bucket.due_histogram(from, to, steps);
        let counts = self.look(task_type, look).await?;
        Ok(counts.unwrap_or_else(|| vec![0; steps]))
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        let change = DeadEdge::Requeue(interval);
        self.walk_dead(task_type, filter, change).await
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        self.walk_dead(task_type, filter, DeadEdge::Discard).await
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        let until = until.unwrap_or(Timestamp::MAX);
        let edge = move |bucket: &mut Bucket<'_>| {
            bucket.pause(until);
            Ok(())
        };
        self.edit(task_type, edge).await
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        let edge = |bucket: &mut Bucket<'_>| {
            bucket.pause(Timestamp::ZERO);
            Ok(())
        };
        self.edit_known(task_type, Size::ONE, edge).await.map(drop)
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        if state == TaskState::Running {
            let reason = "running tasks cannot be purged: cancel them instead".to_owned();
            return Err(Error::InvalidInput(reason));
        }
        let mut purged = 0;
        loop {
            let edge = move |bucket: &mut Bucket<'_>| bucket.purge(state);
            let step = self.edit_known(task_type, STEP, edge).await?;
            let (tasks, is_over) = step.unwrap_or((0, true));
            purged += tasks;
            if is_over {
                return Ok(purged);
            }
        }
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        let found = self.walk_audit(task_type, Audit::default()).await?;
        if !repair || found.report.problems.is_empty() {
            return Ok(found.report);
        }
        let repaired = self.walk_audit(task_type, found.to_repair()).await?;
        Ok(found.repaired_by(repaired))
    }

    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        let instance = instance.clone();
        let announce = move |tx: &mut Tx<'_>| tx.announce(&instance, holds);
        self.engine.write(Lane::Edges, Size::ONE, announce).await
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        let id = id.clone();
        let withdraw = move |tx: &mut Tx<'_>| tx.withdraw(&id);
        self.engine.write(Lane::Edges, Size::ONE, withdraw).await
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.engine.read(|tx| tx.instances()).await
    }

    /// Leaves one tidy file. Dropping the store does the same in the background.
    async fn close(&self) {
        self.engine.close();
        self.engine.closed().await;
    }

    fn wakeups(&self) -> Wakeups {
        Wakeups::new(self.engine.wakeups.subscribe())
    }
}

/// The steps that a batch of locks is split into.
fn chunks<T>(batch: Vec<T>) -> Vec<Vec<T>> {
    let mut rest = batch.into_iter();
    let step = || -> Vec<T> { rest.by_ref().take(STEP_TASKS).collect() };
    std::iter::repeat_with(step)
        .take_while(|step| !step.is_empty())
        .collect()
}
