//! A store whose claims are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::chronicle::{Action, LoggedAction, Spell, Step};
use delayq_core::operate::{AuditReport, Cursor, DeadFilter, Page, TypeSettings, TypeStats};
use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_core::store::{
    Bucket, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Durability, ExtendOutcome,
    SettleOutcome, Settlement, SubmitOutcome, Wakeups,
};
use delayq_core::{
    Chronicle, Documents, Lock, Namespace, NewTask, Operate, Presence, Replies, Result, Store,
    TaskId, TaskInfo, TaskState, TaskType, Timestamp, When,
};

/// How often was claimed, and how often for nothing.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    all: AtomicU64,
    empty: AtomicU64,
}

impl Claims {
    /// All claims that were answered, and those among them that brought nothing.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (
            self.all.load(Ordering::Relaxed),
            self.empty.load(Ordering::Relaxed),
        )
    }
}

/// Counts the claims of the store inside; all else is passed on.
#[derive(Debug)]
pub(crate) struct CountedStore {
    inner: Arc<dyn Store>,
    claims: Arc<Claims>,
}

impl CountedStore {
    pub(crate) fn new(inner: Arc<dyn Store>, claims: Arc<Claims>) -> Self {
        Self { inner, claims }
    }
}

#[async_trait]
impl Store for CountedStore {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn namespace(&self) -> Option<&Namespace> {
        self.inner.namespace()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        self.inner.submit(tasks).await
    }

    async fn buckets(&self, task_type: &TaskType) -> Result<Vec<Bucket>> {
        self.inner.buckets(task_type).await
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        let claimed = self.inner.claim(bucket, request).await?;
        self.claims.all.fetch_add(1, Ordering::Relaxed);
        if claimed.tasks.is_empty() && claimed.ended.is_empty() {
            self.claims.empty.fetch_add(1, Ordering::Relaxed);
        }
        Ok(claimed)
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        self.inner.settle(bucket, settlements).await
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        self.inner.extend(bucket, locks, lock_for).await
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        self.inner.note_failure(bucket, lock, error).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        self.inner.cancel(task_type, id).await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        self.inner.reschedule(task_type, id, when).await
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        self.inner.update(task_type, id, message).await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        self.inner.find(task_type, id).await
    }

    fn wakeups(&self) -> Wakeups {
        self.inner.wakeups()
    }

    async fn check(&self) -> Result<()> {
        self.inner.check().await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

#[async_trait]
impl Operate for CountedStore {
    async fn types(&self) -> Result<Vec<TaskType>> {
        self.inner.types().await
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        self.inner.register_type(task_type).await
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        self.inner.configure_type(task_type, settings).await
    }

    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        self.inner.stats(task_type).await
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.inner.list(task_type, state, cursor, limit).await
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        self.inner.due_histogram(task_type, from, to, steps).await
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        self.inner.requeue_dead(task_type, filter, interval).await
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        self.inner.discard_dead(task_type, filter).await
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        self.inner.pause(task_type, until).await
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        self.inner.resume(task_type).await
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        self.inner.purge(task_type, state).await
    }

    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        self.inner.drop_type(task_type).await
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        self.inner.audit(task_type, repair).await
    }
}

#[async_trait]
impl Presence for CountedStore {
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        self.inner.announce(instance, holds).await
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        self.inner.withdraw(id).await
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.inner.instances().await
    }
}

#[async_trait]
impl Chronicle for CountedStore {
    async fn add_figures(&self, task_type: &TaskType, minutes: &[Spell]) -> Result<()> {
        self.inner.add_figures(task_type, minutes).await
    }

    async fn figures(
        &self,
        task_type: &TaskType,
        step: Step,
        since: Timestamp,
    ) -> Result<Vec<Spell>> {
        self.inner.figures(task_type, step, since).await
    }

    async fn log_action(&self, action: &Action) -> Result<()> {
        self.inner.log_action(action).await
    }

    async fn actions(&self, before: Option<u64>, limit: usize) -> Result<Vec<LoggedAction>> {
        self.inner.actions(before, limit).await
    }
}

impl Documents for CountedStore {}

impl Replies for CountedStore {}

#[cfg(test)]
mod tests {
    use delayq_core::memory::MemoryStore;
    use delayq_core::store::StoreOptions;
    use delayq_plugin::{Clock, DelayQueueJob, SystemClock, TaskSubmitService, seconds};

    use super::*;

    #[tokio::test]
    async fn a_claim_that_brings_nothing_is_counted_as_empty() {
        let inner = Arc::new(MemoryStore::new(
            Arc::new(SystemClock),
            StoreOptions::default(),
        ));
        let claims = Arc::new(Claims::default());
        let store: Arc<dyn Store> = Arc::new(CountedStore::new(inner, Arc::clone(&claims)));
        let tasks = TaskSubmitService::new(Arc::clone(&store));
        tasks.send(DelayQueueJob::raw("a", "1")).await.unwrap();
        let request = ClaimRequest::new(8, seconds(30), SystemClock.now());
        let bucket = Bucket::whole(TaskType::new("a").unwrap());
        for expected in [1, 0, 0] {
            let claimed = store.claim(&bucket, &request).await;
            assert_eq!(claimed.unwrap().tasks.len(), expected);
        }
        assert_eq!(claims.counts(), (3, 2));
    }
}
