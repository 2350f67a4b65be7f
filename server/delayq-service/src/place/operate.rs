//! Operator calls on a type, applied to both stores during a move.

use std::time::Duration;

use async_trait::async_trait;
use delayq_plugin::store::{
    AuditReport, Cursor, DeadFilter, Operate, Page, Setting, TypeSettings, TypeStats, merge_pages,
    sum_stats,
};
use delayq_plugin::{Result, TaskId, TaskState, TaskType, Timestamp};

use super::placed_store::{PlacedStore, close};
use super::record::Phase;

/// Runs the work on every store of a view, the old one first.
macro_rules! each {
    ($self:ident, $home:ident => $work:expr) => {{
        let view = $self.view()?;
        let mut answers = Vec::new();
        for $home in view.homes() {
            answers.push($work);
        }
        answers
    }};
}

#[async_trait]
impl Operate for PlacedStore {
    async fn types(&self) -> Result<Vec<TaskType>> {
        let listed = each!(self, home => home.store.types().await?);
        let mut types: Vec<_> = listed.into_iter().flatten().collect();
        types.sort();
        types.dedup();
        Ok(types)
    }

    async fn register_type(&self, task_type: &TaskType) -> Result<()> {
        self.view()?.main().store.register_type(task_type).await
    }

    async fn configure_type(&self, task_type: &TaskType, settings: &TypeSettings) -> Result<()> {
        let view = self.view()?;
        // What concerns the history alone is told to both stores, as submits wait for it.
        let mut history = TypeSettings::default();
        history.history = settings.history;
        if *settings != history {
            self.refuse_while_copied()?;
        }
        view.new.store.configure_type(task_type, settings).await?;
        if let Some(old) = &view.old {
            // The old store stays closed for new tasks and keeps its shards.
            let mut limits = settings.clone();
            (limits.max_pending, limits.shards) = (Setting::Keep, None);
            old.store.configure_type(task_type, &limits).await?;
        }
        Ok(())
    }

    async fn stats(&self, task_type: &TaskType) -> Result<TypeStats> {
        let stats = each!(self, home => home.store.stats(task_type).await?);
        let view = self.view()?;
        let Some(last) = stats.last().cloned() else {
            return Ok(TypeStats::default());
        };
        let mut sum = stats.iter().fold(TypeStats::default(), sum_stats);
        if view.place.phase == Phase::Moving {
            // The limit of the old store only closes the type.
            (sum.max_pending, sum.refused) = (last.max_pending, last.refused);
        }
        Ok(sum)
    }

    async fn list(
        &self,
        task_type: &TaskType,
        state: TaskState,
        cursor: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page> {
        let pages = each!(self, home => home.store.list(task_type, state, cursor, limit).await?);
        let mut page = if pages.len() == 1 {
            pages.into_iter().next().unwrap_or_default()
        } else {
            merge_pages(pages, state, limit)
        };
        for task in &mut page.tasks {
            self.side.veil(&mut task.headers);
        }
        Ok(page)
    }

    async fn due_histogram(
        &self,
        task_type: &TaskType,
        from: Timestamp,
        to: Timestamp,
        steps: usize,
    ) -> Result<Vec<u64>> {
        let parts =
            each!(self, home => home.store.due_histogram(task_type, from, to, steps).await?);
        let mut sum = vec![0_u64; steps];
        for part in parts {
            sum.iter_mut()
                .zip(part)
                .for_each(|(sum, count)| *sum += count);
        }
        Ok(sum)
    }

    async fn requeue_dead(
        &self,
        task_type: &TaskType,
        filter: &DeadFilter,
        interval: Duration,
    ) -> Result<Vec<TaskId>> {
        let view = self.view()?;
        let mut requeued = Vec::new();
        for home in view.homes() {
            let rest = rest_of(filter, requeued.len());
            let more = home.store.requeue_dead(task_type, &rest, interval);
            requeued.extend(more.await?);
        }
        Ok(requeued)
    }

    async fn discard_dead(&self, task_type: &TaskType, filter: &DeadFilter) -> Result<Vec<TaskId>> {
        let view = self.view()?;
        let mut discarded = Vec::new();
        for home in view.homes() {
            let rest = rest_of(filter, discarded.len());
            discarded.extend(home.store.discard_dead(task_type, &rest).await?);
        }
        Ok(discarded)
    }

    async fn pause(&self, task_type: &TaskType, until: Option<Timestamp>) -> Result<()> {
        self.refuse_while_copied()?;
        each!(self, home => home.store.pause(task_type, until).await?);
        Ok(())
    }

    async fn resume(&self, task_type: &TaskType) -> Result<()> {
        self.refuse_while_copied()?;
        each!(self, home => home.store.resume(task_type).await?);
        Ok(())
    }

    async fn purge(&self, task_type: &TaskType, state: TaskState) -> Result<u64> {
        let purged = each!(self, home => home.store.purge(task_type, state).await?);
        Ok(purged.into_iter().sum())
    }

    async fn drop_type(&self, task_type: &TaskType) -> Result<()> {
        let view = self.view()?;
        self.refuse_while_copied()?;
        if let Some(old) = &view.old {
            let stats = old.store.stats(task_type).await?;
            if stats.scheduled + stats.running + stats.dead > 0 {
                return old.store.drop_type(task_type).await;
            }
        }
        view.new.store.drop_type(task_type).await?;
        if let Some(old) = &view.old {
            old.store.drop_type(task_type).await?;
            // The drop removed the limit, so the type is closed again.
            close(old, task_type).await?;
        }
        Ok(())
    }

    async fn audit(&self, task_type: &TaskType, repair: bool) -> Result<AuditReport> {
        let reports = each!(self, home => home.store.audit(task_type, repair).await?);
        let mut sum = AuditReport::default();
        for report in reports {
            sum.checked += report.checked;
            sum.problems.extend(report.problems);
        }
        Ok(sum)
    }
}

/// The filter for the next store, after `found` matches.
fn rest_of(filter: &DeadFilter, found: usize) -> DeadFilter {
    let mut rest = filter.clone();
    if let DeadFilter::Matching { limit, .. } = &mut rest {
        *limit = limit.saturating_sub(found);
    }
    rest
}
