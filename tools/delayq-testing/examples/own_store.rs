//! A custom store: it wraps the memory store, counts its calls, and passes the contract suite.
//!
//! `cargo test --example own_store` runs the suite; a store on another database looks the same.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::chronicle::{Action, LoggedAction, Spell, Step};
use delayq_core::documents::{Expected, Folder, WriteOutcome};
use delayq_core::history::{EndPosition, EndsStatus, WaitingEnd};
use delayq_core::memory::MemoryStore;
use delayq_core::operate::{AuditReport, Cursor, DeadFilter, Page, TypeSettings, TypeStats};
use delayq_core::presence::{InstanceId, InstanceInfo};
use delayq_core::reply::{KeptReply, Reply};
use delayq_core::store::{
    CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Durability, ExtendOutcome, SettleOutcome,
    Settlement, SubmitOutcome, Wakeups,
};
use delayq_core::{
    Bucket, Chronicle, Documents, Ends, Lock, NewTask, Operate, Presence, Replies, Result, Store,
    TaskId, TaskInfo, TaskState, TaskType, Timestamp, When,
};

/// Counts the calls of each operation.
#[derive(Debug, Default)]
struct CountingStore {
    inner: MemoryStore,
    calls: Mutex<BTreeMap<&'static str, u64>>,
}

impl CountingStore {
    fn count(&self, operation: &'static str) -> &MemoryStore {
        let calls = self.calls.lock();
        let mut calls = calls.unwrap_or_else(PoisonError::into_inner);
        *calls.entry(operation).or_default() += 1;
        &self.inner
    }
}

#[async_trait]
impl Store for CountingStore {
    fn name(&self) -> String {
        format!("counting {}", self.inner.name())
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn wakeups(&self) -> Wakeups {
        self.inner.wakeups()
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        self.count("submit").submit(tasks).await
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        self.count("claim").claim(bucket, request).await
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        self.count("settle").settle(bucket, settlements).await
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        self.count("extend").extend(bucket, locks, lock_for).await
    }

    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        let store = self.count("extend_alone");
        store.extend_alone(bucket, lock, lock_for).await
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        let store = self.count("note_failure");
        store.note_failure(bucket, lock, error).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        self.count("cancel").cancel(task_type, id).await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        self.count("reschedule")
            .reschedule(task_type, id, when)
            .await
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        self.count("update").update(task_type, id, message).await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        self.count("find").find(task_type, id).await
    }
}

#[async_trait]
impl Operate for CountingStore {
    async fn types(&self) -> Result<Vec<TaskType>> {
        self.count("types").types().await
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        self.count("register_type").register_type(task_type).await
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        self.count("configure_type")
            .configure_type(task_type, settings)
            .await
    }

    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        self.count("drop_type").drop_type(task_type).await
    }

    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        self.count("stats").stats(task_type).await
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.count("list")
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
        self.count("due_histogram")
            .due_histogram(task_type, from, to, steps)
            .await
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        self.count("requeue_dead")
            .requeue_dead(task_type, filter, interval)
            .await
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        self.count("discard_dead")
            .discard_dead(task_type, filter)
            .await
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        self.count("pause").pause(task_type, until).await
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        self.count("resume").resume(task_type).await
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        self.count("purge").purge(task_type, state).await
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        self.count("audit").audit(task_type, repair).await
    }
}

#[async_trait]
impl Presence for CountingStore {
    async fn announce(&self, instance: &InstanceInfo, holds: Duration) -> Result<()> {
        self.count("announce").announce(instance, holds).await
    }

    async fn withdraw(&self, id: &InstanceId) -> Result<()> {
        self.count("withdraw").withdraw(id).await
    }

    async fn instances(&self) -> Result<Vec<InstanceInfo>> {
        self.count("instances").instances().await
    }
}

#[async_trait]
impl Chronicle for CountingStore {
    async fn add_figures(&self, task_type: &TaskType, minutes: &[Spell]) -> Result<()> {
        self.count("add_figures")
            .add_figures(task_type, minutes)
            .await
    }

    async fn figures(
        &self,
        task_type: &TaskType,
        step: Step,
        since: Timestamp,
    ) -> Result<Vec<Spell>> {
        self.count("figures").figures(task_type, step, since).await
    }

    async fn log_action(&self, action: &Action) -> Result<()> {
        self.count("log_action").log_action(action).await
    }

    async fn actions(&self, before: Option<u64>, limit: usize) -> Result<Vec<LoggedAction>> {
        self.count("actions").actions(before, limit).await
    }
}

#[async_trait]
impl Documents for CountingStore {
    async fn folder(&self, folder: &str) -> Result<Folder> {
        self.count("folder").folder(folder).await
    }

    async fn folder_revision(&self, folder: &str) -> Result<u64> {
        self.count("folder_revision").folder_revision(folder).await
    }

    async fn write_document(
        &self,
        folder: &str,
        name: &str,
        body: &str,
        expected: Expected,
    ) -> Result<WriteOutcome> {
        self.count("write_document")
            .write_document(folder, name, body, expected)
            .await
    }

    async fn remove_document(&self, folder: &str, name: &str) -> Result<bool> {
        self.count("remove_document")
            .remove_document(folder, name)
            .await
    }
}

#[async_trait]
impl Ends for CountingStore {
    async fn ends(&self, limit: usize) -> Result<Vec<WaitingEnd>> {
        self.count("ends").ends(limit).await
    }

    async fn remove_ends(&self, positions: &[EndPosition]) -> Result<u64> {
        self.count("remove_ends").remove_ends(positions).await
    }

    async fn ends_status(&self) -> Result<EndsStatus> {
        self.count("ends_status").ends_status().await
    }
}

#[async_trait]
impl Replies for CountingStore {
    async fn keep_reply(&self, task_type: &TaskType, lock: &Lock, reply: &Reply) -> Result<bool> {
        self.count("keep_reply")
            .keep_reply(task_type, lock, reply)
            .await
    }

    async fn reply(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<KeptReply>> {
        self.count("reply").reply(task_type, id).await
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let store: Arc<dyn Store> = Arc::new(CountingStore::default());
    store.types().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use delayq_core::store::StoreOptions;
    use delayq_testing::VirtualClock;
    use delayq_testing::contract::StoreUnderTest;

    use super::*;

    #[derive(Default)]
    struct Place {
        clock: VirtualClock,
    }

    #[async_trait]
    impl StoreUnderTest for Place {
        async fn open(&self, options: StoreOptions) -> Arc<dyn Store> {
            Arc::new(CountingStore {
                inner: MemoryStore::new(Arc::new(self.clock.clone()), options),
                ..CountingStore::default()
            })
        }

        async fn advance(&self, span: Duration) {
            self.clock.advance(span);
        }
    }

    delayq_testing::contract_suite!(Place::default());
    delayq_testing::id_suite!(Place::default());
    delayq_testing::limit_suite!(Place::default());
}
