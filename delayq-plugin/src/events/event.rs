//! One event of a task.

use std::time::Duration;

use delayq_core::{TaskId, TaskType, Timestamp};

/// Something that this process did with a task, or learned about it.
///
/// Events are for people, metrics and alarms. They are not stored, other processes do not see them,
/// and a crash can come between an action and its event. Work that must follow a task belongs in
/// its worker.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskEvent {
    /// The task's type.
    pub task_type: TaskType,
    /// The task's id.
    pub id: TaskId,
    /// The time when it was noticed, by this host's clock.
    pub at: Timestamp,
    /// The kind of event.
    pub kind: TaskEventKind,
}

/// The kinds of events of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskEventKind {
    /// The store accepted the task from this process.
    Submitted {
        /// The due time of the task, by the store's clock.
        due_at: Timestamp,
    },
    /// An attempt was handed to the workers.
    Started {
        /// The number of the attempt.
        attempt: u32,
        /// How long after its due time the store handed it out.
        lateness: Duration,
    },
    /// The store has the task as done. For an at-most-once type: the attempt succeeded, as the
    /// store has the task as done before it starts.
    Succeeded {
        /// The attempt that succeeded.
        attempt: u32,
        /// How long its workers ran.
        run_time: Duration,
    },
    /// An attempt failed. If it was the last one, a [`Dead`](Self::Dead) follows once the store has
    /// it.
    Failed {
        /// The attempt.
        attempt: u32,
        /// The cause of the failure.
        cause: FailureCause,
        /// The worker's error.
        error: String,
        /// How long its workers ran.
        run_time: Duration,
        /// The wait before the next attempt; `None` if there is none.
        retry_in: Option<Duration>,
    },
    /// The task was given back without using up an attempt: by a worker, or by a process that shuts
    /// down or was too slow to start it.
    Released {
        /// The wait before it starts again.
        after: Duration,
    },
    /// The store has the task as dead: it waits for an operator.
    Dead {
        /// The last attempt; `None` if the store ended the task before an attempt: poison, or a
        /// damaged record.
        attempt: Option<u32>,
        /// The reason.
        error: String,
    },
    /// The store has the task as expired: it was too late to be worth running.
    Expired,
    /// The task is cancelled: by this process before it started, or after an attempt here that was
    /// asked to stop.
    Cancelled,
    /// The attempt's lock expired or was taken over. The workers were told to stop, and the task
    /// may run again elsewhere.
    LockLost {
        /// The attempt.
        attempt: u32,
    },
}

/// The cause of an attempt's failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureCause {
    /// A worker returned an error.
    #[default]
    Error,
    /// A worker panicked.
    Panic,
    /// The attempt ran longer than the type's `timeout`.
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
