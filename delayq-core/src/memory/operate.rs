//! Operators' methods.

use std::time::Duration;

use async_trait::async_trait;

use super::{MemoryStore, audit, chronicle, operations};
use crate::error::{Error, Result};
use crate::name::{TaskId, TaskType};
use crate::operate::{
    AuditReport, Cursor, DeadFilter, Operate, Page, TypeSettings, TypeStats, check_histogram,
};
use crate::state::TaskState;
use crate::time::Timestamp;

#[async_trait]
impl Operate for MemoryStore {
    async fn types(&self) -> Result<Vec<TaskType>> {
        self.refuse_closed()?;
        Ok(self.lock().listed.iter().cloned().collect())
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        self.refuse_closed()?;
        self.lock().listed.insert(task_type.clone());
        Ok(())
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        settings.check()?;
        self.edit(task_type, |tasks, _| {
            settings.max_pending.apply(&mut tasks.max_pending);
            settings.apply_fleet(&mut tasks.fleet);
            settings.history.apply(&mut tasks.history);
        })
    }

    /// O(number of due tasks), as a `BTreeSet` cannot count a range without walking it.
    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        self.read(task_type, |tasks, now| tasks.stats(now))
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        self.read(task_type, |tasks, _| tasks.list(state, cursor, limit))
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        check_histogram(from, to, steps)?;
        self.read(task_type, |tasks, _| tasks.due_histogram(from, to, steps))
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        filter.check()?;
        self.edit(task_type, |tasks, now| {
            operations::requeue_dead(tasks, filter, interval, now)
        })
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        filter.check()?;
        self.edit(task_type, |tasks, _| {
            operations::discard_dead(tasks, filter)
        })
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        let until = until.unwrap_or(Timestamp::MAX);
        self.edit(task_type, |tasks, _| tasks.paused_until = until)
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        self.edit(task_type, |tasks, _| tasks.paused_until = Timestamp::ZERO)
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        if state == TaskState::Running {
            let reason = "running tasks cannot be purged: cancel them instead".to_owned();
            return Err(Error::invalid("argument", reason));
        }
        self.edit(task_type, |tasks, _| operations::purge(tasks, state))
    }

    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        self.refuse_closed()?;
        let mut types = self.lock();
        if let Some(tasks) = types.buckets.get_mut(task_type) {
            operations::drop_type(tasks, task_type)?;
        }
        types.listed.remove(task_type);
        chronicle::open(&self.pages).forget(task_type);
        Ok(())
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        self.edit(task_type, |tasks, _| audit::audit(tasks, repair))
    }
}
