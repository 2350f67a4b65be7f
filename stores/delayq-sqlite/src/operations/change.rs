//! Cancel, reschedule, update; pause and settings of a type.

use delayq_core::error::{Error, Result};
use delayq_core::job::When;
use delayq_core::machine::{self, due_at};
use delayq_core::name::{TaskId, TaskType};
use delayq_core::operate::TypeSettings;
use delayq_core::state::TaskState;
use delayq_core::store::{CancelOutcome, ChangeOutcome};
use delayq_core::task::Headers;
use delayq_core::time::Timestamp;

use crate::error::Outcome;
use crate::operations::figures;
use crate::rows::{FollowUp, TaskRow, TypeTasks, end_task};

pub(crate) fn cancel(tasks: &mut TypeTasks<'_>, id: &TaskId) -> Outcome<CancelOutcome> {
    let row = tasks.row(id)?;
    let outcome = machine::cancel(sound_state(id, row.as_ref())?);
    let Some((row, task)) = row.as_ref().and_then(|row| Some((row, row.live()?))) else {
        return Ok(outcome);
    };
    match outcome {
        CancelOutcome::Cancelled => {
            FollowUp::forget(tasks, id)?;
            end_task(tasks, row, task.ended(TaskState::Cancelled, tasks.now))?;
        }
        CancelOutcome::Running => {
            FollowUp::forget(tasks, id)?;
            if !task.cancel_requested {
                tasks.change(row, &task.with_cancel_request())?;
            }
        }
        _ => {}
    }
    Ok(outcome)
}

pub(crate) fn reschedule(
    tasks: &mut TypeTasks<'_>,
    id: &TaskId,
    when: When,
) -> Outcome<ChangeOutcome> {
    let row = tasks.row(id)?;
    let due_at = due_at(when, tasks.reading);
    let outcome = machine::change(sound_state(id, row.as_ref())?, due_at);
    if let (ChangeOutcome::Changed { .. }, Some(row)) = (outcome, row)
        && let Some(task) = row.live()
    {
        tasks.change(&row, &task.rescheduled(due_at))?;
    }
    Ok(outcome)
}

pub(crate) fn update(
    tasks: &mut TypeTasks<'_>,
    id: &TaskId,
    message: &[u8],
    headers: &Headers,
) -> Outcome<ChangeOutcome> {
    let record = tasks.record(id)?;
    let record = record.filter(|record| !tasks.is_over(&record.row));
    let row = record.as_ref().map(|record| &record.row);
    let due_at = row.map_or(Timestamp::ZERO, TaskRow::at);
    let outcome = machine::change(sound_state(id, row)?, due_at);
    if let (ChangeOutcome::Changed { .. }, Some(mut record)) = (outcome, record) {
        record.give(headers);
        tasks.replace_message(&record, message)?;
    }
    Ok(outcome)
}

/// Pauses claims until `until`; a time that is not in the future ends a pause.
pub(crate) fn pause(tasks: &mut TypeTasks<'_>, until: Timestamp) {
    let before = tasks.row.pause_at(tasks.now);
    tasks.row.paused_until = until;
    tasks.row.touch();
    tasks.row.is_woken |= tasks.row.pause_at(tasks.now) < before;
}

/// Changes the settings of the type.
pub(crate) fn configure(tasks: &mut TypeTasks<'_>, settings: &TypeSettings) {
    settings.max_pending.apply(&mut tasks.row.max_pending);
    settings.apply_fleet(&mut tasks.row.fleet);
    settings.history.apply(&mut tasks.row.history);
    tasks.row.touch();
}

/// Removes the type from the list, with its settings, pause and figures, if it has no tasks. A
/// refusal is not a failure of the transaction.
pub(crate) fn drop_type(tasks: &mut TypeTasks<'_>, task_type: &TaskType) -> Outcome<Result<()>> {
    let unused = check_unused(tasks, task_type)?;
    if unused.is_ok() {
        figures::forget(tasks)?;
        tasks.row.clear();
    }
    Ok(unused)
}

/// Refuses a type with tasks. A request to run again left behind by a process of an earlier release
/// counts as a task.
pub(crate) fn check_unused(tasks: &mut TypeTasks<'_>, task_type: &TaskType) -> Outcome<Result<()>> {
    FollowUp::adopt_left(tasks, 1)?;
    let count = |state| tasks.row.count(state);
    let in_use = [TaskState::Scheduled, TaskState::Running, TaskState::Dead].map(count);
    let [scheduled, running, dead] = in_use;
    if in_use == [0; 3] {
        return Ok(Ok(()));
    }
    Ok(Err(Error::TypeInUse {
        task_type: task_type.to_string(),
        scheduled,
        running,
        dead,
    }))
}

/// Adds the type to the list of types.
pub(crate) fn list_type(tasks: &mut TypeTasks<'_>) {
    if !tasks.row.listed {
        tasks.row.listed = true;
        tasks.row.touch();
    }
}

/// The state of a task that has a row.
fn sound_state(id: &TaskId, row: Option<&TaskRow>) -> Outcome<Option<TaskState>> {
    row.map(|row| row.sound_state(id)).transpose()
}
