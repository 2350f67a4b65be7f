//! The schemas of answers that other crates write. A test reads real answers by these, and fails if
//! an answer has a field that is not here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How far a batch is.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = BatchProgress)]
pub(super) struct BatchProgressForm {
    /// `waiting`, `cancelled`, `over` or `dead`.
    state: String,
    /// The ends of its tasks so far; null once it is over, as the task that follows has them.
    counts: Option<BatchCountsForm>,
    /// False if not every task was looked at.
    is_exact: bool,
}

/// The ends of the tasks of a batch.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = BatchCounts)]
pub(super) struct BatchCountsForm {
    /// The name of the batch.
    name: String,
    /// The number of its tasks.
    total: u64,
    /// Those whose workers succeeded.
    done: u64,
    /// Those that are dead.
    dead: u64,
    /// Those that were cancelled.
    cancelled: u64,
    /// Those that expired.
    expired: u64,
    /// Those with an unknown end, which was too long ago.
    forgotten: u64,
}

/// What a change of many tasks did, or would do.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = ChangeReport)]
pub(super) struct ChangeReportForm {
    /// The types that were searched.
    types: Vec<String>,
    /// The tasks that matched.
    matched: u64,
    /// The tasks that were cancelled or moved.
    changed: u64,
    /// Running tasks: a cancel asks them to stop, nothing else changes them.
    running: u64,
    /// The tasks that had ended or died before their turn.
    gone: u64,
    /// False if it gave up before the end.
    is_complete: bool,
    /// True if nothing was changed, as asked.
    is_dry_run: bool,
}

/// A page of lives, latest end first.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = HistoryPage)]
pub(super) struct HistoryPageForm {
    /// The lives.
    lives: Vec<LifeForm>,
    /// The `cursor` of the next page; null if this is the last one.
    next: Option<String>,
}

/// What became of a task.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Fate)]
pub(super) struct FateForm {
    /// The task as the store knows it; null once it is forgotten there.
    now: Option<StoredTaskForm>,
    /// The ends of its lives, latest first.
    lives: Vec<LifeForm>,
    /// The number of records that were not looked at because they wait for the history.
    unread: u64,
    /// The reason why the history could not be read; absent if it was.
    history_error: Option<String>,
}

/// A number of lives.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Forgotten)]
pub(super) struct ForgottenForm {
    /// The lives that were removed.
    lives: u64,
}

/// A message: text, or a list of bytes if it is not UTF-8.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = TextOrBytes)]
pub(super) enum TextOrBytesForm {
    Text(String),
    Bytes(Vec<u8>),
}

/// The record of one life of a task, from its submit to its end. Times are in milliseconds since
/// the epoch.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Life)]
pub(super) struct LifeForm {
    /// Its type.
    #[serde(rename = "type")]
    task_type: String,
    /// Its id.
    id: String,
    /// `done`, `dead`, `expired`, `cancelled` or `discarded`.
    outcome: String,
    /// The time when it was accepted.
    submitted_at: i64,
    /// The due time set by its last submit, reschedule or requeue.
    due_at: i64,
    /// The time when its last attempt was claimed.
    started_at: Option<i64>,
    /// The time of its end.
    ended_at: i64,
    /// The run time of the attempt that ended with it, in milliseconds.
    run_ms: Option<u64>,
    /// The fence of its last lock; 0 if it had none.
    fence: u64,
    /// The attempts since its submit or last requeue.
    attempts: u32,
    /// Its group.
    group: Option<String>,
    /// Its project.
    project: Option<String>,
    /// The instance that made the last attempt.
    holder: Option<String>,
    /// Its last error.
    error: Option<String>,
    /// Its last errors and expired locks, newest first.
    errors: Vec<PastErrorForm>,
    /// The size of its message in bytes.
    message_bytes: u64,
    /// The part of its message that is kept.
    message: Option<TextOrBytesForm>,
}

/// The failure of an attempt, or the expiry of its lock.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = PastError)]
pub(super) struct PastErrorForm {
    /// When it was stored.
    at: i64,
    /// The number of the attempt; 0 if none was made.
    attempt: u32,
    /// The beginning of the error.
    error: String,
    /// When the attempt was claimed.
    started_at: Option<i64>,
    /// When the attempt was due.
    due_at: Option<i64>,
    /// The instance that made it.
    holder: Option<String>,
}

/// A task as its store knows it.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = StoredTask)]
pub(super) struct StoredTaskForm {
    /// Its id.
    id: String,
    /// `scheduled`, `running`, `dead`, `done`, `cancelled` or `expired`.
    state: String,
    /// By state: when it is due, when its lock expires, when it died, or when it ended.
    at: i64,
    /// When it was accepted; null once it has ended.
    submitted_at: Option<i64>,
    /// The due time of the latest request; null once it has ended.
    due_at: Option<i64>,
    /// When it expires.
    expires_at: Option<i64>,
    /// The number of the current attempt while it runs, else of the attempts made.
    attempt: u32,
    /// The message; null once it has ended.
    message: Option<TextOrBytesForm>,
    /// The headers; empty once it has ended.
    headers: BTreeMap<String, String>,
    /// What its attempts came to.
    history: AttemptsForm,
    /// True if a cancel was requested while it runs.
    cancel_requested: bool,
    /// When it runs again after its end, if that was asked for.
    again_at: Option<i64>,
    /// When the present attempt was claimed.
    started_at: Option<i64>,
    /// When the present attempt was due.
    attempt_due_at: Option<i64>,
    /// The instance that holds the lock.
    holder: Option<String>,
    /// The last errors and expired locks, newest first.
    errors: Vec<PastErrorForm>,
    /// Why it waits: an object with its `reason`.
    #[schema(value_type = Option<serde_json::Value>)]
    waits_for: Option<serde_json::Value>,
    /// The fence of its lock, while it runs.
    fence: Option<u64>,
    /// The fence of the lock that was settled last, once it has ended.
    settled_fence: Option<u64>,
}

/// What the attempts of a task came to.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[schema(as = Attempts)]
pub(super) struct AttemptsForm {
    /// Attempts that failed.
    failures: u32,
    /// Attempts whose lock expired.
    lock_expiries: u32,
    /// How often it was given back.
    releases: u32,
    /// How often it was requeued when it was dead.
    requeues: u32,
    /// The last error.
    last_error: Option<String>,
    /// Workers of a plugin that have succeeded; a retry leaves them out.
    succeeded: Vec<String>,
    /// The note of the last settlement that had one.
    note: Option<String>,
}
