//! One event of a task.

use std::time::Duration;

use delayq_core::{TaskId, TaskType, Timestamp};

/// What this process did with a task, or learned of it.
///
/// Events are for people, metrics and alarms: they are not stored, another process does not see
/// them, and a crash may come between the thing and its event. Work that has to follow from a task
/// belongs into its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskEvent {
    /// The task's type.
    pub task_type: TaskType,
    /// The task's id.
    pub id: TaskId,
    /// When it was noticed, on this host's clock.
    pub at: Timestamp,
    /// What happened.
    pub kind: TaskEventKind,
}

/// What happened to a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskEventKind {
    /// The store accepted it from this process.
    Submitted {
        /// When it is due, on the store's clock.
        due_at: Timestamp,
    },
    /// An attempt was handed to the workers.
    Started {
        /// Its number.
        attempt: u32,
        /// How long after its due time the store handed it out.
        lateness: Duration,
    },
    /// The store has it as done. Of an at-most-once type: the attempt succeeded, as the store has
    /// the task as done before it starts.
    Succeeded {
        /// The attempt that succeeded.
        attempt: u32,
        /// How long its workers ran.
        run_time: Duration,
    },
    /// An attempt failed. A [`Dead`](Self::Dead) follows when it was the last one, and is in the
    /// store.
    Failed {
        /// The attempt.
        attempt: u32,
        /// How it failed.
        cause: FailureCause,
        /// What the worker said.
        error: String,
        /// How long its workers ran.
        run_time: Duration,
        /// The wait before the next attempt; `None` when there is none.
        retry_in: Option<Duration>,
    },
    /// It was given back without an attempt burned: by a worker, or by a process that shuts down or
    /// was too slow to start it.
    Released {
        /// The wait before it starts again.
        after: Duration,
    },
    /// The store has it as dead: it waits for an operator.
    Dead {
        /// The last attempt; `None` when the store ended it before an attempt: poison, or a damaged
        /// record.
        attempt: Option<u32>,
        /// Why.
        error: String,
    },
    /// The store has it as expired: it was too late to be worth running.
    Expired,
    /// It is cancelled: by this process before it started, or after an attempt here that was asked
    /// to stop.
    Cancelled,
    /// The attempt's lock expired or was taken over: the workers were told to stop, and the task
    /// may run again elsewhere.
    LockLost {
        /// The attempt.
        attempt: u32,
    },
}

/// How an attempt failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureCause {
    /// A worker returned an error.
    #[default]
    Error,
    /// A worker panicked.
    Panic,
    /// It ran longer than the type's `timeout`.
    TimeLimit,
    /// A shutdown cut off an attempt of an at-most-once type.
    Stopped,
}

impl FailureCause {
    /// The cause's name: `error`, `panic`, `time_limit`, `stopped`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Panic => "panic",
            Self::TimeLimit => "time_limit",
            Self::Stopped => "stopped",
        }
    }
}
