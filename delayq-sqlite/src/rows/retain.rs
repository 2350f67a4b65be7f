//! Retention of ended tasks: remembered for a while, then forgotten in small steps.

use delayq_core::state::TaskState;
use delayq_core::store::MAX_RETAINED;
use delayq_core::time::Timestamp;

use super::number::{code, sql_count};
use super::task_row::{Status, TaskRow, select_rows};
use super::type_tasks::TypeTasks;
use crate::error::Outcome;

/// The states whose tasks are only remembered.
const ENDED: [TaskState; 3] = [TaskState::Done, TaskState::Cancelled, TaskState::Expired];

/// Ended tasks forgotten in a transaction beyond those that ended in it, so that a backlog shrinks.
const EXTRA: usize = 64;

const SELECT_OLDEST: &str = select_rows!(
    "INDEXED BY tasks_place WHERE type = ?1 AND state = ?2 AND at <= ?3 ORDER BY at, id LIMIT ?4"
);

/// Forgets twice as many old tasks as have ended in this transaction.
pub(super) fn forget_some(tasks: &mut TypeTasks<'_>) -> Outcome<()> {
    match tasks.row.ended {
        0 => Ok(()),
        ended => forget(tasks, ended + EXTRA),
    }
}

/// Forgets up to `limit` ended tasks: those whose retention is over, and the oldest ones above
/// [`MAX_RETAINED`].
pub(crate) fn forget(tasks: &mut TypeTasks<'_>, limit: usize) -> Outcome<()> {
    let ended = usize::try_from(tasks.row.count(TaskState::Done)).unwrap_or(usize::MAX);
    let surplus = ended.saturating_sub(MAX_RETAINED).min(limit);
    let until = if surplus > 0 {
        Timestamp::MAX
    } else {
        tasks.now.minus(tasks.retention)
    };
    let mut oldest = Vec::new();
    for state in ENDED {
        oldest.append(&mut oldest_in(tasks, state, until, limit)?);
    }
    oldest.sort_unstable_by_key(ended_at);
    let mut forgotten = 0;
    for row in oldest.iter().take(limit) {
        if forgotten < surplus || tasks.is_over(row) {
            tasks.remove(row)?;
            forgotten += 1;
        }
    }
    Ok(())
}

/// Whether [`forget`] would find something.
pub(crate) fn has_to_forget(tasks: &TypeTasks<'_>) -> Outcome<bool> {
    if tasks.row.count(TaskState::Done) > MAX_RETAINED as u64 {
        return Ok(true);
    }
    for state in ENDED {
        let oldest = tasks.first(state)?;
        if oldest.is_some_and(|at| at.plus(tasks.retention) <= tasks.now) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn oldest_in(
    tasks: &TypeTasks<'_>,
    state: TaskState,
    until: Timestamp,
    limit: usize,
) -> Outcome<Vec<TaskRow>> {
    let (until, limit) = (until.as_millis(), sql_count(limit));
    let key = (tasks.row.id, code(state), until, limit);
    let mut select = tasks.sql(SELECT_OLDEST)?;
    let rows = select.query_map(key, TaskRow::read)?;
    Ok(rows.collect::<rusqlite::Result<_>>()?)
}

fn ended_at(row: &TaskRow) -> Timestamp {
    match row.status {
        Status::Ended(ended) => ended.at,
        Status::Live(_) | Status::Unknown => Timestamp::ZERO,
    }
}
