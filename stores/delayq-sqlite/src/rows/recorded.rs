//! Records of ended tasks, written in the step of the end.

use delayq_core::history::LifeOutcome;
use delayq_core::machine::{Bookkeeping, Ended};
use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;
use rusqlite::{OptionalExtension, params};

use super::number::signed;
use super::task_row::TaskRow;
use super::type_tasks::TypeTasks;
use crate::error::Outcome;

/// Copies a row of tasks. The checksum has the length of the message. Damaged headers have no
/// group.
const RECORD: &str = "INSERT INTO ends (namespace, type, id, outcome, submitted, due, ended, \
     fence, running, attempts, grp, project, holder, error, errors, size, message, bytes) \
     SELECT ?2, type, id, ?3, submitted, due, ?4, max(fence, settled, ?5), ?6, \
     coalesce(?7, failures + lock_expiries), grp, project, holder, last_error, errors, \
     checksum >> 32, kept, 64 + octet_length(id) + coalesce(octet_length(grp), 0) + \
     coalesce(octet_length(project), 0) + coalesce(octet_length(holder), 0) + \
     coalesce(octet_length(last_error), 0) + coalesce(octet_length(errors), 0) + coalesce(octet_length(kept), 0) \
     FROM (SELECT *, CASE WHEN json_valid(headers) THEN headers ->> '$.group' END AS grp, \
     CASE WHEN json_valid(headers) THEN headers ->> '$.project' END AS project, \
     CASE WHEN ?8 > 0 THEN substr(coalesce(message, \
     (SELECT message FROM bodies WHERE bodies.seq = tasks.seq)), 1, ?8) END AS kept \
     FROM tasks WHERE seq = ?1) RETURNING bytes";

/// What the record of an end has beside the row of its task.
#[derive(Clone, Copy, Debug)]
struct RecordedEnd {
    outcome: LifeOutcome,
    at: Timestamp,
    /// A fence that the row does not show any more.
    fence: u64,
    is_running: bool,
    /// `None`: as the row says.
    attempts: Option<u32>,
}

/// Records the end of a task whose row has not changed yet.
pub(super) fn record_end(tasks: &mut TypeTasks<'_>, row: &TaskRow, ended: Ended) -> Outcome<()> {
    let Some(outcome) = LifeOutcome::of(ended.state) else {
        return Ok(());
    };
    let end = RecordedEnd {
        outcome,
        at: ended.at,
        fence: ended.settled.fence,
        is_running: row.state() == Some(TaskState::Running),
        attempts: Some(ended.attempt),
    };
    record(tasks, row, end)
}

/// Records that a task has died, after its row has changed. `before` is its bookkeeping until then.
pub(super) fn record_death(
    tasks: &mut TypeTasks<'_>,
    row: &TaskRow,
    before: Option<&Bookkeeping>,
) -> Outcome<()> {
    let end = RecordedEnd {
        outcome: LifeOutcome::Dead,
        at: tasks.now,
        fence: before.map_or(0, |before| before.fence),
        is_running: before.is_some_and(|before| before.state == TaskState::Running),
        attempts: None,
    };
    record(tasks, row, end)
}

/// Records that an operator removes a task, unless it has ended before.
pub(crate) fn record_removal(tasks: &mut TypeTasks<'_>, row: &TaskRow) -> Outcome<()> {
    if row.live().is_none() {
        return Ok(());
    }
    let end = RecordedEnd {
        outcome: LifeOutcome::Discarded,
        at: tasks.now,
        fence: 0,
        is_running: false,
        attempts: None,
    };
    record(tasks, row, end)
}

fn record(tasks: &mut TypeTasks<'_>, row: &TaskRow, end: RecordedEnd) -> Outcome<()> {
    let Some(kept) = tasks.row.history else {
        return Ok(());
    };
    let values = params![
        row.seq,
        tasks.namespace.as_str(),
        end.outcome.number(),
        end.at.as_millis(),
        // A damaged fence is larger than any that was issued.
        signed(end.fence),
        end.is_running,
        end.attempts,
        kept.limit(),
    ];
    let mut insert = tasks.sql(RECORD)?;
    let bytes: Option<i64> = insert.query_row(values, |row| row.get(0)).optional()?;
    tasks.row.recorded.waiting += i64::from(bytes.is_some());
    tasks.row.recorded.bytes += bytes.unwrap_or(0);
    Ok(())
}
