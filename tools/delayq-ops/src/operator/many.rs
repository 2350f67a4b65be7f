//! Changes of many tasks, logged before and after.

use delayq_plugin::store::MAX_BATCH;
use delayq_plugin::{BulkChange, BulkError, DeadFilter, TaskType};

use super::{
    Action, ActionEnd, BulkReport, DeadSelection, Duration, Operator, Result, TaskId, TaskState,
    TaskSubmitService,
};

/// The change of dead tasks.
#[derive(Clone, Copy)]
pub(super) enum DeadAction {
    Requeue { interval: Duration },
    Discard,
}

impl DeadAction {
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

    /// Makes the change with one call to the store.
    async fn make(
        self,
        tasks: &TaskSubmitService,
        task_type: &str,
        filter: &DeadFilter,
    ) -> Result<Vec<TaskId>> {
        match self {
            Self::Requeue { interval } => tasks.requeue_dead(task_type, filter, interval).await,
            Self::Discard => tasks.discard_dead(task_type, filter).await,
        }
    }

    /// Number of tasks in one call: with an interval, those of about a second.
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

/// Requeues or discards dead tasks, slice by slice. Returns the number changed.
pub(super) async fn change_dead(
    operator: &Operator,
    selection: &DeadSelection,
    change: DeadAction,
    mut progress: impl FnMut(u64, u64) + Send,
) -> Result<u64> {
    let ids = selection.find(&operator.tasks).await?;
    let count = ids.len() as u64;
    let action = operator
        .action(change.verb(), selection.task_type())
        .on(selection.to_string());
    if count > 1 {
        begin(operator, &action, Some(count)).await?;
    }
    let mut done = 0;
    let ended = change_slices(
        &operator.tasks,
        selection.task_type(),
        &ids,
        change,
        &mut |slice| {
            done += slice;
            progress(done, count);
        },
    )
    .await;
    end(operator, action.counted(done), &ended, "").await;
    ended.map(|()| done)
}

/// Requeues or discards dead tasks with one call to the store.
pub(super) async fn change_dead_once(
    operator: &Operator,
    task_type: &str,
    filter: &DeadFilter,
    change: DeadAction,
) -> Result<Vec<TaskId>> {
    TaskType::new(task_type)?;
    filter.check()?;
    let selection = DeadSelection::like(task_type, filter);
    let mut action = operator
        .action(change.verb(), task_type)
        .on(selection.to_string());
    let is_one = matches!(filter, DeadFilter::Ids(ids) if ids.len() == 1);
    if !is_one {
        begin(operator, &action, None).await?;
    }
    let changed = change.make(&operator.tasks, task_type, filter).await;
    action.count = changed.as_ref().ok().map(|ids| ids.len() as u64);
    let ended = changed.as_ref().map(drop).map_err(Clone::clone);
    end(operator, action, &ended, "").await;
    changed
}

async fn change_slices(
    tasks: &TaskSubmitService,
    task_type: &str,
    ids: &[TaskId],
    change: DeadAction,
    changed: &mut (impl FnMut(u64) + Send),
) -> Result<()> {
    let clock = tasks.clock();
    let mut slices = ids.chunks(change.slice()).peekable();
    while let Some(slice) = slices.next() {
        let filter = DeadFilter::Ids(slice.to_vec());
        let ids = change.make(tasks, task_type, &filter).await;
        changed(ids?.len() as u64);
        let pause = change
            .interval()
            .saturating_mul(u32::try_from(slice.len()).unwrap_or(u32::MAX));
        if slices.peek().is_some() && !pause.is_zero() {
            let until = clock.elapsed().saturating_add(pause);
            clock.sleep_until(until).await;
        }
    }
    Ok(())
}

/// Removes every task of a type in a state.
pub(super) async fn purge(operator: &Operator, task_type: &str, state: TaskState) -> Result<u64> {
    TaskType::new(task_type)?;
    if state == TaskState::Running {
        // The store's error tells why this is refused.
        return operator.tasks.purge(task_type, state).await;
    }
    let target = format!("all {state} tasks");
    let mut action = operator.action("purge", task_type).on(target);
    begin(operator, &action, None).await?;
    let purged = operator.tasks.purge(task_type, state).await;
    action.count = purged.as_ref().ok().copied();
    let ended = purged.as_ref().map(drop).map_err(Clone::clone);
    end(operator, action, &ended, "").await;
    purged
}

/// Writes the entry before a change of many tasks. If that fails, nothing is changed.
pub(super) async fn begin(operator: &Operator, action: &Action, count: Option<u64>) -> Result<()> {
    let begun = action.clone().ended(ActionEnd::Begun, "");
    let begun = match count {
        Some(count) => begun.counted(count),
        None => begun,
    };
    operator.log(&begun).await
}

/// Writes the entry after a change of many tasks.
async fn end(operator: &Operator, action: Action, ended: &Result<()>, detail: &str) {
    let action = match ended {
        Ok(()) => action.ended(ActionEnd::Done, detail),
        Err(error) => action.ended(ActionEnd::Failed, error.to_string()),
    };
    operator.record(&action).await;
}

/// Makes a bulk change between its two entries.
pub(super) async fn change_all(
    operator: &Operator,
    action: Action,
    change: BulkChange<'_>,
) -> Result<BulkReport, BulkError> {
    change.check().map_err(BulkError::before)?;
    begin(operator, &action, None)
        .await
        .map_err(BulkError::before)?;
    let done = change.await;
    let (report, ended) = match &done {
        Ok(report) => (report, Ok(())),
        Err(failed) => (&*failed.report, Err(failed.error.clone())),
    };
    let running = match report.running {
        0 => String::new(),
        running => format!("{running} more were running"),
    };
    end(operator, action.counted(report.changed), &ended, &running).await;
    done
}
