//! Reading and writing the rows of tasks: every change of place goes through here, and is counted.

use std::time::Duration;

use rusqlite::{OptionalExtension, Params, params};

use super::error::Outcome;
use super::record::{StoredExpiry, checksum, headers_text};
use super::stored::{Place, Stored, select_place, select_stored};
use super::tx::{Bucket, code};
use crate::job::{NewTask, When};
use crate::name::TaskId;
use crate::state::TaskState;
use crate::time::{Timestamp, duration_ms};

/// Messages longer than this are kept in a table of their own: every change of a task rewrites its row,
/// and a page (4 KiB) should hold a few rows. With messages of 40 kB, claims and settles run five times
/// as fast for it.
const INLINE_BYTES: usize = 2_048;

const SELECT_PLACE: &str = select_place!("WHERE type = ?1 AND id = ?2");
const SELECT_STORED: &str = select_stored!("WHERE type = ?1 AND id = ?2");
const INSERT: &str = "INSERT INTO tasks (type, id, state, at, due, delay, submitted, expires_at, \
     expires_after, checksum, headers, message) \
     VALUES (?1, ?2, 0, ?3, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10) ON CONFLICT DO NOTHING";
const UPDATE_MESSAGE: &str = "UPDATE tasks SET checksum = ?2, message = ?3 WHERE seq = ?1";
const DELETE: &str = "DELETE FROM tasks WHERE seq = ?1";
const END: &str = "UPDATE tasks SET state = ?2, at = ?3, attempt = ?4, settled = ?5, fence = 0, \
     cancel = 0, last_error = NULL, succeeded = NULL, headers = NULL, message = NULL WHERE seq = ?1";
const INSERT_BODY: &str = "INSERT OR REPLACE INTO bodies (seq, message) VALUES (?1, ?2)";
const SELECT_BODY: &str = "SELECT message FROM bodies WHERE seq = ?1";
const DELETE_BODY: &str = "DELETE FROM bodies WHERE seq = ?1";

impl Bucket<'_> {
    /// When a task asked for now is due: a past time means now.
    pub(super) fn due_at(&self, when: When) -> Timestamp {
        match when {
            When::After(Duration::ZERO) => self.now,
            When::After(delay) => self.moment.rounded_up().plus(delay),
            When::At(time) => time.max(self.now),
        }
    }

    /// Where the task is or how it ended; `None` once its retention is over.
    pub(super) fn place(&self, id: &TaskId) -> Outcome<Option<Place>> {
        let key = (self.row.id, id.as_str());
        let mut select = self.sql(SELECT_PLACE)?;
        let place = select.query_row(key, Place::read).optional()?;
        Ok(place.filter(|place| !self.is_over(place)))
    }

    /// The whole row; that of an ended task also when its retention is over.
    pub(super) fn stored(&self, id: &TaskId) -> Outcome<Option<Stored>> {
        let key = (self.row.id, id.as_str());
        Ok(self.stored_rows(SELECT_STORED, key, 1)?.pop())
    }

    /// The rows that `sql` selects, with their messages; stops after `limit` or [`ROWS_BYTES`].
    pub(super) fn stored_rows(
        &self,
        sql: &str,
        key: impl Params,
        limit: usize,
    ) -> Outcome<Vec<Stored>> {
        let mut select = self.sql(sql)?;
        let mut rows = select.query(key)?;
        let mut found = Vec::new();
        let mut bytes = 0;
        while found.len() < limit
            && bytes < ROWS_BYTES
            && let Some(row) = rows.next()?
        {
            let mut stored = Stored::read(row)?;
            if stored.place.has_body {
                stored.message = self.body(stored.place.seq)?;
            }
            bytes += stored.message.len();
            found.push(stored);
        }
        Ok(found)
    }

    /// A large message; empty when it is gone, which its checksum tells.
    fn body(&self, seq: i64) -> Outcome<Vec<u8>> {
        let mut select = self.sql(SELECT_BODY)?;
        let body = select.query_row([seq], |row| row.get(0)).optional()?;
        Ok(body.unwrap_or_default())
    }

    /// Stores a task under a free id; `None` when the id is taken.
    pub(super) fn insert(&mut self, new: &NewTask) -> Outcome<Option<Timestamp>> {
        let due_at = self.due_at(new.when);
        let delay = match new.when {
            When::After(delay) => Some(duration_ms(delay)),
            When::At(_) => None,
        };
        let expiry = StoredExpiry::new(new.expiry);
        let headers = headers_text(&new.headers);
        let (inline, body) = split(&new.message);
        self.see_head()?;
        let inserted = self.execute(
            INSERT,
            params![
                self.row.id,
                new.id.as_str(),
                due_at.as_millis(),
                delay,
                self.now.as_millis(),
                expiry.at,
                expiry.after,
                checksum(&new.message, headers.as_deref(), expiry),
                headers,
                inline,
            ],
        )?;
        if inserted == 0 {
            return Ok(None);
        }
        if let Some(body) = body {
            let seq = self.last_seq();
            self.execute(INSERT_BODY, params![seq, body])?;
        }
        self.row.add(TaskState::Scheduled, 1);
        self.row.lower_head(due_at);
        Ok(Some(due_at))
    }

    /// Puts another message into a task that has not ended.
    pub(super) fn replace_message(&mut self, stored: &Stored, message: &[u8]) -> Outcome<()> {
        let seq = stored.place.seq;
        let checksum = checksum(message, stored.headers.as_deref(), stored.expiry);
        let (inline, body) = split(message);
        self.execute(UPDATE_MESSAGE, params![seq, checksum, inline])?;
        if let Some(body) = body {
            self.execute(INSERT_BODY, params![seq, body])?;
        } else if stored.place.has_body {
            self.execute(DELETE_BODY, [seq])?;
        }
        Ok(())
    }

    /// Frees an id.
    pub(super) fn remove(&mut self, place: &Place) -> Outcome<()> {
        self.remove_body(place)?;
        self.execute(DELETE, [place.seq])?;
        self.leave(place);
        Ok(())
    }

    /// Ends a task: frees its message, and remembers the rest for the retention.
    pub(super) fn end(&mut self, place: &Place, state: TaskState, settled: i64) -> Outcome<()> {
        if self.retention.is_zero() {
            return self.remove(place);
        }
        self.remove_body(place)?;
        let (state_code, now) = (code(state), self.now.as_millis());
        self.execute(END, (place.seq, state_code, now, place.attempt(), settled))?;
        self.leave(place);
        self.row.add(state, 1);
        self.row.ended += 1;
        Ok(())
    }

    /// Counts that a task has left its state.
    pub(super) fn leave(&mut self, place: &Place) {
        if let Some(state) = place.state {
            self.row.add(state, -1);
        }
    }

    fn remove_body(&self, place: &Place) -> Outcome<()> {
        if place.has_body {
            self.execute(DELETE_BODY, [place.seq])?;
        }
        Ok(())
    }
}

/// Most bytes of messages that one step reads: it bounds the memory and the time of a claim of large
/// tasks. The caller comes again for the rest.
pub(super) const ROWS_BYTES: usize = 8 << 20;

/// The message as it stands in the row, or in the table of large ones.
fn split(message: &[u8]) -> (Option<&[u8]>, Option<&[u8]>) {
    if message.len() > INLINE_BYTES {
        (None, Some(message))
    } else {
        (Some(message), None)
    }
}
