//! Records of ended tasks: written in the step of the end, into a queue with a bound.

use delayq_core::history::LifeOutcome;
use delayq_core::machine::{Bookkeeping, Ended};
use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::context::Context;
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
     checksum >> 32, kept, 64 + length(id) + coalesce(length(grp), 0) + \
     coalesce(length(project), 0) + coalesce(length(holder), 0) + \
     coalesce(length(last_error), 0) + coalesce(length(errors), 0) + coalesce(length(kept), 0) \
     FROM (SELECT *, CASE WHEN json_valid(headers) THEN headers ->> '$.group' END AS grp, \
     CASE WHEN json_valid(headers) THEN headers ->> '$.project' END AS project, \
     CASE WHEN ?8 > 0 THEN substr(coalesce(message, \
     (SELECT message FROM bodies WHERE bodies.seq = tasks.seq)), 1, ?8) END AS kept \
     FROM tasks WHERE seq = ?1) RETURNING bytes";
const ADD: &str = "INSERT INTO ends_state (namespace, waiting, bytes, lost) \
     VALUES (?1, ?2, ?3, ?4) ON CONFLICT (namespace) DO UPDATE SET \
     waiting = waiting + excluded.waiting, bytes = bytes + excluded.bytes, \
     lost = lost + excluded.lost RETURNING bytes";
const OLDEST: &str = "SELECT seq, bytes FROM ends INDEXED BY ends_place WHERE namespace = ?1 \
     ORDER BY seq LIMIT ?2";
const DROP: &str = "DELETE FROM ends WHERE seq = ?1";
/// Records that one look at the oldest ones finds.
const STEP: usize = 256;

/// A change of the queue of a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EndsChange {
    pub(crate) waiting: i64,
    pub(crate) bytes: i64,
    pub(crate) lost: i64,
}

impl EndsChange {
    /// Writes the change into the counts. Returns the bytes that wait now.
    pub(crate) fn write(self, connection: &Connection, context: &Context) -> Outcome<i64> {
        let mut add = connection.prepare_cached(ADD)?;
        let namespace = context.namespace.as_str();
        let values = (namespace, self.waiting, self.bytes, self.lost);
        Ok(add.query_row(values, |row| row.get(0))?)
    }

    /// Writes the change, and drops the oldest records beyond the bound.
    pub(super) fn finish(self, connection: &Connection, context: &Context) -> Outcome<()> {
        if self == Self::default() {
            return Ok(());
        }
        let limit = signed(context.history_buffer);
        let mut waiting = self.write(connection, context)?;
        while waiting > limit {
            let dropped = drop_oldest(connection, context, waiting - limit)?;
            if dropped == Self::default() {
                return Ok(());
            }
            waiting = dropped.write(connection, context)?;
        }
        Ok(())
    }
}

/// Drops some of the oldest records: as many as have these bytes, or a step of them.
fn drop_oldest(connection: &Connection, context: &Context, bytes: i64) -> Outcome<EndsChange> {
    let mut oldest = connection.prepare_cached(OLDEST)?;
    let key = (context.namespace.as_str(), signed(STEP));
    let found = oldest.query_map(key, |row| Ok((row.get(0)?, row.get(1)?)))?;
    let found: Vec<(i64, i64)> = found.collect::<rusqlite::Result<_>>()?;
    let mut change = EndsChange::default();
    for (seq, size) in found {
        if -change.bytes >= bytes {
            break;
        }
        connection.prepare_cached(DROP)?.execute([seq])?;
        change.waiting -= 1;
        change.bytes -= size;
        change.lost += 1;
    }
    Ok(change)
}

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
