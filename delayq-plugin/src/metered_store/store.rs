//! The operations on tasks, counted.

use std::time::Duration;

use async_trait::async_trait;
use delayq_core::store::{
    CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Durability, ExtendOutcome, SettleOutcome,
    Settlement, SubmitOutcome, Wakeups,
};
use delayq_core::task::Headers;
use delayq_core::{
    Bucket, Lock, Namespace, NewTask, Result, Store, TaskId, TaskInfo, TaskType, When,
};

use super::MeteredStore;

#[async_trait]
impl Store for MeteredStore {
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
        self.submission(self.inner.submit(tasks)).await
    }

    async fn buckets(&self, task_type: &TaskType) -> Result<Vec<Bucket>> {
        self.call(&self.calls.buckets, self.inner.buckets(task_type))
            .await
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        self.call(&self.calls.claim, self.inner.claim(bucket, request))
            .await
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        self.call(&self.calls.settle, self.inner.settle(bucket, settlements))
            .await
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let extend = self.inner.extend(bucket, locks, lock_for);
        self.call(&self.calls.extend, extend).await
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        let note = self.inner.note_failure(bucket, lock, error);
        self.call(&self.calls.note_failure, note).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        self.call(&self.calls.cancel, self.inner.cancel(task_type, id))
            .await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        let reschedule = self.inner.reschedule(task_type, id, when);
        self.call(&self.calls.reschedule, reschedule).await
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        let update = self.inner.update(task_type, id, message);
        self.call(&self.calls.update, update).await
    }

    async fn update_with(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
        headers: &Headers,
    ) -> Result<ChangeOutcome> {
        let update = self.inner.update_with(task_type, id, message, headers);
        self.call(&self.calls.update, update).await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        self.call(&self.calls.find, self.inner.find(task_type, id))
            .await
    }

    fn wakeups(&self) -> Wakeups {
        self.inner.wakeups()
    }

    async fn check(&self) -> Result<()> {
        self.call(&self.calls.check, self.inner.check()).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
