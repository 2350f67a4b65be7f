//! What happened to a task between two looks.

use delayq_plugin::{TaskId, TaskInfo, Timestamp};
use serde::Serialize;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EventKind {
    Sent,
    Moved,
    Started,
    Retry,
    Released,
    Requeued,
    Done,
    Dead,
    Cancelled,
    Expired,
}

impl EventKind {
    /// Its name, as in the JSON.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Moved => "moved",
            Self::Started => "started",
            Self::Retry => "retry",
            Self::Released => "released",
            Self::Requeued => "requeued",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

/// A line of `watch`.
#[derive(Debug, Serialize)]
pub(super) struct Event {
    /// When it happened, as far as the store knows; else when it was seen. The store's clock.
    pub(super) at: Timestamp,
    #[serde(rename = "event")]
    pub(super) kind: EventKind,
    pub(super) id: TaskId,
    pub(super) attempt: u32,
    /// Of a task that is scheduled.
    pub(super) due_at: Option<Timestamp>,
    /// The last error, of a task that failed.
    pub(super) error: Option<String>,
}

impl Event {
    /// This happened to `task` at `at`.
    pub(super) fn new(kind: EventKind, at: Timestamp, task: &TaskInfo) -> Self {
        let failed = matches!(kind, EventKind::Retry | EventKind::Dead);
        let error = task.history.last_error.clone().filter(|_| failed);
        Self {
            at,
            kind,
            id: task.id.clone(),
            attempt: task.attempt,
            due_at: task.detail().map(|detail| detail.due_at),
            error,
        }
    }
}
