//! Answers of the operations on tasks.

use std::time::Duration;

use serde::Serialize;

use crate::state::TaskState;
use crate::task::Lock;
use crate::time::Timestamp;

/// Longest error text that a store keeps with a task; longer ones are cut at a character boundary.
pub const MAX_ERROR_BYTES: usize = 1_024;

/// Longest note that a store keeps with a task; longer ones are cut at a character boundary.
pub const MAX_NOTE_BYTES: usize = 512;

/// The outcome of submitting one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum SubmitOutcome {
    /// The task is stored and will run.
    Accepted {
        /// Its due time, by the store's clock.
        due_at: Timestamp,
        /// True if it replaced a scheduled or dead task (`OnConflict::Replace`, `Debounce`).
        replaced: bool,
    },
    /// The task is running now, and this request is stored: it becomes the task once that one is
    /// done, dead or expired ([`again_if_running`](crate::job::NewTask::again_if_running)).
    RunsAgain {
        /// Its due time, by the store's clock; not before the present run has ended.
        due_at: Timestamp,
    },
    /// The same request was accepted before, or an existing task was kept (`OnConflict::Keep`).
    AlreadyExists {
        /// The state of the existing task; an ended one is known until its retention is over.
        state: TaskState,
    },
    /// Another task has this id; nothing changed.
    Conflict {
        /// Its state.
        state: TaskState,
    },
}

/// One task to settle: the lock that proves the right to do so, and the end of the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlement {
    /// The lock of the attempt.
    pub lock: Lock,
    /// How it ended.
    pub end: AttemptEnd,
    /// A text for whoever claims the task next or looks at it: what the program that settles keeps
    /// of it, such as counts of its own. It takes the place of the earlier
    /// [note](crate::task::AttemptHistory::note) of the task; `None` leaves that as it is. At most
    /// [`MAX_NOTE_BYTES`] are kept, until the task ends. A server or a process of an earlier
    /// release ignores it.
    pub note: Option<String>,
}

impl Settlement {
    /// The end of the attempt with `lock`, without a note.
    #[must_use]
    pub fn new(lock: Lock, end: AttemptEnd) -> Self {
        let note = None;
        Self { lock, end, note }
    }

    /// The same with a [note](Self::note).
    #[must_use]
    pub fn with_note(self, note: impl Into<String>) -> Self {
        let note = Some(note.into());
        Self { note, ..self }
    }

    /// The note as stores keep it: cut to [`MAX_NOTE_BYTES`] at a character boundary. `None` leaves
    /// the present note as it is.
    #[must_use]
    pub fn kept_note(&self) -> Option<&str> {
        self.note.as_deref().map(|note| cut(note, MAX_NOTE_BYTES))
    }
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptEnd {
    /// Success: the task is done.
    Done,
    /// Failure with a retry: scheduled again, due after the wait; counts one failure. After a
    /// cancel request the task is cancelled instead.
    Retry {
        /// The wait from now, by the store's clock; one beyond
        /// [`MAX_DELAY`](crate::time::MAX_DELAY) is that long.
        after: Duration,
        /// The error.
        error: String,
        /// The workers of the type that have succeeded in this attempt and earlier ones.
        succeeded: Vec<String>,
    },
    /// Given back: scheduled again, due after the wait; counts one release, no attempt. After a
    /// cancel request the task is cancelled instead.
    Release {
        /// As for `Retry`.
        after: Duration,
        /// As for `Retry`.
        succeeded: Vec<String>,
    },
    /// Failure for good: the task is dead; counts one failure.
    Dead {
        /// The error.
        error: String,
        /// As for `Retry`: a requeue does not run them again.
        succeeded: Vec<String>,
    },
    /// Not worth running any more: the task is expired.
    Expired,
}

/// The kind of an [`AttemptEnd`]. Two settlements of one lock count as the same if their kinds are
/// equal, whatever their other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndKind {
    /// [`AttemptEnd::Done`].
    Done,
    /// [`AttemptEnd::Expired`].
    Expired,
    /// [`AttemptEnd::Dead`].
    Dead,
    /// [`AttemptEnd::Retry`].
    Retry,
    /// [`AttemptEnd::Release`].
    Release,
}

impl EndKind {
    /// All kinds, in the order of their numbers.
    const ALL: [Self; 5] = [
        Self::Done,
        Self::Expired,
        Self::Dead,
        Self::Retry,
        Self::Release,
    ];

    /// The number kept by stores: 1 to 7.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The kind with this number; `None` for any other number, including 0, which means none.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

impl AttemptEnd {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> EndKind {
        match self {
            Self::Done => EndKind::Done,
            Self::Expired => EndKind::Expired,
            Self::Dead { .. } => EndKind::Dead,
            Self::Retry { .. } => EndKind::Retry,
            Self::Release { .. } => EndKind::Release,
        }
    }

    /// True if it counts as a failed attempt.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::Retry { .. } | Self::Dead { .. })
    }

    /// The time until the task is due again; `None` if it has ended.
    #[must_use]
    pub fn due_again_in(&self) -> Option<Duration> {
        match self {
            Self::Retry { after, .. } | Self::Release { after, .. } => Some(*after),
            Self::Done | Self::Dead { .. } | Self::Expired => None,
        }
    }
}

/// The outcome of settling one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettleOutcome {
    /// The attempt is settled, now or by an earlier settlement of the same [kind](EndKind).
    Settled,
    /// The lock has or had another holder since, the task has ended, or the attempt was settled
    /// differently: nothing changed.
    LockLost,
    /// A transaction of somebody else keeps the record of the task locked: nothing changed yet.
    /// Settle it again.
    Busy,
}

/// The outcome of extending one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExtendOutcome {
    /// The lock now expires at this time, by the store's clock.
    Extended(Timestamp),
    /// As `Extended`, and a cancel of the task was requested: the worker should stop.
    CancelRequested(Timestamp),
    /// The lock has or had another holder since, or the task has ended: nothing changed.
    LockLost,
}

/// The outcome of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the task may be running or gone: nothing has changed then"]
pub enum CancelOutcome {
    /// It will never start (again); its memory is freed.
    Cancelled,
    /// It is running. Its worker is asked to stop, and no further attempt will start. An earlier
    /// request to run again is dropped.
    Running,
    /// It has ended or is dead.
    Finished(TaskState),
    /// There is no such task, or it ended longer ago than the retention.
    NotFound,
    /// The cancel is in an outbox, and its relay will apply it: only in a transaction of the
    /// application.
    Relayed,
}

/// The outcome of a reschedule or update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the task may be running or gone: nothing has changed then"]
pub enum ChangeOutcome {
    /// The change is stored; the task is scheduled for this time.
    Changed {
        /// Its due time.
        due_at: Timestamp,
    },
    /// It is running; nothing changed.
    Running,
    /// It has ended or is dead; nothing changed.
    Finished(TaskState),
    /// There is no such task, or it ended longer ago than the retention.
    NotFound,
    /// The change is in an outbox, and its relay will apply it: only in a transaction of the
    /// application.
    Relayed,
}

/// `error` cut to [`MAX_ERROR_BYTES`] at a character boundary.
#[must_use]
pub fn cut_error(error: &str) -> &str {
    cut(error, MAX_ERROR_BYTES)
}

fn cut(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}
