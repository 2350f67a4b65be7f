//! The states of a task.

use serde::{Deserialize, Serialize};

/// The state of a task. "Ready" is not a state: it is `Scheduled` with `due_at <= now`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TaskState {
    /// Waits for its due time, or is due and waits for a claim.
    Scheduled,
    /// Claimed: somebody holds its lock.
    Running,
    /// Parked after its last failure, until somebody requeues or discards it.
    Dead,
    /// Ended: its worker succeeded.
    Done,
    /// Ended: cancelled before it started, or no further attempt after a cancel request.
    Cancelled,
    /// Ended: its expiry had passed, or its type drops late tasks.
    Expired,
}

impl TaskState {
    /// True if the task will never run again, by itself or through an operator (done, cancelled,
    /// expired).
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Done | Self::Cancelled | Self::Expired)
    }

    /// The state's name: `scheduled`, `running`, `dead`, `done`, `cancelled`, `expired`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Running => "running",
            Self::Dead => "dead",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

impl std::fmt::Display for TaskState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
