//! The row of a task.

use std::time::Duration;

use delayq_core::job::{Expiry, NewTask};
use delayq_core::machine::{Bookkeeping, Ended, ErrorLog, Gate, Record, Settled, Stored};
use delayq_core::name::TaskId;
use delayq_core::state::TaskState;
use delayq_core::store::EndKind;
use delayq_core::task::{AttemptHistory, ClaimedTask, Headers, Lock, TaskInfo};
use delayq_core::time::{Timestamp, duration_ms};
use sha2::{Digest, Sha256};
use tokio_postgres::Row;

use crate::error::Outcome;

/// Bits of the column `flags`.
pub(crate) const CANCEL_REQUESTED: i16 = 1;
pub(crate) const ALONE: i16 = 2;
pub(crate) const HAS_FOLLOW_UP: i16 = 4;

/// An expiry in two columns: a time, or a span after the due time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredExpiry {
    pub(crate) at: Option<i64>,
    pub(crate) after: Option<i64>,
}

impl StoredExpiry {
    pub(crate) fn new(expiry: Option<Expiry>) -> Self {
        match expiry {
            None => Self::default(),
            Some(Expiry::At(time)) => Self {
                at: Some(time.as_millis()),
                after: None,
            },
            Some(Expiry::AfterDue(span)) => Self {
                at: None,
                after: Some(duration_ms(span)),
            },
        }
    }

    /// The expiry time of a task with the requested due time `due`.
    pub(crate) fn time(self, due: Timestamp) -> Option<Timestamp> {
        let at = self.at.map(Timestamp::from_millis);
        at.or_else(|| Some(due.plus(Duration::from_millis(self.after?.unsigned_abs()))))
    }
}

/// Headers as they are stored: a JSON object; nothing if there are none.
pub(crate) fn headers_text(headers: &Headers) -> Option<String> {
    let text = || serde_json::to_string(headers).unwrap_or_default();
    (!headers.is_empty()).then(text)
}

/// Reads stored headers; `None` if they are damaged.
pub(crate) fn read_headers(text: Option<&str>) -> Option<Headers> {
    text.map_or(Some(Headers::new()), |text| serde_json::from_str(text).ok())
}

/// The check value of a content: the first eight bytes of a SHA-256, as `checksum_v1` of the
/// schema has it.
pub(crate) fn checksum(message: &[u8], headers: Option<&str>, expiry: StoredExpiry) -> i64 {
    let mut hash = Sha256::new();
    hash.update(
        i64::try_from(message.len())
            .unwrap_or(i64::MAX)
            .to_be_bytes(),
    );
    hash.update(message);
    hash.update(headers.unwrap_or_default());
    for time in [expiry.at, expiry.after] {
        hash.update(time.unwrap_or(-1).to_be_bytes());
    }
    let hash = hash.finalize();
    let first = hash.iter().take(8);
    first.fold(0_i64, |value, byte| value << 8 | i64::from(*byte))
}

/// The content of a new task as it is stored.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) headers: Option<String>,
    pub(crate) expiry: StoredExpiry,
    pub(crate) checksum: i64,
}

impl Content {
    pub(crate) fn of(task: &NewTask) -> Self {
        let headers = headers_text(&task.headers);
        let expiry = StoredExpiry::new(task.expiry);
        let checksum = checksum(&task.message, headers.as_deref(), expiry);
        Self {
            headers,
            expiry,
            checksum,
        }
    }
}

/// What a row says about the state of its task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// Scheduled, running or dead.
    Live(Bookkeeping),
    /// Ended, and remembered.
    Ended(Ended),
    /// No state that was ever stored.
    Unknown,
}

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct TaskRow {
    /// The stored id, which damage may have made invalid.
    pub(crate) id: String,
    pub(crate) status: Status,
    pub(crate) state_code: i16,
    pub(crate) flags: i16,
    pub(crate) submitted: Timestamp,
    pub(crate) expiry: StoredExpiry,
    pub(crate) checksum: i64,
    pub(crate) holder: Option<String>,
    pub(crate) succeeded: Vec<String>,
    /// See [`ErrorLog`].
    pub(crate) errors: String,
    pub(crate) last_error: Option<String>,
    pub(crate) note: Option<String>,
    pub(crate) headers: Option<String>,
    pub(crate) message: Vec<u8>,
}

/// The number of a state.
pub(crate) fn code(state: TaskState) -> i16 {
    match state {
        TaskState::Running => 1,
        TaskState::Dead => 2,
        TaskState::Done => 3,
        TaskState::Cancelled => 4,
        TaskState::Expired => 5,
        _ => 0,
    }
}

pub(crate) fn state_of(code: i16) -> Option<TaskState> {
    Some(match code {
        0 => TaskState::Scheduled,
        1 => TaskState::Running,
        2 => TaskState::Dead,
        3 => TaskState::Done,
        4 => TaskState::Cancelled,
        5 => TaskState::Expired,
        _ => return None,
    })
}

fn count(row: &Row, column: &str) -> Outcome<u32> {
    let count: Option<i32> = row.try_get(column)?;
    Ok(u32::try_from(count.unwrap_or(0)).unwrap_or(0))
}

fn text(row: &Row, column: &str) -> Outcome<Option<String>> {
    let bytes: Option<Vec<u8>> = row.try_get(column)?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn names(text: Option<&str>) -> Vec<String> {
    text.and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default()
}

/// The names of workers that have succeeded, as they are stored.
pub(crate) fn names_text(names: &[String]) -> Option<String> {
    let text = || serde_json::to_string(names).unwrap_or_default();
    (!names.is_empty()).then(text)
}

pub(crate) fn unsigned(number: Option<i64>) -> u64 {
    number.map_or(0, i64::unsigned_abs)
}

/// A fence as it is stored.
pub(crate) fn signed(fence: u64) -> i64 {
    i64::try_from(fence).unwrap_or(i64::MAX)
}

impl TaskRow {
    /// Reads the columns of `tasks`.
    pub(crate) fn read(row: &Row) -> Outcome<Self> {
        let state_code: i16 = row.try_get("state")?;
        let flags: i16 = row.try_get("flags")?;
        let at = Timestamp::from_millis(row.try_get("at")?);
        let due: Option<i64> = row.try_get("due")?;
        let by: Option<i16> = row.try_get("settled_by")?;
        let settled = Settled {
            fence: unsigned(row.try_get("settled")?),
            by: by.and_then(|by| EndKind::from_number(u8::try_from(by).ok()?)),
        };
        let failures = count(row, "failures")?;
        let status = match state_of(state_code) {
            None => Status::Unknown,
            Some(state) if state.is_ended() => Status::Ended(Ended {
                state,
                at,
                attempt: failures,
                settled,
            }),
            Some(state) => Status::Live(Bookkeeping {
                state,
                at,
                asked_due: Timestamp::from_millis(due.unwrap_or(at.as_millis())),
                delay_ms: row.try_get("delay")?,
                fence: unsigned(row.try_get("fence")?),
                settled,
                cancel_requested: flags & CANCEL_REQUESTED != 0,
                is_alone: flags & ALONE != 0,
                failures,
                lock_expiries: count(row, "lock_expiries")?,
                releases: count(row, "releases")?,
                requeues: count(row, "requeues")?,
            }),
        };
        let submitted: Option<i64> = row.try_get("submitted")?;
        let message: Option<Vec<u8>> = row.try_get("message")?;
        let errors: Option<String> = row.try_get("errors")?;
        Ok(Self {
            id: row.try_get("id")?,
            status,
            state_code,
            flags,
            submitted: Timestamp::from_millis(submitted.unwrap_or(0)),
            expiry: StoredExpiry {
                at: row.try_get("expires_at")?,
                after: row.try_get("expires_after")?,
            },
            checksum: row.try_get("checksum")?,
            holder: row.try_get("holder")?,
            succeeded: names(row.try_get("succeeded")?),
            errors: errors.unwrap_or_default(),
            last_error: text(row, "last_error")?,
            note: text(row, "note")?,
            headers: row.try_get("headers")?,
            message: message.unwrap_or_default(),
        })
    }

    pub(crate) fn live(&self) -> Option<&Bookkeeping> {
        match &self.status {
            Status::Live(task) => Some(task),
            _ => None,
        }
    }

    pub(crate) fn state(&self) -> Option<TaskState> {
        match self.status {
            Status::Live(task) => Some(task.state),
            Status::Ended(ended) => Some(ended.state),
            Status::Unknown => None,
        }
    }

    /// By state, when it is due, its lock expires, it died or ended.
    pub(crate) fn at(&self) -> Timestamp {
        match &self.status {
            Status::Live(task) => task.at,
            Status::Ended(ended) => ended.at,
            Status::Unknown => Timestamp::ZERO,
        }
    }

    pub(crate) fn expires_at(&self) -> Option<Timestamp> {
        self.expiry.time(self.live()?.asked_due)
    }

    /// The damage of a task that has not ended, if any.
    pub(crate) fn damage(&self) -> Option<String> {
        let found = checksum(&self.message, self.headers.as_deref(), self.expiry);
        let stored = self.checksum;
        if found != stored {
            return Some(format!(
                "corrupt: the record's checksum is {found:x}, not {stored:x} as when it was stored"
            ));
        }
        let is_read = read_headers(self.headers.as_deref()).is_some();
        (!is_read).then(|| "corrupt: the headers are not a JSON object of strings".to_owned())
    }

    /// What a claim needs besides the bookkeeping.
    pub(crate) fn record(&self) -> Record {
        Record {
            holder: self.holder.clone(),
            expires_at: self.expires_at(),
            damage: self.damage(),
        }
    }

    /// Changes the bookkeeping after an error that ended an attempt, and records the error.
    pub(crate) fn end_attempt(&mut self, after: Bookkeeping, now: Timestamp, error: &str) {
        let before = self.live().copied().unwrap_or(after);
        let line = ErrorLog::line(&before, &after, now, error);
        let holder = self.holder.as_deref().unwrap_or("-");
        self.errors = ErrorLog::noted(&self.errors, &format!("{line}{holder}\n"));
        self.status = Status::Live(after);
    }

    fn history(&self, task: &Bookkeeping) -> AttemptHistory {
        let (error, succeeded) = (self.last_error.clone(), self.succeeded.clone());
        task.history(error, succeeded, self.note.clone())
    }

    /// The task as returned to its claimer. It was due at `due_at`.
    pub(crate) fn claimed(&self, task: &Bookkeeping, due_at: Timestamp) -> Option<ClaimedTask> {
        let lock = Lock {
            id: TaskId::new(&self.id).ok()?,
            fence: task.fence,
        };
        let mut claimed = ClaimedTask::new(lock, task.at, self.submitted);
        claimed.attempt = task.attempt();
        claimed.due_at = due_at;
        claimed.expires_at = self.expiry.time(task.asked_due);
        claimed.message.clone_from(&self.message);
        claimed.headers = read_headers(self.headers.as_deref()).unwrap_or_default();
        claimed.history = self.history(task);
        Some(claimed)
    }

    /// The task for people; `None` if its id or state is damaged.
    pub(crate) fn info(&self, gate: Gate, again_at: Option<Timestamp>) -> Option<TaskInfo> {
        let id = TaskId::new(&self.id).ok()?;
        let task = match &self.status {
            Status::Unknown => return None,
            Status::Live(task) => task,
            Status::Ended(ended) => {
                let mut info = TaskInfo::new(id, ended.state, ended.at);
                info.attempt = ended.attempt;
                info.settled_fence = (ended.settled.fence > 0).then_some(ended.settled.fence);
                info.history.last_error.clone_from(&self.last_error);
                return Some(info);
            }
        };
        let stored = Stored {
            asked_due: task.asked_due,
            fence: task.fence,
            holder: self.holder.as_deref(),
            errors: &self.errors,
        };
        let mut info = TaskInfo::new(id, task.state, task.at);
        info.submitted_at = Some(self.submitted);
        info.expires_at = self.expires_at();
        info.attempt = task.attempt();
        info.message = Some(self.message.clone());
        info.headers = read_headers(self.headers.as_deref()).unwrap_or_default();
        info.history = self.history(task);
        info.cancel_requested = task.cancel_requested;
        info.again_at = again_at;
        gate.explain(&mut info, stored);
        Some(info)
    }

    /// True if the retention of an ended task is over: no query may return it.
    pub(crate) fn is_over(&self, retention: Duration, now: Timestamp) -> bool {
        matches!(self.status, Status::Ended(ended) if ended.at.plus(retention) <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What SQL computes for the same content, see `checksum_v1`.
    #[test]
    fn the_checksum_never_changes_as_tables_hold_it() {
        let at = StoredExpiry {
            at: Some(5),
            after: None,
        };
        assert_eq!(checksum(b"message", Some(r#"{"a":"b"}"#), at), CHECKED);
        let none = StoredExpiry::default();
        assert_ne!(checksum(b"a", None, none), checksum(b"", Some("a"), none));
    }

    const CHECKED: i64 = 9_129_804_325_530_427_221;
}
