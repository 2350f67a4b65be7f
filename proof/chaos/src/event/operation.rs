//! What calls of the store carry, in and out.

use delayq_core::{TaskState, Timestamp};
use serde::{Deserialize, Serialize};

/// A time asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Asked {
    /// So many milliseconds after the store's now (an expiry: after the due time).
    After(u64),
    /// At this time.
    At(Timestamp),
}

/// What is to happen if the id is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConflictRule {
    /// `Conflict`.
    #[default]
    Reject,
    /// The old task stays.
    Keep,
    /// The new task takes its place, unless it runs.
    Replace,
}

/// A task on its way into the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The task.
    pub task: String,
    /// [`digest`](crate::record::digest) of the message.
    pub digest: u64,
    /// Digest of the headers; `None` without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<u64>,
    /// When it is to be due.
    pub when: Asked,
    /// When it is to expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Asked>,
    /// What is to happen if the id is taken.
    pub on_conflict: ConflictRule,
}

/// What became of a task that was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubmitAnswer {
    /// It is in the store.
    Accepted {
        /// When it is due.
        due: Timestamp,
        /// Whether it took the place of another one.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        replaced: bool,
    },
    /// The same request had been accepted, or the old task was kept.
    Exists {
        /// Where the old one is.
        state: TaskState,
    },
    /// Another task has the id.
    Conflict {
        /// Where that is.
        state: TaskState,
    },
    /// An error.
    Refused {
        /// Whether it is certainly not in the store.
        certain: bool,
        /// The error.
        error: String,
    },
}

/// A change of one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It should not start (again).
    Cancel,
    /// It should be due at another time.
    Reschedule {
        /// When.
        when: Asked,
    },
    /// It should have another message.
    Update {
        /// [`digest`](crate::record::digest) of the new one.
        digest: u64,
    },
}

/// What is done to all tasks of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TypeChange {
    /// None is handed out.
    Pause {
        /// Until then, on the store's clock; `None`: until they are resumed.
        until: Option<Timestamp>,
    },
    /// They are handed out again.
    Resume,
    /// Those in this state are removed.
    Purge {
        /// The state.
        state: TaskState,
    },
}

/// What became of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelAnswer {
    /// It will never start (again).
    Cancelled,
    /// It runs; its holder is told.
    Running,
    /// It had ended or is dead.
    Finished(TaskState),
    /// The store does not know it.
    NotFound,
}

/// What became of another change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeAnswer {
    /// It is done.
    Changed {
        /// When the task is due.
        due: Timestamp,
    },
    /// Nothing changed, for it runs.
    Running,
    /// Nothing changed, for it had ended or is dead.
    Finished(TaskState),
    /// Nothing changed, for the store does not know it.
    NotFound,
}

/// A task that was handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimedLock {
    /// The id.
    pub id: String,
    /// The lock.
    pub fence: u64,
    /// 1-based count of starts.
    pub attempt: u32,
    /// When the attempt was due.
    pub due: Timestamp,
    /// When the lock expires, on the store's clock.
    pub lock_until: Timestamp,
}

/// A task that a claim ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedByClaim {
    /// The id.
    pub id: String,
    /// Where it went: expired, cancelled, or dead (poison, damaged).
    pub state: TaskState,
    /// Whether it went to dead because its record is damaged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub damaged: bool,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// Success.
    Done,
    /// Failure, to be repeated.
    Retry {
        /// So many milliseconds after the store's now; 0 where it is not known.
        after: u64,
    },
    /// Given back.
    Release {
        /// So many milliseconds after the store's now.
        after: u64,
    },
    /// Failure for good.
    Dead,
    /// Not worth running any more.
    Expired,
}

/// An attempt to settle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettledLock {
    /// The id.
    pub id: String,
    /// The lock.
    pub fence: u64,
    /// How the attempt ended.
    pub end: End,
}

/// What became of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettleAnswer {
    /// It counts.
    Settled,
    /// It does not: the lock is somebody else's, or the task has ended.
    LockLost,
    /// It does not yet: somebody else has the record, and it is to be settled again.
    Busy,
}

impl SettleAnswer {
    /// True if the settlement with this answer, or without any, may count.
    pub(crate) fn may_count(answer: Option<Self>) -> bool {
        matches!(answer, None | Some(Self::Settled))
    }
}

/// A lock to extend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldLock {
    /// The id.
    pub id: String,
    /// The lock.
    pub fence: u64,
}

/// What became of an extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExtendAnswer {
    /// The lock lasts until then, on the store's clock.
    Extended(Timestamp),
    /// So it does, and somebody wants the task cancelled.
    CancelRequested(Timestamp),
    /// The lock is somebody else's, or the task has ended.
    LockLost,
}
