//! Events of a task between two looks.

use delayq_plugin::{TaskId, TaskInfo, Timestamp};
use serde::Serialize;

/// The kind of event.
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
    /// Its name in the JSON.
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
    /// The time when it happened, if the store knows; otherwise when it was noticed. By the store's
    /// clock.
    pub(super) at: Timestamp,
    #[serde(rename = "event")]
    pub(super) kind: EventKind,
    pub(super) id: TaskId,
    pub(super) attempt: u32,
    /// For a scheduled task.
    pub(super) due_at: Option<Timestamp>,
    /// The last error, for a task that failed.
    pub(super) error: Option<String>,
}

impl Event {
    /// An event of `task` at `at`.
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
