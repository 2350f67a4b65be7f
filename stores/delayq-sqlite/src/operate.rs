//! Operators' methods, as calls to the engine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use delayq_core::error::{Error, Result};
use delayq_core::name::{TaskId, TaskType};
use delayq_core::operate::{
    AuditReport, Cursor, DeadFilter, Operate, Page, TypeSettings, TypeStats, check_histogram,
};
use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;

use crate::commit::{Lane, Size};
use crate::operations::audit::{Audit, audit};
use crate::operations::dead::{DeadOperation, STEP_TASKS, Scan, purge, scan};
use crate::operations::{change, query};
use crate::rows::{Tx, TypeTasks};
use crate::store::SqliteStore;

/// The size of one step of a scan, a purge or an audit.
const STEP: Size = Size::tasks(STEP_TASKS);

#[async_trait]
impl Operate for SqliteStore {
    async fn types(&self) -> Result<Vec<TaskType>> {
        self.engine.read(|tx| query::types(tx)).await
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        self.edit(task_type, change::list_type).await
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        settings.check()?;
        let settings = settings.clone();
        let configure = move |tasks: &mut TypeTasks<'_>| change::configure(tasks, &settings);
        self.edit(task_type, configure).await
    }

    /// O(log n), except for the number of due tasks, which are counted.
    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        self.query(task_type, |tasks| query::stats(tasks)).await
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let cursor = cursor.cloned();
        let query =
            move |tasks: &mut TypeTasks<'_>| query::list(tasks, state, cursor.as_ref(), limit);
        self.query(task_type, query).await
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        check_histogram(from, to, steps)?;
        let query = move |tasks: &mut TypeTasks<'_>| query::due_histogram(tasks, from, to, steps);
        self.query(task_type, query).await
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        let requeue = DeadOperation::Requeue(interval);
        scan_dead(self, task_type, filter, requeue).await
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        scan_dead(self, task_type, filter, DeadOperation::Discard).await
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        let until = until.unwrap_or(Timestamp::MAX);
        let pause = move |tasks: &mut TypeTasks<'_>| change::pause(tasks, until);
        self.edit(task_type, pause).await
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        let operation = |tasks: &mut TypeTasks<'_>| {
            change::pause(tasks, Timestamp::ZERO);
            Ok(())
        };
        self.edit_known(task_type, Size::ONE, operation).await
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        if state == TaskState::Running {
            let reason = "running tasks cannot be purged: cancel them instead".to_owned();
            return Err(Error::invalid("argument", reason));
        }
        let mut purged = 0;
        let step = move |tasks: &mut TypeTasks<'_>| purge(tasks, state);
        while let Some(tasks) = self.edit_known(task_type, STEP, step).await? {
            purged += tasks;
        }
        Ok(purged)
    }

    /// Forgets the ended tasks first, in batches, unless the type is in use.
    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        let name = task_type.clone();
        let check = move |tasks: &mut TypeTasks<'_>| change::check_unused(tasks, &name);
        self.edit_known(task_type, Size::ONE, check).await??;
        for state in [TaskState::Done, TaskState::Cancelled, TaskState::Expired] {
            self.purge(task_type, state).await?;
        }
        let name = task_type.clone();
        let drop = move |tasks: &mut TypeTasks<'_>| change::drop_type(tasks, &name);
        self.edit_known(task_type, Size::ONE, drop).await?
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        let found = run_audit(self, task_type, Audit::default()).await?;
        if !repair || found.report.problems.is_empty() {
            return Ok(found.report);
        }
        let repaired = run_audit(self, task_type, found.to_repair()).await?;
        Ok(found.repaired_by(repaired))
    }
}

/// Scans dead tasks, one step at a time.
async fn scan_dead(
    store: &SqliteStore,
    task_type: &TaskType,
    filter: &DeadFilter,
    operation: DeadOperation,
) -> Result<Vec<TaskId>> {
    filter.check()?;
    let filter = Arc::new(filter.clone());
    let mut progress = Scan::default();
    while !progress.is_over {
        let (filter, before) = (Arc::clone(&filter), progress.clone());
        let step = move |tasks: &mut TypeTasks<'_>| scan(tasks, &filter, operation, before.clone());
        progress = store.edit_known(task_type, STEP, step).await?;
    }
    Ok(progress.changed)
}

/// Runs an audit, one step at a time. It includes damaged rows of the type itself.
async fn run_audit(
    store: &SqliteStore,
    task_type: &TaskType,
    mut progress: Audit,
) -> Result<Audit> {
    while !progress.is_over {
        let (before, task_type) = (progress.clone(), task_type.clone());
        let step =
            move |tx: &mut Tx<'_>| audit(&mut tx.known_or_damaged(&task_type)?, before.clone());
        progress = if progress.repairs {
            store.engine.write(Lane::Operations, STEP, step).await?
        } else {
            store.engine.read(step).await?
        };
    }
    Ok(progress)
}
