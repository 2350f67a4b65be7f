//! The operations on tasks, as the contract has them.

use std::sync::PoisonError;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::Result;
use delayq_core::job::{NewTask, When};
use delayq_core::name::{Namespace, TaskId, TaskType};
use delayq_core::store::{
    Bucket, CancelOutcome, ChangeOutcome, ClaimRequest, Claimed, Concern, Durability,
    ExtendOutcome, SettleOutcome, Settlement, SqlPlace, Store, SubmitOutcome, Wakeups,
};
use delayq_core::task::{Headers, Lock, TaskInfo};

use crate::change::{cancel_one, find_one, move_one, update_one};
use crate::claim::claim_from;
use crate::concerns::concerns;
use crate::settle::{extend_all, note, settle_all};
use crate::store::PostgresStore;
use crate::{preflight, schema};

#[async_trait]
impl Store for PostgresStore {
    fn name(&self) -> String {
        self.connections.place().to_owned()
    }

    fn namespace(&self) -> Option<&Namespace> {
        Some(&self.namespace)
    }

    fn sql_place(&self) -> Option<SqlPlace> {
        Some(SqlPlace::new(
            self.statements.schema(),
            self.namespace.clone(),
        ))
    }

    fn durability(&self) -> Durability {
        *self
            .durability
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    async fn submit(&self, tasks: Vec<NewTask>) -> Vec<Result<SubmitOutcome>> {
        self.submits.submit(tasks).await
    }

    async fn claim(&self, bucket: &Bucket, request: &ClaimRequest) -> Result<Claimed> {
        claim_from(self, bucket, request).await
    }

    async fn settle(
        &self,
        bucket: &Bucket,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<SettleOutcome>> {
        settle_all(self, bucket.task_type(), settlements).await
    }

    async fn extend(
        &self,
        bucket: &Bucket,
        locks: Vec<Lock>,
        lock_for: Duration,
    ) -> Result<Vec<ExtendOutcome>> {
        extend_all(self, bucket.task_type(), locks, lock_for, false).await
    }

    async fn extend_alone(
        &self,
        bucket: &Bucket,
        lock: &Lock,
        lock_for: Duration,
    ) -> Result<ExtendOutcome> {
        let locks = vec![lock.clone()];
        let outcomes = extend_all(self, bucket.task_type(), locks, lock_for, true).await?;
        Ok(outcomes.first().copied().unwrap_or(ExtendOutcome::LockLost))
    }

    async fn note_failure(&self, bucket: &Bucket, lock: &Lock, error: &str) -> Result<bool> {
        note(self, bucket.task_type(), lock, error).await
    }

    async fn cancel(&self, task_type: &TaskType, id: &TaskId) -> Result<CancelOutcome> {
        cancel_one(self, task_type, id).await
    }

    async fn reschedule(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        when: When,
    ) -> Result<ChangeOutcome> {
        move_one(self, task_type, id, when).await
    }

    async fn update(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
    ) -> Result<ChangeOutcome> {
        update_one(self, task_type, id, message, &Headers::new()).await
    }

    async fn update_with(
        &self,
        task_type: &TaskType,
        id: &TaskId,
        message: Vec<u8>,
        headers: &Headers,
    ) -> Result<ChangeOutcome> {
        update_one(self, task_type, id, message, headers).await
    }

    async fn find(&self, task_type: &TaskType, id: &TaskId) -> Result<Option<TaskInfo>> {
        find_one(self, task_type, id).await
    }

    fn wakeups(&self) -> Wakeups {
        self.wakes.subscribe()
    }

    async fn check(&self) -> Result<()> {
        let found = preflight::check(&self.connections, self.wanted).await?;
        schema::prepare(&self.connections, &self.statements, self.may_migrate).await?;
        *self
            .durability
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = found;
        Ok(())
    }

    async fn concerns(&self) -> Result<Vec<Concern>> {
        concerns(&self.connections, self.held_for).await
    }

    async fn close(&self) {
        self.connections.close_after(self.wakes.all_sent()).await;
    }
}
