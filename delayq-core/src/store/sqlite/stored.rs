//! A task as its row holds it.

use rusqlite::Row;

use super::error::{Fault, Outcome};
use super::record::{StoredExpiry, checksum, read_headers};
use super::tx::state;
use crate::error::Error;
use crate::name::TaskId;
use crate::state::TaskState;
use crate::task::{Headers, TaskInfo, Trail};
use crate::time::Timestamp;

/// A query for [`Place`] rows, whose columns are in its order.
macro_rules! select_place {
    ($rest:literal) => {
        concat!(
            "SELECT seq, state, at, due, fence, settled, cancel, failures, lock_expiries, attempt, ",
            "checksum, message IS NULL FROM tasks ",
            $rest
        )
    };
}

/// A query for [`Stored`] rows: the columns of [`Place`], then its own, the message last.
macro_rules! select_stored {
    ($rest:literal) => {
        concat!(
            "SELECT seq, state, at, due, fence, settled, cancel, failures, lock_expiries, attempt, ",
            "checksum, message IS NULL, id, delay, submitted, expires_at, expires_after, releases, ",
            "requeues, last_error, succeeded, headers, message FROM tasks ",
            $rest
        )
    };
}

pub(super) use {select_place, select_stored};

/// Where a task is: what most edges need of its row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) seq: i64,
    /// `None`: damaged.
    pub(super) state: Option<TaskState>,
    pub(super) at: Timestamp,
    pub(super) due: Timestamp,
    pub(super) fence: i64,
    pub(super) settled: i64,
    pub(super) cancel: bool,
    pub(super) failures: u32,
    pub(super) lock_expiries: u32,
    ended_attempt: u32,
    pub(super) checksum: i64,
    /// Whether its message is in the table of large ones.
    pub(super) has_body: bool,
}

/// The whole row, with the message.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) place: Place,
    /// As stored: damage may have made it invalid.
    pub(super) id: String,
    pub(super) delay: Option<i64>,
    pub(super) submitted: Timestamp,
    pub(super) expiry: StoredExpiry,
    pub(super) trail: Trail,
    pub(super) headers: Option<String>,
    pub(super) message: Vec<u8>,
}

impl Place {
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let state = state(row.get(1)?);
        let is_live = state.is_some_and(|state| !state.is_ended());
        let has_no_message: bool = row.get(11)?;
        Ok(Self {
            seq: row.get(0)?,
            state,
            at: Timestamp::from_millis(row.get(2)?),
            due: Timestamp::from_millis(row.get(3)?),
            fence: row.get(4)?,
            settled: row.get(5)?,
            cancel: row.get::<_, i64>(6)? != 0,
            failures: count(row, 7)?,
            lock_expiries: count(row, 8)?,
            ended_attempt: count(row, 9)?,
            checksum: row.get(10)?,
            has_body: is_live && has_no_message,
        })
    }

    pub(super) fn is(&self, state: TaskState) -> bool {
        self.state == Some(state)
    }

    pub(super) fn is_held_by(&self, fence: u64) -> bool {
        self.is(TaskState::Running) && u64::try_from(self.fence) == Ok(fence)
    }

    /// The state that a sound task `id` has.
    pub(super) fn sound_state(&self, id: &TaskId) -> Outcome<TaskState> {
        let damage = || {
            Fault::Own(Error::Corrupt {
                key: format!("task {id}"),
                detail: "its stored state is unknown: run an audit with repair".to_owned(),
            })
        };
        self.state.ok_or_else(damage)
    }

    /// The current attempt while it runs, else the number of attempts made.
    pub(super) fn attempt(&self) -> u32 {
        let made = self.failures.saturating_add(self.lock_expiries);
        match self.state {
            Some(TaskState::Running) => made.saturating_add(1),
            Some(state) if state.is_ended() => self.ended_attempt,
            _ => made,
        }
    }
}

impl Stored {
    /// Reads a row, but for a message that is in the table of large ones.
    pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let place = Place::read(row)?;
        let message: Option<Vec<u8>> = row.get(22)?;
        Ok(Self {
            place,
            id: text(row, 12)?.unwrap_or_default(),
            delay: row.get(13)?,
            submitted: Timestamp::from_millis(row.get(14)?),
            expiry: StoredExpiry {
                at: row.get(15)?,
                after: row.get(16)?,
            },
            trail: Trail {
                failures: place.failures,
                lock_expiries: place.lock_expiries,
                releases: count(row, 17)?,
                requeues: count(row, 18)?,
                last_error: text(row, 19)?,
                succeeded: text(row, 20)?.map_or_else(Vec::new, |names| read_names(&names)),
            },
            headers: text(row, 21)?,
            message: message.unwrap_or_default(),
        })
    }

    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        self.expiry.time(self.place.due)
    }

    /// What is wrong with the record of a task that has not ended, if anything is.
    pub(super) fn damage(&self) -> Option<String> {
        let found = checksum(&self.message, self.headers.as_deref(), self.expiry);
        let stored = self.place.checksum;
        if found != stored {
            return Some(format!(
                "corrupt: the record's checksum is {found:x}, not {stored:x} as when it was stored"
            ));
        }
        if self.expiry.is_damaged() {
            return Some("corrupt: the expiry is before 1970".to_owned());
        }
        let headers = read_headers(self.headers.as_deref());
        headers
            .is_none()
            .then(|| "corrupt: the headers are not a JSON object of strings".to_owned())
    }

    /// The answer to a query; `None` when the id or state is damaged beyond showing.
    pub(super) fn into_info(self) -> Option<TaskInfo> {
        let id = TaskId::new(&self.id).ok()?;
        let state = self.place.state?;
        let expires_at = self.expires_at();
        let damage = self.damage();
        let mut info = TaskInfo {
            id,
            state,
            at: self.place.at,
            submitted_at: None,
            expires_at: None,
            attempt: self.place.attempt(),
            message: None,
            headers: Headers::new(),
            trail: Trail::default(),
            cancel_requested: false,
        };
        if state.is_ended() {
            return Some(info);
        }
        info.submitted_at = Some(self.submitted);
        info.expires_at = expires_at;
        info.headers = read_headers(self.headers.as_deref()).unwrap_or_default();
        info.message = Some(self.message);
        info.trail = self.trail;
        info.cancel_requested = self.place.cancel;
        // Damage is told as soon as anybody looks, not only when the claim finds it.
        info.trail.last_error = damage.or(info.trail.last_error);
        Some(info)
    }
}

/// A stored count; a damaged one is as near as possible, so that it blocks nothing.
fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u32> {
    let count: i64 = row.get(column)?;
    Ok(u32::try_from(count.max(0)).unwrap_or(u32::MAX))
}

/// A stored text; damaged characters are shown as `U+FFFD`, which no valid name has.
fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// Worker names; damaged ones are forgotten, and their workers run again.
pub(super) fn read_names(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Worker names as stored.
pub(super) fn names_text(names: &[String]) -> Option<String> {
    let text = || serde_json::to_string(names).expect("a list of strings has a JSON form");
    (!names.is_empty()).then(text)
}
