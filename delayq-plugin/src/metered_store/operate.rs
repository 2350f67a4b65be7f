//! The operator's methods, counted.

use std::time::Duration;

use async_trait::async_trait;
use delayq_core::operate::{AuditReport, Cursor, DeadFilter, Page, TypeSettings, TypeStats};
use delayq_core::{Operate, Result, TaskId, TaskState, TaskType, Timestamp};

use super::MeteredStore;

#[async_trait]
impl Operate for MeteredStore {
    async fn types(&self) -> Result<Vec<TaskType>> {
        self.call(&self.calls.types, self.inner.types()).await
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        self.call(
            &self.calls.register_type,
            self.inner.register_type(task_type),
        )
        .await
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        let configured = self.inner.configure_type(task_type, settings);
        self.call(&self.calls.configure_type, configured).await
    }

    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        self.call(&self.calls.stats, self.inner.stats(task_type))
            .await
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.call(
            &self.calls.list,
            self.inner.list(task_type, state, cursor, limit),
        )
        .await
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        self.call(
            &self.calls.due_histogram,
            self.inner.due_histogram(task_type, from, to, steps),
        )
        .await
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        self.call(
            &self.calls.requeue_dead,
            self.inner.requeue_dead(task_type, filter, interval),
        )
        .await
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        self.call(
            &self.calls.discard_dead,
            self.inner.discard_dead(task_type, filter),
        )
        .await
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        self.call(&self.calls.pause, self.inner.pause(task_type, until))
            .await
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        self.call(&self.calls.resume, self.inner.resume(task_type))
            .await
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        self.call(&self.calls.purge, self.inner.purge(task_type, state))
            .await
    }

    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        self.call(&self.calls.drop_type, self.inner.drop_type(task_type))
            .await
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        self.call(&self.calls.audit, self.inner.audit(task_type, repair))
            .await
    }
}
