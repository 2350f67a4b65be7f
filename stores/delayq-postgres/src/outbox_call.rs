//! The calls of an outbox.

use std::time::Duration;

use delayq_core::Result;
use delayq_core::job::{Expiry, NewTask, OnConflict, When};
use delayq_core::name::{TaskId, TaskType};
use delayq_core::state::TaskState;
use delayq_core::task::TaskInfo;
use delayq_core::time::{Clock, SystemClock, Timestamp};
use tokio_postgres::Row;

use crate::error::Outcome;
use crate::row::read_headers;

/// How much later than its call a parked task is due. Stores take up to ten years.
const PARKED: Duration = Duration::from_hours(9 * 365 * 24);

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallEnd {
    /// It is applied, and leaves the outbox.
    Applied,
    /// The other store has the task, with a due time far away.
    Parked,
    /// It is tried again later.
    Later(String),
    /// It can never be applied.
    Aside(String),
}

/// A call that waits.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) seq: i64,
    /// The call for the same task that has to be applied first.
    pub(crate) previous: Option<i64>,
    pub(crate) kind: CallKind,
    pub(crate) at: i64,
    pub(crate) due: Option<i64>,
    pub(crate) delay: Option<i64>,
    pub(crate) expires_at: Option<i64>,
    pub(crate) expires_after: Option<i64>,
    pub(crate) max_wait: Option<i64>,
    pub(crate) conflict: i16,
    pub(crate) again: bool,
    pub(crate) is_parked: bool,
    pub(crate) task_type: String,
    pub(crate) id: String,
    pub(crate) headers: Option<String>,
    pub(crate) message: Vec<u8>,
}

/// The kind of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Send,
    Cancel,
    Reschedule,
    Update,
}

impl CallKind {
    pub(crate) fn of(number: i16) -> Self {
        match number {
            0 => Self::Send,
            1 => Self::Cancel,
            2 => Self::Reschedule,
            _ => Self::Update,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Cancel => "cancel",
            Self::Reschedule => "reschedule",
            Self::Update => "update",
        }
    }
}

impl Call {
    pub(crate) fn read(row: &Row) -> Outcome<Self> {
        let message: Option<Vec<u8>> = row.try_get("message")?;
        Ok(Self {
            seq: row.try_get("seq")?,
            previous: row.try_get("o_previous")?,
            kind: CallKind::of(row.try_get("call")?),
            at: row.try_get("at")?,
            due: row.try_get("due")?,
            delay: row.try_get("delay")?,
            expires_at: row.try_get("expires_at")?,
            expires_after: row.try_get("expires_after")?,
            max_wait: row.try_get("max_wait")?,
            conflict: row.try_get("conflict")?,
            again: row.try_get("again")?,
            is_parked: row.try_get("is_parked")?,
            task_type: row.try_get("type")?,
            id: row.try_get("id")?,
            headers: row.try_get("headers")?,
            message: message.unwrap_or_default(),
        })
    }

    /// True for a send that is made in three steps. A debounced one depends on the time of its
    /// submit, and one that follows a running task cannot be moved.
    pub(crate) fn is_parkable(&self) -> bool {
        self.kind == CallKind::Send && self.conflict < 3 && !self.again
    }

    pub(crate) fn parked_due(&self) -> Timestamp {
        Timestamp::from_millis(self.at).plus(PARKED)
    }

    pub(crate) fn due(&self) -> Timestamp {
        Timestamp::from_millis(self.due.unwrap_or(self.at))
    }

    /// When a task that is not parked is due: a delay that is left, or a time.
    pub(crate) fn when(&self) -> When {
        match self.delay {
            Some(_) => When::After(self.due().since(SystemClock.now())),
            None => When::At(self.due()),
        }
    }

    pub(crate) fn names(&self) -> Result<(TaskType, TaskId)> {
        Ok((TaskType::new(&self.task_type)?, TaskId::new(&self.id)?))
    }

    pub(crate) fn task(&self, when: When) -> Result<NewTask> {
        let (task_type, id) = self.names()?;
        let span = |ms: i64| Duration::from_millis(ms.unsigned_abs());
        let at = self
            .expires_at
            .map(|at| Expiry::At(Timestamp::from_millis(at)));
        let after = self.expires_after.map(|ms| Expiry::AfterDue(span(ms)));
        let mut task = NewTask::new(task_type, id, self.message.clone());
        task.when = when;
        task.expiry = at.or(after);
        task.again_if_running = self.again;
        task.headers = read_headers(self.headers.as_deref()).unwrap_or_default();
        task.on_conflict = match (self.conflict, self.max_wait) {
            (1, _) => OnConflict::Keep,
            (2, _) => OnConflict::Replace,
            (3, Some(wait)) => OnConflict::Debounce {
                max_wait: span(wait),
            },
            _ => OnConflict::Reject,
        };
        Ok(task)
    }

    /// True if the task is this one, and still waits to be moved.
    pub(crate) fn is_parked_as(&self, found: &TaskInfo) -> bool {
        found.state == TaskState::Scheduled && found.due_at == Some(self.parked_due())
    }

    pub(crate) fn has_content_of(&self, found: &TaskInfo) -> bool {
        let headers = read_headers(self.headers.as_deref()).unwrap_or_default();
        found.message.as_ref() == Some(&self.message) && found.headers == headers
    }
}

impl CallEnd {
    pub(crate) fn number(&self) -> i16 {
        match self {
            Self::Applied => 0,
            Self::Parked => 1,
            Self::Later(_) => 2,
            Self::Aside(_) => 3,
        }
    }

    pub(crate) fn error(&self) -> Option<String> {
        match self {
            Self::Later(error) | Self::Aside(error) => Some(error.replace('\0', " ")),
            Self::Applied | Self::Parked => None,
        }
    }
}
