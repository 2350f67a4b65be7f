//! Requests to run again: each waits for the end of the running task with its id.
//!
//! A request is stored in a row like a task's, with the type's number negated. No operation on
//! tasks reads such a row, and no earlier release does.

use delayq_core::job::{NewTask, OnConflict};
use delayq_core::machine::{Settled, accepted};
use delayq_core::name::TaskId;
use delayq_core::state::TaskState;
use delayq_core::time::Timestamp;
use rusqlite::{OptionalExtension, Row};

use super::number::{settled_code, signed};
use super::task_row::TaskRow;
use super::type_tasks::TypeTasks;
use crate::error::Outcome;

const SELECT: &str =
    "SELECT seq, at, submitted, message IS NULL FROM tasks WHERE type = -?1 AND id = ?2";
const SELECT_OF_ROW: &str = "SELECT seq, at, submitted, message IS NULL FROM tasks \
     WHERE type = -?1 AND id = (SELECT id FROM tasks WHERE seq = ?2)";
const SELECT_ANY: &str = "SELECT 1 FROM tasks WHERE type = -?1 LIMIT 1";
const PROMOTE: &str =
    "UPDATE tasks SET type = ?2, at = ?3, settled = ?4, settled_by = ?5 WHERE seq = ?1";
const SELECT_LEFT: &str = "SELECT id FROM tasks AS waiting WHERE type = -?1 AND NOT EXISTS \
     (SELECT 1 FROM tasks WHERE type = ?1 AND id = waiting.id AND state IN (0, 1)) \
     AND id > ?2 ORDER BY id LIMIT ?3";
const DELETE_BODY: &str = "DELETE FROM bodies WHERE seq = ?1";
const DELETE: &str = "DELETE FROM tasks WHERE seq = ?1";

/// The part of a request that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FollowUp {
    seq: i64,
    pub(crate) due_at: Timestamp,
    submitted_at: Timestamp,
    has_body: bool,
}

impl FollowUp {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            due_at: Timestamp::from_millis(row.get(1)?),
            submitted_at: Timestamp::from_millis(row.get(2)?),
            has_body: row.get(3)?,
        })
    }

    /// The request that waits for the task with this id.
    pub(crate) fn of(tasks: &TypeTasks<'_>, id: &TaskId) -> Outcome<Option<Self>> {
        let key = (tasks.row.id, id.as_str());
        Ok(tasks.sql(SELECT)?.query_row(key, Self::read).optional()?)
    }

    /// Makes `new` wait for the task with its id. Returns the due time of the request that waits
    /// now.
    pub(crate) fn put(tasks: &mut TypeTasks<'_>, new: &NewTask) -> Outcome<Timestamp> {
        let waiting = Self::of(tasks, &new.id)?;
        if let Some(waiting) = waiting {
            if new.on_conflict == OnConflict::Keep {
                return Ok(waiting.due_at);
            }
            waiting.remove(tasks)?;
        }
        let waiting_since = waiting.map(|waiting| waiting.submitted_at);
        let accepted = accepted(new, waiting_since, tasks.reading);
        let number = tasks.row.id.map(|number| -number);
        tasks.insert_row(number, new, &accepted)?;
        tasks.row.has_follow_ups = Some(true);
        Ok(accepted.book.at)
    }

    /// Forgets the request that waits for the task with this id, if there is one.
    pub(crate) fn forget(tasks: &TypeTasks<'_>, id: &TaskId) -> Outcome<()> {
        let waiting = Self::of(tasks, id)?;
        waiting.map_or(Ok(()), |waiting| waiting.remove(tasks))
    }

    /// Replaces the task `row` by the request that waits for it, if there is one. `settled` was the
    /// last lock of the row.
    pub(crate) fn start(
        tasks: &mut TypeTasks<'_>,
        row: &TaskRow,
        settled: Settled,
    ) -> Outcome<bool> {
        if !Self::any(tasks)? {
            return Ok(false);
        }
        let key = (tasks.row.id, row.seq);
        let mut select = tasks.sql(SELECT_OF_ROW)?;
        let Some(waiting) = select.query_row(key, Self::read).optional()? else {
            return Ok(false);
        };
        tasks.remove(row)?;
        waiting.promote(tasks, settled)?;
        Ok(true)
    }

    /// True if any request waits. Read once per transaction, as most types never have one.
    fn any(tasks: &mut TypeTasks<'_>) -> Outcome<bool> {
        if let Some(known) = tasks.row.has_follow_ups {
            return Ok(known);
        }
        let found = tasks.sql(SELECT_ANY)?.exists([tasks.row.id])?;
        tasks.row.has_follow_ups = Some(found);
        Ok(found)
    }

    fn promote(self, tasks: &mut TypeTasks<'_>, settled: Settled) -> Outcome<()> {
        let due_at = self.due_at.max(tasks.now);
        let (fence, by) = (signed(settled.fence), settled_code(settled));
        let to = (self.seq, tasks.row.id, due_at.as_millis(), fence, by);
        tasks.execute(PROMOTE, to)?;
        tasks.row.add(TaskState::Scheduled, 1);
        tasks.wake_if_first(due_at)
    }

    fn remove(self, tasks: &TypeTasks<'_>) -> Outcome<()> {
        if self.has_body {
            tasks.execute(DELETE_BODY, [self.seq])?;
        }
        tasks.execute(DELETE, [self.seq])?;
        Ok(())
    }

    /// The first ids after `after` of requests whose tasks are neither scheduled nor running.
    pub(crate) fn left(tasks: &TypeTasks<'_>, after: &str, limit: usize) -> Outcome<Vec<String>> {
        let key = (tasks.row.id, after, signed(limit));
        tasks.query(SELECT_LEFT, key, |row| row.get(0))
    }

    /// Forgets the requests that wait for tasks with these ids.
    pub(crate) fn forget_all<'a>(
        tasks: &mut TypeTasks<'_>,
        ids: impl Iterator<Item = &'a String>,
    ) -> Outcome<()> {
        if !Self::any(tasks)? {
            return Ok(());
        }
        for id in ids {
            if let Ok(id) = TaskId::new(id) {
                Self::forget(tasks, &id)?;
            }
        }
        Ok(())
    }

    /// Schedules up to `limit` requests whose tasks are neither scheduled nor running, like
    /// [`adopt`](Self::adopt).
    pub(crate) fn adopt_left(tasks: &mut TypeTasks<'_>, limit: usize) -> Outcome<()> {
        if !Self::any(tasks)? {
            return Ok(());
        }
        for id in Self::left(tasks, "", limit)? {
            if let Ok(id) = TaskId::new(&id) {
                Self::adopt(tasks, &id)?;
            }
        }
        Ok(())
    }

    /// Schedules the request with this id, whose task is neither scheduled nor running: a process
    /// of an earlier release has ended it. If that task was cancelled, the request is dropped.
    pub(crate) fn adopt(tasks: &mut TypeTasks<'_>, id: &TaskId) -> Outcome<()> {
        let Some(waiting) = Self::of(tasks, id)? else {
            return Ok(());
        };
        if let Some(old) = tasks.record(id)? {
            if old.row.state() == Some(TaskState::Cancelled) {
                return waiting.remove(tasks);
            }
            tasks.remove(&old.row)?;
        }
        waiting.promote(tasks, Settled::default())
    }
}
