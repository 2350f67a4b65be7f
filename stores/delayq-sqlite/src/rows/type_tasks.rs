//! One type within a transaction: reads and changes of its tasks, each change counted.

use std::time::Duration;

use delayq_core::job::NewTask;
use delayq_core::machine::{
    Accepted, Bookkeeping, Bound, ERROR_LOG_CHARS, ErrorLog, accepted, expiry_text,
};
use delayq_core::name::{Namespace, TaskId};
use delayq_core::presence::InstanceId;
use delayq_core::state::TaskState;
use delayq_core::time::{Reading, Timestamp};
use rusqlite::{CachedStatement, Connection, OptionalExtension, Params, Row, params};

use super::context::Context;
use super::number::{code, settled_code, signed};
use super::record::{ALONE, StoredExpiry, checksum, headers_text};
use super::statement::{
    BURY, DELETE, DELETE_BODY, EXTEND, INSERT, INSERT_BODY, LOCK, SELECT_BODY, SELECT_FIRST,
    SELECT_RECORD, SELECT_ROW, TAKE_OVER, UPDATE, UPDATE_MESSAGE,
};
use super::task_record::{TaskRecord, names_text};
use super::task_row::{Status, TaskRow};
use super::type_row::TypeRow;
use crate::error::Outcome;

/// Messages longer than this are stored in a table of their own: every change of a task rewrites
/// its row, and a page (4 KiB) should hold a few rows. With messages of 40 kB, claims and settles
/// are five times as fast this way.
const INLINE_BYTES: usize = 2_048;

/// Maximum size of the messages read in one step, in bytes. Limits the memory and the time of a
/// claim of large tasks; the next call finds the rest.
pub(crate) const ROWS_BYTES: usize = 8 << 20;

/// One type within a transaction, the basis of every operation.
#[derive(Debug)]
pub(crate) struct TypeTasks<'a> {
    pub(super) connection: &'a Connection,
    pub(crate) row: &'a mut TypeRow,
    /// The time of this operation.
    pub(crate) now: Timestamp,
    /// The same, with fractions of a millisecond.
    pub(crate) reading: Reading,
    pub(crate) retention: Duration,
    /// Maximum number of remembered ended tasks.
    pub(crate) remembered: usize,
    pub(super) namespace: &'a Namespace,
}

/// Texts that a change puts in the place of those of a task; `None`: they stay.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Texts<'a> {
    /// Its last error.
    pub(crate) error: Option<&'a str>,
    /// The workers that have succeeded.
    pub(crate) succeeded: Option<&'a [String]>,
    /// The note of a settlement.
    pub(crate) note: Option<&'a str>,
}

impl<'a> TypeTasks<'a> {
    pub(super) fn new(
        connection: &'a Connection,
        context: &'a Context,
        row: &'a mut TypeRow,
    ) -> Self {
        let reading = context.clock.read();
        Self {
            connection,
            row,
            now: reading.now,
            reading,
            retention: context.retention,
            remembered: context.remembered,
            namespace: &context.namespace,
        }
    }

    /// A statement, prepared once per connection.
    pub(crate) fn sql(&self, sql: &str) -> Outcome<CachedStatement<'a>> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// Runs a changing statement. Returns the number of changed rows.
    pub(crate) fn execute(&self, sql: &str, params: impl Params) -> Outcome<usize> {
        Ok(self.sql(sql)?.execute(params)?)
    }

    /// Runs a query. Returns all of its rows.
    pub(crate) fn query<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Outcome<Vec<T>> {
        let mut select = self.sql(sql)?;
        let rows = select.query_map(params, read)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The time of the first task in `state`.
    pub(crate) fn first(&self, state: TaskState) -> Outcome<Option<Timestamp>> {
        let key = (self.row.id, code(state));
        let mut select = self.sql(SELECT_FIRST)?;
        let at = select.query_row(key, |row| row.get(0)).optional()?;
        Ok(at.map(Timestamp::from_millis))
    }

    /// The task's row; `None` once its retention is over.
    pub(crate) fn row(&self, id: &TaskId) -> Outcome<Option<TaskRow>> {
        let key = (self.row.id, id.as_str());
        let mut select = self.sql(SELECT_ROW)?;
        let row = select.query_row(key, TaskRow::read).optional()?;
        Ok(row.filter(|row| !self.is_over(row)))
    }

    /// The whole row; for an ended task also after its retention.
    pub(crate) fn record(&self, id: &TaskId) -> Outcome<Option<TaskRecord>> {
        let key = (self.row.id, id.as_str());
        Ok(self.records(SELECT_RECORD, key, 1)?.pop())
    }

    /// The rows selected by `sql`, with their messages; stops after `limit` or [`ROWS_BYTES`].
    pub(crate) fn records(
        &self,
        sql: &str,
        key: impl Params,
        limit: usize,
    ) -> Outcome<Vec<TaskRecord>> {
        let mut select = self.sql(sql)?;
        let mut rows = select.query(key)?;
        let mut found = Vec::new();
        let mut bytes = 0;
        while found.len() < limit
            && bytes < ROWS_BYTES
            && let Some(row) = rows.next()?
        {
            let mut record = TaskRecord::read(row)?;
            if record.row.has_body {
                record.message = self.body(record.row.seq)?;
            }
            bytes += record.message.len();
            found.push(record);
        }
        Ok(found)
    }

    /// A large message; empty if it is missing, which then fails its checksum.
    fn body(&self, seq: i64) -> Outcome<Vec<u8>> {
        let mut select = self.sql(SELECT_BODY)?;
        let body = select.query_row([seq], |row| row.get(0)).optional()?;
        Ok(body.unwrap_or_default())
    }

    /// The number of scheduled tasks, and its limit.
    pub(crate) fn bound(&self) -> Bound {
        Bound {
            pending: self.row.count(TaskState::Scheduled),
            limit: self.row.max_pending,
        }
    }

    /// Stores a task under a free id; `None` if the id is taken. `waiting_since`: see [`accepted`].
    pub(crate) fn insert(
        &mut self,
        new: &NewTask,
        waiting_since: Option<Timestamp>,
    ) -> Outcome<Option<Timestamp>> {
        let accepted = accepted(new, waiting_since, self.reading);
        if !self.insert_row(self.row.id, new, &accepted)? {
            return Ok(None);
        }
        let due_at = accepted.book.at;
        self.row.add(TaskState::Scheduled, 1);
        self.wake_if_first(due_at)?;
        Ok(Some(due_at))
    }

    /// Writes a row under the number of a type, unless there is one with the id.
    pub(super) fn insert_row(
        &self,
        number: Option<i64>,
        new: &NewTask,
        accepted: &Accepted,
    ) -> Outcome<bool> {
        let task = accepted.book;
        let expiry = StoredExpiry::new(new.expiry);
        let headers = headers_text(&new.headers);
        let (inline, body) = split(&new.message);
        let inserted = self.execute(
            INSERT,
            params![
                number,
                new.id.as_str(),
                task.at.as_millis(),
                task.delay_ms,
                accepted.submitted_at.as_millis(),
                expiry.at,
                expiry.after,
                checksum(&new.message, headers.as_deref(), expiry),
                headers,
                inline,
            ],
        )?;
        if let Some(body) = body.filter(|_| inserted > 0) {
            let seq = self.connection.last_insert_rowid();
            self.execute(INSERT_BODY, params![seq, body])?;
        }
        Ok(inserted > 0)
    }

    /// Replaces the message of a task that has not ended, and the headers of its record.
    pub(crate) fn replace_message(&mut self, record: &TaskRecord, message: &[u8]) -> Outcome<()> {
        let seq = record.row.seq;
        let headers = record.headers.as_deref();
        let checksum = checksum(message, headers, record.expiry);
        let (inline, body) = split(message);
        self.execute(UPDATE_MESSAGE, params![seq, checksum, inline, headers])?;
        if let Some(body) = body {
            self.execute(INSERT_BODY, params![seq, body])?;
        } else if record.row.has_body {
            self.execute(DELETE_BODY, [seq])?;
        }
        Ok(())
    }

    /// Writes the lock of a task that is now running under `holder`; nothing else in its
    /// bookkeeping differs. It has its own statement, as every claim runs it a hundred times.
    pub(crate) fn lock(
        &mut self,
        record: &TaskRecord,
        task: &Bookkeeping,
        holder: Option<&InstanceId>,
    ) -> Outcome<()> {
        let row = &record.row;
        let (until, fence) = (task.at.as_millis(), signed(task.fence));
        let holder = holder.map(|holder| format!("{fence} {}", holder.short()));
        let is_taken_over = row.state() == Some(TaskState::Running);
        if is_taken_over {
            let text = expiry_text(record.holder());
            let line = ErrorLog::line(row.live().unwrap_or(task), task, self.now, &text);
            let (expiries, most) = (task.lock_expiries, signed(ERROR_LOG_CHARS));
            let releases = task.releases;
            let lock = params![
                row.seq, until, fence, expiries, holder, line, most, releases
            ];
            self.execute(TAKE_OVER, lock)?;
        } else {
            self.execute(LOCK, (row.seq, until, fence, task.lock_expiries, holder))?;
        }
        self.note_change(row, task)
    }

    /// Moves the end of a lock, and marks it as that of a holder that runs nothing else, or not.
    pub(crate) fn extend(&self, row: &TaskRow, until: Timestamp, is_alone: bool) -> Outcome<()> {
        let mark = if is_alone { ALONE } else { "" };
        self.execute(EXTEND, (row.seq, until.as_millis(), mark))?;
        Ok(())
    }

    /// Changes the bookkeeping of a task.
    pub(crate) fn change(&mut self, row: &TaskRow, task: &Bookkeeping) -> Outcome<()> {
        self.change_texts(row, task, &Texts::default())
    }

    /// Changes the bookkeeping of a task, and the given texts.
    pub(crate) fn change_texts(
        &mut self,
        row: &TaskRow,
        task: &Bookkeeping,
        texts: &Texts<'_>,
    ) -> Outcome<()> {
        let Texts {
            error,
            succeeded,
            note,
        } = *texts;
        let (due, delay) = (task.asked_due.as_millis(), task.delay_ms);
        let (fence, settled) = (signed(task.fence), signed(task.settled.fence));
        let before = row.live().unwrap_or(task);
        let line = error.map(|error| ErrorLog::line(before, task, self.now, error));
        self.execute(
            UPDATE,
            params![
                row.seq,
                code(task.state),
                task.at.as_millis(),
                due,
                delay,
                fence,
                settled,
                task.cancel_requested,
                task.failures,
                task.lock_expiries,
                task.releases,
                task.requeues,
                error,
                succeeded.is_some(),
                succeeded.and_then(names_text),
                line,
                signed(ERROR_LOG_CHARS),
                settled_code(task.settled),
                note,
            ],
        )?;
        self.note_change(row, task)
    }

    /// Moves a task that cannot run to dead, whatever its row says. Replaces a damaged id by a new
    /// one, so that people can name the task. Returns the id.
    pub(super) fn bury(&mut self, record: &TaskRecord, error: &str) -> Outcome<TaskId> {
        let id = TaskId::new(&record.id);
        let id = id.or_else(|_| TaskId::new(format!("corrupt-{}", TaskId::generate())))?;
        let now = self.now.as_millis();
        self.execute(BURY, (record.row.seq, id.as_str(), now, error))?;
        self.leave(&record.row);
        self.row.add(TaskState::Dead, 1);
        Ok(id)
    }

    /// Counts a change.
    fn note_change(&mut self, row: &TaskRow, task: &Bookkeeping) -> Outcome<()> {
        let old = row.live().filter(|old| old.state == task.state);
        if old.is_none() {
            self.leave(row);
            self.row.add(task.state, 1);
        } else if task.state == TaskState::Scheduled {
            self.row.head = None;
        }
        let is_earlier = old.is_none_or(|old| task.at < old.at);
        if task.state == TaskState::Scheduled && is_earlier {
            self.wake_if_first(task.at)?;
        }
        Ok(())
    }

    /// Wakes the handlers if a task that was just scheduled for `due_at` is the first.
    pub(super) fn wake_if_first(&mut self, due_at: Timestamp) -> Outcome<()> {
        let is_known = self.row.head.is_some_and(|head| head <= due_at);
        if !self.row.is_woken && !is_known {
            self.row.head = self.first(TaskState::Scheduled)?;
            self.row.is_woken = self.row.head >= Some(due_at);
        }
        Ok(())
    }

    /// Frees an id.
    pub(crate) fn remove(&mut self, row: &TaskRow) -> Outcome<()> {
        self.remove_body(row)?;
        self.execute(DELETE, [row.seq])?;
        self.leave(row);
        Ok(())
    }

    /// Counts that a task has left its state.
    pub(crate) fn leave(&mut self, row: &TaskRow) {
        if let Some(state) = row.state() {
            self.row.add(state, -1);
        }
    }

    pub(super) fn remove_body(&self, row: &TaskRow) -> Outcome<()> {
        if row.has_body {
            self.execute(DELETE_BODY, [row.seq])?;
        }
        Ok(())
    }

    /// True if the retention of an ended task is over: no query may return it.
    pub(crate) fn is_over(&self, row: &TaskRow) -> bool {
        matches!(row.status, Status::Ended(ended) if ended.at.plus(self.retention) <= self.now)
    }
}

/// The message split into its two places: the row, or the table of large ones.
fn split(message: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    let is_large = message.len() > INLINE_BYTES;
    ((!is_large).then_some(message), is_large.then_some(message))
}
