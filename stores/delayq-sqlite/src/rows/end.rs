//! The end of a task.

use delayq_core::machine::Ended;

use super::follow_up::FollowUp;
use super::number::{code, settled_code, signed};
use super::statement::END;
use super::task_row::TaskRow;
use super::type_tasks::TypeTasks;
use crate::error::Outcome;

/// Ends a task: frees its message, and remembers the rest for the retention. If a request to run
/// again waits, it replaces the task instead.
pub(crate) fn end_task(tasks: &mut TypeTasks<'_>, row: &TaskRow, ended: Ended) -> Outcome<()> {
    tasks.row.totals.count(ended.state);
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
