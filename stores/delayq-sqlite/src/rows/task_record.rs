//! Whole row of a task, with its message and headers.

use delayq_core::job::NewTask;
use delayq_core::machine::{Asked, Bookkeeping, Gate, Stored};
use delayq_core::name::TaskId;
use delayq_core::state::TaskState;
use delayq_core::task::{ClaimedTask, Headers, Lock, TaskInfo, replace_headers};
use delayq_core::time::Timestamp;
use rusqlite::Row;

use super::record::{ALONE, StoredExpiry, checksum, headers_text, read_headers};
use super::task_row::{Status, TaskRow};

/// A query for [`TaskRecord`]s: the columns of [`TaskRow`], then its own, the message last.
macro_rules! select_records {
    ($rest:literal) => {
        concat!(
            "SELECT seq, state, at, due, delay, fence, settled, cancel, failures, lock_expiries, ",
            "releases, requeues, attempt, checksum, message IS NULL, settled_by, id, submitted, ",
            "expires_at, expires_after, last_error, succeeded, headers, holder, errors, note, ",
            "message FROM tasks ",
            $rest
        )
    };
}

pub(crate) use select_records;

/// The whole row, with the message.
#[derive(Debug)]
pub(crate) struct TaskRecord {
    pub(crate) row: TaskRow,
    /// The stored id, which damage may have made invalid.
    pub(crate) id: String,
    pub(crate) submitted: Timestamp,
    pub(crate) expiry: StoredExpiry,
    pub(crate) last_error: Option<String>,
    pub(crate) succeeded: Vec<String>,
    pub(crate) headers: Option<String>,
    holder: Option<String>,
    /// See [`ErrorLog`](delayq_core::machine::ErrorLog).
    errors: Option<String>,
    note: Option<String>,
    pub(crate) message: Vec<u8>,
}

impl TaskRecord {
    /// Reads a row, except for a message in the table of large ones.
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let message: Option<Vec<u8>> = row.get(26)?;
        Ok(Self {
            row: TaskRow::read(row)?,
            id: text(row, 16)?.unwrap_or_default(),
            submitted: Timestamp::from_millis(row.get(17)?),
            expiry: StoredExpiry {
                at: row.get(18)?,
                after: row.get(19)?,
            },
            last_error: text(row, 20)?,
            succeeded: text(row, 21)?.map_or_else(Vec::new, |names| read_names(&names)),
            headers: text(row, 22)?,
            holder: text(row, 23)?,
            errors: text(row, 24)?,
            note: text(row, 25)?,
            message: message.unwrap_or_default(),
        })
    }

    /// The expiry time of the task, which must not be damaged.
    pub(crate) fn expires_at(&self, task: &Bookkeeping) -> Option<Timestamp> {
        self.expiry.time(task.asked_due)
    }

    /// The damage of the record of a task that has not ended, if any.
    pub(crate) fn damage(&self) -> Option<String> {
        let found = checksum(&self.message, self.headers.as_deref(), self.expiry);
        let stored = self.row.checksum;
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

    /// Sets new values for headers, but only for those that it has.
    pub(crate) fn give(&mut self, values: &Headers) {
        if values.is_empty() {
            return;
        }
        if let Some(mut headers) = read_headers(self.headers.as_deref()) {
            replace_headers(&mut headers, values);
            self.headers = headers_text(&headers);
        }
    }

    /// True if `new` repeats the request of this task. The requested time of an ended task is not
    /// remembered.
    pub(crate) fn is_same_request(&self, new: &NewTask) -> bool {
        let headers = headers_text(&new.headers);
        let expiry = StoredExpiry::new(new.expiry);
        match self.row.status {
            Status::Live(task) => {
                Asked::new(&task, self.submitted).is_repeated_by(new.when)
                    && self.message == new.message
                    && self.headers == headers
                    && self.expiry == expiry
            }
            Status::Ended(_) => {
                self.row.checksum == checksum(&new.message, headers.as_deref(), expiry)
            }
            Status::Unknown => false,
        }
    }

    /// Its submit time, if it has not been tried yet.
    pub(crate) fn waiting_since(&self) -> Option<Timestamp> {
        let task = self.row.live()?;
        task.is_untried().then_some(self.submitted)
    }

    /// The task as returned to its claimer, with the bookkeeping `task`; it was due at `due_at`.
    pub(crate) fn into_claimed(
        self,
        id: TaskId,
        task: &Bookkeeping,
        due_at: Timestamp,
    ) -> ClaimedTask {
        let fence = task.fence;
        let mut claimed = ClaimedTask::new(Lock { id, fence }, task.at, self.submitted);
        claimed.attempt = task.attempt();
        claimed.due_at = due_at;
        claimed.expires_at = self.expires_at(task);
        claimed.headers = read_headers(self.headers.as_deref()).unwrap_or_default();
        claimed.message = self.message;
        claimed.history = task.history(self.last_error, self.succeeded, self.note);
        claimed.is_taken_over = self.row.state() == Some(TaskState::Running);
        claimed
    }

    /// The holder of its lock.
    pub(crate) fn holder(&self) -> Option<&str> {
        let holder = self.holder_text()?;
        let holder = holder.strip_suffix(ALONE).unwrap_or(holder);
        (!holder.is_empty()).then_some(holder)
    }

    /// Its bookkeeping, unless it has ended or is damaged.
    pub(crate) fn live(&self) -> Option<Bookkeeping> {
        let is_alone = || self.holder_text().is_some_and(|text| text.ends_with(ALONE));
        self.row.live().map(|task| Bookkeeping {
            is_alone: is_alone(),
            ..*task
        })
    }

    /// The holder of its lock, with the mark of one that runs nothing else. A process of an earlier
    /// release leaves an earlier lock's holder.
    fn holder_text(&self) -> Option<&str> {
        let (fence, holder) = self.holder.as_deref()?.split_once(' ')?;
        let task = self.row.live()?;
        task.is_held_by(fence.parse().ok()?).then_some(holder)
    }

    /// The task in the form for a query; `None` if the id or state is too damaged to be shown.
    pub(crate) fn into_info(self, gate: &Gate) -> Option<TaskInfo> {
        let id = TaskId::new(&self.id).ok()?;
        let task = match self.row.status {
            Status::Unknown => return None,
            Status::Ended(ended) => {
                let mut info = TaskInfo::new(id, ended.state, ended.at);
                info.attempt = ended.attempt;
                let fence = ended.settled.fence;
                info.settled_fence = (fence > 0).then_some(fence);
                info.history.last_error = self.last_error;
                return Some(info);
            }
            Status::Live(task) => task,
        };
        let mut info = TaskInfo::new(id, task.state, task.at);
        let holder = self.holder().map(str::to_owned);
        let errors = self.errors.clone().unwrap_or_default();
        // Damage is shown by the first query, not only once a claim finds it.
        let last_error = self.damage().or(self.last_error);
        info.attempt = task.attempt();
        info.submitted_at = Some(self.submitted);
        info.expires_at = self.expiry.time(task.asked_due);
        info.headers = read_headers(self.headers.as_deref()).unwrap_or_default();
        info.message = Some(self.message);
        info.history = task.history(last_error, self.succeeded, self.note);
        info.cancel_requested = task.cancel_requested;
        let stored = Stored {
            asked_due: task.asked_due,
            fence: task.fence,
            holder: holder.as_deref(),
            errors: &errors,
        };
        gate.explain(&mut info, stored);
        Some(info)
    }

    /// The reason why the task cannot run, if so. A task that is already dead because of it is not
    /// reported again.
    pub(crate) fn fatal_damage(&self) -> Option<String> {
        if TaskId::new(&self.id).is_err() {
            return Some(bad_id_error(&self.id));
        }
        let Some(state) = self.row.state() else {
            return Some("corrupt: its stored state is unknown".to_owned());
        };
        let error = self.last_error.as_deref().unwrap_or_default();
        let is_parked = state == TaskState::Dead && error.starts_with("corrupt: ");
        if state.is_ended() || is_parked {
            return None;
        }
        self.damage()
    }
}

/// The cause of death of a task with an invalid stored id.
pub(crate) fn bad_id_error(id: &str) -> String {
    format!("corrupt: its stored id {id:?} is not a task id")
}

/// The holder in a stored text, if it held the lock with this fence.
pub(crate) fn holder_of(text: &str, fence: u64) -> Option<&str> {
    let (of, holder) = text.split_once(' ')?;
    let holder = holder.strip_suffix(ALONE).unwrap_or(holder);
    let is_meant = of.parse() == Ok(fence) && !holder.is_empty();
    is_meant.then_some(holder)
}

/// A stored text. Damaged characters become `U+FFFD`, which no valid name contains.
pub(crate) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

/// Worker names. Damaged names are dropped, and their workers run again.
pub(crate) fn read_names(text: &str) -> Vec<String> {
    serde_json::from_str(text).unwrap_or_default()
}

/// Worker names in stored form.
pub(crate) fn names_text(names: &[String]) -> Option<String> {
    let text = || serde_json::to_string(names).expect("a list of strings has a JSON form");
    (!names.is_empty()).then(text)
}
