//! The end of a task.

use delayq_core::machine::{Bookkeeping, Ended};
use delayq_core::name::TaskId;

use super::follow_up::FollowUp;
use super::number::{code, settled_code, signed};
use super::recorded::{record_death, record_end};
use super::statement::END;
use super::task_record::TaskRecord;
use super::task_row::{Status, TaskRow};
use super::type_tasks::{Texts, TypeTasks};
use crate::error::Outcome;

/// Ends a task: frees its message, and remembers the rest for the retention. If a request to run
/// again waits, it replaces the task instead.
pub(crate) fn end_task(tasks: &mut TypeTasks<'_>, row: &TaskRow, ended: Ended) -> Outcome<()> {
    tasks.row.totals.count(ended.state);
    record_end(tasks, row, ended)?;
    if FollowUp::start(tasks, row, ended.settled)? {
        return Ok(());
    }
    if tasks.retention.is_zero() {
        return tasks.remove(row);
    }
    tasks.remove_body(row)?;
    let (state, at) = (code(ended.state), ended.at.as_millis());
    let (settled, by) = (signed(ended.settled.fence), settled_code(ended.settled));
    tasks.execute(END, (row.seq, state, at, ended.attempt, settled, by))?;
    tasks.leave(row);
    tasks.row.add(ended.state, 1);
    tasks.row.ended += 1;
    Ok(())
}

/// Moves a task to dead, with its bookkeeping `task`. If a request to run again waits, it replaces
/// the task.
pub(crate) fn die(
    tasks: &mut TypeTasks<'_>,
    row: &TaskRow,
    task: &Bookkeeping,
    texts: &Texts<'_>,
) -> Outcome<()> {
    tasks.change_texts(row, task, texts)?;
    let dead = TaskRow {
        status: Status::Live(*task),
        ..*row
    };
    record_death(tasks, &dead, row.live())?;
    FollowUp::start(tasks, &dead, task.settled)?;
    Ok(())
}

/// Moves a task that cannot run to dead, see [`TypeTasks::bury`]. Returns its id.
pub(crate) fn bury(tasks: &mut TypeTasks<'_>, record: &TaskRecord, error: &str) -> Outcome<TaskId> {
    let id = tasks.bury(record, error)?;
    record_death(tasks, &record.row, record.row.live())?;
    Ok(id)
}
