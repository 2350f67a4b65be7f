//! The operations on tasks, through the plan.

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

use super::{FaultyStore, Observed};

#[async_trait]
impl Store for FaultyStore {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn namespace(&self) -> Option<&Namespace> {
        self.inner.namespace()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    async fn check(&self) -> Result<()> {
        self.call("check", self.inner.check()).await
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        let Some(inline) = &self.inline else {
            return self.submit_all(tasks).await;
        };
        let (tasks, runs) = inline.before(tasks);
        let results = self.submit_all(tasks).await;
        inline.after(results, runs).await
    }

    async fn buckets(&self, task_type: &TaskType) -> Result<Vec<Bucket>> {
        self.call("buckets", self.inner.buckets(task_type)).await
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        self.call_bucket("claim", bucket, async {
            let claimed = self.inner.claim(bucket, request).await?;
            (self.witness)(Observed::Claim {
                bucket,
                claimed: &claimed,
            });
            Ok(claimed)
        })
        .await
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        self.call_bucket("settle", bucket, async {
            let outcomes = self.inner.settle(bucket, settlements.clone()).await?;
            (self.witness)(Observed::Settle {
                bucket,
                settlements: &settlements,
                outcomes: &outcomes,
            });
            Ok(outcomes)
        })
        .await
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        let extend = self.inner.extend(bucket, locks, lock_for);
        self.call_bucket("extend", bucket, extend).await
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        let note = self.inner.note_failure(bucket, lock, error);
        self.call_bucket("note_failure", bucket, note).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        self.call("cancel", async {
            let outcome = self.inner.cancel(task_type, id).await?;
            (self.witness)(Observed::Cancel(outcome));
            Ok(outcome)
        })
        .await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        self.call("reschedule", self.inner.reschedule(task_type, id, when))
            .await
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        self.call("update", self.inner.update(task_type, id, message))
            .await
    }

    async fn update_with(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
        headers: &Headers,
    ) -> Result<ChangeOutcome> {
        let update = self.inner.update_with(task_type, id, message, headers);
        self.call("update", update).await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        self.call("find", self.inner.find(task_type, id)).await
    }

    async fn close(&self) {
        self.inner.close().await;
    }

    fn wakeups(&self) -> Wakeups {
        self.subscribe()
    }
}
