//! Stores of which every type is split into partitions before it is used.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::{
    AuditReport, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Cursor, DeadFilter,
    Durability, ExtendOutcome, InstanceId, InstanceInfo, Page, SettleOutcome, Settlement,
    StoreOptions, SubmitOutcome, TypeSettings, TypeStats, Wakeups,
};
use delayq_core::{
    Lock, NewTask, Result, Store, TaskId, TaskInfo, TaskState, TaskType, Timestamp, When,
};

use super::Redis;
use super::redis::do_damage;
use crate::contract::{Damage, Damageable, StoreUnderTest};
use crate::redis_server::RedisServer;

/// How many partitions each type has.
const PARTITIONS: u32 = 3;

/// Stores as the other harness opens them, with split types.
#[derive(Clone, Copy, Debug, Default)]
pub struct Split<H>(pub H);

#[async_trait]
impl<H: StoreUnderTest> StoreUnderTest for Split<H> {
    async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
        Arc::new(SplitStore {
            inner: self.0.open(options).await,
            done: Mutex::default(),
        })
    }

    async fn advance(&self, span: Duration) {
        self.0.advance(span).await;
    }

    fn is_split(&self) -> bool {
        true
    }
}

#[async_trait]
impl Damageable for Split<Redis> {
    async fn damage(
        &self,
        options: &StoreOptions,
        task_type: &TaskType,
        id: &TaskId,
        damage: Damage,
    ) {
        let tag = |n: u32| format!("{}/{task_type}/1.{n}", options.namespace);
        let url = RedisServer::shared().url();
        do_damage(&url, (0..PARTITIONS).map(tag), id, damage).await;
    }
}

/// Splits each type before the first call that concerns it.
#[derive(Debug)]
struct SplitStore {
    inner: Arc<dyn Store>,
    done: Mutex<HashSet<TaskType>>,
}

impl SplitStore {
    async fn of(&self, task_type: &TaskType) -> Result<&dyn Store> {
        if !self.done.lock().unwrap().contains(task_type) {
            let settings = TypeSettings::default().partitions(PARTITIONS);
            self.inner.configure_type(task_type, &settings).await?;
            self.done.lock().unwrap().insert(task_type.clone());
        }
        Ok(self.inner.as_ref())
    }
}

#[async_trait]
impl Store for SplitStore {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    async fn check(&self) -> Result<()> {
        self.inner.check().await
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        for task in &tasks {
            if let Err(error) = self.of(&task.task_type).await {
                return vec![Err(error); tasks.len()];
            }
        }
        self.inner.submit(tasks).await
    }

    async fn claim(&self, task_type: &TaskType, request: &ClaimRequest) -> Result<Claimed> {
        self.of(task_type).await?.claim(task_type, request).await
    }

    async fn settle(
        &self,
        task_type: &TaskType,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        self.of(task_type)
            .await?
            .settle(task_type, settlements)
            .await
    }

    async fn extend(
        &self,
        task_type: &TaskType,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        self.of(task_type)
            .await?
            .extend(task_type, locks, lock_for)
            .await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        self.of(task_type).await?.cancel(task_type, id).await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        self.of(task_type)
            .await?
            .reschedule(task_type, id, when)
            .await
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        self.of(task_type)
            .await?
            .update(task_type, id, message)
            .await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        self.of(task_type).await?.find(task_type, id).await
    }

    async fn types(&self) -> Result<Vec<TaskType>> {
        self.inner.types().await
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        self.inner.register_type(task_type).await
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        self.of(task_type)
            .await?
            .configure_type(task_type, settings)
            .await
    }

    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        self.of(task_type).await?.stats(task_type).await
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.of(task_type)
            .await?
            .list(task_type, state, cursor, limit)
            .await
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        self.of(task_type)
            .await?
            .due_histogram(task_type, from, to, steps)
            .await
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        self.of(task_type)
            .await?
            .requeue_dead(task_type, filter, interval)
            .await
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        self.of(task_type)
            .await?
            .discard_dead(task_type, filter)
            .await
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        self.of(task_type).await?.pause(task_type, until).await
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        self.of(task_type).await?.resume(task_type).await
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        self.of(task_type).await?.purge(task_type, state).await
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        self.of(task_type).await?.audit(task_type, repair).await
    }

    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        self.inner.announce(instance, holds).await
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        self.inner.withdraw(id).await
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.inner.instances().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    fn wakeups(&self) -> Wakeups {
        self.inner.wakeups()
    }
}
