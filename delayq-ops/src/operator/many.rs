//! Changes of many tasks: logged before and after.

use delayq_plugin::store::MAX_BATCH;
use delayq_plugin::{BulkChange, BulkError, DeadFilter, TaskType};

use super::{
    Action, ActionEnd, BulkReport, DeadSelection, Duration, Operator, Result, TaskFilter, TaskId,
    TaskState, When,
};

/// What becomes of dead tasks.
#[derive(Clone, Copy)]
enum Deed {
    Requeue { interval: Duration },
    Discard,
}

impl Deed {
    fn verb(self) -> &'static str {
        match self {
            Self::Requeue { .. } => "requeue",
            Self::Discard => "discard",
        }
    }

    fn interval(self) -> Duration {
        match self {
            Self::Requeue { interval } => interval,
            Self::Discard => Duration::ZERO,
        }
    }

    /// How many tasks one call takes: with an interval, those of about a second.
    fn slice(self) -> usize {
        let second = Duration::from_secs(1).as_nanos();
        match second.checked_div(self.interval().as_nanos()) {
            Some(count) => usize::try_from(count)
                .unwrap_or(MAX_BATCH)
                .clamp(1, MAX_BATCH),
            None => MAX_BATCH,
        }
    }
}

impl Operator {
    /// Schedules dead tasks again, their attempts counted anew, one `interval` after the other
    /// (zero: all at once). Returns how many. `progress` hears how many are done, and of how many.
    ///
    /// It runs as long as the intervals take. Dropped or failed in the middle, the rest stays dead.
    ///
    /// # Errors
    /// `InvalidInput` for a filter that cannot be meant, and those of the store; the log says how
    /// many were requeued.
    pub async fn requeue(
        &self,
        selection: &DeadSelection,
        interval: Duration,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<u64> {
        self.change_dead(selection, Deed::Requeue { interval }, progress)
            .await
    }

    /// Removes dead tasks for good. Returns how many. `progress` hears how many are done, and of
    /// how many.
    ///
    /// # Errors
    /// As [`requeue`](Self::requeue).
    pub async fn discard(
        &self,
        selection: &DeadSelection,
        progress: impl FnMut(u64, u64) + Send,
    ) -> Result<u64> {
        self.change_dead(selection, Deed::Discard, progress).await
    }

    async fn change_dead(
        &self,
        selection: &DeadSelection,
        deed: Deed,
        mut progress: impl FnMut(u64, u64) + Send,
    ) -> Result<u64> {
        let ids = selection.find(&self.tasks).await?;
        let count = ids.len() as u64;
        let action = self
            .action(deed.verb(), selection.task_type())
            .on(selection.to_string());
        if count > 1 {
            self.begin(&action, Some(count)).await?;
        }
        let mut done = 0;
        let ended = self
            .change_slices(selection.task_type(), &ids, deed, &mut |slice| {
                done += slice;
                progress(done, count);
            })
            .await;
        self.end(action.counted(done), &ended, "").await;
        ended.map(|()| done)
    }

    async fn change_slices(
        &self,
        task_type: &str,
        ids: &[TaskId],
        deed: Deed,
        changed: &mut (impl FnMut(u64) + Send),
    ) -> Result<()> {
        let clock = self.tasks.clock();
        let mut slices = ids.chunks(deed.slice()).peekable();
        while let Some(slice) = slices.next() {
            let filter = DeadFilter::Ids(slice.to_vec());
            let ids = match deed {
                Deed::Requeue { interval } => {
                    self.tasks.requeue_dead(task_type, &filter, interval).await
                }
                Deed::Discard => self.tasks.discard_dead(task_type, &filter).await,
            };
            changed(ids?.len() as u64);
            let pause = deed
                .interval()
                .saturating_mul(u32::try_from(slice.len()).unwrap_or(u32::MAX));
            if slices.peek().is_some() && !pause.is_zero() {
                let until = clock.elapsed().saturating_add(pause);
                clock.sleep_until(until).await;
            }
        }
        Ok(())
    }

    /// Cancels every task that matches, as
    /// [`cancel_all`](delayq_plugin::TaskSubmitService::cancel_all).
    ///
    /// # Errors
    /// As `cancel_all`, and those of the log.
    pub async fn cancel_all(
        &self,
        types: &str,
        filter: &TaskFilter,
    ) -> Result<BulkReport, BulkError> {
        let action = self.action("cancel-all", types).on(filter.to_string());
        let change = self.tasks.cancel_all(types, filter);
        self.change_all(action, change).await
    }

    /// Moves every scheduled task that matches, as
    /// [`reschedule_all`](delayq_plugin::TaskSubmitService::reschedule_all).
    ///
    /// # Errors
    /// As `reschedule_all`, and those of the log.
    pub async fn reschedule_all(
        &self,
        types: &str,
        filter: &TaskFilter,
        when: When,
    ) -> Result<BulkReport, BulkError> {
        let target = match when {
            When::At(time) => format!("{filter} to {time}"),
            When::After(delay) => format!("{filter} to {delay:?} from now"),
        };
        let action = self.action("reschedule-all", types).on(target);
        let change = self.tasks.reschedule_all(types, filter, when);
        self.change_all(action, change).await
    }

    /// Removes every task of a type in `state`, as
    /// [`purge`](delayq_plugin::TaskSubmitService::purge).
    ///
    /// # Errors
    /// As `purge`, and those of the log.
    pub async fn purge(&self, task_type: &str, state: TaskState) -> Result<u64> {
        TaskType::new(task_type)?;
        if state == TaskState::Running {
            // The store says why that is refused.
            return self.tasks.purge(task_type, state).await;
        }
        let target = format!("all {state} tasks");
        let mut action = self.action("purge", task_type).on(target);
        self.begin(&action, None).await?;
        let purged = self.tasks.purge(task_type, state).await;
        action.count = purged.as_ref().ok().copied();
        let ended = purged.as_ref().map(drop).map_err(Clone::clone);
        self.end(action, &ended, "").await;
        purged
    }

    /// The entry before a change of many tasks. Without it nothing is changed.
    pub(super) async fn begin(&self, action: &Action, count: Option<u64>) -> Result<()> {
        let begun = action.clone().ended(ActionEnd::Begun, "");
        let begun = match count {
            Some(count) => begun.counted(count),
            None => begun,
        };
        self.log(&begun).await
    }

    /// The entry after a change of many tasks.
    async fn end(&self, action: Action, ended: &Result<()>, detail: &str) {
        let action = match ended {
            Ok(()) => action.ended(ActionEnd::Done, detail),
            Err(error) => action.ended(ActionEnd::Failed, error.to_string()),
        };
        self.log_done(&action).await;
    }

    async fn change_all(
        &self,
        action: Action,
        change: BulkChange<'_>,
    ) -> Result<BulkReport, BulkError> {
        change.check().map_err(BulkError::before)?;
        self.begin(&action, None).await.map_err(BulkError::before)?;
        let done = change.await;
        let (report, ended) = match &done {
            Ok(report) => (report, Ok(())),
            Err(failed) => (&*failed.report, Err(failed.error.clone())),
        };
        let running = match report.running {
            0 => String::new(),
            running => format!("{running} more were running"),
        };
        self.end(action.counted(report.changed), &ended, &running)
            .await;
        done
    }
}
