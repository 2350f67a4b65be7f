//! Changes of many tasks: logged before and after.

use delayq_plugin::store::MAX_BATCH;
use delayq_plugin::{BulkError, DeadFilter};

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
        self.log_end(action.counted(done), &ended, |()| {
            (ActionEnd::Done, String::new())
        })
        .await;
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
        self.begin_bulk(&action).await?;
        let done = self.tasks.cancel_all(types, filter).await;
        self.end_bulk(action, done).await
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
        let action = self.action("reschedule-all", types).on(filter.to_string());
        self.begin_bulk(&action).await?;
        let done = self.tasks.reschedule_all(types, filter, when).await;
        self.end_bulk(action, done).await
    }

    /// Removes every task of a type in `state`, as
    /// [`purge`](delayq_plugin::TaskSubmitService::purge).
    ///
    /// # Errors
    /// As `purge`, and those of the log.
    pub async fn purge(&self, task_type: &str, state: TaskState) -> Result<u64> {
        let action = self
            .action("purge", task_type)
            .on(format!("all {state} tasks"));
        self.begin(&action, None).await?;
        let purged = self.tasks.purge(task_type, state).await;
        let count = purged.as_ref().ok().copied();
        let action = count.map_or(action.clone(), |count| action.counted(count));
        self.log_end(action, &purged, |_| (ActionEnd::Done, String::new()))
            .await;
        purged
    }

    /// The entry before a change of many tasks. Without it nothing is changed.
    async fn begin(&self, action: &Action, count: Option<u64>) -> Result<()> {
        let begun = action.clone().ended(ActionEnd::Begun, "");
        let begun = match count {
            Some(count) => begun.counted(count),
            None => begun,
        };
        self.log(&begun).await
    }

    async fn begin_bulk(&self, action: &Action) -> Result<(), BulkError> {
        let unlogged = |error| BulkError::before(error);
        self.begin(action, None).await.map_err(unlogged)
    }

    async fn end_bulk(
        &self,
        action: Action,
        done: Result<BulkReport, BulkError>,
    ) -> Result<BulkReport, BulkError> {
        let report = match &done {
            Ok(report) => report,
            Err(failed) => &*failed.report,
        };
        let action = action.counted(report.changed);
        let running = match report.running {
            0 => String::new(),
            running => format!("{running} more were running"),
        };
        let ended = done
            .as_ref()
            .map(drop)
            .map_err(|failed| failed.error.clone());
        self.log_end(action, &ended, |()| (ActionEnd::Done, running))
            .await;
        done
    }
}
